//! Primitives: the only place that touches raw bytes.
//!
//! Everything is big-endian, without tags or padding; fields simply follow one another. A length
//! of -1 means null (`BinaryInputArchive.java`, `BinaryOutputArchive.java`).

use core::fmt;

use crate::error::{DecodeError, DecodeErrorKind, EncodeError};
use crate::sink::{Sink, SliceSink};

/// Shows of a secret, a buffer on the wire, whether there is one and how long it is.
pub(crate) struct Secret<'a, T>(pub(crate) &'a T);

impl<T: Encode> fmt::Debug for Secret<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The length comes first, and is negative where there is no buffer; there is no room for
        // more.
        let mut length = [0; 4];
        self.0.encode(&mut SliceSink::new(&mut length));
        match i32::from_be_bytes(length) {
            length if length < 0 => f.write_str("Secret(none)"),
            length => write!(f, "Secret({length} bytes)"),
        }
    }
}

/// A value that knows its bytes on the wire.
pub trait Encode {
    /// The exact number of bytes that [`encode`](Self::encode) writes, or `usize::MAX` if they are
    /// more than can be counted, which no frame takes.
    fn encoded_len(&self) -> usize;

    /// Appends the bytes to `out`.
    ///
    /// Lengths are written as 32 bits. Callers keep records below 2 GiB; [`crate::frame::encode`]
    /// and [`encode_to_slice`](Self::encode_to_slice) check that.
    fn encode<S: Sink + ?Sized>(&self, out: &mut S);

    /// Writes the bytes to the front of `buffer` and says how many they are.
    ///
    /// # Errors
    ///
    /// When the buffer is too small or the record is longer than a frame can be. Nothing that the
    /// buffer holds is meaningful then.
    #[inline]
    fn encode_to_slice(&self, buffer: &mut [u8]) -> Result<usize, EncodeError> {
        let mut sink = SliceSink::new(buffer);
        self.encode(&mut sink);
        wire_length(sink.position())?;
        sink.finish()
    }
}

/// A value that can be read from the wire, borrowing from the frame.
pub trait Decode<'a>: Sized {
    /// Reads one value and leaves the reader behind it.
    ///
    /// # Errors
    ///
    /// When the bytes are not such a value. The reader's position is then unspecified.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Reads one value that takes all of `bytes`.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode), and when bytes are left over.
    #[inline]
    fn decode_all(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = Self::decode(&mut reader)?;
        reader.finish()?;
        Ok(value)
    }

    /// Reads `count` values to check them, as a [`List`](crate::List) is read, and yields them to
    /// be [taken](Self::next_item) one by one.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode) of the first that fails.
    #[inline]
    fn check_items(reader: &mut Reader<'a>, count: usize) -> Result<Checked<'a>, DecodeError> {
        check_one_by_one::<Self>(reader, count)
    }

    /// Takes the next value. `None` if there is none, since what is there has been checked.
    #[inline]
    fn next_item(items: &mut Checked<'a>) -> Option<Self> {
        decode_next(items)
    }
}

/// Values, one behind the other, that have been [checked](Decode::check_items).
#[derive(Clone, Copy, Debug)]
pub enum Checked<'a> {
    /// Their bytes.
    Bytes(&'a [u8]),
    /// Their bytes, if all of them are ASCII, so that any part is text.
    Text(&'a str),
}

impl<'a> Checked<'a> {
    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
        }
    }
}

fn check_one_by_one<'a, T: Decode<'a>>(
    reader: &mut Reader<'a>,
    count: usize,
) -> Result<Checked<'a>, DecodeError> {
    let start = reader.clone();
    (0..count).try_for_each(|_| T::decode(reader).map(drop))?;
    Ok(Checked::Bytes(reader.read_since(&start)))
}

fn decode_next<'a, T: Decode<'a>>(items: &mut Checked<'a>) -> Option<T> {
    let mut reader = Reader::new(items.as_bytes());
    let item = T::decode(&mut reader).ok()?;
    *items = Checked::Bytes(reader.rest());
    Some(item)
}

/// A cursor over the bytes of one frame.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the front of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, length: bytes.len() }
    }

    /// Bytes read so far.
    #[inline]
    pub fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    /// The bytes not read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes the next `count` bytes.
    ///
    /// # Errors
    ///
    /// When fewer are left.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(count) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(self.truncated(count)),
        }
    }

    /// Asserts that everything was read.
    ///
    /// # Errors
    ///
    /// When bytes are left over.
    #[inline]
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(self.error(DecodeErrorKind::TrailingBytes(clamp(left)))),
        }
    }

    /// A nullable buffer: a length, then that many bytes.
    ///
    /// # Errors
    ///
    /// When the length is below -1 or runs past the end.
    #[inline]
    pub fn buffer(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        match self.length()? {
            Some(length) => self.take(length).map(Some),
            None => Ok(None),
        }
    }

    /// A length or count: `None` for -1, which is null.
    #[inline]
    pub(crate) fn length(&mut self) -> Result<Option<usize>, DecodeError> {
        let start = self.clone();
        match i32::decode(self)? {
            -1 => Ok(None),
            length if length < 0 => Err(start.error(DecodeErrorKind::NegativeLength(length))),
            // What a `usize` cannot count has not arrived, and will be found missing.
            length => Ok(Some(usize::try_from(length).unwrap_or(usize::MAX))),
        }
    }

    /// What was read since `start`, an earlier state of this reader.
    #[inline]
    pub(crate) fn read_since(&self, start: &Self) -> &'a [u8] {
        &start.rest[..self.position() - start.position()]
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(self.truncated(N)),
        }
    }

    #[inline]
    pub(crate) fn truncated(&self, wanted: usize) -> DecodeError {
        self.error(DecodeErrorKind::Truncated { missing: clamp(wanted - self.rest.len()) })
    }

    #[inline]
    pub(crate) fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError::new(kind, self.position())
    }
}

fn clamp(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl Encode for $type {
            #[inline]
            fn encoded_len(&self) -> usize {
                size_of::<Self>()
            }

            #[inline]
            fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
                out.put(&self.to_be_bytes());
            }
        }

        impl<'a> Decode<'a> for $type {
            #[inline]
            fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                reader.array().map(Self::from_be_bytes)
            }
        }
    )*};
}

integer!(u8, i32, i64);

impl Encode for bool {
    #[inline]
    fn encoded_len(&self) -> usize {
        1
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        out.put(&[u8::from(*self)]);
    }
}

impl<'a> Decode<'a> for bool {
    /// Any byte but 0 is true, as Java reads it.
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        u8::decode(reader).map(|byte| byte != 0)
    }
}

/// A byte at the very end of a message that old peers leave out.
impl Encode for Option<bool> {
    #[inline]
    fn encoded_len(&self) -> usize {
        usize::from(self.is_some())
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        if let Some(value) = self {
            value.encode(out);
        }
    }
}

impl<'a> Decode<'a> for Option<bool> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.rest() {
            [] => Ok(None),
            _ => bool::decode(reader).map(Some),
        }
    }
}

/// The sum of lengths, or `usize::MAX`: a slice may name the same long string many times.
#[inline]
pub(crate) fn total(lengths: impl IntoIterator<Item = usize>) -> usize {
    lengths.into_iter().fold(0, usize::saturating_add)
}

/// The length of a message as its frame says it.
///
/// # Errors
///
/// When it has no place in 32 bits, or when no buffer here can hold that many bytes.
#[inline]
pub(crate) fn wire_length(length: usize) -> Result<i32, EncodeError> {
    match i32::try_from(length) {
        Ok(on_the_wire) if isize::try_from(length).is_ok() => Ok(on_the_wire),
        _ => Err(EncodeError::TooLong { length }),
    }
}

/// A length as it goes on the wire. Messages are checked with [`wire_length`] before they are
/// written, and no part is longer than the whole.
#[inline]
pub(crate) fn put_length<S: Sink + ?Sized>(length: usize, out: &mut S) {
    (length as i32).encode(out);
}

/// A buffer that may be null.
impl Encode for Option<&[u8]> {
    #[inline]
    fn encoded_len(&self) -> usize {
        total([4, self.map_or(0, <[u8]>::len)])
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        match self {
            Some(bytes) => {
                put_length(bytes.len(), out);
                out.put(bytes);
            }
            None => (-1i32).encode(out),
        }
    }
}

impl<'a> Decode<'a> for Option<&'a [u8]> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.buffer()
    }
}

/// A string that may be null.
impl Encode for Option<&str> {
    #[inline]
    fn encoded_len(&self) -> usize {
        self.map(str::as_bytes).encoded_len()
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        self.map(str::as_bytes).encode(out);
    }
}

impl<'a> Decode<'a> for Option<&'a str> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let Some(bytes) = reader.buffer()? else {
            return Ok(None);
        };
        let start = reader.position() - bytes.len();
        core::str::from_utf8(bytes).map(Some).map_err(|error| {
            DecodeError::new(DecodeErrorKind::InvalidUtf8, start + error.valid_up_to())
        })
    }
}

/// A string that must not be null.
impl Encode for &str {
    #[inline]
    fn encoded_len(&self) -> usize {
        Some(*self).encoded_len()
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        Some(*self).encode(out);
    }
}

impl<'a> Decode<'a> for &'a str {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let start = reader.clone();
        Option::decode(reader)?.ok_or_else(|| start.error(DecodeErrorKind::UnexpectedNull))
    }

    /// All at once where all bytes are ASCII, those of the lengths included: then any part of them
    /// is text, and no string need be looked at. Otherwise one by one.
    fn check_items(reader: &mut Reader<'a>, count: usize) -> Result<Checked<'a>, DecodeError> {
        let mut behind = reader.clone();
        let whole = (0..count).all(|_| behind.buffer().is_ok());
        match core::str::from_utf8(behind.read_since(reader)) {
            Ok(text) if whole && text.is_ascii() => {
                *reader = behind;
                Ok(Checked::Text(text))
            }
            _ => check_one_by_one::<Self>(reader, count),
        }
    }

    #[inline]
    fn next_item(items: &mut Checked<'a>) -> Option<Self> {
        let Checked::Text(text) = items else {
            return decode_next(items);
        };
        let (length, rest) = text.split_at_checked(4)?;
        let length = u32::from_be_bytes(*length.as_bytes().first_chunk()?);
        let (item, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        *items = Checked::Text(rest);
        Some(item)
    }
}

/// Nothing at all: the body of a ping, or of a reply that only has a header.
impl Encode for () {
    #[inline]
    fn encoded_len(&self) -> usize {
        0
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, _out: &mut S) {}
}

impl<'a> Decode<'a> for () {
    #[inline]
    fn decode(_reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

/// Two values, one behind the other: a header and its body.
impl<A: Encode, B: Encode> Encode for (A, B) {
    #[inline]
    fn encoded_len(&self) -> usize {
        total([self.0.encoded_len(), self.1.encoded_len()])
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        self.0.encode(out);
        self.1.encode(out);
    }
}

impl<'a, A: Decode<'a>, B: Decode<'a>> Decode<'a> for (A, B) {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok((A::decode(reader)?, B::decode(reader)?))
    }
}

impl<T: Encode> Encode for &T {
    #[inline]
    fn encoded_len(&self) -> usize {
        (**self).encoded_len()
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        (**self).encode(out);
    }
}
