//! Frames: a length of four bytes, followed by that many bytes of payload.
//!
//! Each frame holds exactly one message.

#[cfg(feature = "alloc")]
mod split;

use core::fmt;

use crate::error::EncodeError;
use crate::sink::{Sink, SliceSink};
use crate::wire::{Encode, wire_length};

#[cfg(feature = "alloc")]
pub use self::split::{Piece, Splitter, split_bytes};

/// The number of bytes of the length before every payload.
pub const PREFIX_LEN: usize = 4;

/// The longest payload that servers and clients accept by default: 1,048,575 bytes.
///
/// It is the default of ZooKeeper's setting `jute.maxbuffer`. The length prefix does not count.
/// On targets with a 16-bit `usize`, the constant is the whole address space.
#[doc(alias = "jute.maxbuffer")]
pub const DEFAULT_LIMIT: usize = 0xf_ffff_u32 as usize;

named! {
    /// An error in the length of a frame. The rest of the stream is unreadable.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum FrameError {
        /// The length is negative.
        Negative(i32),
        /// The length exceeds the limit.
        TooLong {
            /// The announced length in bytes, or `usize::MAX` if it does not fit into a `usize`.
            length: usize,
            /// The limit in bytes.
            limit: usize,
        },
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Negative(length) => write!(f, "the frame length {length} is negative"),
            Self::TooLong { length, limit } => {
                write!(f, "a frame of {length} bytes exceeds the limit of {limit} bytes")
            }
        }
    }
}

impl core::error::Error for FrameError {}

/// Returns the payload length of the first frame, or `None` until the length has arrived.
///
/// # Errors
///
/// Fails if the length is negative or above `limit` bytes. The error appears as soon as the
/// length has arrived, so the caller never waits or allocates for such a frame.
///
/// ```
/// use zk_proto::frame::{self, FrameError};
///
/// assert_eq!(frame::length(&[0, 0, 1], 100), Ok(None));
/// assert_eq!(frame::length(&[0, 0, 0, 12], 100), Ok(Some(12)));
/// let error = FrameError::TooLong { length: 256, limit: 100 };
/// assert_eq!(frame::length(&[0, 0, 1, 0], 100), Err(error));
/// ```
pub fn length(stream: &[u8], limit: usize) -> Result<Option<usize>, FrameError> {
    let Some(prefix) = stream.first_chunk::<PREFIX_LEN>() else {
        return Ok(None);
    };
    let announced = i32::from_be_bytes(*prefix);
    let length = u32::try_from(announced).map_err(|_| FrameError::Negative(announced))?;
    match usize::try_from(length) {
        Ok(length) if length <= limit => Ok(Some(length)),
        length => Err(FrameError::TooLong { length: length.unwrap_or(usize::MAX), limit }),
    }
}

/// The payload of a frame, and the bytes behind the frame.
pub type SplitFrame<'a> = (&'a [u8], &'a [u8]);

/// Splits the first frame off `stream`, and returns its payload and the bytes behind it.
///
/// Returns `None` until the whole frame has arrived.
///
/// # Errors
///
/// Fails if the length is negative or above `limit` bytes.
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
pub fn split(stream: &[u8], limit: usize) -> Result<Option<SplitFrame<'_>>, FrameError> {
    Ok(match length(stream, limit)? {
        Some(length) => stream[PREFIX_LEN..].split_at_checked(length),
        None => None,
    })
}

/// Appends `message` to `out` as one frame.
///
/// A pair `(header, body)` is a message, too.
///
/// # Errors
///
/// [`EncodeError::TooLong`], with `out` unchanged.
///
/// ```
/// use zk_proto::{OpCode, RequestHeader, SliceSink, Xid, frame};
///
/// let mut buffer = [0; 12];
/// let mut sink = SliceSink::new(&mut buffer);
/// let ping = RequestHeader { xid: Xid::PING, opcode: OpCode::PING };
/// frame::encode(&ping, &mut sink)?;
/// assert_eq!(sink.finish(), Ok(12));
/// assert_eq!(&buffer, b"\0\0\0\x08\xff\xff\xff\xfe\0\0\0\x0b");
/// # Ok::<(), zk_proto::EncodeError>(())
/// ```
#[inline]
pub fn encode<S: Sink + ?Sized>(message: &impl Encode, out: &mut S) -> Result<(), EncodeError> {
    let length = message.encoded_len();
    let prefix = wire_length(length)?;
    out.reserve(PREFIX_LEN + length);
    prefix.encode(out);
    message.encode(out);
    Ok(())
}

/// Writes `message` as one frame to the front of `buffer`, and returns the number of bytes.
///
/// # Errors
///
/// Fails if the buffer is too small, or the message longer than the longest frame. The contents
/// of the buffer are then unspecified.
///
/// ```
/// use zk_proto::{Request, RequestHeader, SyncRequest, Xid, frame};
///
/// let request = Request::Sync(SyncRequest { path: "/" });
/// let header = RequestHeader { xid: Xid(1), opcode: request.opcode() };
/// let mut buffer = [0; 64];
/// let length = frame::encode_to_slice(&(header, request), &mut buffer)?;
/// assert_eq!(&buffer[..length], b"\0\0\0\x0d\0\0\0\x01\0\0\0\x09\0\0\0\x01/");
/// # Ok::<(), zk_proto::EncodeError>(())
/// ```
#[inline]
pub fn encode_to_slice(message: &impl Encode, buffer: &mut [u8]) -> Result<usize, EncodeError> {
    let mut sink = SliceSink::new(buffer);
    // The length is known once the message is written, which saves a pass over it.
    sink.put(&[0; PREFIX_LEN]);
    message.encode(&mut sink);
    let prefix = wire_length(sink.position() - PREFIX_LEN)?;
    let length = sink.finish()?;
    prefix.encode(&mut SliceSink::new(buffer));
    Ok(length)
}
