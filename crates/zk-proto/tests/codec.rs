//! Whole connections through the typed codecs of both sides.

mod captures;

use std::io;

use bytes::BytesMut;
use captures::{Capture, Kind, Message};
use tokio_util::codec::{Decoder, Encoder};
use zk_proto::frame::{FrameError, Splitter};
use zk_proto::{
    ClientCodec, ClientMessage, CodecError, ConnectRequest, Decode, Encode, EncodeError, ErrorCode,
    GetDataRequest, OpCode, ReplyHeader, Request, RequestHeader, Response, ServerCodec,
    ServerMessage, SetDataResponse, Stat, SyncRequest, Xid, Zxid, frame, owned,
};

/// Checks that one codec writes the recorded bytes, and that the other codec reads them.
fn replay(capture: &Capture) {
    let messages = capture.messages();
    let (mut client, mut server) = (ClientCodec::default(), ServerCodec::default());
    for message in &messages {
        let mut arrived = BytesMut::from(message.bytes);
        let mut sent = BytesMut::new();
        if is_from_client(message) {
            let read = server.decode(&mut arrived).expect("a message").expect("a whole frame");
            match read {
                ClientMessage::Connect(_) => {
                    let payload = &message.bytes[frame::PREFIX_LEN..];
                    let request =
                        ConnectRequest::decode_all(payload).expect("as the server read it");
                    client.encode(request, &mut sent).expect("short");
                }
                ClientMessage::Request(header, Ok(request)) => {
                    client.encode((header.xid, request), &mut sent).expect("short");
                }
                ClientMessage::Request(_, Err(error)) => panic!("{}: {error}", capture.name),
            }
        } else {
            let read = client.decode(&mut arrived).expect("a message").expect("a whole frame");
            match (&read, message.kind) {
                (ServerMessage::Connected(_), Kind::ConnectResponse)
                | (ServerMessage::Notification(..), Kind::Notification) => {}
                (ServerMessage::Refused(read), Kind::Refusal(header)) => assert_eq!(*read, header),
                (ServerMessage::Reply(read, Some(body)), Kind::Reply(opcode, header)) => {
                    assert_eq!((*read, body.opcode()), (header, opcode));
                }
                (ServerMessage::Reply(read, None), Kind::Reply(_, header)) => {
                    assert_eq!(*read, header);
                    assert_ne!(header.err, ErrorCode::OK);
                    // The body of a failed reply is not kept.
                    arrived.extend_from_slice(&message.bytes[frame::PREFIX_LEN + 16..]);
                }
                (read, kind) => panic!("{}: {read:?} is not {kind:?}", capture.name),
            }
            let length = read.encoded_len();
            server.encode(read, &mut sent).expect("short");
            assert_eq!(sent.len(), frame::PREFIX_LEN + length, "{}", capture.name);
        }
        let length = frame::PREFIX_LEN..message.bytes.len() - arrived.len();
        assert_eq!(sent[frame::PREFIX_LEN..], message.bytes[length], "{}", capture.name);
    }
}

fn is_from_client(message: &Message<'_>) -> bool {
    matches!(message.kind, Kind::ConnectRequest | Kind::Request(_))
}

#[test]
fn recorded_connections_pass_through_both_sides() {
    let mut replayed = 0;
    for capture in Capture::all() {
        let mut buffer = vec![0; capture.longest_frame()];
        // Some recordings contain invalid requests, to test the server.
        let valid =
            capture.messages().iter().all(|message| message.round_trip(&mut buffer).is_ok());
        if valid {
            replay(&capture);
            replayed += 1;
        }
    }
    assert!(replayed > 40, "{replayed}");
}

const CONNECT: ConnectRequest<'_> = ConnectRequest {
    protocol_version: 0,
    last_zxid_seen: Zxid::ZERO,
    timeout: 30_000,
    session_id: zk_proto::SessionId::NONE,
    password: Some(&[0; 16]),
    read_only: Some(false),
};

/// Returns both codecs after their handshake.
fn connected() -> (ClientCodec, ServerCodec) {
    let (mut client, mut server) = (ClientCodec::default(), ServerCodec::default());
    let mut stream = BytesMut::new();
    client.encode(CONNECT, &mut stream).expect("short");
    let read = server.decode(&mut stream).expect("a message");
    assert!(matches!(read, Some(ClientMessage::Connect(connect)) if connect.timeout == 30_000));
    let header = ReplyHeader { xid: Xid(0), zxid: Zxid(1), err: ErrorCode::NOT_READ_ONLY };
    server.encode(header, &mut stream).expect("short");
    let read = client.decode(&mut stream).expect("a message");
    assert_eq!(read, Some(ServerMessage::Refused(header)));
    (client, server)
}

#[test]
fn the_buffers_of_a_reply_are_slices_of_the_stream() {
    let (mut client, mut server) = connected();
    let mut stream = BytesMut::new();
    let request = Request::GetData(GetDataRequest { path: "/a", watch: false });
    client.encode((Xid(1), request), &mut stream).expect("short");
    stream.clear();
    let header = ReplyHeader { xid: Xid(1), zxid: Zxid(5), err: ErrorCode::OK };
    let body = zk_proto::GetDataResponse { data: Some(&[7; 1000]), stat: Stat::default() };
    server.encode((header, Response::GetData(body)), &mut stream).expect("short");
    let memory = stream.as_ptr_range();
    let read = client.decode(&mut stream).expect("a message");
    let Some(ServerMessage::Reply(_, Some(owned::Response::GetData(reply)))) = read else {
        panic!("{read:?}");
    };
    let data = reply.data.expect("not null");
    assert_eq!(data, vec![7; 1000]);
    assert!(memory.contains(&data.as_ptr()));
}

#[test]
fn a_request_that_is_not_what_it_should_be_can_be_answered() {
    let (_, mut server) = connected();
    let header = RequestHeader { xid: Xid(3), opcode: OpCode(999) };
    let mut stream = BytesMut::new();
    frame::encode(&header, &mut stream).expect("short");
    let read = server.decode(&mut stream).expect("the connection goes on");
    assert!(matches!(read, Some(ClientMessage::Request(read, Err(_))) if read == header));
}

#[test]
fn answers_to_pings_overtake_others_and_have_an_xid_of_their_own() {
    let (mut client, mut server) = connected();
    let mut stream = BytesMut::new();
    let get = Request::SetData(zk_proto::SetDataRequest { path: "/a", data: None, version: -1 });
    client.encode((Xid(1), get), &mut stream).expect("short");
    client.encode((Xid(7), Request::Ping(())), &mut stream).expect("short");
    stream.clear();
    let ping = ReplyHeader { xid: Xid::PING, zxid: Zxid(5), err: ErrorCode::OK };
    let set = ReplyHeader { xid: Xid(1), zxid: Zxid(6), err: ErrorCode::OK };
    server.encode(ping, &mut stream).expect("short");
    let body = Response::SetData(SetDataResponse { stat: Stat::default() });
    server.encode((set, body), &mut stream).expect("short");
    let mut next = || match client.decode(&mut stream).expect("a message") {
        Some(ServerMessage::Reply(header, Some(body))) => (header, body.opcode()),
        other => panic!("{other:?}"),
    };
    assert_eq!(next(), (ping, OpCode::PING));
    assert_eq!(next(), (set, OpCode::SET_DATA));
}

#[test]
fn a_reply_to_what_was_not_asked_is_an_error() {
    let (mut client, mut server) = connected();
    let mut stream = BytesMut::new();
    let header = ReplyHeader { xid: Xid(1), zxid: Zxid(5), err: ErrorCode::OK };
    server.encode(header, &mut stream).expect("short");
    let error = client.decode(&mut stream).expect_err("nothing was asked");
    assert!(matches!(error, CodecError::UnexpectedReply(Xid(1))));
    assert_eq!(error.to_string(), "the xid 1 of a reply matches no request");
}

#[test]
fn frames_beyond_the_limit_are_refused_on_both_sides() {
    let stream = || BytesMut::from(&[0, 0, 0, 3, 1, 2, 3][..]);
    let message = "a frame of 3 bytes exceeds the limit of 2 bytes";
    let client = ClientCodec::new(2).decode(&mut stream()).map(|_| ());
    let server = ServerCodec::new(2).decode(&mut stream()).map(|_| ());
    for result in [client, server] {
        assert_eq!(result.map_err(|error| error.to_string()), Err(message.to_owned()));
    }
}

#[test]
fn a_message_that_has_arrived_in_part_is_left_in_the_stream() {
    let (mut client, mut server) = connected();
    let mut stream = BytesMut::from(&b"\0\0\0\x10\0\0"[..]);
    assert_eq!(client.decode(&mut stream).expect("no error"), None);
    assert_eq!(server.decode(&mut stream).expect("no error"), None);
    assert_eq!(stream.len(), 6);
}

#[test]
fn an_error_keeps_its_text_and_gets_a_kind_as_an_io_error() {
    let broken = || io::Error::new(io::ErrorKind::BrokenPipe, "gone");
    let decode = SyncRequest::decode_all(b"").expect_err("no bytes");
    let encode = EncodeError::TooLong { length: 1 << 31 };
    let frame = FrameError::Negative(-2);
    for (error, text, kind) in [
        (broken().into(), "gone".into(), io::ErrorKind::BrokenPipe),
        (frame.into(), frame.to_string(), io::ErrorKind::InvalidData),
        (decode.into(), decode.to_string(), io::ErrorKind::InvalidData),
        (encode.into(), encode.to_string(), io::ErrorKind::InvalidInput),
    ] {
        let error: CodecError = error;
        assert_eq!(error.to_string(), text);
        assert_eq!(io::Error::from(error).kind(), kind);
    }
    // The error of the transport is not wrapped, so its cause is not shown twice.
    let caused = CodecError::from(io::Error::other(decode));
    assert!(core::error::Error::source(&caused).is_none());
    assert!(core::error::Error::source(&CodecError::from(decode)).is_none());
    let caused = CodecError::from(io::Error::other(Caused(frame)));
    let cause = core::error::Error::source(&caused).expect("that of the transport's error");
    assert_eq!(cause.to_string(), frame.to_string());
}

/// An error of a transport that has a cause.
#[derive(Debug)]
struct Caused(FrameError);

impl core::fmt::Display for Caused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("broken")
    }
}

impl core::error::Error for Caused {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[test]
fn a_reader_learns_how_many_bytes_are_missing() {
    let mut splitter = Splitter::new(100);
    assert_eq!(splitter.missing(&[0, 0]), Some(2));
    assert_eq!(splitter.missing(&[0, 0, 0, 20, 7]), Some(19));
    assert_eq!(splitter.missing(&[0, 0, 0, 1, 7, 8]), Some(0));
    // Only the start of a longer frame is needed. It is taken apart.
    assert_eq!(splitter.missing(&[0, 1, 0, 0]), Some(16));
    // What follows cannot be a frame, and more bytes do not help.
    assert_eq!(splitter.missing(&[0xff; 4]), Some(0));
    let mut stream = BytesMut::from(&[&[0, 0, 4, 0][..], &[7; 20]].concat()[..]);
    splitter.split(&mut stream).expect("a frame");
    assert_eq!(splitter.missing(&stream), None);
}
