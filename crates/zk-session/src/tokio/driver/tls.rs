//! TLS over the connections that another [`Connect`] makes.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use std::io;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Connect, Transport};
use crate::connect_string::ServerAddress;
use crate::tls::config::{TlsConfig, TlsConnection};

/// The most plaintext of a TLS record.
const LONGEST_RECORD: usize = 16 * 1024;

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
            let inner = connecting.await?;
            let mut transport = TokioTlsTransport { inner, tls: TlsConnection::new(tls, name)? };
            poll_fn(|cx| transport.poll(cx, |tls, io| tls.shake_hands(io))).await?;
            Ok(transport)
        })
    }

    fn addresses(&mut self, servers: &[ServerAddress]) -> Vec<usize> {
        self.connect.addresses(servers)
    }

    fn served(&mut self, server: &ServerAddress) {
        self.connect.served(server);
    }
}

/// TLS over another transport.
pub(crate) struct TokioTlsTransport<T: Transport> {
    inner: T,
    tls: TlsConnection,
}

impl<T: Transport> TokioTlsTransport<T> {
    fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        act: impl FnOnce(&mut TlsConnection, &mut Polled<'_, '_, T>) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        match act(&mut self.tls, &mut Polled { inner: Pin::new(&mut self.inner), cx }) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            done => Poll::Ready(done),
        }
    }
}

impl<T: Transport> Drop for TokioTlsTransport<T> {
    /// Says that the connection ends, if that can be sent at once.
    fn drop(&mut self) {
        let _ = Pin::new(self).poll_shutdown(&mut Context::from_waker(Waker::noop()));
    }
}

impl<T: Transport> AsyncRead for TokioTlsTransport<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll(cx, |tls, io| {
            // What is initialized is written twice, so that is no more than a record.
            let room = buffer.remaining().min(LONGEST_RECORD);
            let mut rest = buffer.initialize_unfilled_to(room);
            tls.read(&mut rest, io)?;
            let count = room - rest.len();
            buffer.advance(count);
            Ok(())
        })
    }
}

impl<T: Transport> AsyncWrite for TokioTlsTransport<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(cx, |tls, io| tls.write(bytes, io))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(cx, |tls, io| tls.flush(io))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll(cx, |tls, io| tls.close(io)))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// A transport that fails where it would wait. The task is woken when it can go on.
struct Polled<'a, 'b, T> {
    inner: Pin<&'a mut T>,
    cx: &'a mut Context<'b>,
}

impl<T: Transport> io::Read for Polled<'_, '_, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        at_once(self.inner.as_mut().poll_read(self.cx, &mut buffer))?;
        Ok(buffer.filled().len())
    }
}

impl<T: Transport> io::Write for Polled<'_, '_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        at_once(self.inner.as_mut().poll_write(self.cx, bytes))
    }

    fn write_vectored(&mut self, records: &[io::IoSlice<'_>]) -> io::Result<usize> {
        at_once(self.inner.as_mut().poll_write_vectored(self.cx, records))
    }

    fn flush(&mut self) -> io::Result<()> {
        at_once(self.inner.as_mut().poll_flush(self.cx))
    }
}

fn at_once<R>(polled: Poll<io::Result<R>>) -> io::Result<R> {
    match polled {
        Poll::Ready(done) => done,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}
