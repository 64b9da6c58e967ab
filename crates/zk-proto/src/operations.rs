//! The table of operations: which record asks, which record answers.

use crate::codes::OpCode;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::records::*;
use crate::wire::{Decode, Encode, Sink};

macro_rules! operations {
    ($( $opcode:ident => $name:ident($request:ty) -> $response:ty; )*) => {
        /// The body of a request, by operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Request<'a> {
            $(
                #[doc = concat!("Operation [`", stringify!($opcode), "`](OpCode::", stringify!($opcode), ").")]
                $name($request),
            )*
        }

        impl<'a> Request<'a> {
            /// The operation.
            pub fn opcode(&self) -> OpCode {
                match self {
                    $( Self::$name(_) => OpCode::$opcode, )*
                }
            }

            /// Reads the body of a request for `opcode`, which must take all of `body`.
            ///
            /// # Errors
            ///
            /// [`DecodeErrorKind::UnknownOperation`] when the opcode has no row in this table;
            /// otherwise when the body is not its record.
            pub fn decode(opcode: OpCode, body: &'a [u8]) -> Result<Self, DecodeError> {
                match opcode {
                    $( OpCode::$opcode => Decode::decode_all(body).map(Self::$name), )*
                    OpCode(number) => Err(unknown(number)),
                }
            }
        }

        impl Encode for Request<'_> {
            #[inline]
            fn encoded_len(&self) -> usize {
                match self {
                    $( Self::$name(body) => body.encoded_len(), )*
                }
            }

            #[inline]
            fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
                match self {
                    $( Self::$name(body) => body.encode(out), )*
                }
            }
        }

        /// The body of a successful reply, by the operation that it answers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Response<'a> {
            $(
                #[doc = concat!("Answers [`", stringify!($opcode), "`](OpCode::", stringify!($opcode), ").")]
                $name($response),
            )*
        }

        impl<'a> Response<'a> {
            /// The operation that this answers.
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
            pub fn decode(opcode: OpCode, body: &'a [u8]) -> Result<Self, DecodeError> {
                match opcode {
                    $( OpCode::$opcode => Decode::decode_all(body).map(Self::$name), )*
                    OpCode(number) => Err(unknown(number)),
                }
            }
        }

        impl Encode for Response<'_> {
            #[inline]
            fn encoded_len(&self) -> usize {
                match self {
                    $( Self::$name(body) => body.encoded_len(), )*
                }
            }

            #[inline]
            fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
                match self {
                    $( Self::$name(body) => body.encode(out), )*
                }
            }
        }
    };
}

operations! {
    // opcode         name             request                       reply
    CREATE           => Create          (CreateRequest<'a>)        -> CreateResponse<'a>;
    DELETE           => Delete          (DeleteRequest<'a>)        -> ();
    EXISTS           => Exists          (ExistsRequest<'a>)        -> ExistsResponse;
    GET_DATA         => GetData         (GetDataRequest<'a>)       -> GetDataResponse<'a>;
    SET_DATA         => SetData         (SetDataRequest<'a>)       -> SetDataResponse;
    GET_CHILDREN     => GetChildren     (GetChildrenRequest<'a>)   -> GetChildrenResponse<'a>;
    SYNC             => Sync            (SyncRequest<'a>)          -> SyncResponse<'a>;
    PING             => Ping            (())                       -> ();
    GET_CHILDREN2    => GetChildren2    (GetChildrenRequest<'a>)   -> GetChildren2Response<'a>;
    MULTI            => Multi           (MultiRequest<'a>)         -> MultiResponse<'a>;
    CREATE2          => Create2         (CreateRequest<'a>)        -> Create2Response<'a>;
    REMOVE_WATCHES   => RemoveWatches   (RemoveWatchesRequest<'a>) -> ();
    CREATE_CONTAINER => CreateContainer (CreateRequest<'a>)        -> Create2Response<'a>;
    SET_WATCHES      => SetWatches      (SetWatches<'a>)           -> ();
    SET_WATCHES2     => SetWatches2     (SetWatches2<'a>)          -> ();
    CLOSE_SESSION    => CloseSession    (())                       -> ();
}

fn unknown(number: i32) -> DecodeError {
    DecodeError::new(DecodeErrorKind::UnknownOperation(number), 0)
}
