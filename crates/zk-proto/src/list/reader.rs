//! A reader of vectors that arrive in pieces.

use alloc::vec::Vec;

use crate::error::{DecodeError, DecodeErrorKind};
use crate::wire::{Decode, Reader};

/// A reader of a vector of strings whose bytes arrive in pieces, cut anywhere.
///
/// It keeps at most one string. It reads what decoding the whole vector reads, and ignores bytes
/// behind the vector.
///
/// ```
/// use zk_proto::ListReader;
///
/// let (mut reader, mut names) = (ListReader::new(100), String::new());
/// for piece in [&b"\0\0\0\x02\0\0"[..], b"\0\x01a\0\0\0", b"\x01b"] {
///     reader.read(piece, &mut |name| names += name)?;
/// }
/// reader.finish()?;
/// assert_eq!(names, "ab");
/// # Ok::<(), zk_proto::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ListReader {
    /// The number of strings to come. `None` until it has arrived.
    left: Option<usize>,
    /// The bytes of the count, or of the next string, that have arrived.
    begun: Vec<u8>,
    /// The longest string in bytes, with its length prefix.
    limit: usize,
}

impl ListReader {
    /// Creates a reader of a vector whose strings take `limit` bytes each at most, with the 4
    /// bytes of their length.
    pub const fn new(limit: usize) -> Self {
        Self { left: None, begun: Vec::new(), limit }
    }

    /// Reads a piece, and passes on the strings that are complete with it.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not such a vector. The offset counts from the start of the string.
    /// [`DecodeErrorKind::Truncated`] means that a string is above the limit, so that its bytes
    /// are not read.
    pub fn read(
        &mut self,
        mut piece: &[u8],
        each: &mut dyn FnMut(&str),
    ) -> Result<(), DecodeError> {
        while self.left != Some(0) {
            let mut reader = Reader::new(&self.begun);
            let item = match self.left {
                None => reader.length().map(|count| self.left = Some(count.unwrap_or(0))),
                Some(left) => <&str>::decode(&mut reader).map(|string| {
                    each(string);
                    self.left = Some(left - 1);
                }),
            };
            let Err(error) = item else {
                self.begun.clear();
                continue;
            };
            let missing = match error.kind() {
                DecodeErrorKind::Truncated { missing } => missing as usize,
                _ => return Err(error),
            };
            if missing > self.limit.saturating_sub(self.begun.len()) {
                return Err(error);
            }
            let (head, rest) = piece.split_at(missing.min(piece.len()));
            self.begun.extend_from_slice(head);
            piece = rest;
            if head.len() < missing {
                break;
            }
        }
        Ok(())
    }

    /// Checks that the whole vector was read.
    ///
    /// # Errors
    ///
    /// [`DecodeErrorKind::Truncated`] if some of it is missing.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.left {
            Some(0) => Ok(()),
            _ => Err(Reader::new(&self.begun).truncated(self.begun.len() + 1)),
        }
    }
}

formatted_by_debug! {
    [] ListReader;
}
