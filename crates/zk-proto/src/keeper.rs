//! What ClickHouse Keeper and its clients say beyond ZooKeeper's protocol.
//!
//! A client asks for a form of messages by the protocol version of its handshake, and a Keeper
//! grants it by the same version. ZooKeeper ignores the version, and answers with 0.
//!
//! | version | form |
//! |---|---|
//! | 10 | the streams are compressed behind the handshake: see `blocks`, with the feature `alloc` |
//! | 11 | xids have 8 bytes. One byte behind the version says whether the streams are compressed |
//! | 12 | behind each request stands its trace context. Two bytes behind the version say whether xids have 8 bytes, and whether the streams are compressed |
//! | 42 | in an answer: the Keeper serves no sessions now |
//!
//! The length of the first frame does not count the bytes behind the version, nor does that of a
//! request count its trace context. Sources: `ZooKeeperConstants.h`, `ZooKeeperCommon.cpp`,
//! `ZooKeeperImpl.cpp` and `KeeperTCPHandler.cpp` of ClickHouse, and recordings of ClickHouse 26.9.
//!
//! The operations from 500 on have no [`Request`](crate::Request), since no ZooKeeper serves them.
//! Their records are here, and [`explain`](crate::explain) knows them.

#[cfg(feature = "alloc")]
pub mod blocks;

use crate::codes::{ErrorCode, OpCode};
use crate::connect::ConnectRequest;
use crate::error::{DecodeError, DecodeErrorKind, FieldName};
use crate::field::{Bytes, Explain, Field, FieldPath, FieldVisitor, Layout, field, leaf};
use crate::frame::{self, FrameError};
use crate::header::{ReplyHeader, RequestHeader, Xid};
use crate::ids::{SessionId, Zxid};
use crate::list::List;
use crate::records::{
    CheckVersionRequest, CreateRequest, CreateResponse, DeleteRequest, ExistsRequest,
    ExistsResponse, GetChildren2Response, GetChildrenRequest, GetChildrenResponse, Stat,
};
use crate::wire::{Decode, Reader};

/// The protocol version of an answer that refuses a session.
pub const REJECTED: i32 = 42;

const COMPRESSION: i32 = 10;
const WIDE_XIDS: i32 = 11;
const TRACING: i32 = 12;

/// The form of the messages of a connection.
///
/// The default is ZooKeeper's.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Dialect {
    /// Xids have 8 bytes.
    pub wide_xids: bool,
    /// Behind each request stands a byte that says whether it has a trace context, and the context.
    pub tracing: bool,
    /// Both streams are compressed behind the handshake.
    pub compression: bool,
}

impl Dialect {
    /// Returns the dialect that the first payload of a client asks for, or `None` if its protocol
    /// version is 0 or unknown.
    ///
    /// Requests of version 10 are in ZooKeeper's form. `payload` has the bytes behind the version,
    /// too, which the length of the frame does not count.
    pub fn asked(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(payload);
        let version = i32::decode(&mut reader).ok()?;
        let mut flag = || bool::decode(&mut reader).ok();
        Some(match version {
            COMPRESSION => Self { compression: true, ..Self::default() },
            WIDE_XIDS => Self { wide_xids: true, compression: flag()?, tracing: false },
            TRACING => Self { wide_xids: flag()?, compression: flag()?, tracing: true },
            _ => return None,
        })
    }

    /// Decodes the first payload of a client: the dialect that it asks for, and the request.
    ///
    /// # Errors
    ///
    /// Fails if it is no handshake.
    ///
    /// ```
    /// use zk_proto::keeper::Dialect;
    ///
    /// let mut payload = [0; 46];
    /// payload[3] = 11;
    /// payload[28] = 16; // the length of the password
    /// let (dialect, request) = Dialect::handshake(&payload)?;
    /// assert!(dialect.wide_xids && !dialect.compression);
    /// assert_eq!((request.protocol_version, request.read_only), (11, Some(false)));
    /// # Ok::<(), zk_proto::DecodeError>(())
    /// ```
    pub fn handshake(payload: &[u8]) -> Result<(Self, ConnectRequest<'_>), DecodeError> {
        let Some(dialect) = Self::asked(payload) else {
            return Ok((Self::default(), ConnectRequest::decode_all(payload)?));
        };
        let mut reader = Reader::new(payload);
        let protocol_version = next(&mut reader, const { &named("protocol_version") })?;
        reader.take(uncounted(protocol_version))?;
        let request = ConnectRequest {
            protocol_version,
            last_zxid_seen: next(&mut reader, const { &named("last_zxid_seen") })?,
            timeout: next(&mut reader, const { &named("timeout") })?,
            session_id: next(&mut reader, const { &named("session_id") })?,
            password: next(&mut reader, const { &named("password") })?,
            read_only: next(&mut reader, const { &named("read_only") })?,
        };
        reader.finish()?;
        Ok((dialect, request))
    }

    /// Returns the number of bytes of the first frame of a client, or `None` until that is known.
    ///
    /// # Errors
    ///
    /// Fails as [`frame::length`] does.
    pub fn handshake_length(stream: &[u8], limit: usize) -> Result<Option<usize>, FrameError> {
        let Some(length) = frame::length(stream, limit)? else { return Ok(None) };
        let frame = frame::PREFIX_LEN + length;
        // ZooKeeper's own handshakes have these lengths, too. Other frames are no handshake.
        if !matches!(length, 44 | 45) {
            return Ok(Some(frame));
        }
        let version = stream[frame::PREFIX_LEN..].first_chunk().copied();
        Ok(version.map(|version| frame + uncounted(i32::from_be_bytes(version))))
    }

    /// Returns the number of bytes of a later frame of a client, with its trace context, or `None`
    /// until that is known.
    ///
    /// # Errors
    ///
    /// Fails as [`frame::length`] does, and if a trace context exceeds the limit.
    pub fn request_length(self, stream: &[u8], limit: usize) -> Result<Option<usize>, FrameError> {
        let Some((payload, rest)) = frame::split(stream, limit)? else { return Ok(None) };
        let frame = frame::PREFIX_LEN + payload.len();
        match rest {
            _ if !self.tracing => Ok(Some(frame)),
            [] => Ok(None),
            [0, ..] => Ok(Some(frame + 1)),
            // Four lines of text: the trace, the span, the state and the flags.
            [_, context @ ..] => {
                let mut ends = context.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
                match ends.nth(3) {
                    Some((end, _)) => Ok(Some(frame + 1 + end + 1)),
                    None if context.len() > limit => {
                        Err(FrameError::TooLong { length: context.len(), limit })
                    }
                    None => Ok(None),
                }
            }
        }
    }

    /// Returns the dialect that an answer with this protocol version grants to a client that asked
    /// for this one, or `None` if it is unknown.
    #[must_use]
    pub fn granted(self, version: i32) -> Option<Self> {
        let asked = match self {
            Self { tracing: true, .. } => TRACING,
            Self { wide_xids: true, .. } => WIDE_XIDS,
            Self { compression: true, .. } => COMPRESSION,
            // ZooKeeper's clients ignore the version.
            _ => version,
        };
        match version {
            _ if version == asked => Some(self),
            // The client will end the connection.
            0 | REJECTED => Some(Self::default()),
            _ => None,
        }
    }

    /// Reads an xid. One that fits no [`Xid`] becomes the nearest one.
    pub(crate) fn xid(self, reader: &mut Reader<'_>) -> Result<Xid, DecodeError> {
        if !self.wide_xids {
            return Xid::decode(reader);
        }
        let xid = i64::decode(reader)?;
        let nearest = if xid > 0 { i32::MAX } else { i32::MIN };
        Ok(Xid(i32::try_from(xid).unwrap_or(nearest)))
    }

    pub(crate) fn request_header(
        self,
        reader: &mut Reader<'_>,
    ) -> Result<RequestHeader, DecodeError> {
        Ok(RequestHeader { xid: self.xid(reader)?, opcode: OpCode::decode(reader)? })
    }

    pub(crate) fn reply_header(self, reader: &mut Reader<'_>) -> Result<ReplyHeader, DecodeError> {
        let xid = self.xid(reader)?;
        Ok(ReplyHeader { xid, zxid: Zxid::decode(reader)?, err: ErrorCode::decode(reader)? })
    }

    /// Explains the header of a request.
    pub(crate) fn explain_request_header(
        self,
        reader: &mut Reader<'_>,
        visit: &mut FieldVisitor<'_>,
    ) -> Result<RequestHeader, DecodeError> {
        const OPCODE: &FieldName = &FieldName { record: "RequestHeader", field: "opcode" };

        let header = self.request_header(&mut reader.clone());
        if self.wide_xids {
            wide_xid(&FieldName { record: "RequestHeader", field: "xid" }, reader, visit)?;
            field::<OpCode>(OPCODE, reader, &FieldPath::Root, visit)?;
        } else {
            RequestHeader::explain(reader, &FieldPath::Root, visit)?;
        }
        header
    }

    /// Explains the header of a reply.
    pub(crate) fn explain_reply_header(
        self,
        reader: &mut Reader<'_>,
        visit: &mut FieldVisitor<'_>,
    ) -> Result<ReplyHeader, DecodeError> {
        const ZXID: &FieldName = &FieldName { record: "ReplyHeader", field: "zxid" };
        const ERR: &FieldName = &FieldName { record: "ReplyHeader", field: "err" };

        let header = self.reply_header(&mut reader.clone());
        if self.wide_xids {
            wide_xid(&FieldName { record: "ReplyHeader", field: "xid" }, reader, visit)?;
            field::<Zxid>(ZXID, reader, &FieldPath::Root, visit)?;
            field::<ErrorCode>(ERR, reader, &FieldPath::Root, visit)?;
        } else {
            ReplyHeader::explain(reader, &FieldPath::Root, visit)?;
        }
        header
    }
}

/// Returns the number of bytes behind a protocol version that the length does not count.
fn uncounted(version: i32) -> usize {
    match version {
        WIDE_XIDS => 1,
        TRACING => 2,
        _ => 0,
    }
}

fn wide_xid(
    name: &'static FieldName,
    reader: &mut Reader<'_>,
    visit: &mut FieldVisitor<'_>,
) -> Result<(), DecodeError> {
    let path = FieldPath::Field(&FieldPath::Root, name);
    leaf(reader, &path, visit, |xid: i64| xid).map_err(|error| error.within(name))
}

/// Names a field of the handshake.
const fn named(field: &'static str) -> FieldName {
    FieldName { record: "ConnectRequest", field }
}

fn next<'a, T: Decode<'a>>(
    reader: &mut Reader<'a>,
    name: &'static FieldName,
) -> Result<T, DecodeError> {
    T::decode(reader).map_err(|error| error.within(name))
}

/// Explains the first payload of a client, whose protocol version is known.
pub(crate) fn explain_handshake(
    reader: &mut Reader<'_>,
    visit: &mut FieldVisitor<'_>,
) -> Result<(), DecodeError> {
    let (version, root) = (i32::decode(&mut reader.clone())?, &FieldPath::Root);
    field::<i32>(const { &named("protocol_version") }, reader, root, visit)?;
    if version == TRACING {
        field::<bool>(const { &named("wide_xids") }, reader, root, visit)?;
    }
    if version != COMPRESSION {
        field::<bool>(const { &named("compression") }, reader, root, visit)?;
    }
    field::<Zxid>(const { &named("last_zxid_seen") }, reader, root, visit)?;
    field::<i32>(const { &named("timeout") }, reader, root, visit)?;
    field::<SessionId>(const { &named("session_id") }, reader, root, visit)?;
    field::<Option<&[u8]>>(const { &named("password") }, reader, root, visit)?;
    field::<Option<bool>>(const { &named("read_only") }, reader, root, visit)
}

/// Explains what stands behind a request if the dialect has tracing.
pub(crate) fn explain_trace(
    reader: &mut Reader<'_>,
    visit: &mut FieldVisitor<'_>,
) -> Result<(), DecodeError> {
    const IS_TRACED: &FieldName = &FieldName { record: "Trace", field: "is_traced" };
    const CONTEXT: &FieldName = &FieldName { record: "Trace", field: "context" };

    field::<bool>(IS_TRACED, reader, &FieldPath::Root, visit)?;
    let start = reader.position();
    let context = reader.take(reader.rest().len())?;
    if !context.is_empty() {
        let path = &FieldPath::Field(&FieldPath::Root, CONTEXT);
        let range = start..reader.position();
        visit(&Field { range, wire_type: "bytes", path, value: &Bytes(context) });
    }
    Ok(())
}

record! {
    /// A request for the children of a node that are of one kind: `filteredList` (500).
    ///
    /// The reply is a [`GetChildren2Response`].
    pub struct FilteredListRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
        /// Whether to set a one-shot watch on the list.
        pub watch: bool,
        /// 0 for all children, 1 for persistent ones, 2 for ephemeral ones.
        pub kind: u8,
    }
}

record! {
    /// A request to delete a node and all below it, unless they are too many: `removeRecursive`
    /// (503). The reply is empty.
    pub struct RemoveRecursiveRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
        /// The most nodes to delete, without a sign.
        pub limit: i32,
    }
}

record! {
    /// A request to check the stat of a node: `checkStat` (504). The reply is empty.
    pub struct CheckStatRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
        /// The version that its data must have, or -1 for any.
        pub version: i32,
        /// The stat that it must have. A number of -1 permits any.
        pub stat: Stat,
    }
}

record! {
    /// A request for children with what they hold: `filteredListWithStatsAndData` (506).
    pub struct ListWithDataRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
        /// Whether to set a one-shot watch on the list.
        pub watch: bool,
        /// 0 for all children, 1 for persistent ones, 2 for ephemeral ones.
        pub kind: u8,
        /// Whether to read their stats.
        pub with_stat: bool,
        /// Whether to read their data.
        pub with_data: bool,
    }
}

record! {
    /// The reply to a [`ListWithDataRequest`].
    pub struct ListWithDataResponse<'a> {
        /// The names of the children.
        pub children: List<'a, &'a str>,
        /// The stat of the node.
        pub stat: Stat,
        /// The stats of the children, if the request wants them.
        pub stats: List<'a, Stat>,
        /// The data of the children, if the request wants it.
        pub data: List<'a, Option<&'a [u8]>>,
    }
}

record! {
    /// A request for the paths of all nodes below a node: `listRecursive` (507).
    ///
    /// The reply is a [`GetChildrenResponse`].
    pub struct ListRecursiveRequest<'a> {
        /// The path of the node.
        pub path: &'a str,
        /// The most nodes to list, without a sign.
        pub limit: i32,
    }
}

macro_rules! bodies {
    ($($opcode:ident: $request:ty => $reply:ty;)*) => {
        /// Explains a body that no ZooKeeper has there.
        pub(crate) fn explain_body<'a>(
            opcode: OpCode,
            is_reply: bool,
            reader: &mut Reader<'a>,
            path: &FieldPath<'_>,
            visit: &mut FieldVisitor<'_>,
        ) -> Result<(), DecodeError> {
            match opcode {
                $( OpCode::$opcode if is_reply => <$reply>::explain(reader, path, visit), )*
                $( OpCode::$opcode => <$request>::explain(reader, path, visit), )*
                OpCode(number) => Err(reader.error(DecodeErrorKind::UnknownOperation(number))),
            }
        }

        /// Returns the layouts of the request and the reply of an operation that only Keeper has.
        pub fn layouts(opcode: OpCode) -> Option<[&'static Layout; 2]> {
            match opcode {
                _ if opcode.is_request() => None,
                $( OpCode::$opcode => Some([<$request>::LAYOUT, <$reply>::LAYOUT]), )*
                _ => None,
            }
        }
    };
}

bodies! {
    FILTERED_LIST: FilteredListRequest<'_> => GetChildren2Response<'_>;
    CHECK_NOT_EXISTS: CheckVersionRequest<'_> => ();
    CREATE_IF_NOT_EXISTS: CreateRequest<'_> => CreateResponse<'_>;
    REMOVE_RECURSIVE: RemoveRecursiveRequest<'_> => ();
    CHECK_STAT: CheckStatRequest<'_> => ();
    TRY_REMOVE: DeleteRequest<'_> => ();
    FILTERED_LIST_WITH_STATS_AND_DATA: ListWithDataRequest<'_> => ListWithDataResponse<'_>;
    LIST_RECURSIVE: ListRecursiveRequest<'_> => GetChildrenResponse<'_>;
    // ZooKeeper has these, but not in a multiRead.
    EXISTS: ExistsRequest<'_> => ExistsResponse;
    GET_CHILDREN2: GetChildrenRequest<'_> => GetChildren2Response<'_>;
}
