//! The received bytes of a client.

use bytes::BytesMut;

use crate::session::Session;
use crate::session::inbox::{Frames, READ};

/// The minimum room for a read. Until there is less, small frames share one buffer.
const LEAST_READ: usize = 1024;

/// The received bytes of a client, and the size of their buffer.
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

#[cfg(test)]
mod tests;
