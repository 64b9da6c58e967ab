//! The received bytes of a connection that the session has not handled yet.

use alloc::vec::Vec;

use bytes::Bytes;
#[cfg(feature = "blocking")]
use bytes::BytesMut;
use zk_proto::frame::Splitter;

use crate::session::Session;
use crate::time::Instant;

/// The capacity for reads. Longer frames grow the buffer as they arrive.
const READ: usize = 8 * 1024;
/// The minimum room for a read. Until there is less, small frames share one buffer.
#[cfg(feature = "blocking")]
const LEAST_READ: usize = 1024;
/// How much of a frame above the limit is read at once, where memory is scarce.
const PIECE: usize = 64;

/// What is known of the frames of a connection.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(super) splitter: Splitter,
    /// How many bytes of an unfinished frame were reported to the session.
    pub(super) reported: usize,
}

impl Frames {
    fn new(max_frame: usize) -> Self {
        Self { splitter: Splitter::new(max_frame), reported: 0 }
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
        session.handle_bytes(now, &mut self.frames, &mut bytes);
        self.bytes = bytes.into();
    }
}

/// The received bytes of a client, and the size of their buffer.
#[cfg(feature = "blocking")]
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) bytes: BytesMut,
    pub(crate) frames: Frames,
    /// How many bytes an empty buffer keeps.
    max_kept: usize,
    /// Whether the buffer is larger than what is kept. Its own capacity does not show that: it
    /// regains the capacity of frames that were split off.
    is_large: bool,
}

#[cfg(feature = "blocking")]
impl Inbox {
    pub(crate) const READ: usize = READ;

    /// Makes the inbox of a new connection.
    pub(crate) fn new<T>(session: &Session<T>) -> Self {
        let max_kept = match session.max_kept() {
            0 => 0,
            max_kept => max_kept.max(READ),
        };
        let frames = Frames::new(session.max_reply());
        Self { bytes: BytesMut::new(), frames, max_kept, is_large: false }
    }

    /// Returns the buffer to append to, which has some room. Frees the buffer of a long frame.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        let bytes = &mut self.bytes;
        if self.is_large && bytes.is_empty() {
            *bytes = BytesMut::new();
            self.is_large = false;
        }
        if bytes.capacity() - bytes.len() < LEAST_READ {
            bytes.reserve(READ);
            self.is_large |= bytes.capacity() > self.max_kept;
        }
        bytes
    }
}

#[cfg(all(test, feature = "blocking"))]
mod tests {
    use bytes::BufMut as _;

    use super::*;
    use crate::session::Config;

    fn session(max_reply: usize) -> (Session<()>, Inbox) {
        let config = Config { max_reply, ..Config::new(0, 0) };
        let session = Session::new(Instant::START, config);
        let inbox = Inbox::new(&session);
        (session, inbox)
    }

    #[test]
    fn the_buffer_of_a_long_frame_is_not_kept() {
        let (mut session, mut inbox) = session(1 << 20);
        for length in [1 << 20, 10] {
            inbox.buffer().put_i32(length);
            for _ in 0..length {
                inbox.buffer().put_u8(0);
            }
            session.handle_bytes(Instant::START, &mut inbox.frames, &mut inbox.bytes);
        }
        let kept = inbox.buffer().capacity();
        assert!(kept <= Inbox::READ, "{kept} bytes");
    }

    #[test]
    fn a_frame_that_is_too_long_takes_no_memory() {
        let (mut session, mut inbox) = session(100);
        inbox.buffer().put_i32(1 << 20);
        for _ in 0..1 << 10 {
            inbox.buffer().put_bytes(7, 1 << 10);
            session.handle_bytes(Instant::START, &mut inbox.frames, &mut inbox.bytes);
            assert!(inbox.bytes.is_empty());
        }
        let kept = inbox.buffer().capacity();
        assert!(kept <= Inbox::READ, "{kept} bytes");
    }

    #[test]
    fn small_frames_share_one_buffer() {
        let (mut session, mut inbox) = session(100);
        let start = inbox.buffer().as_ptr().addr();
        for _ in 0..10 {
            inbox.buffer().put_slice(&[0, 0, 0, 1, 7]);
            session.handle_bytes(Instant::START, &mut inbox.frames, &mut inbox.bytes);
        }
        assert_eq!(inbox.buffer().as_ptr().addr(), start + 50);
    }
}
