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
use crate::Client;
use crate::client::ClientBuilder;
use crate::client::tls::TlsConfig;
use crate::connect_string::ServerAddress;

impl ClientBuilder<Client> {
    /// Encrypts the connections; without it, they are plain. Also encrypts those of
    /// [`connect_with`](Self::connect_with).
    ///
    /// The servers have another port for it, their `secureClientPort`.
    ///
    /// ```no_run
    /// use zk_session::{Client, TlsConfig};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let tls = TlsConfig::from_ca_pem(&std::fs::read("ca.pem")?)?
    ///     .client_certificate(&std::fs::read("client.pem")?, &std::fs::read("client.key")?)?;
    /// let client = Client::builder("zk1:2281,zk2:2281,zk3:2281").tls(tls).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn tls(mut self, tls: TlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }
}

pub(crate) struct TokioTlsConnect<C> {
    pub(crate) connect: C,
    pub(crate) tls: TlsConfig,
}

impl<C: Connect> Connect for TokioTlsConnect<C> {
    type Transport = TokioTlsTransport<C::Transport>;

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
            Ok(TokioTlsTransport { stream, tls })
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
pub(crate) struct TokioTlsTransport<T: Transport> {
    stream: TlsStream<T>,
    tls: TlsConfig,
}

impl<T: Transport> Drop for TokioTlsTransport<T> {
    /// Says that the connection ends, if that can be sent at once.
    fn drop(&mut self) {
        let _ = Pin::new(&mut self.stream).poll_shutdown(&mut Context::from_waker(Waker::noop()));
    }
}

impl<T: Transport> AsyncRead for TokioTlsTransport<T> {
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

impl<T: Transport> AsyncWrite for TokioTlsTransport<T> {
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
