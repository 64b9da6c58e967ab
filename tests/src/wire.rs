//! Transports that count traffic and can be cut.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use zk_session::{Connect, ServerAddress, TcpConnect};

/// The traffic of a client so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often the client sent something and then received something: its round trips.
    pub round_trips: u64,
    /// Writes to the connection.
    pub writes: u64,
    /// Bytes to the server.
    pub sent: u64,
    /// Bytes from the server.
    pub received: u64,
    /// The longest frame to the server, without its length prefix.
    pub longest_frame: usize,
    waiting: bool,
}

/// Makes TCP connections, counts their traffic, and cuts them.
#[derive(Clone, Debug, Default)]
pub struct CountedConnect {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    tally: Tally,
    connections: usize,
    /// Connections up to this number are cut.
    cut: usize,
    connected_at: Option<Instant>,
    reader: Option<Waker>,
}

impl CountedConnect {
    /// Returns the traffic of all connections so far.
    pub fn tally(&self) -> Tally {
        lock(&self.state).tally
    }

    /// Breaks the connection for the client. The server notices when the client closes it.
    pub fn cut(&self) {
        let mut state = lock(&self.state);
        state.cut = state.connections;
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }

    /// Returns the time at which the last connection was made.
    pub fn connected_at(&self) -> Option<Instant> {
        lock(&self.state).connected_at
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Finds the lengths of frames in a byte stream.
#[derive(Debug, Default)]
struct Lengths {
    /// The number of bytes received of the next length prefix, and the bytes.
    prefix: (usize, [u8; 4]),
    /// The number of bytes missing from the current frame.
    left: usize,
}

impl Lengths {
    /// Returns the length of the longest frame that begins in `bytes`.
    fn longest(&mut self, bytes: &[u8]) -> usize {
        let mut longest = 0;
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.left > 0 {
                let count = self.left.min(rest.len());
                self.left -= count;
                rest = &rest[count..];
                continue;
            }
            let (filled, prefix) = &mut self.prefix;
            prefix[*filled] = rest[0];
            *filled += 1;
            rest = &rest[1..];
            if *filled == prefix.len() {
                *filled = 0;
                self.left = u32::from_be_bytes(*prefix) as usize;
                longest = self.left.max(longest);
            }
        }
        longest
    }
}

impl Connect for CountedConnect {
    type Transport = Counted;

    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<Counted>> + Send>> {
        let (connecting, shared) = (TcpConnect::default().connect(server), self.state.clone());
        Box::pin(async move {
            let stream = connecting.await?;
            let mut state = lock(&shared);
            state.connections += 1;
            state.connected_at = Some(Instant::now());
            let number = state.connections;
            drop(state);
            Ok(Counted { stream, number, lengths: Lengths::default(), state: shared })
        })
    }
}

/// A connection whose traffic is counted.
#[derive(Debug)]
pub struct Counted {
    stream: TcpStream,
    number: usize,
    lengths: Lengths,
    state: Arc<Mutex<State>>,
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
        let mut state = lock(&self.state);
        if state.cut >= self.number {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if result.is_pending() {
            state.reader = Some(cx.waker().clone());
        }
        if count > 0 {
            let tally = &mut state.tally;
            tally.received += count as u64;
            tally.round_trips += u64::from(tally.waiting);
            tally.waiting = false;
        }
        drop(state);
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
            let longest = self.lengths.longest(&bytes[..*count]);
            let tally = &mut lock(&self.state).tally;
            tally.writes += 1;
            tally.sent += *count as u64;
            tally.longest_frame = tally.longest_frame.max(longest);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_lengths_do_not_depend_on_chunks() {
        let bytes = [&[0, 0, 0, 3][..], b"abc", &[0, 0, 1, 4], &[7; 260], &[0, 0, 0, 0]].concat();
        for chunk in [1, 3, 5, bytes.len()] {
            let mut lengths = Lengths::default();
            let longest = bytes.chunks(chunk).map(|bytes| lengths.longest(bytes)).max();
            assert_eq!((longest, lengths.left, lengths.prefix.0), (Some(260), 0, 0));
        }
    }
}
