//! The next frame of a stream in which bytes are missing.

use zk_proto::conversation::Direction;
use zk_proto::{
    ConnectResponse, Decode, ErrorCode, OpCode, Reader, ReplyHeader, Request, RequestHeader,
    Response, WatcherEvent, Xid, frame,
};

use crate::input::is_connect_request;

/// How far the zxid of a server moves while bytes are missing.
const ZXIDS: i64 = 1 << 24;

/// What is known of the connection.
pub(crate) struct Context<'c> {
    pub(crate) direction: Direction,
    pub(crate) limit: usize,
    /// The newest zxid of the server.
    pub(crate) zxid: Option<i64>,
    /// Returns the operation of the request with this xid, if it was seen.
    pub(crate) asked: &'c dyn Fn(Xid) -> Option<OpCode>,
}

#[derive(PartialEq, Eq)]
enum Verdict {
    Frame,
    /// More bytes are needed to know.
    Maybe,
    No,
}

/// Returns where the next frame begins, or else the first place where one may begin.
pub(crate) fn find(context: &Context<'_>, bytes: &[u8], from: usize) -> Result<usize, usize> {
    let mut first = None;
    for place in from..bytes.len() {
        match context.judge(&bytes[place..]) {
            Verdict::Frame => return Ok(place),
            Verdict::Maybe => first = first.or(Some(place)),
            Verdict::No => {}
        }
    }
    Err(first.unwrap_or(bytes.len()))
}

impl Context<'_> {
    /// Judges a frame by its content and by the header of the frame behind it.
    fn judge(&self, bytes: &[u8]) -> Verdict {
        match self.header(bytes) {
            Verdict::Frame => {}
            other => return other,
        }
        match frame::split(bytes, self.limit) {
            Ok(Some((payload, behind))) if self.is_message(payload) => {
                let is_end = behind.is_empty() || self.header(behind) != Verdict::No;
                if is_end { Verdict::Frame } else { Verdict::No }
            }
            Ok(None) => Verdict::Maybe,
            _ => Verdict::No,
        }
    }

    /// Judges a length and the header behind it.
    fn header(&self, bytes: &[u8]) -> Verdict {
        let Some((length, rest)) = bytes.split_first_chunk() else { return Verdict::Maybe };
        let length = u32::from_be_bytes(*length) as usize;
        let shortest = match self.direction {
            Direction::ToServer => 8,
            Direction::ToClient => 16,
        };
        if length < shortest || length > self.limit {
            return Verdict::No;
        }
        let mut reader = Reader::new(rest);
        let is_plausible = match self.direction {
            _ if rest.len() < shortest => return Verdict::Maybe,
            Direction::ToServer => RequestHeader::decode(&mut reader)
                .is_ok_and(|it| it.xid.0 == 0 || OpCode::KNOWN.contains(&it.opcode)),
            Direction::ToClient => ReplyHeader::decode(&mut reader).is_ok_and(|it| self.is_own(it)),
        };
        let is_handshake = rest.starts_with(&[0; 4]);
        if is_plausible || is_handshake { Verdict::Frame } else { Verdict::No }
    }

    fn is_own(&self, header: ReplyHeader) -> bool {
        let is_special = matches!(header.xid, Xid::NOTIFICATION | Xid::PING | Xid::AUTH);
        let zxid = header.zxid.0;
        // Watch events and refusals may have -1.
        let is_near = match self.zxid {
            Some(known) => zxid <= 0 || zxid.abs_diff(known) < ZXIDS as u64,
            None => (-1..1 << 56).contains(&zxid),
        };
        is_near
            && (header.xid.0 > 0 || is_special || (self.asked)(header.xid).is_some())
            && ErrorCode::KNOWN.contains(&header.err)
    }

    fn is_message(&self, payload: &[u8]) -> bool {
        let mut reader = Reader::new(payload);
        match self.direction {
            Direction::ToServer => {
                let header = RequestHeader::decode(&mut reader);
                is_connect_request(payload)
                    || header.is_ok_and(|it| Request::decode(it.opcode, reader.rest()).is_ok())
            }
            Direction::ToClient => {
                let is_handshake = ConnectResponse::decode_all(payload)
                    .is_ok_and(|response| response.protocol_version == 0 && response.timeout > 0);
                let header = ReplyHeader::decode(&mut reader);
                is_handshake || header.is_ok_and(|it| self.is_reply(it, reader.rest()))
            }
        }
    }

    fn is_reply(&self, header: ReplyHeader, body: &[u8]) -> bool {
        match header {
            _ if !self.is_own(header) => false,
            ReplyHeader { xid: Xid::NOTIFICATION, .. } => WatcherEvent::decode_all(body).is_ok(),
            ReplyHeader { xid: Xid::PING, .. } => body.is_empty(),
            ReplyHeader { err, .. } if err != ErrorCode::OK => body.is_empty(),
            ReplyHeader { xid, .. } => match (self.asked)(xid) {
                Some(opcode) => Response::decode(opcode, body).is_ok(),
                None => true,
            },
        }
    }
}
