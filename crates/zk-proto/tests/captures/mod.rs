//! Recorded connections, split into messages.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, DecodeError, Encode, ErrorCode, OpCode, Reader,
    ReplyHeader, Request, RequestHeader, Response, WatcherEvent, Xid, frame,
};

pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The bytes of one connection in both directions.
pub(crate) struct Capture {
    pub(crate) name: String,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
}

impl Capture {
    /// Returns all recordings, sorted by name.
    pub(crate) fn all() -> Vec<Self> {
        let mut names: Vec<_> = std::fs::read_dir(directory())
            .expect("the captures are there")
            .filter_map(|entry| {
                let name = entry.expect("a readable directory").file_name();
                Some(name.to_str()?.strip_suffix(".c2s")?.to_owned())
            })
            .collect();
        names.sort();
        names.into_iter().map(Self::load).collect()
    }

    fn load(name: String) -> Self {
        let read = |extension| {
            std::fs::read(directory().join(format!("{name}.{extension}"))).expect("a capture")
        };
        Self { to_server: read("c2s"), to_client: read("s2c"), name }
    }

    #[allow(dead_code, reason = "most tests look at frames")]
    pub(crate) fn to_server(&self) -> &[u8] {
        &self.to_server
    }

    #[allow(dead_code, reason = "most tests look at frames")]
    pub(crate) fn to_client(&self) -> &[u8] {
        &self.to_client
    }

    /// Returns the length of the longest frame in bytes.
    #[allow(dead_code, reason = "not every test encodes")]
    pub(crate) fn longest_frame(&self) -> usize {
        self.messages().iter().map(|message| message.bytes.len()).max().unwrap_or(0)
    }

    /// Returns the messages of the client, then those of the server.
    pub(crate) fn messages(&self) -> Vec<Message<'_>> {
        let mut unanswered: HashMap<Xid, VecDeque<OpCode>> = HashMap::new();
        let mut messages = Vec::new();
        for (place, bytes) in frames(&self.to_server).into_iter().enumerate() {
            let kind = if place == 0 {
                Kind::ConnectRequest
            } else {
                let header = RequestHeader::decode(&mut payload(bytes)).expect("a header");
                unanswered.entry(header.xid).or_default().push_back(header.opcode);
                Kind::Request(header)
            };
            messages.push(Message { bytes, kind });
        }
        for (place, bytes) in frames(&self.to_client).into_iter().enumerate() {
            let kind = match ReplyHeader::decode(&mut payload(bytes)) {
                Ok(header) if place == 0 && is_bare(bytes) => Kind::Refusal(header),
                _ if place == 0 => Kind::ConnectResponse,
                Ok(header) if header.xid == Xid::NOTIFICATION => Kind::Notification,
                Ok(header) => {
                    let asked = unanswered.get_mut(&header.xid).and_then(VecDeque::pop_front);
                    Kind::Reply(asked.expect("a request with the xid of the reply"), header)
                }
                Err(error) => panic!("{}: {error}", self.name),
            };
            messages.push(Message { bytes, kind });
        }
        messages
    }
}

/// Returns the whole frames of a stream with their length prefixes, without an incomplete end.
fn frames(mut stream: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some((_, rest)) = frame::split(stream, frame::DEFAULT_LIMIT).expect("a frame") {
        frames.push(&stream[..stream.len() - rest.len()]);
        stream = rest;
    }
    frames
}

fn payload(frame: &[u8]) -> Reader<'_> {
    Reader::new(&frame[frame::PREFIX_LEN..])
}

/// Returns whether the frame contains only the header of a reply.
fn is_bare(frame: &[u8]) -> bool {
    ReplyHeader::decode_all(&frame[frame::PREFIX_LEN..]).is_ok()
}

/// A frame and its kind of message.
pub(crate) struct Message<'c> {
    pub(crate) bytes: &'c [u8],
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "not every test that shares this module looks at the headers")]
pub(crate) enum Kind {
    ConnectRequest,
    ConnectResponse,
    /// A header in place of the answer to the handshake.
    Refusal(ReplyHeader),
    Request(RequestHeader),
    Reply(OpCode, ReplyHeader),
    Notification,
}

impl Message<'_> {
    /// Decodes the message, encodes it into `buffer`, checks that both are equal, and returns the
    /// encoded bytes.
    #[allow(dead_code, reason = "not every test encodes")]
    pub(crate) fn round_trip<'m>(&'m self, buffer: &'m mut [u8]) -> Result<&'m [u8], DecodeError> {
        let (frame, out) = (self.bytes, buffer);
        match self.kind {
            Kind::ConnectRequest => round_trip(frame, out, ConnectRequest::decode_all),
            Kind::ConnectResponse => round_trip(frame, out, ConnectResponse::decode_all),
            Kind::Refusal(_) => round_trip(frame, out, ReplyHeader::decode_all),
            Kind::Notification => {
                round_trip(frame, out, <(ReplyHeader, WatcherEvent<'_>)>::decode_all)
            }
            Kind::Request(_) => round_trip(frame, out, |payload| {
                let mut reader = Reader::new(payload);
                let header = RequestHeader::decode(&mut reader)?;
                Ok((header, Request::decode(header.opcode, reader.rest())?))
            }),
            Kind::Reply(_, header) if header.err != ErrorCode::OK && is_bare(frame) => {
                round_trip(frame, out, ReplyHeader::decode_all)
            }
            Kind::Reply(opcode, _) => round_trip(frame, out, |payload| {
                let mut reader = Reader::new(payload);
                let header = ReplyHeader::decode(&mut reader)?;
                Ok((header, Response::decode(opcode, reader.rest())?))
            }),
        }
    }
}

fn round_trip<'m, M: Encode + PartialEq + Debug>(
    frame: &'m [u8],
    buffer: &'m mut [u8],
    decode: impl Fn(&'m [u8]) -> Result<M, DecodeError>,
) -> Result<&'m [u8], DecodeError> {
    let message = decode(&frame[frame::PREFIX_LEN..])?;
    let length = frame::encode_to_slice(&message, buffer).expect("as long as the frame");
    let written = &buffer[..length];
    assert_eq!(decode(&written[frame::PREFIX_LEN..]).as_ref(), Ok(&message));
    Ok(written)
}
