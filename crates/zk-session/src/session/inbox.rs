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

/// What is known of the frames of a connection.
#[derive(Debug)]
pub(crate) struct Frames {
    splitter: Splitter,
    /// How many bytes of an unfinished frame were reported to the session.
    reported: usize,
}

impl Frames {
    fn new(max_frame: usize) -> Self {
        Self { splitter: Splitter::new(max_frame), reported: 0 }
    }

    /// Passes whole frames to the session, and the pieces of frames above the limit.
    pub(crate) fn hand_on<T>(
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
mod tests;
