//! The table of operations: which record asks, which record answers.

use crate::codes::{CreateMode, OpCode};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::explain::{Explain, Path, Show};
use crate::records::*;
use crate::wire::{Decode, Reader};

macro_rules! operations {
    ($(
        $opcode:ident => $name:ident($request:tt $(<$asks:lifetime>)?)
            -> $response:tt $(<$answers:lifetime>)?;
    )*) => {
        /// The body of a request, by operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Request<'a> {
            $(
                #[doc = concat!("Operation [`", stringify!($opcode), "`](OpCode::", stringify!($opcode), ").")]
                $name($request $(<$asks>)?),
            )*
        }

        impl OpCode {
            /// The operations that clients ask for: those with a [`Request`] and a [`Response`].
            pub const REQUESTS: &'static [Self] = &[$( Self::$opcode, )*];

            /// Whether this is one of [`REQUESTS`](Self::REQUESTS). A server refuses any other
            /// with [`ErrorCode::UNIMPLEMENTED`](crate::ErrorCode::UNIMPLEMENTED), and closes the
            /// connection; but for [`CREATE_SESSION`](Self::CREATE_SESSION), which it answers
            /// with a [`ConnectResponse`](crate::ConnectResponse) as its reply.
            pub fn is_request(self) -> bool {
                matches!(self, $( Self::$opcode )|*)
            }
        }

        impl<'a> Request<'a> {
            /// The operation.
            #[inline]
            pub fn opcode(&self) -> OpCode {
                match self {
                    $( Self::$name(_) => OpCode::$opcode, )*
                }
            }

            /// Reads the body of a request for `opcode`, which must take all of `body`.
            ///
            /// # Errors
            ///
            /// [`DecodeErrorKind::UnknownOperation`] when the opcode is none of
            /// [`OpCode::REQUESTS`]; otherwise when the body is not its record.
            #[inline]
            pub fn decode(opcode: OpCode, body: &'a [u8]) -> Result<Self, DecodeError> {
                match opcode {
                    $( OpCode::$opcode => decode_body(body, Self::$name), )*
                    OpCode(number) => Err(unknown(number, 0)),
                }
            }

            /// Reads and shows the body of a request for `opcode`.
            pub(crate) fn explain(
                opcode: OpCode,
                reader: &mut Reader<'a>,
                show: &mut Show<'_>,
            ) -> Result<(), DecodeError> {
                match opcode {
                    $( OpCode::$opcode => <$request $(<$asks>)?>::explain(reader, &Path::Root, show), )*
                    OpCode(number) => Err(unknown(number, reader.position())),
                }
            }
        }

        encoded_variants!(['a] Request<'a> { $($name)* });

        /// The body of a successful reply, by the operation that it answers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Response<'a> {
            $(
                #[doc = concat!("Answers [`", stringify!($opcode), "`](OpCode::", stringify!($opcode), ").")]
                $name($response $(<$answers>)?),
            )*
        }

        impl<'a> Response<'a> {
            /// The operation that this answers.
            #[inline]
            pub fn opcode(&self) -> OpCode {
                match self {
                    $( Self::$name(_) => OpCode::$opcode, )*
                }
            }

            /// Reads the body of the answer to a request for `opcode`, which must take all of
            /// `body`.
            ///
            /// # Errors
            ///
            /// As [`Request::decode`].
            #[inline]
            pub fn decode(opcode: OpCode, body: &'a [u8]) -> Result<Self, DecodeError> {
                match opcode {
                    $( OpCode::$opcode => decode_body(body, Self::$name), )*
                    OpCode(number) => Err(unknown(number, 0)),
                }
            }

            /// Reads and shows the body of the answer to a request for `opcode`.
            pub(crate) fn explain(
                opcode: OpCode,
                reader: &mut Reader<'a>,
                show: &mut Show<'_>,
            ) -> Result<(), DecodeError> {
                match opcode {
                    $( OpCode::$opcode => <$response $(<$answers>)?>::explain(reader, &Path::Root, show), )*
                    OpCode(number) => Err(unknown(number, reader.position())),
                }
            }
        }

        encoded_variants!(['a] Response<'a> { $($name)* });

        #[cfg(feature = "alloc")]
        pub(crate) mod owned {
            use super::*;

            owned_variants!(Request { $(
                #[doc = concat!("Operation [`", stringify!($opcode), "`](OpCode::", stringify!($opcode), ").")]
                $name($request $(<$asks>)?),
            )* });

            owned_variants!(Response { $(
                #[doc = concat!("Answers [`", stringify!($opcode), "`](OpCode::", stringify!($opcode), ").")]
                $name($response $(<$answers>)?),
            )* });

            operations!(@opcode Request { $($opcode => $name)* });
            operations!(@opcode Response { $($opcode => $name)* });
        }
    };
    (@opcode $body:ident { $($opcode:ident => $name:ident)* }) => {
        impl<S: crate::owned::Storage> $body<S> {
            /// The operation.
            #[inline]
            pub fn opcode(&self) -> OpCode {
                match self {
                    $( Self::$name(_) => OpCode::$opcode, )*
                }
            }
        }
    };
}

operations! {
    // opcode                  name                 request                              reply
    CREATE                  => Create               (CreateRequest<'a>)               -> CreateResponse<'a>;
    DELETE                  => Delete               (DeleteRequest<'a>)               -> ();
    EXISTS                  => Exists               (ExistsRequest<'a>)               -> ExistsResponse;
    GET_DATA                => GetData              (GetDataRequest<'a>)              -> GetDataResponse<'a>;
    SET_DATA                => SetData              (SetDataRequest<'a>)              -> SetDataResponse;
    GET_ACL                 => GetAcl               (GetAclRequest<'a>)               -> GetAclResponse<'a>;
    SET_ACL                 => SetAcl               (SetAclRequest<'a>)               -> SetAclResponse;
    GET_CHILDREN            => GetChildren          (GetChildrenRequest<'a>)          -> GetChildrenResponse<'a>;
    SYNC                    => Sync                 (SyncRequest<'a>)                 -> SyncResponse<'a>;
    PING                    => Ping                 (())                              -> ();
    GET_CHILDREN2           => GetChildren2         (GetChildrenRequest<'a>)          -> GetChildren2Response<'a>;
    CHECK                   => Check                (CheckVersionRequest<'a>)         -> ();
    MULTI                   => Multi                (MultiRequest<'a>)                -> MultiResponse<'a>;
    CREATE2                 => Create2              (CreateRequest<'a>)               -> Create2Response<'a>;
    RECONFIG                => Reconfig             (ReconfigRequest<'a>)             -> GetDataResponse<'a>;
    CHECK_WATCHES           => CheckWatches         (CheckWatchesRequest<'a>)         -> ();
    REMOVE_WATCHES          => RemoveWatches        (RemoveWatchesRequest<'a>)        -> ();
    CREATE_CONTAINER        => CreateContainer      (CreateRequest<'a>)               -> Create2Response<'a>;
    DELETE_CONTAINER        => DeleteContainer      (DeleteContainerRequest<'a>)      -> ();
    CREATE_TTL              => CreateTtl            (CreateTtlRequest<'a>)            -> Create2Response<'a>;
    MULTI_READ              => MultiRead            (MultiReadRequest<'a>)            -> MultiReadResponse<'a>;
    AUTH                    => Auth                 (AuthPacket<'a>)                  -> ();
    SET_WATCHES             => SetWatches           (SetWatches<'a>)                  -> ();
    SASL                    => Sasl                 (GetSaslRequest<'a>)              -> SetSaslResponse<'a>;
    GET_EPHEMERALS          => GetEphemerals        (GetEphemeralsRequest<'a>)        -> GetEphemeralsResponse<'a>;
    GET_ALL_CHILDREN_NUMBER => GetAllChildrenNumber (GetAllChildrenNumberRequest<'a>) -> GetAllChildrenNumberResponse;
    SET_WATCHES2            => SetWatches2          (SetWatches2<'a>)                 -> ();
    ADD_WATCH               => AddWatch             (AddWatchRequest<'a>)             -> ErrorResponse;
    WHO_AM_I                => WhoAmI               (())                              -> WhoAmIResponse<'a>;
    CLOSE_SESSION           => CloseSession         (())                              -> ();
}

/// The same match for both forms of a request.
macro_rules! harms_servers {
    ($request:expr) => {
        match $request {
            Self::Check(_) => true,
            Self::CreateTtl(body) => is_deadly(body.mode, body.ttl),
            _ => false,
        }
    };
}

impl Request<'_> {
    /// Whether the request ends released servers, though it looks harmless.
    ///
    /// - A [`Check`](Self::Check) outside of a [`Multi`](Self::Multi). If the check holds, a
    ///   standalone server (seen with 3.6.3 and 3.8.0) goes on, but cannot read its transaction log
    ///   any more: it never starts again. In an ensemble the leader steps down, again and again.
    /// - A [`CreateTtl`](Self::CreateTtl) with a mode that has no time to live and a ttl below 0.
    ///   The server (seen with 3.8.0 and 3.9.5) shuts down, and never starts again.
    ///
    /// Both are harmless inside a multi.
    pub fn harms_servers(&self) -> bool {
        harms_servers!(self)
    }
}

#[cfg(feature = "alloc")]
impl<S: crate::owned::Storage> owned::Request<S> {
    /// As [`Request::harms_servers`]: whether servers do not survive the request.
    pub fn harms_servers(&self) -> bool {
        harms_servers!(self)
    }
}

#[cfg(any(feature = "proptest", feature = "arbitrary"))]
impl owned::Request {
    /// A similar request that servers survive.
    pub(crate) fn harmless(self) -> Self {
        match self {
            Self::Check(body) => {
                Self::Multi(crate::owned::Multi(alloc::vec![crate::owned::MultiOp::Check(body)]))
            }
            Self::CreateTtl(body) if is_deadly(body.mode, body.ttl) => {
                let mode = CreateMode::PERSISTENT_WITH_TTL;
                Self::CreateTtl(crate::owned::CreateTtlRequest { mode, ..body })
            }
            other => other,
        }
    }
}

/// Whether a `createTTL` passes the checks of a server and cannot be applied by it.
fn is_deadly(mode: CreateMode, ttl: i64) -> bool {
    let has_ttl = matches!(
        mode,
        CreateMode::PERSISTENT_WITH_TTL | CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL
    );
    ttl < 0 && !has_ttl
}

impl<'a> Request<'a> {
    /// The node that the request is about, if it is about one; the prefix of
    /// [`GetEphemerals`](Self::GetEphemerals).
    pub fn path(&self) -> Option<&'a str> {
        match self {
            Self::Create(body) | Self::Create2(body) | Self::CreateContainer(body) => {
                Some(body.path)
            }
            Self::CreateTtl(body) => Some(body.path),
            Self::Delete(body) => Some(body.path),
            Self::DeleteContainer(body) => Some(body.path),
            Self::Exists(body) => Some(body.path),
            Self::GetData(body) => Some(body.path),
            Self::SetData(body) => Some(body.path),
            Self::GetAcl(body) => Some(body.path),
            Self::SetAcl(body) => Some(body.path),
            Self::GetChildren(body) | Self::GetChildren2(body) => Some(body.path),
            Self::Sync(body) => Some(body.path),
            Self::Check(body) => Some(body.path),
            Self::CheckWatches(body) => Some(body.path),
            Self::RemoveWatches(body) => Some(body.path),
            Self::GetEphemerals(body) => body.prefix_path,
            Self::GetAllChildrenNumber(body) => Some(body.path),
            Self::AddWatch(body) => Some(body.path),
            Self::Ping(())
            | Self::Multi(_)
            | Self::MultiRead(_)
            | Self::Reconfig(_)
            | Self::Auth(_)
            | Self::Sasl(_)
            | Self::SetWatches(_)
            | Self::SetWatches2(_)
            | Self::WhoAmI(())
            | Self::CloseSession(()) => None,
        }
    }
}

fn unknown(number: i32, offset: usize) -> DecodeError {
    DecodeError::new(DecodeErrorKind::UnknownOperation(number), offset)
}

/// Reads a record that takes all of `body` right into its variant: to read it first and move it
/// then takes twice as long.
fn decode_body<'a, T: Decode<'a>, M>(
    body: &'a [u8],
    variant: impl FnOnce(T) -> M,
) -> Result<M, DecodeError> {
    let mut reader = Reader::new(body);
    let record = T::decode(&mut reader)?;
    reader.finish()?;
    Ok(variant(record))
}
