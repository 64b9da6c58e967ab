//! Several operations, or their results, in one frame.
//!
//! Each item follows a header of its own. The list has no count: it ends with a header whose
//! `done` is set (`MultiOperationRecord`, `MultiResponse`).

use core::fmt;

use crate::codes::{ErrorCode, OpCode};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::field::{Explain, FieldPath, FieldVisitor, Layout};
use crate::keeper;
use crate::records::*;
use crate::sink::Sink;
use crate::wire::{Decode, Encode, Reader, total};

record! {
    /// The header of an item in a `multi` (14) or `multiRead` (22), or the end marker.
    ///
    /// Since 3.4.0.
    pub struct MultiHeader {
        /// The operation, or [`OpCode::ERROR`] for a failed result and at the end of the list.
        pub opcode: OpCode,
        /// Whether the list ends here.
        pub done: bool,
        /// The error of a failed result, or -1 in requests and at the end of the list.
        pub err: ErrorCode,
    }
}

impl MultiHeader {
    const END: Self = Self { opcode: OpCode::ERROR, done: true, err: ErrorCode(-1) };

    /// Returns whether it is a failed result without a body. ClickHouse Keeper has the operation in
    /// its header, ZooKeeper always [`OpCode::ERROR`] and a body.
    fn is_bare_failure(self) -> bool {
        self.err != ErrorCode::OK && self.opcode != OpCode::ERROR
    }
}

/// An item of a multi that can be written.
pub trait EncodeMultiItem: Encode {
    /// Returns the header that precedes the item.
    fn header(&self) -> MultiHeader;
}

/// An item of a multi that can be read, such as [`MultiOp`] or [`MultiResult`].
pub trait DecodeMultiItem<'a>: Copy + EncodeMultiItem {
    /// The layout of each item, by the operation in its header.
    const LAYOUTS: &'static [(OpCode, &'static Layout)];

    /// Reads the item that follows `header`.
    ///
    /// # Errors
    ///
    /// Fails if this type has no such operation, or if the body is malformed.
    fn decode_item(header: MultiHeader, reader: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Reads the item that follows `header`, and passes its fields to `visit`.
    ///
    /// # Errors
    ///
    /// Fails as [`decode_item`](Self::decode_item) does.
    fn explain_item(
        header: MultiHeader,
        reader: &mut Reader<'a>,
        path: &FieldPath<'_>,
        visit: &mut FieldVisitor<'_>,
    ) -> Result<(), DecodeError>;
}

/// A list of items with headers, borrowed from a frame or from a slice.
///
/// Decoding checks every item, so that [`iter`](Self::iter) cannot fail.
///
/// ```
/// use zk_proto::{CheckVersionRequest, DeleteRequest, Multi, MultiOp, OpCode, Request};
///
/// let ops = [
///     MultiOp::Check(CheckVersionRequest { path: "/locks/a", version: 0 }),
///     MultiOp::Delete(DeleteRequest { path: "/jobs/7", version: -1 }),
/// ];
/// let request = Request::Multi(Multi::new(&ops));
/// assert_eq!(request.opcode(), OpCode::MULTI);
/// ```
#[doc(alias = "transaction")]
#[derive(Clone, Copy)]
pub struct Multi<'a, T> {
    items: MultiItems<'a, T>,
}

#[derive(Clone, Copy)]
enum MultiItems<'a, T> {
    Slice(&'a [T]),
    /// All items with their headers and the final header, decoded once to check them.
    Wire(&'a [u8]),
}

impl<'a, T> Multi<'a, T> {
    /// Creates a multi from these items.
    pub const fn new(items: &'a [T]) -> Self {
        Self { items: MultiItems::Slice(items) }
    }
}

impl<'a, T: DecodeMultiItem<'a>> Multi<'a, T> {
    /// Returns the items in order.
    ///
    /// ```
    /// use zk_proto::{Decode, MultiOp, MultiRequest};
    ///
    /// let body = b"\0\0\0\x0d\0\xff\xff\xff\xff\0\0\0\x02/a\0\0\0\x03\
    ///     \xff\xff\xff\xff\x01\xff\xff\xff\xff";
    /// let multi = MultiRequest::decode_all(body)?;
    /// assert!(matches!(multi.iter().next(), Some(MultiOp::Check(check)) if check.version == 3));
    /// assert_eq!(multi.iter().count(), 1);
    /// # Ok::<(), zk_proto::DecodeError>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let (slice, bytes) = match self.items {
            MultiItems::Slice(items) => (items, &[][..]),
            MultiItems::Wire(bytes) => (&[][..], bytes),
        };
        let mut reader = Reader::new(bytes);
        // `ok` hides no error: decoding the multi has decoded the same bytes before.
        slice
            .iter()
            .copied()
            .chain(core::iter::from_fn(move || next_item(&mut reader).ok().flatten()))
    }
}

fn next_item<'a, T: DecodeMultiItem<'a>>(
    reader: &mut Reader<'a>,
) -> Result<Option<T>, DecodeError> {
    let header = MultiHeader::decode(reader)?;
    if header.done { Ok(None) } else { T::decode_item(header, reader).map(Some) }
}

impl<T> Default for Multi<'_, T> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl<'a, T: DecodeMultiItem<'a> + PartialEq> PartialEq for Multi<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: DecodeMultiItem<'a> + Eq> Eq for Multi<'a, T> {}

impl<'a, T: DecodeMultiItem<'a> + fmt::Debug> fmt::Debug for Multi<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: DecodeMultiItem<'a>> Encode for Multi<'a, T> {
    fn encoded_len(&self) -> usize {
        match self.items {
            MultiItems::Slice(items) => items_len(items),
            MultiItems::Wire(bytes) => bytes.len(),
        }
    }

    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        match self.items {
            MultiItems::Slice(items) => encode_items(items, out),
            MultiItems::Wire(bytes) => out.put(bytes),
        }
    }
}

pub(crate) fn items_len<T: EncodeMultiItem>(items: &[T]) -> usize {
    let items = items.iter().map(|item| (item.header(), item).encoded_len());
    total(items.chain([MultiHeader::END.encoded_len()]))
}

pub(crate) fn encode_items<T: EncodeMultiItem, S: Sink + ?Sized>(items: &[T], out: &mut S) {
    for item in items {
        (item.header(), item).encode(out);
    }
    MultiHeader::END.encode(out);
}

impl<'a, T: DecodeMultiItem<'a>> Decode<'a> for Multi<'a, T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let start = reader.clone();
        // Each item has at least a header, so the loop ends with the frame.
        loop {
            expect_header(reader)?;
            if next_item::<T>(reader)?.is_none() {
                break;
            }
        }
        Ok(Self { items: MultiItems::Wire(reader.read_since(&start)) })
    }
}

impl<'a, T: DecodeMultiItem<'a>> Explain<'a> for Multi<'a, T> {
    const TYPE: &'static str = "multi";
    const LAYOUT: &'static Layout = &Layout::Multi(T::LAYOUTS);

    fn explain(
        reader: &mut Reader<'a>,
        path: &FieldPath<'_>,
        visit: &mut FieldVisitor<'_>,
    ) -> Result<(), DecodeError> {
        for index in 0.. {
            expect_header(reader)?;
            let path = FieldPath::Item(path, index);
            let header = MultiHeader::decode(&mut reader.clone());
            MultiHeader::explain(reader, &path, visit)?;
            let header = header?;
            if header.done {
                break;
            }
            T::explain_item(header, reader, &path, visit)?;
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
        $(failed: $failed:ident;)?
    ) => {
        $(#[$meta])*
        #[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $item<$lt> {
            $( $(#[$doc])* $name($record $(<$of>)?), )*
        }

        multi_items!(@header [$lt] $item<$lt> { $($opcode => $name)* } $header => $header_err);

        #[cfg(feature = "alloc")]
        pub(crate) mod $owned {
            use super::*;
            use crate::records::owned as bodies;

            owned_variants!($item { $( $(#[$doc])* $name($record $(<$of>)?), )* });
            multi_items!(@header [S: $crate::owned::storage::Storage] $item<S> { $($opcode => $name)* }
                $header => $header_err);
        }

        encoded_variants!([$lt] $item<$lt> { $($name)* });

        impl<$lt> DecodeMultiItem<$lt> for $item<$lt> {
            const LAYOUTS: &'static [(OpCode, &'static Layout)] = &[$(
                (OpCode::$opcode, <$record $(<$of>)? as Explain<'_>>::LAYOUT),
            )*];

            fn decode_item(
                header: MultiHeader,
                reader: &mut Reader<$lt>,
            ) -> Result<Self, DecodeError> {
                $( if header.is_bare_failure() {
                    return Ok(Self::$failed(ErrorResponse { err: header.err }));
                } )?
                match header.opcode {
                    $( OpCode::$opcode => Decode::decode(reader).map(Self::$name), )*
                    OpCode(number) => Err(reader.error(DecodeErrorKind::UnknownOperation(number))),
                }
            }

            fn explain_item(
                header: MultiHeader,
                reader: &mut Reader<$lt>,
                path: &FieldPath<'_>,
                visit: &mut FieldVisitor<'_>,
            ) -> Result<(), DecodeError> {
                let failed: &[&str] = &[$( stringify!($failed) )?];
                let is_reply = !failed.is_empty();
                match header.opcode {
                    _ if is_reply && header.is_bare_failure() => Ok(()),
                    $( OpCode::$opcode => <$record $(<$of>)?>::explain(reader, path, visit), )*
                    opcode => keeper::explain_body(opcode, is_reply, reader, path, visit),
                }
            }
        }
    };
    // Each operation has a path.
    (@path $owned:ident $op:ident { $($name:ident)* }) => {
        impl<'a> $op<'a> {
            /// Returns the path of the node that the operation is about.
            pub fn path(&self) -> &'a str {
                match self {
                    $( Self::$name(body) => body.path, )*
                }
            }
        }

        #[cfg(feature = "alloc")]
        impl<S: crate::owned::storage::Storage> $owned::$op<S> {
            /// Returns the path of the node that the operation is about, to be changed.
            pub fn path_mut(&mut self) -> &mut S::Text {
                match self {
                    $( Self::$name(body) => &mut body.path, )*
                }
            }
        }
    };
    (
        @header [$($generics:tt)*] $self:ty { $($opcode:ident => $name:ident)* }
        $header:ident => $header_err:expr
    ) => {
        impl<$($generics)*> EncodeMultiItem for $self {
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

    /// An operation of a [`MultiRequest`].
    pub enum MultiOp<'a> {
        /// Creates a node.
        CREATE => Create(CreateRequest<'a>),
        /// Deletes a node.
        DELETE => Delete(DeleteRequest<'a>),
        /// Replaces the data of a node.
        SET_DATA => SetData(SetDataRequest<'a>),
        /// Checks that a node exists and has a version.
        CHECK => Check(CheckVersionRequest<'a>),
        /// Creates a node and reads its stat.
        ///
        /// Servers before 3.7.2 and 3.8.2 answer as for a plain create, or with a stat full of -1
        /// (ZOOKEEPER-4026).
        CREATE2 => Create2(CreateRequest<'a>),
        /// Creates a container.
        CREATE_CONTAINER => CreateContainer(CreateRequest<'a>),
        /// Creates a node with a time to live.
        CREATE_TTL => CreateTtl(CreateTtlRequest<'a>),
    }
    error: op => {
        let _ = op;
        ErrorCode(-1)
    };
}

multi_items!(@path owned_op MultiOp {
    Create Delete SetData Check Create2 CreateContainer CreateTtl
});

multi_items! {
    mod owned_result;

    /// A result in a [`MultiResponse`].
    pub enum MultiResult<'a> {
        /// The node was created.
        CREATE => Create(CreateResponse<'a>),
        /// The node was deleted.
        DELETE => Delete(()),
        /// The data of the node was replaced.
        SET_DATA => SetData(SetDataResponse),
        /// The node exists and has the version.
        CHECK => Check(()),
        /// The node was created. Containers and nodes with a time to live have this result, too.
        CREATE2 => Create2(Create2Response<'a>),
        /// Nothing was applied.
        ///
        /// The code is [`ErrorCode::OK`] before the operation that failed, and
        /// [`ErrorCode::RUNTIME_INCONSISTENCY`] after it.
        ERROR => Error(ErrorResponse),
    }
    error: result => match result {
        MultiResult::Error(ErrorResponse { err }) => *err,
        _ => ErrorCode::OK,
    };
    failed: Error;
}

multi_items! {
    mod owned_read_op;

    /// A read of a [`MultiReadRequest`]. Servers ignore its `watch`
    /// (`FinalRequestProcessor.processRequest`, case `multiRead`).
    pub enum MultiReadOp<'a> {
        /// Reads the data of a node.
        GET_DATA => GetData(GetDataRequest<'a>),
        /// Lists the children of a node.
        GET_CHILDREN => GetChildren(GetChildrenRequest<'a>),
    }
    error: op => {
        let _ = op;
        ErrorCode(-1)
    };
}

multi_items!(@path owned_read_op MultiReadOp { GetData GetChildren });

multi_items! {
    mod owned_read_result;

    /// A result in a [`MultiReadResponse`].
    pub enum MultiReadResult<'a> {
        /// The data of the node.
        GET_DATA => GetData(GetDataResponse<'a>),
        /// The children of the node.
        GET_CHILDREN => GetChildren(GetChildrenResponse<'a>),
        /// This read failed. The other reads are independent of it.
        ERROR => Error(ErrorResponse),
    }
    error: result => match result {
        MultiReadResult::Error(ErrorResponse { err }) => *err,
        _ => ErrorCode::OK,
    };
    failed: Error;
}

/// A request to apply several writes as one transaction: `multi` (14). Since 3.4.0.
#[doc(alias = "multi")]
pub type MultiRequest<'a> = Multi<'a, MultiOp<'a>>;

/// The reply to `multi` (14), whether it succeeded or failed. Since 3.4.0.
///
/// If it failed, nothing was applied and every result is an error. The header still says
/// [`ErrorCode::OK`].
pub type MultiResponse<'a> = Multi<'a, MultiResult<'a>>;

/// A request for several reads, each of which may fail on its own: `multiRead` (22). Since 3.6.0.
#[doc(alias = "multiRead")]
pub type MultiReadRequest<'a> = Multi<'a, MultiReadOp<'a>>;

/// The reply to `multiRead` (22), with one result for each read. Since 3.6.0.
pub type MultiReadResponse<'a> = Multi<'a, MultiReadResult<'a>>;

impl MultiResponse<'_> {
    /// Returns the index and the error of the operation that made the transaction fail.
    ///
    /// Returns `None` if the transaction was applied.
    ///
    /// ```
    /// use zk_proto::{ErrorCode, ErrorResponse, Multi, MultiResult};
    ///
    /// let results = [ErrorCode::OK, ErrorCode::NO_NODE, ErrorCode::RUNTIME_INCONSISTENCY]
    ///     .map(|err| MultiResult::Error(ErrorResponse { err }));
    /// assert_eq!(Multi::new(&results).failure(), Some((1, ErrorCode::NO_NODE)));
    /// ```
    pub fn failure(&self) -> Option<(usize, ErrorCode)> {
        self.iter().enumerate().find_map(|(index, result)| match result {
            MultiResult::Error(ErrorResponse { err })
                if err != ErrorCode::OK && err != ErrorCode::RUNTIME_INCONSISTENCY =>
            {
                Some((index, err))
            }
            _ => None,
        })
    }
}
