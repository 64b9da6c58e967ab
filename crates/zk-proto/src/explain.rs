//! What every byte of a message is, for people.
//!
//! Whatever can be decoded can be explained: the same declarations yield both, and each field is
//! read by the code that decodes it. [`frame()`] explains a whole frame, [`Explain`] one value.
//! Passwords and credentials are bytes like any others here, other than in `Debug`.
//!
//! ```
//! use zk_proto::explain::{self, Message};
//!
//! let frame = b"\0\0\0\x0f\0\0\0\x01\0\0\0\x03\0\0\0\x02/a\x01";
//! let mut dump = String::new();
//! explain::frame(frame, Message::Request, &mut |field| {
//!     dump += &format!("{:?} {} {} = {}\n", field.range, field.wire_type, field.path, field.value);
//! })?;
//! assert_eq!(dump, "\
//!     0..4 int Frame.length = 15\n\
//!     4..8 int RequestHeader.xid = 1\n\
//!     8..12 int RequestHeader.opcode = EXISTS\n\
//!     12..18 ustring ExistsRequest.path = \"/a\"\n\
//!     18..19 boolean ExistsRequest.watch = true\n");
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```

use core::fmt;
use core::ops::Range;

use crate::codes::{ErrorCode, OpCode};
use crate::connect::{ConnectRequest, ConnectResponse};
use crate::error::{DecodeError, DecodeErrorKind, Place};
use crate::header::{ReplyHeader, RequestHeader, Xid};
use crate::operations::{Request, Response};
use crate::records::WatcherEvent;
use crate::wire::{Decode, Reader};

/// A value whose bytes can be shown field by field.
pub trait Explain<'a>: Decode<'a> {
    /// What `zookeeper.jute` calls the type.
    const TYPE: &'static str;

    /// Reads one value as [`Decode::decode`] does, and shows each of its fields as it is read.
    ///
    /// The ranges of the fields follow one another from the first byte of the value to its last.
    /// `path` is where the value itself stands, [`Path::Root`] if that is nowhere in particular.
    ///
    /// # Errors
    ///
    /// As [`Decode::decode`]. What was shown until then is right.
    fn explain(
        reader: &mut Reader<'a>,
        path: &Path<'_>,
        show: &mut Show<'_>,
    ) -> Result<(), DecodeError>;
}

/// Who looks at the fields.
pub type Show<'s> = dyn FnMut(&Field<'_>) + 's;

/// A value that has no parts, or the count in front of a vector, and its bytes.
pub struct Field<'f> {
    /// Its bytes, counted from where the [`Reader`] began: in [`frame()`], from the frame's prefix.
    pub range: Range<usize>,
    /// What `zookeeper.jute` calls its type.
    pub wire_type: &'static str,
    /// What it is called.
    pub path: &'f Path<'f>,
    /// What it says.
    pub value: &'f dyn fmt::Display,
}

impl fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { range, wire_type, path, value } = self;
        write!(f, "{range:?} {wire_type} {path} = {value}")
    }
}

/// The way to a value through the records and lists around it.
///
/// It is written like this: `CreateRequest.acl[0].id.scheme`.
#[derive(Clone, Copy, Debug)]
pub enum Path<'p> {
    /// Nothing is around it.
    Root,
    /// It is a field of a record.
    Field(&'p Self, &'static Place),
    /// It is an item of a list, or belongs to one of a multi.
    Item(&'p Self, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            // Inside a field, that says what record it is.
            Self::Field(outer, place) if outer.names_a_field() => {
                write!(f, "{outer}.{}", place.field)
            }
            Self::Field(Self::Root, place) => write!(f, "{}.{}", place.record, place.field),
            Self::Field(outer, place) => write!(f, "{outer} {}.{}", place.record, place.field),
            Self::Item(outer, place) => write!(f, "{outer}[{place}]"),
        }
    }
}

impl Path<'_> {
    fn names_a_field(&self) -> bool {
        match self {
            Self::Root => false,
            Self::Field(..) => true,
            Self::Item(outer, _) => outer.names_a_field(),
        }
    }
}

/// What a frame holds, as far as its bytes do not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first frame from a client.
    ConnectRequest,
    /// Any other frame from a client.
    Request,
    /// The first frame from a server.
    ConnectResponse,
    /// Any other frame from a server: the answer to a request for this operation, or a
    /// notification, which its header says.
    Reply(OpCode),
    /// As [`Reply`](Self::Reply), when nobody knows to what: its body is shown as bytes.
    UnknownReply,
}

/// Shows every field of a frame, its prefix included. The fields are all of its bytes.
///
/// # Errors
///
/// When the bytes are not one frame with such a message, where the first of them is not. What was
/// shown until then is right.
pub fn frame(bytes: &[u8], message: Message, show: &mut Show<'_>) -> Result<(), DecodeError> {
    const LENGTH: &Place = &Place { record: "Frame", field: "length" };

    let mut reader = Reader::new(bytes);
    let announced = reader.clone().length();
    field::<i32>(LENGTH, &mut reader, &Path::Root, show)?;
    match announced? {
        None => return Err(Reader::new(bytes).error(DecodeErrorKind::NegativeLength(-1))),
        Some(length) if length > reader.rest().len() => return Err(reader.truncated(length)),
        Some(length) => {
            let mut behind = reader.clone();
            behind.take(length)?;
            behind.finish()?;
        }
    }
    let root = &Path::Root;
    match message {
        Message::ConnectRequest => ConnectRequest::explain(&mut reader, root, show)?,
        // A server that refuses answers with a header; the shortest handshake is longer.
        Message::ConnectResponse if reader.rest().len() == 16 => {
            ReplyHeader::explain(&mut reader, root, show)?;
        }
        Message::ConnectResponse => ConnectResponse::explain(&mut reader, root, show)?,
        Message::Request => {
            let RequestHeader { opcode, .. } = header(&mut reader, show)?;
            Request::explain(opcode, &mut reader, show)?;
        }
        Message::Reply(opcode) => {
            let header: ReplyHeader = header(&mut reader, show)?;
            // The body of a failure is to be ignored: it may be none.
            let failed = header.err != ErrorCode::OK;
            if header.xid == Xid::NOTIFICATION {
                WatcherEvent::explain(&mut reader, root, show)?;
            } else if failed && Response::decode(opcode, reader.rest()).is_err() {
                uninterpreted(&mut reader, show)?;
            } else {
                Response::explain(opcode, &mut reader, show)?;
            }
        }
        Message::UnknownReply => {
            let header: ReplyHeader = header(&mut reader, show)?;
            if header.xid == Xid::NOTIFICATION {
                WatcherEvent::explain(&mut reader, root, show)?;
            } else {
                uninterpreted(&mut reader, show)?;
            }
        }
    }
    reader.finish()
}

fn header<'a, H: Explain<'a>>(
    reader: &mut Reader<'a>,
    show: &mut Show<'_>,
) -> Result<H, DecodeError> {
    let mut again = reader.clone();
    H::explain(reader, &Path::Root, show)?;
    H::decode(&mut again)
}

/// Shows what is left as bytes, if anything is.
fn uninterpreted(reader: &mut Reader<'_>, show: &mut Show<'_>) -> Result<(), DecodeError> {
    const BODY: &Place = &Place { record: "Frame", field: "body" };

    let start = reader.position();
    let bytes = reader.take(reader.rest().len())?;
    if !bytes.is_empty() {
        let path = &Path::Field(&Path::Root, BODY);
        let range = start..reader.position();
        show(&Field { range, wire_type: "bytes", path, value: &Bytes(bytes) });
    }
    Ok(())
}

/// Explains a field of a record.
pub(crate) fn field<'a, T: Explain<'a>>(
    place: &'static Place,
    reader: &mut Reader<'a>,
    path: &Path<'_>,
    show: &mut Show<'_>,
) -> Result<(), DecodeError> {
    T::explain(reader, &Path::Field(path, place), show).map_err(|error| error.within(place))
}

/// Explains a value that has no parts, as `view` lets it be seen.
pub(crate) fn leaf<'a, T: Explain<'a>, V: fmt::Display>(
    reader: &mut Reader<'a>,
    path: &Path<'_>,
    show: &mut Show<'_>,
    view: impl FnOnce(T) -> V,
) -> Result<(), DecodeError> {
    let start = reader.position();
    let value = view(T::decode(reader)?);
    show(&Field { range: start..reader.position(), wire_type: T::TYPE, path, value: &value });
    Ok(())
}

macro_rules! leaves {
    ($($type:ty as $wire_type:literal: $view:expr;)*) => {$(
        impl<'a> Explain<'a> for $type {
            const TYPE: &'static str = $wire_type;

            fn explain(
                reader: &mut Reader<'a>,
                path: &Path<'_>,
                show: &mut Show<'_>,
            ) -> Result<(), DecodeError> {
                leaf(reader, path, show, $view)
            }
        }
    )*};
}

leaves! {
    u8 as "byte": |value: Self| value;
    bool as "boolean": |value: Self| value;
    i32 as "int": |value: Self| value;
    i64 as "long": |value: Self| value;
    &'a str as "ustring": |value: Self| Text(Some(value));
    Option<&'a str> as "ustring": Text;
    Option<&'a [u8]> as "buffer": Buffer;
}

/// The byte that old peers leave out is not shown when it is not there.
impl<'a> Explain<'a> for Option<bool> {
    const TYPE: &'static str = bool::TYPE;

    fn explain(
        reader: &mut Reader<'a>,
        path: &Path<'_>,
        show: &mut Show<'_>,
    ) -> Result<(), DecodeError> {
        match reader.rest() {
            [] => Ok(()),
            _ => bool::explain(reader, path, show),
        }
    }
}

/// Nothing has no bytes that could be shown.
impl<'a> Explain<'a> for () {
    const TYPE: &'static str = "void";

    fn explain(_: &mut Reader<'a>, _: &Path<'_>, _: &mut Show<'_>) -> Result<(), DecodeError> {
        Ok(())
    }
}

struct Text<'v>(Option<&'v str>);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(text) => write!(f, "{text:?}"),
            None => f.write_str("null"),
        }
    }
}

struct Buffer<'v>(Option<&'v [u8]>);

impl fmt::Display for Buffer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(bytes) => Bytes(bytes).fmt(f),
            None => f.write_str("null"),
        }
    }
}

struct Bytes<'v>(&'v [u8]);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}
