//! Counts what goes over a client's connection.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use zk_session::{Connect, Member, TcpConnect};

/// What went over the wire so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often the client sent something and then got something: what it had to wait for.
    pub round_trips: u64,
    /// Bytes to the server.
    pub sent: u64,
    /// Bytes from the server.
    pub received: u64,
    waiting: bool,
}

/// Makes TCP connections and counts what goes over them.
#[derive(Clone, Debug, Default)]
pub struct CountedConnect {
    tally: Arc<Mutex<Tally>>,
}

impl CountedConnect {
    /// What went over all its connections so far.
    pub fn tally(&self) -> Tally {
        *lock(&self.tally)
    }
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connect for CountedConnect {
    type Transport = Counted;

    fn connect(
        &mut self,
        member: &Member,
    ) -> Pin<Box<dyn Future<Output = io::Result<Counted>> + Send>> {
        let (connecting, tally) = (TcpConnect.connect(member), self.tally.clone());
        Box::pin(async move { Ok(Counted { stream: connecting.await?, tally }) })
    }
}

/// A connection whose traffic is counted.
#[derive(Debug)]
pub struct Counted {
    stream: TcpStream,
    tally: Arc<Mutex<Tally>>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let count = buffer.filled().len() - before;
        if count > 0 {
            let mut tally = lock(&self.tally);
            tally.received += count as u64;
            tally.round_trips += u64::from(tally.waiting);
            tally.waiting = false;
        }
        result
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = &result {
            let mut tally = lock(&self.tally);
            tally.sent += *count as u64;
            tally.waiting = true;
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
