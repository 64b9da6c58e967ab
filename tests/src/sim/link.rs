//! One simulated connection: two one-way streams of bytes that take their time, and can be cut
//! anywhere.

use alloc::collections::VecDeque;
use core::time::Duration;

use bytes::Bytes;

use crate::server::ConnId;

/// Names a connection, or an attempt to make one. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the client to a member.
    Up,
    /// From a member to the client.
    Down,
}

impl Direction {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Up, Self::Down];
}

/// What remains of one direction when a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tail {
    /// How many of the bytes that are under way still arrive.
    pub bytes: usize,
    /// Whether the receiver never hears of the end: for it the connection is half-open.
    pub silent: bool,
}

impl Tail {
    /// Nothing more arrives but the end.
    pub const LOST: Self = Self { bytes: 0, silent: false };
    /// All that is under way arrives, then the end.
    pub const DELIVERED: Self = Self { bytes: usize::MAX, silent: false };
}

/// How a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cut {
    /// What still reaches the member.
    pub up: Tail,
    /// What still reaches the client.
    pub down: Tail,
}

impl Cut {
    /// Before the member has received what is under way to it.
    pub const BEFORE_RECEIVED: Self = Self { up: Tail::LOST, down: Tail::LOST };
    /// After the member has received, and so applied, what is under way; the answers are lost.
    pub const AFTER_APPLIED: Self = Self { up: Tail::DELIVERED, down: Tail::LOST };
}

/// What travels.
#[derive(Debug)]
pub(super) enum Segment {
    /// Up: may I connect? Down: you may.
    Open,
    Bytes(Bytes),
    /// Nothing follows.
    End,
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    segments: VecDeque<(Duration, Segment)>,
    /// Bytes under way.
    pub(super) in_flight: usize,
    ended: bool,
}

impl Pipe {
    /// Sends; the order is kept. When it will arrive, unless the pipe has ended.
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

    /// What arrives by now, one at a time.
    pub(super) fn pop(&mut self, now: Duration) -> Option<Segment> {
        self.segments.front().filter(|(at, _)| *at <= now)?;
        let (_, segment) = self.segments.pop_front()?;
        if let Segment::Bytes(bytes) = &segment {
            self.in_flight -= bytes.len();
        }
        Some(segment)
    }

    /// Ends it with this tail, which says when the end arrives, if it does.
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

/// One connection, from the attempt to make it until both ends have forgotten it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: usize,
    pub(super) member: usize,
    /// What the member calls it, while it has it.
    pub(super) conn: Option<ConnId>,
    /// How many bytes may be under way to the member.
    pub(super) window: usize,
    pub(super) up: Pipe,
    pub(super) down: Pipe,
}

impl Link {
    pub(super) fn new(client: usize, member: usize, window: usize) -> Self {
        Self { client, member, conn: None, window, up: Pipe::default(), down: Pipe::default() }
    }

    /// Whether nothing can come of it any more, once its client has left it.
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

    /// Everything that arrives, with a dot for the end.
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
    fn nothing_overtakes_anything_and_nothing_is_early() {
        let mut pipe = pipe();
        assert!(pipe.pop(NOW / 2).is_none());
        assert_eq!((pipe.in_flight, arrives(&mut pipe)), (6, b"abcdef".to_vec()));
        assert_eq!(pipe.in_flight, 0);
    }

    #[test]
    fn it_can_be_cut_at_any_byte() {
        for bytes in 0..=6 {
            let mut pipe = pipe();
            assert!(pipe.cut(Duration::ZERO, Tail { bytes, silent: false }).is_some());
            assert_eq!(pipe.in_flight, bytes);
            assert_eq!(pipe.push(NOW, Segment::Open), None);
            assert_eq!(arrives(&mut pipe), [&b"abcdef"[..bytes], b"."].concat());
        }
    }

    #[test]
    fn the_end_of_a_half_open_one_is_not_told() {
        let mut pipe = pipe();
        assert_eq!(pipe.cut(NOW, Tail { bytes: 4, silent: true }), None);
        assert_eq!(arrives(&mut pipe), b"abcd");
    }
}
