//! Frames: a length of four bytes, then that many bytes, which are exactly one message.

use core::fmt;

use crate::error::EncodeError;
use crate::sink::{Sink, SliceSink};
use crate::wire::{Encode, wire_length};

/// Bytes of the length that stands before every frame.
pub const PREFIX: usize = 4;

/// The longest frame that servers and clients accept by default: `jute.maxbuffer`, one byte below
/// 1 MiB. The prefix does not count.
///
/// Where a `usize` has 16 bits, it is all that can be addressed.
pub const DEFAULT_LIMIT: usize = 0xf_ffff_u32 as usize;

/// A frame whose length is impossible. The stream cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The length is negative.
    Negative(i32),
    /// The length is above the limit.
    TooLong {
        /// The length that the peer announced; `usize::MAX` if even that is below it.
        length: usize,
        /// The limit it exceeds.
        limit: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Negative(length) => write!(f, "a frame announces the negative length {length}"),
            Self::TooLong { length, limit } => {
                write!(f, "a frame of {length} bytes exceeds the limit of {limit}")
            }
        }
    }
}

impl core::error::Error for FrameError {}

/// The length of the frame at the front of `stream`, without its prefix, once the prefix has
/// arrived.
///
/// # Errors
///
/// When the length is negative or above `limit`: known as soon as the prefix has arrived, so that
/// nobody waits for, or makes room for, such a frame.
pub fn length(stream: &[u8], limit: usize) -> Result<Option<usize>, FrameError> {
    let Some(prefix) = stream.first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let announced = i32::from_be_bytes(*prefix);
    match usize::try_from(announced) {
        Ok(length) if length <= limit => Ok(Some(length)),
        Ok(length) => Err(FrameError::TooLong { length, limit }),
        Err(_) if announced < 0 => Err(FrameError::Negative(announced)),
        Err(_) => Err(FrameError::TooLong { length: usize::MAX, limit }),
    }
}

/// The payload of a frame, and what follows the frame.
pub type Parts<'a> = (&'a [u8], &'a [u8]);

/// Splits the first frame off `stream`. `None` while it has not arrived as a whole.
///
/// # Errors
///
/// As [`length`].
///
/// ```
/// use zk_proto::frame;
///
/// let stream = [0, 0, 0, 2, b'h', b'i', 0, 0];
/// let (payload, rest) = frame::split(&stream, frame::DEFAULT_LIMIT)?.expect("a whole frame");
/// assert_eq!((payload, rest), (&b"hi"[..], &[0, 0][..]));
/// assert_eq!(frame::split(rest, frame::DEFAULT_LIMIT)?, None);
/// # Ok::<(), frame::FrameError>(())
/// ```
pub fn split(stream: &[u8], limit: usize) -> Result<Option<Parts<'_>>, FrameError> {
    Ok(match length(stream, limit)? {
        Some(length) => stream[PREFIX..].split_at_checked(length),
        None => None,
    })
}

/// Splits the first frame off `stream`, sharing its buffer. `None` while it has not arrived as a
/// whole; no room is made for the rest of it, since its length is only a claim.
///
/// Returns the payload; the prefix is dropped.
///
/// # Errors
///
/// As [`length`].
#[cfg(feature = "bytes")]
pub fn split_bytes(
    stream: &mut bytes::BytesMut,
    limit: usize,
) -> Result<Option<bytes::Bytes>, FrameError> {
    match length(stream, limit)? {
        Some(length) if stream.len() - PREFIX >= length => {
            bytes::Buf::advance(stream, PREFIX);
            Ok(Some(stream.split_to(length).freeze()))
        }
        _ => Ok(None),
    }
}

/// Splits a stream into frames, and skips frames that are too long.
///
/// Use one for each connection. Only the start of a frame that is too long is kept: if it is a
/// reply, its header tells which request it answers. The rest is dropped as it arrives, so that
/// the frames behind it can be read.
///
/// ```
/// use bytes::BytesMut;
/// use zk_proto::frame::{Piece, Splitter};
///
/// let mut splitter = Splitter::new(2);
/// let mut stream = BytesMut::from(&[0, 0, 0, 3, b'a', b'b', b'c', 0, 0, 0, 2, b'h', b'i'][..]);
/// let first = splitter.split(&mut stream)?;
/// assert_eq!(first, Some(Piece::TooLong { start: "abc".into(), length: 3 }));
/// assert_eq!(splitter.split(&mut stream)?, Some(Piece::Frame("hi".into())));
/// # Ok::<(), zk_proto::frame::FrameError>(())
/// ```
#[cfg(feature = "bytes")]
#[derive(Clone, Debug)]
pub struct Splitter {
    limit: usize,
    /// How many bytes of the last frame are still to be dropped.
    left: u32,
}

/// What a [`Splitter`] finds.
#[cfg(feature = "bytes")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The payload of a frame.
    Frame(bytes::Bytes),
    /// A frame that is too long has begun. The splitter drops the rest of it.
    TooLong {
        /// The first bytes of its payload: as many as a
        /// [`ReplyHeader`](crate::ReplyHeader) takes, or all if there are fewer.
        start: bytes::Bytes,
        /// The length of its payload.
        length: usize,
    },
}

#[cfg(feature = "bytes")]
impl Splitter {
    /// Bytes of a [`ReplyHeader`](crate::ReplyHeader).
    const START: usize = 16;

    /// A splitter for the frames of one connection, which skips those longer than `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { limit, left: 0 }
    }

    /// Splits the first frame off `stream`, sharing its buffer. `None` while it has not arrived as
    /// a whole or, if it is too long, its start has not.
    ///
    /// # Errors
    ///
    /// [`FrameError::Negative`]. The stream cannot be read any further.
    pub fn split(&mut self, stream: &mut bytes::BytesMut) -> Result<Option<Piece>, FrameError> {
        use bytes::Buf as _;

        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let dropped = left.min(stream.len());
        stream.advance(dropped);
        self.left -= dropped as u32;
        if self.left > 0 {
            return Ok(None);
        }
        let length = match split_bytes(stream, self.limit) {
            Ok(payload) => return Ok(payload.map(Piece::Frame)),
            Err(FrameError::TooLong { length, .. }) => length,
            Err(error) => return Err(error),
        };
        let start = length.min(Self::START);
        if stream.len() - PREFIX < start {
            return Ok(None);
        }
        self.left = stream.get_u32() - start as u32;
        Ok(Some(Piece::TooLong { start: stream.split_to(start).freeze(), length }))
    }
}

/// Appends `message` to `out` as one frame.
///
/// # Errors
///
/// When the message is longer than a frame can say; nothing is written then.
#[inline]
pub fn encode<S: Sink + ?Sized>(message: &impl Encode, out: &mut S) -> Result<(), EncodeError> {
    let length = message.encoded_len();
    let prefix = wire_length(length)?;
    out.reserve(PREFIX + length);
    prefix.encode(out);
    message.encode(out);
    Ok(())
}

/// Writes `message` as one frame to the front of `buffer` and says how many bytes that took.
///
/// # Errors
///
/// When the buffer is too small or the message is longer than a frame can say. Nothing that the
/// buffer holds is meaningful then.
#[inline]
pub fn encode_to_slice(message: &impl Encode, buffer: &mut [u8]) -> Result<usize, EncodeError> {
    let mut sink = SliceSink::new(buffer);
    // The length is known once the message is written, which saves a walk through it.
    sink.put(&[0; PREFIX]);
    message.encode(&mut sink);
    let prefix = wire_length(sink.position() - PREFIX)?;
    let length = sink.finish()?;
    prefix.encode(&mut SliceSink::new(buffer));
    Ok(length)
}
