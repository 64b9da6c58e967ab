//! Frames split off a stream without copying.

use core::ops::Deref;

use bytes::{Buf, Bytes};

use super::{FrameError, PREFIX_LEN, length};

/// Splits the first frame off `stream`, and returns its payload. Nothing is copied if `stream` is
/// [`BytesMut`](bytes::BytesMut) or [`Bytes`].
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
pub fn split_bytes(
    stream: &mut (impl Buf + Deref<Target = [u8]>),
    limit: usize,
) -> Result<Option<Bytes>, FrameError> {
    match length(stream, limit)? {
        Some(length) if stream.len() - PREFIX_LEN >= length => {
            stream.advance(PREFIX_LEN);
            Ok(Some(take(stream, length)))
        }
        _ => Ok(None),
    }
}

/// Takes the first bytes of `stream`, which there must be.
// One copy of it, where flash is scarce.
#[cfg_attr(target_os = "none", inline(never))]
fn take(stream: &mut impl Buf, count: usize) -> Bytes {
    stream.copy_to_bytes(count)
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
#[derive(Clone, Debug)]
pub struct Splitter {
    limit: usize,
    /// The number of bytes of the last frame that are still to come.
    left: u32,
}

/// A result of a [`Splitter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The payload of a frame.
    Frame(Bytes),
    /// The start of a frame above the limit.
    TooLong {
        /// The first bytes of its payload: as many as a
        /// [`ReplyHeader`](crate::ReplyHeader) takes, or all if there are fewer.
        start: Bytes,
        /// The length of its payload in bytes.
        length: usize,
    },
    /// The next bytes of that frame, at least one.
    Rest(Bytes),
}

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

    /// Splits the first frame off `stream`, as [`split_bytes`] does.
    ///
    /// Returns `None` until the whole frame has arrived, or a part of a frame above the limit.
    ///
    /// # Errors
    ///
    /// [`FrameError::Negative`]. The rest of the stream is unreadable.
    pub fn split(
        &mut self,
        stream: &mut (impl Buf + Deref<Target = [u8]>),
    ) -> Result<Option<Piece>, FrameError> {
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

formatted_by_debug! {
    [] Piece;
    [] Splitter;
}
