//! The received bytes of a connection that the session has not handled yet.

use alloc::vec::Vec;

use bytes::Bytes;
use zk_proto::frame::Splitter;

use crate::session::Session;
use crate::time::Instant;

/// The capacity for reads. Longer frames grow the buffer as they arrive.
pub(crate) const READ: usize = 8 * 1024;
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
    pub(crate) fn new(max_frame: usize) -> Self {
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
