//! The received bytes of a connection that the session has not handled yet.

use alloc::vec::Vec;
use core::ops::Deref;

#[cfg(feature = "blocking")]
use bytes::BytesMut;
use bytes::{Buf, Bytes};
use zk_proto::frame::{Piece, Splitter};

use crate::session::Session;
use crate::time::Instant;

/// The capacity for reads. Longer frames grow the buffer as they arrive.
const READ: usize = 8 * 1024;
/// The minimum room for a read. Until there is less, small frames share one buffer.
#[cfg(feature = "blocking")]
const LEAST_READ: usize = 1024;
/// How much of a frame above the limit is read at once, where memory is scarce.
const PIECE: usize = 64;

/// The frames of a connection.
#[derive(Debug)]
struct Frames {
    splitter: Splitter,
    /// How many bytes of an unfinished frame were reported to the session.
    reported: usize,
}

impl Frames {
    fn new(max_frame: usize) -> Self {
        Self { splitter: Splitter::new(max_frame), reported: 0 }
    }

    /// Passes whole frames to the session, and the pieces of frames above the limit.
    fn hand_on<T>(
        &mut self,
        bytes: &mut (impl Buf + Deref<Target = [u8]>),
        session: &mut Session<T>,
        now: Instant,
    ) {
        session.handle_received(now, bytes.len() - self.reported);
        loop {
            match self.splitter.split(bytes) {
                Ok(Some(Piece::Frame(payload))) => session.handle_frame(now, payload),
                Ok(Some(Piece::TooLong { start, length })) => {
                    session.handle_oversized(now, &start, length);
                }
                Ok(Some(Piece::Rest(bytes))) => session.handle_rest(now, bytes),
                Ok(None) => break,
                Err(error) => return session.handle_bad_frame(now, error),
            }
        }
        self.reported = bytes.len();
    }
}

/// The received bytes of a loop: one read. The frames that it completes share its memory.
#[derive(Debug)]
pub(crate) struct Arrivals {
    bytes: Vec<u8>,
    frames: Frames,
}

impl Arrivals {
    pub(crate) fn new(max_frame: usize) -> Self {
        Self { bytes: Vec::new(), frames: Frames::new(max_frame) }
    }

    /// Lets a transport write once. Returns how many bytes it wrote.
    ///
    /// With `kept` 0, that is no more than the next frame.
    pub(crate) fn receive(&mut self, kept: usize, read: impl FnOnce(&mut [u8]) -> usize) -> usize {
        let before = self.bytes.len();
        let missing = self.frames.splitter.missing(&self.bytes).unwrap_or(PIECE);
        self.bytes.resize(before + missing.max(kept).min(READ), 0);
        let count = read(self.bytes.get_mut(before..).unwrap_or_default());
        self.bytes.truncate(before + count);
        self.bytes.len() - before
    }

    /// Passes what has arrived to the session.
    pub(crate) fn hand_on<T>(&mut self, session: &mut Session<T>, now: Instant) {
        let mut bytes = Bytes::from(core::mem::take(&mut self.bytes));
        self.frames.hand_on(&mut bytes, session, now);
        self.bytes = bytes.into();
    }
}

/// The received bytes of a client.
#[cfg(feature = "blocking")]
#[derive(Debug)]
pub(crate) struct Inbox {
    bytes: BytesMut,
    frames: Frames,
    /// Whether the buffer is larger than what is kept. Its own capacity does not show that: it
    /// regains the capacity of frames that were split off.
    is_large: bool,
}

#[cfg(feature = "blocking")]
impl Inbox {
    pub(crate) const READ: usize = READ;

    pub(crate) fn new(max_frame: usize) -> Self {
        Self { bytes: BytesMut::new(), frames: Frames::new(max_frame), is_large: false }
    }

    /// Returns the buffer to append to, which has some room.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        if self.bytes.capacity() - self.bytes.len() < LEAST_READ {
            self.bytes.reserve(READ);
        }
        &mut self.bytes
    }

    /// Passes what has arrived to the session.
    pub(crate) fn hand_on<T>(&mut self, session: &mut Session<T>, now: Instant) {
        let kept = match session.max_kept() {
            0 => 0,
            kept => kept.max(READ),
        };
        self.is_large |= self.bytes.capacity() > kept;
        self.frames.hand_on(&mut self.bytes, session, now);
        if self.is_large && self.bytes.is_empty() {
            self.bytes = BytesMut::new();
            self.is_large = false;
        }
    }
}

#[cfg(all(test, feature = "blocking"))]
mod tests {
    use bytes::BufMut as _;

    use super::*;
    use crate::session::Config;

    #[test]
    fn the_buffer_of_a_long_frame_is_not_kept() {
        let mut session = Session::<()>::new(Instant::START, Config::new(0, 0));
        let mut inbox = Inbox::new(1 << 20);
        for length in [1 << 20, 10] {
            inbox.buffer().put_i32(length);
            for _ in 0..length {
                inbox.buffer().put_u8(0);
            }
            inbox.hand_on(&mut session, Instant::START);
        }
        let kept = inbox.buffer().capacity();
        assert!(kept <= Inbox::READ, "{kept} bytes");
    }

    #[test]
    fn a_frame_that_is_too_long_takes_no_memory() {
        let mut session = Session::<()>::new(Instant::START, Config::new(0, 0));
        let mut inbox = Inbox::new(100);
        inbox.buffer().put_i32(1 << 20);
        for _ in 0..1 << 10 {
            inbox.buffer().put_bytes(7, 1 << 10);
            inbox.hand_on(&mut session, Instant::START);
            assert!(inbox.bytes.is_empty());
        }
        let kept = inbox.buffer().capacity();
        assert!(kept <= Inbox::READ, "{kept} bytes");
    }

    #[test]
    fn small_frames_share_one_buffer() {
        let mut session = Session::<()>::new(Instant::START, Config::new(0, 0));
        let mut inbox = Inbox::new(100);
        let start = inbox.buffer().as_ptr().addr();
        for _ in 0..10 {
            inbox.buffer().put_slice(&[0, 0, 0, 1, 7]);
            inbox.hand_on(&mut session, Instant::START);
        }
        assert_eq!(inbox.buffer().as_ptr().addr(), start + 50);
    }
}
