//! The primitives of the protocol. Only this module reads and writes raw bytes.
//!
//! Numbers are big-endian. There are no tags and no padding. A length of -1 stands for null
//! (`BinaryInputArchive`, `BinaryOutputArchive`).

use core::fmt;

use crate::error::{DecodeError, DecodeErrorKind, EncodeError};
use crate::sink::{Counter, Sink, SliceSink};

/// Shows a secret buffer as its length.
pub(crate) struct Secret<'a, T>(pub(crate) &'a T);

impl<T: Encode> fmt::Debug for Secret<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The length comes first, and is negative if there is no buffer. Nothing else fits.
        let mut length = [0; 4];
        self.0.encode(&mut SliceSink::new(&mut length));
        match i32::from_be_bytes(length) {
            length if length < 0 => f.write_str("Secret(none)"),
            length => write!(f, "Secret({length} bytes)"),
        }
    }
}

/// A value that can be encoded.
pub trait Encode {
    /// Returns the exact number of bytes that [`encode`](Self::encode) writes.
    ///
    /// Returns `usize::MAX` if it overflows a `usize`. No frame is that long.
    #[inline]
    fn encoded_len(&self) -> usize {
        let mut counter = Counter::default();
        // On boards, a dynamic sink keeps one copy of each encoder.
        #[cfg(target_os = "none")]
        self.encode::<dyn Sink>(&mut counter);
        #[cfg(not(target_os = "none"))]
        self.encode(&mut counter);
        counter.0
    }

    /// Appends the bytes to `out`.
    ///
    /// Lengths are written as 32 bits, so the caller must keep a record below 2 GiB.
    /// [`crate::frame::encode`] and [`encode_to_slice`](Self::encode_to_slice) check that.
    fn encode<S: Sink + ?Sized>(&self, out: &mut S);

    /// Writes the bytes to the front of `buffer`, and returns their number.
    ///
    /// # Errors
    ///
    /// Fails if the buffer is too small, or the record longer than the longest frame. The contents
    /// of the buffer are then unspecified.
    ///
    /// ```
    /// use zk_proto::{Encode, EncodeError};
    ///
    /// let mut buffer = [0; 8];
    /// assert_eq!("/a".encode_to_slice(&mut buffer), Ok(6));
    /// assert_eq!(&buffer[..6], b"\0\0\0\x02/a");
    /// let error = "/a/long/path".encode_to_slice(&mut buffer);
    /// assert_eq!(error, Err(EncodeError::BufferTooSmall { needed: 16 }));
    /// ```
    #[inline]
    fn encode_to_slice(&self, buffer: &mut [u8]) -> Result<usize, EncodeError> {
        let mut sink = SliceSink::new(buffer);
        self.encode(&mut sink);
        wire_length(sink.position())?;
        sink.finish()
    }
}

/// A value that can be decoded, borrowing from the frame.
pub trait Decode<'a>: Sized {
    /// Reads one value, and leaves the reader behind it.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not such a value. The position of the reader is then unspecified.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Decodes one value that takes all of `bytes`.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not such a value, or if more bytes follow it.
    #[inline]
    fn decode_all(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = Self::decode(&mut reader)?;
        reader.finish()?;
        Ok(value)
    }

    /// Reads `count` values to check them, as decoding a [`List`](crate::List) does.
    ///
    /// [`next_item`](Self::next_item) then takes them one by one.
    ///
    /// # Errors
    ///
    /// Returns the error of the first invalid value.
    #[inline]
    fn check_items(reader: &mut Reader<'a>, count: usize) -> Result<CheckedItems<'a>, DecodeError> {
        check_one_by_one::<Self>(reader, count)
    }

    /// Takes the next value, or returns `None` at the end.
    #[inline]
    fn next_item(items: &mut CheckedItems<'a>) -> Option<Self> {
        decode_next(items)
    }
}

/// Consecutive values that [`check_items`](Decode::check_items) has checked.
#[derive(Clone, Copy, Debug)]
pub enum CheckedItems<'a> {
    /// The bytes of the values.
    Bytes(&'a [u8]),
    /// The bytes of the values, if all of them are ASCII, so that any part is text.
    Text(&'a str),
}

impl<'a> CheckedItems<'a> {
    /// Returns the bytes.
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
) -> Result<CheckedItems<'a>, DecodeError> {
    let start = reader.clone();
    (0..count).try_for_each(|_| T::decode(reader).map(drop))?;
    Ok(CheckedItems::Bytes(reader.read_since(&start)))
}

fn decode_next<'a, T: Decode<'a>>(items: &mut CheckedItems<'a>) -> Option<T> {
    let mut reader = Reader::new(items.as_bytes());
    let item = T::decode(&mut reader).ok()?;
    *items = CheckedItems::Bytes(reader.rest());
    Some(item)
}

/// A cursor over the bytes of one frame.
///
/// ```
/// use zk_proto::{Decode, Reader};
///
/// let mut reader = Reader::new(b"\0\0\0\x07\x01");
/// assert_eq!(i32::decode(&mut reader)?, 7);
/// assert_eq!((reader.position(), reader.rest()), (4, &b"\x01"[..]));
/// assert!(bool::decode(&mut reader)?);
/// reader.finish()?;
/// # Ok::<(), zk_proto::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the front of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, length: bytes.len() }
    }

    /// Returns the number of bytes read so far.
    #[inline]
    pub fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    /// Returns the bytes that were not read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes the next `count` bytes.
    ///
    /// # Errors
    ///
    /// [`DecodeErrorKind::Truncated`] if fewer are left.
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

    /// Checks that all bytes were read.
    ///
    /// # Errors
    ///
    /// [`DecodeErrorKind::TrailingBytes`] if some are left.
    #[inline]
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(self.error(DecodeErrorKind::TrailingBytes(clamp(left)))),
        }
    }

    /// Reads a nullable buffer: a length, followed by that many bytes.
    ///
    /// # Errors
    ///
    /// Fails if the length is below -1 or exceeds the remaining bytes.
    #[cfg_attr(not(target_os = "none"), inline)]
    pub fn buffer(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        match self.length()? {
            Some(length) => self.take(length).map(Some),
            None => Ok(None),
        }
    }

    /// Reads a length or a count. -1, which stands for null, gives `None`.
    #[inline]
    pub(crate) fn length(&mut self) -> Result<Option<usize>, DecodeError> {
        let start = self.clone();
        match i32::decode(self)? {
            -1 => Ok(None),
            length if length < 0 => Err(start.error(DecodeErrorKind::NegativeLength(length))),
            // A length beyond `usize` has not arrived, and will be found missing.
            length => Ok(Some(usize::try_from(length).unwrap_or(usize::MAX))),
        }
    }

    /// Returns the bytes read since `start`, an earlier state of this reader.
    #[inline]
    pub(crate) fn read_since(&self, start: &Self) -> &'a [u8] {
        start.rest.get(..self.position() - start.position()).unwrap_or_default()
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
            fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
                out.put(&self.to_be_bytes());
            }
        }

        impl<'a> Decode<'a> for $type {
            #[cfg_attr(not(target_os = "none"), inline)]
            fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                reader.array().map(Self::from_be_bytes)
            }
        }
    )*};
}

integer!(u8, i32, i64);

impl Encode for bool {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        out.put(&[u8::from(*self)]);
    }
}

impl<'a> Decode<'a> for bool {
    /// Any byte except 0 is true, as in Java.
    #[cfg_attr(not(target_os = "none"), inline)]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        u8::decode(reader).map(|byte| byte != 0)
    }
}

/// A byte at the end of a message that old peers omit.
impl Encode for Option<bool> {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        if let Some(value) = self {
            value.encode(out);
        }
    }
}

impl<'a> Decode<'a> for Option<bool> {
    #[cfg_attr(not(target_os = "none"), inline)]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.rest() {
            [] => Ok(None),
            _ => bool::decode(reader).map(Some),
        }
    }
}

/// Returns the length of a message as its frame carries it.
///
/// # Errors
///
/// Fails if it does not fit into 31 bits, or no buffer can have that many bytes.
#[inline]
pub(crate) fn wire_length(length: usize) -> Result<i32, EncodeError> {
    match i32::try_from(length) {
        Ok(on_the_wire) if isize::try_from(length).is_ok() => Ok(on_the_wire),
        _ => Err(EncodeError::TooLong { length }),
    }
}

/// Writes a length.
///
/// [`wire_length`] checks each message first, and no part is longer than the whole.
#[inline]
pub(crate) fn put_length<S: Sink + ?Sized>(length: usize, out: &mut S) {
    (length as i32).encode(out);
}

/// A buffer that may be null.
impl Encode for Option<&[u8]> {
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
    #[cfg_attr(not(target_os = "none"), inline)]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.buffer()
    }
}

/// A string that may be null.
impl Encode for Option<&str> {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        self.map(str::as_bytes).encode(out);
    }
}

impl<'a> Decode<'a> for Option<&'a str> {
    #[cfg_attr(not(target_os = "none"), inline)]
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
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        Some(*self).encode(out);
    }
}

impl<'a> Decode<'a> for &'a str {
    #[cfg_attr(not(target_os = "none"), inline)]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let start = reader.clone();
        Option::decode(reader)?.ok_or_else(|| start.error(DecodeErrorKind::UnexpectedNull))
    }

    /// Checks all strings at once if all bytes, including the lengths, are ASCII. Then any part is
    /// text. Otherwise it checks them one by one.
    fn check_items(reader: &mut Reader<'a>, count: usize) -> Result<CheckedItems<'a>, DecodeError> {
        let mut behind = reader.clone();
        let whole = (0..count).all(|_| behind.buffer().is_ok());
        match core::str::from_utf8(behind.read_since(reader)) {
            Ok(text) if whole && text.is_ascii() => {
                *reader = behind;
                Ok(CheckedItems::Text(text))
            }
            _ => check_one_by_one::<Self>(reader, count),
        }
    }

    #[inline]
    fn next_item(items: &mut CheckedItems<'a>) -> Option<Self> {
        let CheckedItems::Text(text) = items else {
            return decode_next(items);
        };
        let (length, rest) = text.split_at_checked(4)?;
        let length = u32::from_be_bytes(*length.as_bytes().first_chunk()?);
        let (item, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        *items = CheckedItems::Text(rest);
        Some(item)
    }
}

/// The empty body of a ping, or of a reply that is only a header.
impl Encode for () {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, _out: &mut S) {}
}

impl<'a> Decode<'a> for () {
    #[cfg_attr(not(target_os = "none"), inline)]
    fn decode(_reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

/// Two consecutive values, such as a header and its body.
impl<A: Encode, B: Encode> Encode for (A, B) {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        self.0.encode(out);
        self.1.encode(out);
    }
}

impl<'a, A: Decode<'a>, B: Decode<'a>> Decode<'a> for (A, B) {
    #[cfg_attr(not(target_os = "none"), inline)]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok((A::decode(reader)?, B::decode(reader)?))
    }
}

impl<T: Encode> Encode for &T {
    #[inline]
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        (**self).encode(out);
    }
}
