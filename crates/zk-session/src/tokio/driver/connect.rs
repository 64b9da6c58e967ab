//! Transports, and how to connect them to servers.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Poll, ready};
use core::time::Duration;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::client::{AddressBook, Candidates};
use crate::connect_string::ServerAddress;
use crate::tokio::{Sleep, sleep};

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

    /// Connects to `server`. May use the client, but must not wait for an answer, which needs this
    /// connection.
    ///
    /// The addresses of a name can change, and any of them can accept connections without serving
    /// the session. So begin each attempt with another one, or pass the calls on to a
    /// [`TcpConnect`], which does.
    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<Self::Transport>> + Send>>;

    /// Returns how many addresses each of the client's servers has, as far as known.
    ///
    /// The session makes one attempt for each address in a round, and divides its time limits by
    /// their number. Called with each attempt. A transport on top of another one should pass the
    /// call on to it.
    fn addresses(&mut self, servers: &[ServerAddress]) -> Vec<usize> {
        alloc::vec![1; servers.len()]
    }

    /// Reports that the latest connection to `server` has served the session. Called before the
    /// next attempt. A transport on top of another one should pass the call on to it.
    fn served(&mut self, server: &ServerAddress) {
        let _ = server;
    }
}

/// Plain TCP, without delay.
///
/// It remembers the addresses of each name, and which of them have failed. Names are looked up
/// again with each attempt, in threads of their own. Meanwhile the attempt uses the addresses that
/// are known. At most one look-up for each name is under way. Clones share what they know.
#[derive(Clone, Debug, Default)]
pub struct TcpConnect {
    addresses: AddressBook,
}

impl Connect for TcpConnect {
    type Transport = TcpStream;

    /// Connects to the address of the server that answers first. Tries the next address when the
    /// previous one has failed, or has not answered for 100 ms. Begins with an address that has not
    /// failed, or else with the one that was tried least recently.
    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>> {
        let candidates = self.addresses.candidates(server);
        Box::pin(async move {
            let stream = first_of(candidates, TcpStream::connect).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
    }

    fn addresses(&mut self, servers: &[ServerAddress]) -> Vec<usize> {
        self.addresses.count(servers)
    }

    fn served(&mut self, server: &ServerAddress) {
        self.addresses.served(server);
    }
}

/// Returns the first connection made to one of the addresses.
async fn first_of<S, F: Future<Output = io::Result<S>>>(
    mut candidates: Candidates,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<S> {
    // In tasks of their own, they would take more code. There are few, and each wakes all.
    let mut attempts: Vec<(SocketAddr, Pin<Box<F>>)> = Vec::new();
    let mut head_start: Option<Pin<Box<Sleep>>> = None;
    let mut last = None;
    poll_fn(move |cx| {
        loop {
            let mut place = 0;
            while let Some((address, attempt)) = attempts.get_mut(place) {
                let Poll::Ready(made) = attempt.as_mut().poll(cx) else {
                    place += 1;
                    continue;
                };
                candidates.tried(*address, &made);
                drop(attempts.swap_remove(place));
                match made {
                    Ok(stream) => return Poll::Ready(Ok(stream)),
                    Err(error) => (last, head_start) = (Some(error), None),
                }
            }
            if let Some(waits) = &mut head_start {
                ready!(waits.as_mut().poll(cx));
                head_start = None;
            }
            match candidates.poll_next(cx.waker()) {
                Poll::Ready(Some(address)) => {
                    attempts.push((address, Box::pin(connect(address))));
                    head_start = Some(Box::pin(sleep(HEAD_START)));
                }
                Poll::Ready(None) if attempts.is_empty() => {
                    return Poll::Ready(Err(last.take().unwrap_or_else(|| candidates.error())));
                }
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests;
