//! Transports, and how to connect them to servers.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use crate::connect_string::ServerAddress;

/// How long to wait for one address of a server before the next one is tried as well.
const HEAD_START: Duration = Duration::from_millis(100);

/// A transport to a server, before the handshake.
///
/// The client's task reads from it. That task, or a method of the client on any thread, writes to
/// it. Calls come one at a time, always with the waker of the client's task. All users of the
/// client wait meanwhile: the transport must not use the client, and should not block. A panic ends
/// the session as if it were closed.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Transport for T {}

/// Makes connections: plain ones, encrypted ones, or pipes to a server within the process. A panic
/// ends the session as if it were closed.
pub trait Connect: Send + 'static {
    /// The type of transports.
    type Transport: Transport;

    /// Connects to `server`. Looks up names again each time. May use the client, but must not wait
    /// for an answer, which needs this connection.
    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<Self::Transport>> + Send>>;
}

/// Plain TCP, without delay.
///
/// Names are looked up in the runtime's threads for blocking calls. A lookup that hangs keeps its
/// thread after the attempt to connect was given up.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnect;

impl Connect for TcpConnect {
    type Transport = TcpStream;

    /// Connects to the address of the server that answers first. Tries the next address when the
    /// previous one has failed, or has not answered for 100 ms.
    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>> {
        let (host, port) = (server.host.clone(), server.port);
        Box::pin(async move {
            let addresses: Vec<_> = lookup_host((host.as_str(), port)).await?.collect();
            let stream = first_of(addresses, TcpStream::connect).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
    }
}

/// Returns the first connection made to one of the addresses.
async fn first_of<S, F: Future<Output = io::Result<S>>>(
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<S> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    if let [address] = addresses[..] {
        return connect(address).await;
    }
    let mut attempts = Vec::new();
    let mut addresses = addresses.into_iter();
    loop {
        attempts.extend(addresses.next().map(|address| Box::pin(connect(address))));
        let next_after = if addresses.len() > 0 { HEAD_START } else { Duration::MAX };
        let next = poll_fn(|cx| poll_next(&mut attempts, cx));
        match tokio::time::timeout(next_after, next).await {
            Ok(Some(Ok(stream))) => return Ok(stream),
            Ok(Some(Err(error))) => last = error,
            Ok(None) => return Err(last),
            Err(_) => {}
        }
    }
}

/// Polls the next result of one of the futures, and drops that. In tasks of their own, they would
/// take more code. There are few, and each wakes all.
fn poll_next<F: Future>(
    futures: &mut Vec<Pin<Box<F>>>,
    cx: &mut Context<'_>,
) -> Poll<Option<F::Output>> {
    for place in 0..futures.len() {
        if let Poll::Ready(output) = futures[place].as_mut().poll(cx) {
            drop(futures.swap_remove(place));
            return Poll::Ready(Some(output));
        }
    }
    if futures.is_empty() { Poll::Ready(None) } else { Poll::Pending }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_address_that_drops_packets_does_not_delay_the_others() {
        let addresses: Vec<_> =
            (1..=4).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        let connect = |address: SocketAddr| async move {
            match address.port() {
                1 | 3 => {
                    tokio::time::sleep(HEAD_START * 10).await;
                    Err(io::ErrorKind::TimedOut.into())
                }
                2 => Err(io::ErrorKind::ConnectionRefused.into()),
                port => Ok(port),
            }
        };
        let start = tokio::time::Instant::now();
        assert_eq!(first_of(addresses.clone(), connect).await.unwrap(), 4);
        assert!(start.elapsed() < HEAD_START * 3, "{:?}", start.elapsed());
        let failed = first_of(addresses[..3].to_vec(), connect).await;
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(first_of(addresses[3..].to_vec(), connect).await.unwrap(), 4);
        let nowhere = first_of(Vec::new(), connect).await;
        assert_eq!(nowhere.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
