#![doc = include_str!("../README.md")]
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc, clippy::alloc_instead_of_core)]

#[cfg(any(test, feature = "alloc"))]
extern crate alloc;
#[cfg(any(test, feature = "codec"))]
extern crate std;

#[macro_use]
mod macros;
#[cfg_attr(not(feature = "alloc"), allow(unused_macros))]
#[macro_use]
mod macros_owned;

#[cfg(feature = "codec")]
mod codec;
mod codes;
mod connect;
#[cfg(feature = "alloc")]
pub mod conversation;
#[cfg(feature = "alloc")]
pub mod diagram;
#[cfg(feature = "digest")]
mod digest;
mod error;
pub mod explain;
mod field;
#[cfg(all(feature = "defmt", target_os = "none"))]
mod formats;
pub mod frame;
#[cfg(any(feature = "proptest", feature = "arbitrary"))]
mod generate;
mod header;
mod ids;
pub mod keeper;
mod kind;
mod list;
mod multi;
mod operations;
#[cfg(feature = "alloc")]
pub mod owned;
pub mod path;
#[cfg(feature = "alloc")]
pub mod recording;
mod records;
mod sequence;
mod sink;
mod ttl;
mod wire;

#[cfg(feature = "arbitrary")]
pub use arbitrary;
pub use codes::{
    AddWatchMode, CreateMode, ErrorCode, EventType, KeeperState, OpCode, Perms, WatcherType,
};
pub use connect::{ConnectRequest, ConnectResponse};
#[cfg(feature = "digest")]
pub use digest::DigestId;
pub use error::{DecodeError, DecodeErrorKind, EncodeError, FieldName};
pub use field::Explain;
pub use header::{ReplyHeader, RequestHeader, Xid};
pub use ids::{Password, SessionId, Zxid};
pub use kind::NodeKind;
pub use list::List;
pub use multi::{
    DecodeMultiItem, EncodeMultiItem, Multi, MultiHeader, MultiOp, MultiReadOp, MultiReadRequest,
    MultiReadResponse, MultiReadResult, MultiRequest, MultiResponse, MultiResult,
};
pub use operations::{Request, Response};
pub use path::{PathError, ZnodePath};
pub use records::*;
pub use sequence::SequenceNumber;
pub use sink::{Sink, SliceSink};
pub use ttl::Ttl;
pub use wire::{CheckedItems, Decode, Encode, Reader};
#[cfg(feature = "alloc")]
pub use {bytes, list::reader::ListReader};
#[cfg(feature = "codec")]
pub use {
    codec::{ClientCodec, ClientMessage, CodecError, FrameCodec, ServerCodec, ServerMessage},
    tokio_util,
};
#[cfg(feature = "proptest")]
pub use {generate::strategies::GeneratorMode, proptest};
