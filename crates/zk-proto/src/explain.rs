//! Explanations of messages, field by field.
//!
//! [`frame()`] explains a whole frame, [`Explain`] a single value. Every message and record can be
//! explained, by the same declarations and the same code that decode it.
//!
//! Passwords and credentials are shown like all other bytes. Only `Debug` hides them.
//!
//! ```
//! use zk_proto::explain::{self, MessageKind};
//!
//! let frame = b"\0\0\0\x0f\0\0\0\x01\0\0\0\x03\0\0\0\x02/a\x01";
//! let mut dump = String::new();
//! explain::frame(frame, MessageKind::Request, &mut |field| {
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

use crate::codes::{ErrorCode, OpCode};
use crate::connect::{ConnectRequest, ConnectResponse};
use crate::error::{DecodeError, DecodeErrorKind, FieldName};
use crate::field::{Bytes, field};
pub use crate::field::{Explain, Field, FieldLayout, FieldPath, FieldVisitor, Layout};
use crate::header::{ReplyHeader, RequestHeader, Xid};
use crate::operations::{Request, Response};
use crate::records::WatcherEvent;
use crate::wire::Reader;

/// The kind of message in a frame, which its bytes do not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageKind {
    /// The first frame from a client.
    ConnectRequest,
    /// A later frame from a client.
    Request,
    /// The first frame from a server.
    ConnectResponse,
    /// A later frame from a server: the reply to this operation, or a watch event.
    Reply(OpCode),
    /// A later frame from a server, if the operation is unknown. The body is shown as bytes.
    UnknownReply,
}

/// Passes every field of a frame to `visit`, the length prefix included.
///
/// The fields cover all bytes of the frame.
///
/// # Errors
///
/// Returns where the bytes first differ from one frame with such a message. The fields visited
/// before the error are correct.
pub fn frame(
    bytes: &[u8],
    message: MessageKind,
    visit: &mut FieldVisitor<'_>,
) -> Result<(), DecodeError> {
    const LENGTH: &FieldName = &FieldName { record: "Frame", field: "length" };

    let mut reader = Reader::new(bytes);
    let announced = reader.clone().length();
    field::<i32>(LENGTH, &mut reader, &FieldPath::Root, visit)?;
    match announced? {
        None => return Err(Reader::new(bytes).error(DecodeErrorKind::NegativeLength(-1))),
        Some(length) => {
            let mut behind = reader.clone();
            behind.take(length)?;
            behind.finish()?;
        }
    }
    let root = &FieldPath::Root;
    match message {
        MessageKind::ConnectRequest => ConnectRequest::explain(&mut reader, root, visit)?,
        // A server that refuses sends a header, which is shorter than any handshake.
        MessageKind::ConnectResponse if reader.rest().len() == 16 => {
            ReplyHeader::explain(&mut reader, root, visit)?;
        }
        MessageKind::ConnectResponse => ConnectResponse::explain(&mut reader, root, visit)?,
        MessageKind::Request => {
            let RequestHeader { opcode, .. } = header(&mut reader, visit)?;
            Request::explain(opcode, &mut reader, visit)?;
        }
        MessageKind::Reply(opcode) => {
            let header: ReplyHeader = header(&mut reader, visit)?;
            // The body of a failed reply has no meaning, and may be absent.
            let failed = header.err != ErrorCode::OK;
            if header.xid == Xid::NOTIFICATION {
                WatcherEvent::explain(&mut reader, root, visit)?;
            } else if failed && Response::decode(opcode, reader.rest()).is_err() {
                uninterpreted(&mut reader, visit)?;
            } else {
                Response::explain(opcode, &mut reader, visit)?;
            }
        }
        MessageKind::UnknownReply => {
            let header: ReplyHeader = header(&mut reader, visit)?;
            if header.xid == Xid::NOTIFICATION {
                WatcherEvent::explain(&mut reader, root, visit)?;
            } else {
                uninterpreted(&mut reader, visit)?;
            }
        }
    }
    reader.finish()
}

fn header<'a, H: Explain<'a>>(
    reader: &mut Reader<'a>,
    visit: &mut FieldVisitor<'_>,
) -> Result<H, DecodeError> {
    let mut again = reader.clone();
    H::explain(reader, &FieldPath::Root, visit)?;
    H::decode(&mut again)
}

/// Shows the remaining bytes, if there are any, without interpreting them.
fn uninterpreted(reader: &mut Reader<'_>, visit: &mut FieldVisitor<'_>) -> Result<(), DecodeError> {
    const BODY: &FieldName = &FieldName { record: "Frame", field: "body" };

    let start = reader.position();
    let bytes = reader.take(reader.rest().len())?;
    if !bytes.is_empty() {
        let path = &FieldPath::Field(&FieldPath::Root, BODY);
        let range = start..reader.position();
        visit(&Field { range, wire_type: "bytes", path, value: &Bytes(bytes) });
    }
    Ok(())
}
