//! What can be wrong with bytes, and where.

use core::fmt;

/// The record and the field in which decoding failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the record, as in ZooKeeper's own record list.
    pub record: &'static str,
    /// Name of the field within it.
    pub field: &'static str,
}

/// Bytes that are not the record they should be.
///
/// The peer that wrote them is at fault, or they were read with the wrong opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    kind: DecodeErrorKind,
    offset: u32,
    place: Option<&'static Place>,
}

/// The ways in which bytes fail to be a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The frame ends inside the field. The offset is where the missing bytes would begin, or the
    /// items if the list claims more of them than there are bytes left.
    Truncated {
        /// At least so many more bytes were needed.
        missing: u32,
    },
    /// A length or count below -1 (-1 stands for null). The offset is that of the length.
    NegativeLength(i32),
    /// A null where the protocol has none. The offset is that of the length, -1.
    UnexpectedNull,
    /// A string that is not UTF-8. The offset is that of its first byte that is not.
    InvalidUtf8,
    /// Bytes are left over after the record. The offset is that of the first of them.
    TrailingBytes(u32),
    /// An operation number that has no record here, or none in this place. The offset is where
    /// its record would begin.
    UnknownOperation(i32),
    /// A multi that does not end with its terminator. The offset is where it would begin.
    Unterminated,
}

impl DecodeError {
    #[cold]
    pub(crate) fn new(kind: DecodeErrorKind, offset: usize) -> Self {
        Self { kind, offset: u32::try_from(offset).unwrap_or(u32::MAX), place: None }
    }

    /// Notes where the error happened; the innermost place stays.
    pub(crate) fn within(mut self, place: &'static Place) -> Self {
        self.place.get_or_insert(place);
        self
    }

    /// What was wrong.
    pub fn kind(&self) -> DecodeErrorKind {
        self.kind
    }

    /// Where the bytes went wrong; each [kind](DecodeErrorKind) says what that is for it.
    ///
    /// It counts from the first byte that was given to be decoded: from the start of `body` in
    /// [`Request::decode`](crate::Request::decode) and
    /// [`Response::decode`](crate::Response::decode), hence without header and frame prefix; from
    /// the start of the [`Reader`](crate::Reader)'s bytes otherwise, however deep the record lay.
    pub fn offset(&self) -> usize {
        self.offset as usize
    }

    /// The record and field that were being read.
    pub fn place(&self) -> Option<&'static Place> {
        self.place
    }
}

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { missing } => write!(f, "at least {missing} bytes are missing"),
            Self::NegativeLength(length) => write!(f, "length {length} is negative"),
            Self::UnexpectedNull => f.write_str("null is not allowed"),
            Self::InvalidUtf8 => f.write_str("the string is not UTF-8"),
            Self::TrailingBytes(count) => write!(f, "{count} bytes are left over"),
            Self::UnknownOperation(number) => write!(f, "operation {number} has no record here"),
            Self::Unterminated => f.write_str("the multi has no terminator"),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind, self.offset)?;
        match self.place {
            Some(place) => write!(f, " in {}.{}", place.record, place.field),
            None => Ok(()),
        }
    }
}

impl core::error::Error for DecodeError {}

/// A record that could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The caller's buffer is too small; it would need this many bytes.
    BufferTooSmall {
        /// Bytes that the record takes.
        needed: usize,
    },
    /// The record is longer than a frame can say (2^31 - 1 bytes).
    TooLong {
        /// Bytes that the record takes.
        length: usize,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferTooSmall { needed } => write!(f, "the buffer needs {needed} bytes"),
            Self::TooLong { length } => write!(f, "a record of {length} bytes fits no frame"),
        }
    }
}

impl core::error::Error for EncodeError {}
