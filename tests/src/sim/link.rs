//! A simulated connection: two one-way byte streams with delays, which can be cut at any byte.

use alloc::collections::VecDeque;
use core::time::Duration;

use bytes::Bytes;

use crate::server::ConnId;

/// Identifies a connection or a connection attempt. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the client to a server.
    Up,
    /// From a server to the client.
    Down,
}

impl Direction {
    /// Both directions.
    pub const ALL: [Self; 2] = [Self::Up, Self::Down];
}

/// What still arrives in one direction when a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tail {
    /// The number of bytes in flight that still arrive.
    pub bytes: usize,
    /// Whether the receiver never learns of the end: its connection is half-open.
    pub silent: bool,
}

impl Tail {
    /// No byte arrives, only the end.
    pub const LOST: Self = Self { bytes: 0, silent: false };
    /// All bytes in flight arrive, then the end.
    pub const DELIVERED: Self = Self { bytes: usize::MAX, silent: false };
}

/// How a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cut {
    /// What still reaches the server.
    pub up: Tail,
    /// What still reaches the client.
    pub down: Tail,
}

impl Cut {
    /// Before the server receives the bytes in flight.
    pub const BEFORE_RECEIVED: Self = Self { up: Tail::LOST, down: Tail::LOST };
    /// After the server has received and applied the requests in flight. The replies are lost.
    pub const AFTER_APPLIED: Self = Self { up: Tail::DELIVERED, down: Tail::LOST };
}

/// A unit of delivery.
#[derive(Debug)]
pub(super) enum Segment {
    /// Up: a connection request. Down: its acceptance.
    Open,
    Bytes(Bytes),
    /// The end of the stream.
    End,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    segments: VecDeque<(Duration, Segment)>,
    /// The number of bytes in flight.
    pub(super) in_flight: usize,
    ended: bool,
}

impl Pipe {
    /// Appends a segment, in order. Returns its arrival time unless the pipe has ended.
    pub(super) fn push(&mut self, at: Duration, segment: Segment) -> Option<Duration> {
        if self.ended {
            return None;
        }
        let at = self.segments.back().map_or(at, |(last, _)| at.max(*last));
        match &segment {
            Segment::Bytes(bytes) => self.in_flight += bytes.len(),
            Segment::End => self.ended = true,
            Segment::Open => {}
        }
        self.segments.push_back((at, segment));
        Some(at)
    }

    /// Returns the next segment that has arrived by `now`.
    pub(super) fn pop(&mut self, now: Duration) -> Option<Segment> {
        self.segments.front().filter(|(at, _)| *at <= now)?;
        let (_, segment) = self.segments.pop_front()?;
        if let Segment::Bytes(bytes) = &segment {
            self.in_flight -= bytes.len();
        }
        Some(segment)
    }

    /// Cuts the pipe. Returns the arrival time of its end, unless that is silent.
    pub(super) fn cut(&mut self, now: Duration, tail: Tail) -> Option<Duration> {
        self.ended = false;
        let mut left = tail.bytes;
        for (at, segment) in core::mem::take(&mut self.segments) {
            match segment {
                Segment::Bytes(bytes) => {
                    self.in_flight -= bytes.len();
                    let kept = bytes.slice(..bytes.len().min(left));
                    left -= kept.len();
                    if !kept.is_empty() {
                        self.push(at, Segment::Bytes(kept));
                    }
                }
                Segment::Open if left > 0 => drop(self.push(at, Segment::Open)),
                Segment::Open | Segment::End => {}
            }
        }
        let end = if tail.silent { None } else { self.push(now, Segment::End) };
        self.ended = true;
        end
    }
}

/// A connection, from the attempt to open it until both ends have closed it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: usize,
    pub(super) server: usize,
    /// The server's id of the connection, while open there.
    pub(super) conn: Option<ConnId>,
    /// The limit of bytes in flight to the server.
    pub(super) window: usize,
    pub(super) up: Pipe,
    pub(super) down: Pipe,
}

impl Link {
    pub(super) fn new(client: usize, server: usize, window: usize) -> Self {
        Self { client, server, conn: None, window, up: Pipe::default(), down: Pipe::default() }
    }

    /// Returns whether a connection closed by its client has no further effect.
    pub(super) fn is_over(&self) -> bool {
        self.conn.is_none() && self.up.segments.is_empty()
    }

    pub(super) fn pipe(&mut self, direction: Direction) -> &mut Pipe {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1);

    fn pipe() -> Pipe {
        let mut pipe = Pipe::default();
        pipe.push(NOW, Segment::Bytes(Bytes::from_static(b"abc")));
        pipe.push(Duration::ZERO, Segment::Bytes(Bytes::from_static(b"def")));
        pipe
    }

    /// Returns all that arrives, with a dot for the end.
    fn arrives(pipe: &mut Pipe) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(segment) = pipe.pop(NOW) {
            match segment {
                Segment::Bytes(bytes) => all.extend_from_slice(&bytes),
                Segment::End => all.push(b'.'),
                Segment::Open => all.push(b'!'),
            }
        }
        all
    }

    #[test]
    fn segments_keep_their_order_and_never_arrive_early() {
        let mut pipe = pipe();
        assert!(pipe.pop(NOW / 2).is_none());
        assert_eq!((pipe.in_flight, arrives(&mut pipe)), (6, b"abcdef".to_vec()));
        assert_eq!(pipe.in_flight, 0);
    }

    #[test]
    fn a_pipe_can_be_cut_at_any_byte() {
        for bytes in 0..=6 {
            let mut pipe = pipe();
            assert!(pipe.cut(Duration::ZERO, Tail { bytes, silent: false }).is_some());
            assert_eq!(pipe.in_flight, bytes);
            assert_eq!(pipe.push(NOW, Segment::Open), None);
            assert_eq!(arrives(&mut pipe), [&b"abcdef"[..bytes], b"."].concat());
        }
    }

    #[test]
    fn a_half_open_pipe_does_not_report_its_end() {
        let mut pipe = pipe();
        assert_eq!(pipe.cut(NOW, Tail { bytes: 4, silent: true }), None);
        assert_eq!(arrives(&mut pipe), b"abcd");
    }
}
