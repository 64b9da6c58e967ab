//! Frames: a length of four bytes, followed by that many bytes of payload.
//!
//! Each frame holds exactly one message.

use core::fmt;

use crate::error::EncodeError;
use crate::sink::{Sink, SliceSink};
use crate::wire::{Encode, wire_length};

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

/// Splits the first frame off `stream` without copying, and returns its payload.
///
/// Returns `None` until the whole frame has arrived. The length prefix is dropped. The buffer
/// does not grow for the announced length.
///
/// # Errors
///
/// Fails if the length is negative or above `limit` bytes.
///
/// ```
/// use bytes::BytesMut;
/// use zk_proto::frame;
///
/// let mut stream = BytesMut::from(&[0, 0, 0, 2, b'h', b'i', 0, 0][..]);
/// assert_eq!(frame::split_bytes(&mut stream, 100)?, Some("hi".into()));
/// assert_eq!(frame::split_bytes(&mut stream, 100)?, None);
/// assert_eq!(stream.len(), 2);
/// # Ok::<(), frame::FrameError>(())
/// ```
#[cfg(feature = "bytes")]
pub fn split_bytes(
    stream: &mut bytes::BytesMut,
    limit: usize,
) -> Result<Option<bytes::Bytes>, FrameError> {
    match length(stream, limit)? {
        Some(length) if stream.len() - PREFIX_LEN >= length => {
            bytes::Buf::advance(stream, PREFIX_LEN);
            Ok(Some(take(stream, length)))
        }
        _ => Ok(None),
    }
}

/// Takes the first bytes of `stream`, which there must be.
// One copy of it, where flash is scarce.
#[cfg(feature = "bytes")]
#[cfg_attr(target_os = "none", inline(never))]
fn take(stream: &mut bytes::BytesMut, count: usize) -> bytes::Bytes {
    stream.split_to(count).freeze()
}

/// A splitter of a stream into frames, and of frames above a limit into pieces.
///
/// Use one for each connection. Of a frame above the limit, it returns the start, which identifies
/// the request if the frame is a reply, and then the other bytes as they arrive. So no frame takes
/// more memory than the limit, and the following frames stay readable.
///
/// ```
/// use bytes::BytesMut;
/// use zk_proto::frame::{Piece, Splitter};
///
/// let mut splitter = Splitter::new(16);
/// let mut stream = BytesMut::from(&b"\0\0\0\x12header, 16 bytesbo"[..]);
/// let first = splitter.split(&mut stream)?;
/// assert_eq!(first, Some(Piece::TooLong { start: "header, 16 bytes".into(), length: 18 }));
/// assert_eq!(splitter.split(&mut stream)?, Some(Piece::Rest("bo".into())));
/// stream.extend_from_slice(b"\0\0\0\x02hi");
/// assert_eq!(splitter.split(&mut stream)?, Some(Piece::Frame("hi".into())));
/// # Ok::<(), zk_proto::frame::FrameError>(())
/// ```
#[cfg(feature = "bytes")]
#[derive(Clone, Debug)]
pub struct Splitter {
    limit: usize,
    /// The number of bytes of the last frame that are still to come.
    left: u32,
}

/// A result of a [`Splitter`].
#[cfg(feature = "bytes")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The payload of a frame.
    Frame(bytes::Bytes),
    /// The start of a frame above the limit.
    TooLong {
        /// The first bytes of its payload: as many as a
        /// [`ReplyHeader`](crate::ReplyHeader) takes, or all if there are fewer.
        start: bytes::Bytes,
        /// The length of its payload in bytes.
        length: usize,
    },
    /// The next bytes of that frame, at least one.
    Rest(bytes::Bytes),
}

#[cfg(feature = "bytes")]
impl Splitter {
    /// The number of bytes of a [`ReplyHeader`](crate::ReplyHeader).
    const START: usize = 16;

    /// Creates a splitter for one connection, which takes payloads above `limit` bytes apart.
    pub const fn new(limit: usize) -> Self {
        Self { limit, left: 0 }
    }

    /// Returns how many bytes `stream` lacks until the next piece is whole. `None` for the rest of a
    /// frame above the limit, any part of which is a piece.
    ///
    /// A program with little memory reads no further, so that its buffer holds one frame at most.
    ///
    /// ```
    /// use zk_proto::frame::Splitter;
    ///
    /// let splitter = Splitter::new(100);
    /// assert_eq!(splitter.missing(&[0, 0]), Some(2));
    /// assert_eq!(splitter.missing(&[0, 0, 0, 20, 7]), Some(19));
    /// assert_eq!(splitter.missing(&[0, 1, 0, 0]), Some(16));
    /// ```
    pub fn missing(&self, stream: &[u8]) -> Option<usize> {
        let whole = match length(stream, self.limit) {
            _ if self.left > 0 => return None,
            Ok(length) => length.unwrap_or(0),
            Err(FrameError::TooLong { length, .. }) => length.min(Self::START),
            Err(FrameError::Negative(_)) => 0,
        };
        Some((PREFIX_LEN + whole).saturating_sub(stream.len()))
    }

    /// Splits the first frame off `stream` without copying.
    ///
    /// Returns `None` until the whole frame has arrived, or a part of a frame above the limit.
    ///
    /// # Errors
    ///
    /// [`FrameError::Negative`]. The rest of the stream is unreadable.
    pub fn split(&mut self, stream: &mut bytes::BytesMut) -> Result<Option<Piece>, FrameError> {
        use bytes::Buf as _;

        if self.left > 0 {
            let left = usize::try_from(self.left).unwrap_or(usize::MAX);
            let rest = take(stream, left.min(stream.len()));
            self.left -= rest.len() as u32;
            return Ok((!rest.is_empty()).then_some(Piece::Rest(rest)));
        }
        let length = match split_bytes(stream, self.limit) {
            Ok(payload) => return Ok(payload.map(Piece::Frame)),
            Err(FrameError::TooLong { length, .. }) => length,
            Err(error) => return Err(error),
        };
        let start = length.min(Self::START);
        if stream.len() - PREFIX_LEN < start {
            return Ok(None);
        }
        self.left = stream.get_u32() - start as u32;
        Ok(Some(Piece::TooLong { start: take(stream, start), length }))
    }
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
