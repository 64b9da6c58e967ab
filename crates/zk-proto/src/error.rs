//! Errors of decoding and encoding.

use core::fmt;

/// The name of a field and of the record that it belongs to.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldName {
    /// The name of the record in this crate, such as `GetAclRequest`, which `zookeeper.jute` spells
    /// `GetACLRequest`.
    pub record: &'static str,
    /// The name of the field in this crate, such as `ephemeral_owner`, which `zookeeper.jute` spells
    /// `ephemeralOwner`.
    pub field: &'static str,
}

/// An error of decoding: the bytes are not the expected record.
///
/// Either the peer sent malformed bytes, or the caller decoded them with the wrong opcode.
///
/// ```
/// use zk_proto::{Decode, DecodeErrorKind, DeleteRequest};
///
/// let error = DeleteRequest::decode_all(b"\0\0\0\x02/a\0").expect_err("a version has 4 bytes");
/// assert_eq!(error.kind(), DecodeErrorKind::Truncated { missing: 3 });
/// assert_eq!(error.to_string(), "at least 3 bytes are missing at byte 6 in DeleteRequest.version");
/// ```
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    kind: DecodeErrorKind,
    offset: u32,
    field: Option<&'static FieldName>,
}

named! {
    /// The reason why bytes are not the expected record.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum DecodeErrorKind {
        /// The frame ends inside the field.
        ///
        /// The offset is where the missing bytes would begin. For a list whose count exceeds the
        /// remaining bytes, it is where the items would begin.
        Truncated {
            /// The number of bytes that are missing, at least.
            missing: u32,
        },
        /// A length or a count is below -1, which stands for null. The offset is that of the
        /// length.
        NegativeLength(i32),
        /// A value is null where the protocol forbids it. The offset is that of the length, -1.
        UnexpectedNull,
        /// A string is not valid UTF-8. The offset is that of its first invalid byte.
        InvalidUtf8,
        /// Bytes follow the record. The offset is that of the first of them.
        TrailingBytes(u32),
        /// The number of an operation is unknown, or not allowed here.
        ///
        /// The offset is where its record would begin.
        UnknownOperation(i32),
        /// A multi ends without its final header. The offset is where that header would begin.
        Unterminated,
    }
}

impl DecodeError {
    #[cold]
    pub(crate) fn new(kind: DecodeErrorKind, offset: usize) -> Self {
        Self { kind, offset: u32::try_from(offset).unwrap_or(u32::MAX), field: None }
    }

    /// Adds the field, unless an inner field is known already.
    pub(crate) fn within(mut self, field: &'static FieldName) -> Self {
        self.field.get_or_insert(field);
        self
    }

    /// Returns the reason.
    pub fn kind(&self) -> DecodeErrorKind {
        self.kind
    }

    /// Returns the name of the [reason](DecodeErrorKind::name).
    pub const fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// Returns the offset of the error in bytes. Each [kind](DecodeErrorKind) defines its position.
    ///
    /// The offset counts from the first byte passed to the decoder:
    ///
    /// - in [`Request::decode`](crate::Request::decode) and
    ///   [`Response::decode`](crate::Response::decode), from the start of `body`, without the
    ///   header and the frame's length;
    /// - elsewhere, from the start of the bytes of the [`Reader`](crate::Reader), even inside
    ///   nested records.
    pub fn offset(&self) -> usize {
        self.offset as usize
    }

    /// Returns the record and the field that were being decoded, if known.
    pub fn field(&self) -> Option<&'static FieldName> {
        self.field
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
            Self::UnknownOperation(number) => write!(f, "operation {number} is not allowed here"),
            Self::Unterminated => f.write_str("the multi has no terminator"),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind, self.offset)?;
        match self.field() {
            Some(name) => write!(f, " in {}.{}", name.record, name.field),
            None => Ok(()),
        }
    }
}

impl core::error::Error for DecodeError {}

named! {
    /// An error of encoding: the record could not be written.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum EncodeError {
        /// The buffer of the caller is too small.
        BufferTooSmall {
            /// The number of bytes that the record needs.
            needed: usize,
        },
        /// The record is longer than the longest frame, 2^31 - 1 bytes.
        TooLong {
            /// The number of bytes of the record.
            length: usize,
        },
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferTooSmall { needed } => {
                write!(f, "the buffer is too small: {needed} bytes are needed")
            }
            Self::TooLong { length } => {
                write!(f, "a record of {length} bytes exceeds the longest frame")
            }
        }
    }
}

impl core::error::Error for EncodeError {}
