//! TLS over the connections that another [`Connect`] makes.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::io;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Connect, Transport};
use crate::client::TlsConfig;
use crate::connect_string::ServerAddress;

pub(crate) struct TlsConnect<C> {
    pub(crate) connect: C,
    pub(crate) tls: TlsConfig,
}

impl<C: Connect> Connect for TlsConnect<C> {
    type Transport = TlsTransport<C::Transport>;

    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<Self::Transport>> + Send>> {
        let (tls, name) = (self.tls.clone(), self.tls.name_of(server));
        let connecting = self.connect.connect(server);
        Box::pin(async move {
            let name = name?;
            let handshake = TlsConnector::from(tls.rustls()).connect(name, connecting.await?);
            let stream = handshake.await.map_err(|error| tls.explain_handshake(error))?;
            Ok(TlsTransport { stream, tls })
        })
    }

    fn addresses(&mut self, servers: &[ServerAddress]) -> Vec<usize> {
        self.connect.addresses(servers)
    }

    fn served(&mut self, server: &ServerAddress) {
        self.connect.served(server);
    }
}

/// A TLS stream whose errors say what failed.
pub(crate) struct TlsTransport<T: Transport> {
    stream: TlsStream<T>,
    tls: TlsConfig,
}

impl<T: Transport> Drop for TlsTransport<T> {
    /// Says that the connection ends, if that can be sent at once.
    fn drop(&mut self) {
        let _ = Pin::new(&mut self.stream).poll_shutdown(&mut Context::from_waker(Waker::noop()));
    }
}

impl<T: Transport> AsyncRead for TlsTransport<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Ready(Err(error)) => Poll::Ready(self.tls.explain_end(error)),
            read => read,
        }
    }
}

impl<T: Transport> AsyncWrite for TlsTransport<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
