//! Frames for `tokio_util::codec`.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

use crate::frame;
use crate::wire::Encode;

/// Splits a stream into frames and writes messages as frames.
///
/// It decodes to the payload of each frame, sharing its buffer, and encodes anything that is
/// [`Encode`]: `(RequestHeader, Request)` on a client, `(ReplyHeader, Response)` on a server.
#[derive(Clone, Copy, Debug)]
pub struct FrameCodec {
    limit: usize,
}

impl FrameCodec {
    /// A codec that refuses to read frames longer than `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { limit }
    }
}

impl Default for FrameCodec {
    fn default() -> Self {
        Self::new(frame::DEFAULT_LIMIT)
    }
}

impl Decoder for FrameCodec {
    type Item = Bytes;
    type Error = io::Error;

    fn decode(&mut self, stream: &mut BytesMut) -> io::Result<Option<Bytes>> {
        frame::split_bytes(stream, self.limit).map_err(invalid)
    }
}

impl<M: Encode> Encoder<M> for FrameCodec {
    type Error = io::Error;

    fn encode(&mut self, message: M, out: &mut BytesMut) -> io::Result<()> {
        frame::encode(&message, out).map_err(invalid)
    }
}

fn invalid(error: impl core::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
