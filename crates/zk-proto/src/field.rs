//! Values whose bytes can be shown field by field.

use core::fmt;
use core::ops::Range;

use crate::codes::OpCode;
use crate::error::{DecodeError, FieldName};
use crate::wire::{Decode, Reader};

/// A type whose bytes can be shown field by field.
///
/// Every type that implements [`Decode`] in this crate implements this trait, too, except pairs.
///
/// ```
/// use zk_proto::explain::{Explain, FieldPath};
/// use zk_proto::{DeleteRequest, Reader};
///
/// let mut names = Vec::new();
/// let mut reader = Reader::new(b"\0\0\0\x02/a\xff\xff\xff\xff");
/// DeleteRequest::explain(&mut reader, &FieldPath::Root, &mut |field| {
///     names.push(format!("{} = {}", field.path, field.value));
/// })?;
/// assert_eq!(names, ["DeleteRequest.path = \"/a\"", "DeleteRequest.version = -1"]);
/// # Ok::<(), zk_proto::DecodeError>(())
/// ```
pub trait Explain<'a>: Decode<'a> {
    /// The name of the type in `zookeeper.jute`, or that of a record in this crate.
    const TYPE: &'static str;

    /// The layout of the type, from which tools in other languages can be generated.
    const LAYOUT: &'static Layout;

    /// Reads one value as [`Decode::decode`] does, and passes each field to `visit`.
    ///
    /// The ranges of the fields are contiguous and cover the value. `path` is the path of the value
    /// itself: [`FieldPath::Root`] if it is not part of another value.
    ///
    /// # Errors
    ///
    /// Returns the error of [`Decode::decode`]. The fields visited before the error are correct.
    fn explain(
        reader: &mut Reader<'a>,
        path: &FieldPath<'_>,
        visit: &mut FieldVisitor<'_>,
    ) -> Result<(), DecodeError>;
}

/// The layout of a type on the wire.
///
/// ```
/// use zk_proto::explain::{Explain, Layout};
/// use zk_proto::{OpCode, ExistsRequest};
///
/// let Layout::Record { name, fields } = *ExistsRequest::LAYOUT else { unreachable!() };
/// let names: Vec<_> = fields.iter().map(|field| field.name).collect();
/// assert_eq!((name, &names[..]), ("ExistsRequest", &["path", "watch"][..]));
/// assert_eq!(OpCode::EXISTS.request_layout(), Some(ExistsRequest::LAYOUT));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// A value without parts.
    Value {
        /// The name of its type in `zookeeper.jute`: `byte`, `boolean`, `int`, `long`, `ustring` or
        /// `buffer`.
        wire_type: &'static str,
        /// Whether it may be null, which its length -1 says. Vectors always may.
        is_nullable: bool,
        /// The values of a number that have a name.
        names: &'static [(i32, &'static str)],
    },
    /// A value that may be absent at the end of a frame.
    Optional(&'static Self),
    /// The fields of a record, in order. The empty body is a record without fields.
    Record {
        /// The name of the record in this crate, as in [`FieldName::record`].
        name: &'static str,
        /// The fields.
        fields: &'static [FieldLayout],
    },
    /// A count of four bytes, -1 for null, and that many values.
    Vector(&'static Self),
    /// Items, each behind a [`MultiHeader`](crate::MultiHeader) whose operation determines its
    /// layout, up to a header that is `done`.
    Multi(&'static [(OpCode, &'static Self)]),
}

/// A field of a record, and its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLayout {
    /// The name of the field.
    pub name: &'static str,
    /// The layout of its value.
    pub layout: &'static Layout,
}

/// A callback that receives the fields of a value one by one.
pub type FieldVisitor<'s> = dyn FnMut(&Field<'_>) + 's;

/// A value without parts, or the item count of a vector, with its bytes.
#[non_exhaustive]
pub struct Field<'f> {
    /// The range of its bytes, from the position where the [`Reader`] began.
    ///
    /// In [`explain::frame`](crate::explain::frame()), that is the length prefix of the frame.
    pub range: Range<usize>,
    /// The name of its type in `zookeeper.jute`.
    pub wire_type: &'static str,
    /// The path of the field.
    pub path: &'f FieldPath<'f>,
    /// The value, ready to be printed.
    pub value: &'f dyn fmt::Display,
}

impl fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { range, wire_type, path, value } = self;
        write!(f, "{range:?} {wire_type} {path} = {value}")
    }
}

/// The path to a value through the records and lists around it.
///
/// It prints as `CreateRequest.acl[0].id.scheme`.
#[derive(Clone, Copy, Debug)]
pub enum FieldPath<'p> {
    /// The outermost value.
    Root,
    /// A field of a record.
    Field(&'p Self, &'static FieldName),
    /// An item of a list or of a multi.
    Item(&'p Self, usize),
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            // The enclosing field already identifies the record.
            Self::Field(outer, name) if outer.names_a_field() => {
                write!(f, "{outer}.{}", name.field)
            }
            Self::Field(Self::Root, name) => write!(f, "{}.{}", name.record, name.field),
            Self::Field(outer, name) => write!(f, "{outer} {}.{}", name.record, name.field),
            Self::Item(outer, index) => write!(f, "{outer}[{index}]"),
        }
    }
}

impl FieldPath<'_> {
    fn names_a_field(&self) -> bool {
        match self {
            Self::Root => false,
            Self::Field(..) => true,
            Self::Item(outer, _) => outer.names_a_field(),
        }
    }
}

/// Explains a field of a record.
pub(crate) fn field<'a, T: Explain<'a>>(
    name: &'static FieldName,
    reader: &mut Reader<'a>,
    path: &FieldPath<'_>,
    visit: &mut FieldVisitor<'_>,
) -> Result<(), DecodeError> {
    T::explain(reader, &FieldPath::Field(path, name), visit).map_err(|error| error.within(name))
}

/// Explains a value without parts. `view` converts it to a printable form.
pub(crate) fn leaf<'a, T: Explain<'a>, V: fmt::Display>(
    reader: &mut Reader<'a>,
    path: &FieldPath<'_>,
    visit: &mut FieldVisitor<'_>,
    view: impl FnOnce(T) -> V,
) -> Result<(), DecodeError> {
    let start = reader.position();
    let value = view(T::decode(reader)?);
    visit(&Field { range: start..reader.position(), wire_type: T::TYPE, path, value: &value });
    Ok(())
}

macro_rules! leaves {
    ($($type:ty as $wire_type:literal $(or $null:ident)?: $view:expr;)*) => {$(
        impl<'a> Explain<'a> for $type {
            const TYPE: &'static str = $wire_type;
            const LAYOUT: &'static Layout = &Layout::Value {
                wire_type: $wire_type,
                is_nullable: matches!(stringify!($($null)?).as_bytes(), b"null"),
                names: &[],
            };

            fn explain(
                reader: &mut Reader<'a>,
                path: &FieldPath<'_>,
                visit: &mut FieldVisitor<'_>,
            ) -> Result<(), DecodeError> {
                leaf(reader, path, visit, $view)
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
    Option<&'a str> as "ustring" or null: Text;
    Option<&'a [u8]> as "buffer" or null: Buffer;
}

/// An absent byte, as from old peers, is not shown.
impl<'a> Explain<'a> for Option<bool> {
    const TYPE: &'static str = bool::TYPE;
    const LAYOUT: &'static Layout = &Layout::Optional(bool::LAYOUT);

    fn explain(
        reader: &mut Reader<'a>,
        path: &FieldPath<'_>,
        visit: &mut FieldVisitor<'_>,
    ) -> Result<(), DecodeError> {
        match reader.rest() {
            [] => Ok(()),
            _ => bool::explain(reader, path, visit),
        }
    }
}

/// The empty body has no fields.
impl<'a> Explain<'a> for () {
    const TYPE: &'static str = "void";
    const LAYOUT: &'static Layout = &Layout::Record { name: "void", fields: &[] };

    fn explain(
        _: &mut Reader<'a>,
        _: &FieldPath<'_>,
        _: &mut FieldVisitor<'_>,
    ) -> Result<(), DecodeError> {
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

pub(crate) struct Bytes<'v>(pub(crate) &'v [u8]);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}
