//! Several operations, or their results, in one frame.
//!
//! Each item has a header of its own (type, done, error) and the list ends with a header whose
//! `done` is set; there is no count (`MultiOperationRecord.java`, `MultiResponse.java`).

use core::fmt;

use crate::codes::{ErrorCode, OpCode};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::explain::{Explain, Path, Show};
use crate::records::*;
use crate::sink::Sink;
use crate::wire::{Decode, Encode, Reader, total};

record! {
    /// Stands before every item of a `multi` (14) or `multiRead` (22), and alone at its end.
    /// Since 3.4.0.
    pub struct MultiHeader {
        /// The operation; [`OpCode::ERROR`] for a failed result and at the end.
        pub opcode: OpCode,
        /// Whether this is the end.
        pub done: bool,
        /// The error of a failed result; -1 in requests and at the end.
        pub err: ErrorCode,
    }
}

impl MultiHeader {
    const END: Self = Self { opcode: OpCode::ERROR, done: true, err: ErrorCode(-1) };
}

/// An item of a multi, as it is written.
pub trait MultiEntry: Encode {
    /// The header that stands before the item.
    fn header(&self) -> MultiHeader;
}

/// What a [`Multi`] is a list of, as it is read: [`MultiOp`] or [`MultiResult`], say.
pub trait MultiItem<'a>: Copy + MultiEntry {
    /// Reads the item that follows `header`.
    ///
    /// # Errors
    ///
    /// When the bytes are not such an item.
    fn decode_item(header: MultiHeader, reader: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Reads and shows the item that follows `header`.
    ///
    /// # Errors
    ///
    /// As [`decode_item`](Self::decode_item).
    fn explain_item(
        header: MultiHeader,
        reader: &mut Reader<'a>,
        path: &Path<'_>,
        show: &mut Show<'_>,
    ) -> Result<(), DecodeError>;
}

/// A list of items without a count: borrowed from a frame, or from a slice of items to be written.
///
/// As with [`List`](crate::List), reading one checks every item.
#[derive(Clone, Copy)]
pub struct Multi<'a, T> {
    items: Items<'a, T>,
}

#[derive(Clone, Copy)]
enum Items<'a, T> {
    Slice(&'a [T]),
    /// Items with their headers and the one at the end, all decoded once to check them.
    Wire(&'a [u8]),
}

impl<'a, T> Multi<'a, T> {
    /// A multi of these items.
    pub const fn new(items: &'a [T]) -> Self {
        Self { items: Items::Slice(items) }
    }
}

impl<'a, T: MultiItem<'a>> Multi<'a, T> {
    /// The items, in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let (slice, bytes) = match self.items {
            Items::Slice(items) => (items, &[][..]),
            Items::Wire(bytes) => (&[][..], bytes),
        };
        let mut reader = Reader::new(bytes);
        // `ok` hides no error: the same bytes were decoded when the multi was read.
        slice
            .iter()
            .copied()
            .chain(core::iter::from_fn(move || next_item(&mut reader).ok().flatten()))
    }
}

fn next_item<'a, T: MultiItem<'a>>(reader: &mut Reader<'a>) -> Result<Option<T>, DecodeError> {
    let header = MultiHeader::decode(reader)?;
    if header.done { Ok(None) } else { T::decode_item(header, reader).map(Some) }
}

impl<T> Default for Multi<'_, T> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl<'a, T: MultiItem<'a> + PartialEq> PartialEq for Multi<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: MultiItem<'a> + Eq> Eq for Multi<'a, T> {}

impl<'a, T: MultiItem<'a> + fmt::Debug> fmt::Debug for Multi<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: MultiItem<'a>> Encode for Multi<'a, T> {
    fn encoded_len(&self) -> usize {
        match self.items {
            Items::Slice(items) => items_len(items),
            Items::Wire(bytes) => bytes.len(),
        }
    }

    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        match self.items {
            Items::Slice(items) => encode_items(items, out),
            Items::Wire(bytes) => out.put(bytes),
        }
    }
}

pub(crate) fn items_len<T: MultiEntry>(items: &[T]) -> usize {
    let items = items.iter().map(|item| (item.header(), item).encoded_len());
    total(items.chain([MultiHeader::END.encoded_len()]))
}

pub(crate) fn encode_items<T: MultiEntry, S: Sink + ?Sized>(items: &[T], out: &mut S) {
    for item in items {
        (item.header(), item).encode(out);
    }
    MultiHeader::END.encode(out);
}

impl<'a, T: MultiItem<'a>> Decode<'a> for Multi<'a, T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let start = reader.clone();
        // Each item takes at least its header, so the loop ends with the frame.
        loop {
            expect_header(reader)?;
            if next_item::<T>(reader)?.is_none() {
                break;
            }
        }
        Ok(Self { items: Items::Wire(reader.read_since(&start)) })
    }
}

impl<'a, T: MultiItem<'a>> Explain<'a> for Multi<'a, T> {
    const TYPE: &'static str = "multi";

    fn explain(
        reader: &mut Reader<'a>,
        path: &Path<'_>,
        show: &mut Show<'_>,
    ) -> Result<(), DecodeError> {
        for place in 0.. {
            expect_header(reader)?;
            let path = Path::Item(path, place);
            let header = MultiHeader::decode(&mut reader.clone());
            MultiHeader::explain(reader, &path, show)?;
            let header = header?;
            if header.done {
                break;
            }
            T::explain_item(header, reader, &path, show)?;
        }
        Ok(())
    }
}

fn expect_header(reader: &Reader<'_>) -> Result<(), DecodeError> {
    match reader.rest() {
        [] => Err(reader.error(DecodeErrorKind::Unterminated)),
        _ => Ok(()),
    }
}

macro_rules! multi_items {
    (
        mod $owned:ident;

        $(#[$meta:meta])*
        pub enum $item:ident<$lt:lifetime> {
            $( $(#[$doc:meta])* $opcode:ident => $name:ident($record:tt $(<$of:lifetime>)?), )*
        }
        error: $header:ident => $header_err:expr;
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $item<$lt> {
            $( $(#[$doc])* $name($record $(<$of>)?), )*
        }

        multi_items!(@header [$lt] $item<$lt> { $($opcode => $name)* } $header => $header_err);

        #[cfg(feature = "alloc")]
        pub(crate) mod $owned {
            use super::*;

            owned_variants!($item { $( $(#[$doc])* $name($record $(<$of>)?), )* });
            multi_items!(@header [S: $crate::owned::Storage] $item<S> { $($opcode => $name)* }
                $header => $header_err);
        }

        encoded_variants!([$lt] $item<$lt> { $($name)* });

        impl<$lt> MultiItem<$lt> for $item<$lt> {
            fn decode_item(
                header: MultiHeader,
                reader: &mut Reader<$lt>,
            ) -> Result<Self, DecodeError> {
                match header.opcode {
                    $( OpCode::$opcode => Decode::decode(reader).map(Self::$name), )*
                    OpCode(number) => Err(reader.error(DecodeErrorKind::UnknownOperation(number))),
                }
            }

            fn explain_item(
                header: MultiHeader,
                reader: &mut Reader<$lt>,
                path: &Path<'_>,
                show: &mut Show<'_>,
            ) -> Result<(), DecodeError> {
                match header.opcode {
                    $( OpCode::$opcode => <$record $(<$of>)?>::explain(reader, path, show), )*
                    OpCode(number) => Err(reader.error(DecodeErrorKind::UnknownOperation(number))),
                }
            }
        }
    };
    (
        @header [$($generics:tt)*] $self:ty { $($opcode:ident => $name:ident)* }
        $header:ident => $header_err:expr
    ) => {
        impl<$($generics)*> MultiEntry for $self {
            fn header(&self) -> MultiHeader {
                let $header = self;
                let err = $header_err;
                let opcode = match self {
                    $( Self::$name(_) => OpCode::$opcode, )*
                };
                MultiHeader { opcode, done: false, err }
            }
        }
    };
}

multi_items! {
    mod owned_op;

    /// One operation of a [`MultiRequest`].
    pub enum MultiOp<'a> {
        /// Create a node.
        CREATE => Create(CreateRequest<'a>),
        /// Delete a node.
        DELETE => Delete(DeleteRequest<'a>),
        /// Replace a node's data.
        SET_DATA => SetData(SetDataRequest<'a>),
        /// Check that a node exists and has a version.
        CHECK => Check(CheckVersionRequest<'a>),
        /// Create a node and read its stat. Servers before 3.7.2 and 3.8.2 answer with the type
        /// of a plain create or a stat full of -1 (ZOOKEEPER-4026).
        CREATE2 => Create2(CreateRequest<'a>),
        /// Create a container.
        CREATE_CONTAINER => CreateContainer(CreateRequest<'a>),
        /// Create a node with a time to live.
        CREATE_TTL => CreateTtl(CreateTtlRequest<'a>),
    }
    error: op => {
        let _ = op;
        ErrorCode(-1)
    };
}

multi_items! {
    mod owned_result;

    /// One result of a [`MultiResponse`].
    pub enum MultiResult<'a> {
        /// A node was created.
        CREATE => Create(CreateResponse<'a>),
        /// A node was deleted.
        DELETE => Delete(()),
        /// A node's data was replaced.
        SET_DATA => SetData(SetDataResponse),
        /// The check held.
        CHECK => Check(()),
        /// A node was created; also the answer to the creation of a container or of a node with a
        /// time to live.
        CREATE2 => Create2(Create2Response<'a>),
        /// Nothing was applied. [`ErrorCode::OK`] if the culprit came later,
        /// [`ErrorCode::RUNTIME_INCONSISTENCY`] if it came earlier.
        ERROR => Error(ErrorResponse),
    }
    error: result => match result {
        MultiResult::Error(ErrorResponse { err }) => *err,
        _ => ErrorCode::OK,
    };
}

multi_items! {
    mod owned_read_op;

    /// One read of a [`MultiReadRequest`]. Its `watch` is ignored by servers.
    pub enum MultiReadOp<'a> {
        /// Read a node's data.
        GET_DATA => GetData(GetDataRequest<'a>),
        /// List a node's children.
        GET_CHILDREN => GetChildren(GetChildrenRequest<'a>),
    }
    error: op => {
        let _ = op;
        ErrorCode(-1)
    };
}

multi_items! {
    mod owned_read_result;

    /// One result of a [`MultiReadResponse`].
    pub enum MultiReadResult<'a> {
        /// A node's data was read.
        GET_DATA => GetData(GetDataResponse<'a>),
        /// A node's children were listed.
        GET_CHILDREN => GetChildren(GetChildrenResponse<'a>),
        /// This read failed; the others did not because of it.
        ERROR => Error(ErrorResponse),
    }
    error: result => match result {
        MultiReadResult::Error(ErrorResponse { err }) => *err,
        _ => ErrorCode::OK,
    };
}

impl MultiResponse<'_> {
    /// The operation that made the transaction fail, by its place, and its error.
    pub fn failure(&self) -> Option<(usize, ErrorCode)> {
        self.iter().enumerate().find_map(|(place, result)| match result {
            MultiResult::Error(ErrorResponse { err })
                if err != ErrorCode::OK && err != ErrorCode::RUNTIME_INCONSISTENCY =>
            {
                Some((place, err))
            }
            _ => None,
        })
    }
}
