//! The table of operations: the record of each request and of its reply.

use crate::codes::{CreateMode, OpCode};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::field::{Explain, FieldPath, FieldVisitor, Layout};
use crate::keeper;
use crate::list::List;
use crate::multi::{MultiReadRequest, MultiReadResponse, MultiRequest, MultiResponse};
use crate::records::*;
use crate::wire::{Decode, Reader};

/// Declares the requests and the replies of all operations.
macro_rules! operations {
    ($(
        $opcode:ident => $name:ident($request:tt $(<$asks:lifetime>)?)
            -> $response:tt $(<$answers:lifetime>)?;
    )*) => {
        operations! { @body
            /// The body of a request, with one variant for each operation.
            ///
            /// ```
            /// use zk_proto::{OpCode, Request};
            ///
            /// let body = b"\0\0\0\x02/a\x01";
            /// let Request::Exists(exists) = Request::decode(OpCode::EXISTS, body)? else {
            ///     unreachable!("the opcode determines the variant");
            /// };
            /// assert_eq!((exists.path, exists.watch), ("/a", true));
            /// # Ok::<(), zk_proto::DecodeError>(())
            /// ```
            Request, "Operation ", false, { $($opcode => $name($request $(<$asks>)?))* }
        }

        operations! { @body
            /// The body of a successful reply, with one variant for each operation.
            ///
            /// ```
            /// use zk_proto::{OpCode, Response};
            ///
            /// let body = b"\0\0\0\x02/a";
            /// let Response::Create(created) = Response::decode(OpCode::CREATE, body)? else {
            ///     unreachable!("the opcode determines the variant");
            /// };
            /// assert_eq!(created.path, "/a");
            /// # Ok::<(), zk_proto::DecodeError>(())
            /// ```
            Response, "Answers ", true, { $($opcode => $name($response $(<$answers>)?))* }
        }

        impl OpCode {
            /// The operations that clients request: those with a [`Request`] and a [`Response`].
            pub const REQUESTS: &'static [Self] = &[$( Self::$opcode, )*];

            /// Returns whether this is one of [`REQUESTS`](Self::REQUESTS).
            ///
            /// A server refuses other operations with
            /// [`ErrorCode::UNIMPLEMENTED`](crate::ErrorCode::UNIMPLEMENTED), and closes the
            /// connection. [`CREATE_SESSION`](Self::CREATE_SESSION) is the exception: the server
            /// answers it with a [`ConnectResponse`](crate::ConnectResponse).
            ///
            /// ```
            /// use zk_proto::OpCode;
            ///
            /// assert!(OpCode::GET_DATA.is_request());
            /// assert!(!OpCode::CREATE_SESSION.is_request());
            /// ```
            pub fn is_request(self) -> bool {
                matches!(self, $( Self::$opcode )|*)
            }

            /// Returns the layout of the body of a request, or `None` unless this
            /// [is a request](Self::is_request).
            pub fn request_layout(self) -> Option<&'static Layout> {
                match self {
                    $( Self::$opcode => Some(<operations!(@static $request $($asks)?) as Explain<'_>>::LAYOUT), )*
                    _ => None,
                }
            }

            /// Returns the layout of the body of a successful reply, or `None` unless this
            /// [is a request](Self::is_request).
            pub fn response_layout(self) -> Option<&'static Layout> {
                match self {
                    $( Self::$opcode => Some(<operations!(@static $response $($answers)?) as Explain<'_>>::LAYOUT), )*
                    _ => None,
                }
            }
        }

        #[cfg(feature = "alloc")]
        pub(crate) mod owned {
            use super::*;

            mod bodies {
                pub(super) use crate::owned::multi::*;
                pub(super) use crate::records::owned::*;
            }

            owned_variants!(Request { $(
                #[doc = concat!("Operation [`", stringify!($opcode), "`](OpCode::", stringify!($opcode), ").")]
                $name($request $(<$asks>)?),
            )* });

            owned_variants!(Response { $(
                #[doc = concat!("Answers [`", stringify!($opcode), "`](OpCode::", stringify!($opcode), ").")]
                $name($response $(<$answers>)?),
            )* });

            operations!(@opcode [S: crate::owned::storage::Storage] Request<S> { $($opcode => $name)* });
            operations!(@opcode [S: crate::owned::storage::Storage] Response<S> { $($opcode => $name)* });

            impl Response {
                /// Returns a strategy for all replies to the operation of a request.
                #[cfg(feature = "proptest")]
                pub(crate) fn any_to(
                    request: &Request,
                    mode: crate::GeneratorMode,
                ) -> proptest::strategy::BoxedStrategy<Self> {
                    use proptest::strategy::Strategy;

                    match request {
                        $( Request::$name(_) => crate::generate::strategies::Generate::any(mode)
                            .prop_map(Self::$name)
                            .boxed(), )*
                    }
                }

                /// Draws any reply to the operation of a request.
                #[cfg(feature = "arbitrary")]
                pub(crate) fn draw_to(
                    request: &Request,
                    source: &mut arbitrary::Unstructured<'_>,
                ) -> arbitrary::Result<Self> {
                    match request {
                        $( Request::$name(_) => source.arbitrary().map(Self::$name), )*
                    }
                }
            }
        }
    };
    (@body
        $(#[$doc:meta])*
        $enum:ident, $what:literal, $is_reply:literal, {
            $( $opcode:ident => $name:ident($record:tt $(<$lt:lifetime>)?) )*
        }
    ) => {
        $(#[$doc])*
        #[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $enum<'a> {
            $(
                #[doc = concat!($what, "[`", stringify!($opcode), "`](OpCode::", stringify!($opcode), ").")]
                $name($record $(<$lt>)?),
            )*
        }

        operations!(@opcode ['a] $enum<'a> { $($opcode => $name)* });

        impl<'a> $enum<'a> {
            /// Decodes the body of a message about `opcode`, which must take all of `body`.
            ///
            /// # Errors
            ///
            /// [`DecodeErrorKind::UnknownOperation`] if the opcode is not one of
            /// [`OpCode::REQUESTS`]. Otherwise, fails if `body` is not the record of the operation.
            #[inline]
            pub fn decode(opcode: OpCode, body: &'a [u8]) -> Result<Self, DecodeError> {
                match opcode {
                    $( OpCode::$opcode => decode_body(body, Self::$name), )*
                    OpCode(number) => Err(unknown(number, 0)),
                }
            }

            /// Explains the body of a message about `opcode`.
            pub(crate) fn explain(
                opcode: OpCode,
                reader: &mut Reader<'a>,
                visit: &mut FieldVisitor<'_>,
            ) -> Result<(), DecodeError> {
                match opcode {
                    $( OpCode::$opcode => <$record $(<$lt>)?>::explain(reader, &FieldPath::Root, visit), )*
                    _ => keeper::explain_body(opcode, $is_reply, reader, &FieldPath::Root, visit),
                }
            }
        }

        encoded_variants!(['a] $enum<'a> { $($name)* });
    };
    (@opcode [$($generics:tt)*] $self:ty { $($opcode:ident => $name:ident)* }) => {
        impl<$($generics)*> $self {
            /// Returns the operation.
            #[inline]
            pub fn opcode(&self) -> OpCode {
                match self {
                    $( Self::$name(_) => OpCode::$opcode, )*
                }
            }
        }
    };
    (@static $record:tt $lt:lifetime) => { $record<'static> };
    (@static $record:tt) => { $record };
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

/// Returns the path in either form of a request, borrowed by `$borrow`.
macro_rules! path {
    ($request:expr, [$($borrow:tt)*], |$prefixed:ident| $prefix:expr) => {
        match $request {
            Self::Create(body) | Self::Create2(body) | Self::CreateContainer(body) => {
                Some($($borrow)* body.path)
            }
            Self::CreateTtl(body) => Some($($borrow)* body.path),
            Self::Delete(body) => Some($($borrow)* body.path),
            Self::DeleteContainer(body) => Some($($borrow)* body.path),
            Self::Exists(body) => Some($($borrow)* body.path),
            Self::GetData(body) => Some($($borrow)* body.path),
            Self::SetData(body) => Some($($borrow)* body.path),
            Self::GetAcl(body) => Some($($borrow)* body.path),
            Self::SetAcl(body) => Some($($borrow)* body.path),
            Self::GetChildren(body) | Self::GetChildren2(body) => Some($($borrow)* body.path),
            Self::Sync(body) => Some($($borrow)* body.path),
            Self::Check(body) => Some($($borrow)* body.path),
            Self::CheckWatches(body) => Some($($borrow)* body.path),
            Self::RemoveWatches(body) => Some($($borrow)* body.path),
            Self::GetEphemerals($prefixed) => $prefix,
            Self::GetAllChildrenNumber(body) => Some($($borrow)* body.path),
            Self::AddWatch(body) => Some($($borrow)* body.path),
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
    };
}

impl Request<'_> {
    /// Returns whether released servers do not survive the request.
    ///
    /// - A [`Check`](Self::Check) outside of a [`Multi`](Self::Multi). If the check succeeds, a
    ///   standalone server (seen on 3.6.3 and 3.8.0) can no longer read its transaction log, and
    ///   never starts again. In an ensemble the leader steps down, again and again. 3.9.5 refuses
    ///   any such check, and closes the connection.
    /// - A [`CreateTtl`](Self::CreateTtl) with a negative ttl and a mode without a time to live.
    ///   The server (seen on 3.6.3, 3.8.0 and 3.9.5) shuts down, and never starts again.
    ///
    /// Both are harmless inside a multi. `tests/suites/real/survival.rs` shows them.
    ///
    /// ```
    /// use zk_proto::{CheckVersionRequest, Multi, MultiOp, OpCode, Request};
    ///
    /// let check = CheckVersionRequest { path: "/", version: -1 };
    /// assert!(Request::Check(check).harms_servers());
    /// assert!(!Request::Multi(Multi::new(&[MultiOp::Check(check)])).harms_servers());
    ///
    /// /// Returns whether a fuzzer may send a request whose bytes it has changed.
    /// fn is_harmless(opcode: OpCode, body: &[u8]) -> bool {
    ///     match Request::decode(opcode, body) {
    ///         Ok(request) => !request.harms_servers(),
    ///         // Servers accept some bytes that `decode` refuses, such as bytes behind the record.
    ///         Err(_) => ![OpCode::CHECK, OpCode::CREATE_TTL].contains(&opcode),
    ///     }
    /// }
    /// let body = b"\0\0\0\x01/\xff\xff\xff\xff and more";
    /// assert!(!is_harmless(OpCode::CHECK, body) && is_harmless(OpCode::DELETE, body));
    /// ```
    pub fn harms_servers(&self) -> bool {
        match self {
            Self::Check(_) => true,
            Self::CreateTtl(body) => is_deadly(body.mode, body.ttl),
            _ => false,
        }
    }
}

/// Returns whether a `createTTL` passes the checks of a server and cannot be applied by it.
pub(crate) fn is_deadly(mode: CreateMode, ttl: i64) -> bool {
    let has_ttl = matches!(
        mode,
        CreateMode::PERSISTENT_WITH_TTL | CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL
    );
    ttl < 0 && !has_ttl
}

impl<'a> Request<'a> {
    /// Returns the path of the node that the request is about, if it is about a single node.
    ///
    /// For [`GetEphemerals`](Self::GetEphemerals), it is the prefix.
    ///
    /// ```
    /// use zk_proto::{DeleteRequest, Request};
    ///
    /// assert_eq!(Request::Delete(DeleteRequest { path: "/a", version: -1 }).path(), Some("/a"));
    /// assert_eq!(Request::Ping(()).path(), None);
    /// ```
    pub fn path(&self) -> Option<&'a str> {
        path!(self, [], |body| body.prefix_path)
    }

    /// Returns all paths in the request: its [`path`](Self::path), those of the operations of a
    /// multi, and those of the watches that it sets again.
    ///
    /// ```
    /// use zk_proto::{DeleteRequest, Multi, MultiOp, Request};
    ///
    /// let ops = ["/a", "/b"].map(|path| MultiOp::Delete(DeleteRequest { path, version: -1 }));
    /// assert!(Request::Multi(Multi::new(&ops)).paths().eq(["/a", "/b"]));
    /// ```
    pub fn paths(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let (mut ops, mut reads, mut watches) = (None, None, [List::NULL; 5]);
        match self {
            Self::Multi(multi) => ops = Some(multi.iter()),
            Self::MultiRead(multi) => reads = Some(multi.iter()),
            Self::SetWatches(body) => {
                let SetWatches { data_watches, exist_watches, child_watches, .. } = *body;
                watches[..3].copy_from_slice(&[data_watches, exist_watches, child_watches]);
            }
            Self::SetWatches2(body) => {
                watches = [
                    body.data_watches,
                    body.exist_watches,
                    body.child_watches,
                    body.persistent_watches,
                    body.persistent_recursive_watches,
                ];
            }
            _ => {}
        }
        let ops = ops.into_iter().flatten().map(|op| op.path());
        let reads = reads.into_iter().flatten().map(|op| op.path());
        let watches = watches.into_iter().flat_map(|paths| paths.iter());
        self.path().into_iter().chain(ops).chain(reads).chain(watches)
    }
}

#[cfg(any(feature = "proptest", feature = "arbitrary"))]
mod harmless;
// After the macro that it uses.
#[cfg(feature = "alloc")]
mod owned_requests;

fn unknown(number: i32, offset: usize) -> DecodeError {
    DecodeError::new(DecodeErrorKind::UnknownOperation(number), offset)
}

/// Decodes a record that takes all of `body`, right into its variant.
///
/// To decode it first and move it then takes twice as long.
fn decode_body<'a, T: Decode<'a>, M>(
    body: &'a [u8],
    variant: impl FnOnce(T) -> M,
) -> Result<M, DecodeError> {
    let mut reader = Reader::new(body);
    let record = T::decode(&mut reader)?;
    reader.finish()?;
    Ok(variant(record))
}
