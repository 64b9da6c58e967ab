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
use crate::frame::PREFIX_LEN;
use crate::header::{ReplyHeader, RequestHeader, Xid};
use crate::keeper::{self, Dialect};
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
    frame_in(Dialect::default(), bytes, message, visit)
}

/// Passes every field of a frame of a dialect to `visit`, as [`frame()`] does. `bytes` include what
/// its length does not count.
///
/// # Errors
///
/// As [`frame()`].
pub fn frame_in(
    dialect: Dialect,
    bytes: &[u8],
    message: MessageKind,
    visit: &mut FieldVisitor<'_>,
) -> Result<(), DecodeError> {
    const LENGTH: &FieldName = &FieldName { record: "Frame", field: "length" };

    let mut reader = Reader::new(bytes);
    let announced = reader.clone().length();
    field::<i32>(LENGTH, &mut reader, &FieldPath::Root, visit)?;
    let Some(length) = announced? else {
        return Err(Reader::new(bytes).error(DecodeErrorKind::NegativeLength(-1)));
    };
    let payload = reader.rest();
    if message == MessageKind::ConnectRequest && Dialect::asked(payload).is_some() {
        keeper::explain_handshake(&mut reader, visit)?;
        return reader.finish();
    }
    let mut behind = reader.clone();
    behind.take(length)?;
    let is_traced = message == MessageKind::Request && dialect.tracing;
    if !is_traced {
        behind.clone().finish()?;
    }
    let mut reader = Reader::new(&bytes[..behind.position()]);
    reader.take(PREFIX_LEN)?;
    explain_payload(dialect, &mut reader, message, visit)?;
    reader.finish()?;
    if is_traced { keeper::explain_trace(&mut behind, visit) } else { Ok(()) }
}

fn explain_payload(
    dialect: Dialect,
    reader: &mut Reader<'_>,
    message: MessageKind,
    visit: &mut FieldVisitor<'_>,
) -> Result<(), DecodeError> {
    let root = &FieldPath::Root;
    match message {
        MessageKind::ConnectRequest => ConnectRequest::explain(reader, root, visit),
        // A server that refuses sends a header, which is shorter than any handshake.
        MessageKind::ConnectResponse if reader.rest().len() == 16 => {
            ReplyHeader::explain(reader, root, visit)
        }
        MessageKind::ConnectResponse => ConnectResponse::explain(reader, root, visit),
        MessageKind::Request => {
            let RequestHeader { opcode, .. } = dialect.explain_request_header(reader, visit)?;
            Request::explain(opcode, reader, visit)
        }
        MessageKind::Reply(_) | MessageKind::UnknownReply => {
            let header = dialect.explain_reply_header(reader, visit)?;
            match message {
                _ if header.xid == Xid::NOTIFICATION => WatcherEvent::explain(reader, root, visit),
                // The body of a failed reply has no meaning, and may be absent.
                MessageKind::Reply(opcode)
                    if header.err == ErrorCode::OK
                        || Response::decode(opcode, reader.rest()).is_ok() =>
                {
                    Response::explain(opcode, reader, visit)
                }
                _ => uninterpreted(reader, visit),
            }
        }
    }
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
