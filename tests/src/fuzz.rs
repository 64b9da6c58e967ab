//! The fuzz targets of `zk-proto`: arbitrary bytes through its public API.
//!
//! Input that decodes must encode to as many bytes, equal except that `true` becomes 1, and these
//! must decode to the same value. Each target has a shim in `fuzz/`. The suite `corpus` runs the
//! inputs that fuzzing has found with every run of the tests.

use core::fmt::Debug;

use alloc::string::ToString;
use alloc::vec::Vec;

use arbitrary::{Arbitrary, Unstructured};
use bytes::{Bytes, BytesMut};
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, DecodeError, DecodeErrorKind, DecodeMultiItem, Encode,
    ErrorCode, List, ListReader, Multi, MultiReadRequest, MultiReadResponse, MultiRequest,
    MultiResponse, OpCode, Reader, ReplyHeader, Request, RequestHeader, Response, WatcherEvent,
    Xid,
    conversation::{self, Conversation, Direction, End, Kind},
    explain::{self, MessageKind},
    frame::{self, FrameError, Piece, Splitter},
    keeper::{self, Dialect},
    owned::{self, IntoOwned},
};

/// A fuzz target: its name, as in `fuzz/fuzz_targets` and `fuzz/corpus`, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All fuzz targets.
pub const TARGETS: &[Target] = &[
    ("connect", connect),
    ("conversation", conversation),
    ("explain", explain),
    ("frame", frame),
    ("list", list),
    ("machine", crate::fuzz_machine::machine),
    ("multi", multi),
    ("owned", owned),
    ("request", request),
    ("response", response),
    ("server", crate::fuzz_server::server),
    ("session", crate::fuzz_session::session),
    ("stream", crate::fuzz_server::stream),
    ("text", crate::fuzz_text::text),
];

/// The longest frame that [`frame`] accepts. It is short, so that inputs reach beyond it.
const LIMIT: usize = 1024;

/// Splits a stream into frames. The first byte is the size of the chunks, which must not change the
/// frames.
pub fn frame(data: &[u8]) {
    let Some((chunk, stream)) = data.split_first() else { return };

    let mut rest = stream;
    let mut whole = Vec::new();
    let end = loop {
        match frame::split(rest, LIMIT) {
            Ok(Some((payload, behind))) => {
                headers(payload);
                whole.push(payload);
                rest = behind;
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let taken = whole.iter().map(|payload| frame::PREFIX_LEN + payload.len()).sum::<usize>();
    assert_eq!(taken + rest.len(), stream.len());

    let mut pieces = Vec::new();
    let mut arrived = BytesMut::new();
    let end_of_pieces = stream.chunks(usize::from(*chunk).max(1)).try_for_each(|chunk| {
        arrived.extend_from_slice(chunk);
        while let Some(payload) = frame::split_bytes(&mut arrived, LIMIT)? {
            pieces.push(payload);
        }
        Ok::<_, FrameError>(())
    });
    assert_eq!(pieces, whole);
    assert_eq!(end_of_pieces, end);

    let mut left = 0;
    // A splitter that takes frames that are too long apart finds the same frames before and behind them.
    let (mut splitter, mut arrived, mut frames) =
        (Splitter::new(LIMIT), BytesMut::new(), Vec::new());
    let end_of_all = stream.chunks(usize::from(*chunk).max(1)).try_for_each(|chunk| {
        arrived.extend_from_slice(chunk);
        while let Some(piece) = splitter.split(&mut arrived)? {
            match piece {
                Piece::Frame(payload) => frames.push(payload),
                Piece::TooLong { start, length } => {
                    assert!(start.len() <= 16 && length > LIMIT);
                    left = length - start.len();
                }
                Piece::Rest(bytes) => {
                    assert!((1..=left).contains(&bytes.len()));
                    left -= bytes.len();
                }
            }
        }
        assert!(arrived.len() < LIMIT + frame::PREFIX_LEN);
        Ok::<_, FrameError>(())
    });
    assert_eq!(frames.get(..whole.len()), Some(&pieces[..]));
    if let Err(FrameError::Negative(_)) = end {
        assert_eq!(end_of_all, end);
    }
}

/// Reads a list of strings whole, and in pieces as long as the first byte says.
pub fn list(data: &[u8]) {
    let Some((&chunk, body)) = data.split_first() else { return };
    let whole = List::<&str>::decode(&mut Reader::new(body));
    let (mut reader, mut names) = (ListReader::new(LIMIT), Vec::new());
    let mut pieces = body.chunks(usize::from(chunk).max(1));
    let read =
        pieces.try_for_each(|piece| reader.read(piece, &mut |name| names.push(name.to_owned())));
    match (read.and_then(|()| reader.finish()), whole) {
        (Ok(()), whole) => {
            assert!(names.iter().map(String::as_str).eq(whole.expect("it was read").iter()));
        }
        (Err(_), Ok(whole)) => assert!(whole.iter().any(|name| name.len() + 4 > LIMIT)),
        (Err(_), Err(_)) => {}
    }
}

fn headers(payload: &[u8]) {
    if let Some(bytes) = payload.get(..8) {
        survives_round_trip(bytes, &mut Vec::new(), RequestHeader::decode_all);
    }
    if let Some(bytes) = payload.get(..16) {
        survives_round_trip(bytes, &mut Vec::new(), ReplyHeader::decode_all);
    }
}

/// Decodes the body of a request, behind a byte that is its opcode.
pub fn request(data: &[u8]) {
    let Some((opcode, body)) = opcode(data) else { return };
    survives_round_trip(body, &mut Vec::new(), |body| Request::decode(opcode, body));
}

/// Decodes the body of a response, behind a byte that is the opcode of the request.
pub fn response(data: &[u8]) {
    let Some((opcode, body)) = opcode(data) else { return };
    survives_round_trip(body, &mut Vec::new(), |body| Response::decode(opcode, body));
    if let Ok(Response::GetChildren(response)) = Response::decode(opcode, body)
        && !response.children.is_null()
    {
        // A list of the same items writes the bytes that it was read from.
        let children: Vec<_> = response.children.iter().collect();
        assert_eq!(children.len(), response.children.len());
        assert_eq!(encoded(&List::new(&children)), body);
    }
}

/// Generates requests and replies from the bytes, without any that harms a server. Each survives
/// the way to its frame, to the borrowed form and back.
pub fn owned(data: &[u8]) {
    let mut input = Unstructured::new(data);
    while !input.is_empty() {
        let Ok(request) = owned::Request::arbitrary(&mut input) else { break };
        assert!(!request.harms_servers(), "{request:?}");
        let bytes = encoded(&request);
        let borrowed = Request::decode(request.opcode(), &bytes).expect("what was encoded");
        assert_eq!(encoded(&borrowed), bytes);
        assert_eq!(borrowed.path(), request.path());
        assert_eq!(borrowed.into_owned(), request);
        let frame = Bytes::copy_from_slice(&bytes);
        assert_eq!(encoded(&borrowed.to_owned_in(&frame)), bytes);

        let Ok(response) = owned::Response::arbitrary(&mut input) else { break };
        let bytes = encoded(&response);
        let borrowed = Response::decode(response.opcode(), &bytes).expect("what was encoded");
        assert_eq!(borrowed.into_owned(), response);
    }
}

/// Decodes a handshake: a request behind an even byte, a response behind an odd one.
pub fn connect(data: &[u8]) {
    match data.split_first() {
        Some((side, bytes)) if side % 2 == 0 => {
            survives_round_trip(bytes, &mut Vec::new(), ConnectRequest::decode_all);
        }
        Some((_, bytes)) => {
            survives_round_trip(bytes, &mut Vec::new(), ConnectResponse::decode_all);
        }
        None => {}
    }
}

/// Decodes a multi or a multiRead: a request behind an even byte, a response behind an odd one.
pub fn multi(data: &[u8]) {
    match data.split_first() {
        Some((side, bytes)) if side % 2 == 0 => {
            survives_round_trip(bytes, &mut Vec::new(), MultiRequest::decode_all);
            survives_round_trip_item_by_item(MultiRequest::decode_all(bytes), &mut Vec::new());
            survives_round_trip(bytes, &mut Vec::new(), MultiReadRequest::decode_all);
            survives_round_trip_item_by_item(MultiReadRequest::decode_all(bytes), &mut Vec::new());
        }
        Some((_, bytes)) => {
            survives_round_trip(bytes, &mut Vec::new(), MultiResponse::decode_all);
            survives_round_trip_item_by_item(MultiResponse::decode_all(bytes), &mut Vec::new());
            survives_round_trip(bytes, &mut Vec::new(), MultiReadResponse::decode_all);
            survives_round_trip_item_by_item(MultiReadResponse::decode_all(bytes), &mut Vec::new());
            if let Ok(Some((place, _))) =
                MultiResponse::decode_all(bytes).map(|multi| multi.failure())
            {
                assert!(place < bytes.len() / 9);
            }
        }
        None => {}
    }
}

/// Explains the payload of a frame, behind a byte for its kind and one for the opcode of the
/// request.
///
/// The explanation fails if and only if the decoder fails, and with the same error, except for
/// operations that only Keeper has. Its fields cover all bytes of the frame in order.
pub fn explain(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let Some((asked, payload)) = opcode(rest) else { return };
    let mut reader = Reader::new(payload);
    let (message, before, decoded) = match kind % 5 {
        0 => (MessageKind::ConnectRequest, 0, Dialect::handshake(payload).map(drop)),
        1 => match RequestHeader::decode(&mut reader) {
            Ok(header) => {
                let decoded = Request::decode(header.opcode, reader.rest());
                (MessageKind::Request, reader.position(), decoded.map(drop))
            }
            Err(error) => (MessageKind::Request, 0, Err(error)),
        },
        2 if payload.len() == 16 => (MessageKind::ConnectResponse, 0, Ok(())),
        2 => (MessageKind::ConnectResponse, 0, ConnectResponse::decode_all(payload).map(drop)),
        kind => {
            let message =
                if kind == 3 { MessageKind::Reply(asked) } else { MessageKind::UnknownReply };
            match ReplyHeader::decode(&mut reader) {
                Ok(header) => {
                    let decoded = match header.xid {
                        Xid::NOTIFICATION => WatcherEvent::decode_all(reader.rest()).map(drop),
                        _ if kind == 3 && header.err == ErrorCode::OK => {
                            Response::decode(asked, reader.rest()).map(drop)
                        }
                        _ => Ok(()),
                    };
                    (message, reader.position(), decoded)
                }
                Err(error) => (message, 0, Err(error)),
            }
        }
    };
    let length = i32::try_from(payload.len()).expect("inputs are short");
    let frame = [&length.to_be_bytes()[..], payload].concat();
    let mut end = 0;
    let explained = explain::frame(&frame, message, &mut |field| {
        assert!(field.range.start == end && !field.range.is_empty(), "{field:?} behind {end}");
        end = field.range.end;
    });
    assert!(explained.is_err() || end == frame.len(), "{end}");
    // Explanations know the operations of ClickHouse Keeper, which the decoder leaves to it.
    if let Err(error) = decoded
        && let DecodeErrorKind::UnknownOperation(number) = error.kind()
        && let opcode = OpCode(number)
        && (keeper::layouts(opcode).is_some()
            || [OpCode::EXISTS, OpCode::GET_CHILDREN2].contains(&opcode))
    {
        return;
    }
    let what = |error: DecodeError, before| (error.kind(), error.field(), error.offset() + before);
    assert_eq!(
        explained.map_err(|error| what(error, 0)),
        decoded.map_err(|error| what(error, frame::PREFIX_LEN + before))
    );
}

/// Reads both directions of a connection. The input is a list of chunks: a byte with the direction
/// and the length of the chunk, then the chunk.
///
/// The messages are the streams, cut. Each reply answers one earlier request, no request has two
/// replies, and chunks do not change what is read in this order. A transcript has the same frames.
pub fn conversation(data: &[u8]) {
    let (mut input, mut streams) = (data, [Vec::new(), Vec::new()]);
    let mut conversation = Conversation::new(LIMIT);
    let (mut read, mut opcodes) = ([0, 0], Vec::new());
    let mut is_text = false;
    while let Some((control, rest)) = input.split_first() {
        let (chunk, behind) = rest.split_at(usize::from(control >> 1).min(rest.len()));
        input = behind;
        let side = usize::from(control & 1);
        let direction = [Direction::ToServer, Direction::ToClient][side];
        streams[side].extend_from_slice(chunk);
        while let Ok(Some((message, rest))) =
            conversation.read(direction, &streams[side][read[side]..])
        {
            assert!(!message.bytes.is_empty());
            assert_eq!(message.offset, read[side] as u64);
            read[side] += message.bytes.len();
            assert_eq!(streams[side].len() - read[side], rest.len());
            match message.kind {
                Kind::Reply { opcode, request, header } => {
                    let place = usize::try_from(request).expect("inputs are short");
                    assert_eq!(Option::take(&mut opcodes[place]), Some(opcode), "{header:?}");
                }
                kind if direction == Direction::ToServer => opcodes.push(match kind {
                    Kind::Request(header) => Some(header.opcode),
                    _ => None,
                }),
                _ => {}
            }
            is_text |= matches!(message.kind, Kind::Word(_) | Kind::Opaque);
            assert_eq!(
                message.explained_as().is_none(),
                matches!(message.kind, Kind::Word(_) | Kind::Text | Kind::Opaque)
            );
            let mut end = 0;
            if message.explain(&mut |field| end = field.range.end).is_ok() && !is_text {
                assert_eq!(end, message.bytes.len());
            }
            assert!(message.payload().ends_with(message.body()));
            let _ = (message.path(), message.response(), message.event());
        }
    }
    assert_eq!(conversation.unanswered(), opcodes.iter().flatten().count());

    let transcript = conversation::transcript(&streams[0], &streams[1]);
    for (stream, direction, end) in [
        (&streams[0], Direction::ToServer, transcript.to_server),
        (&streams[1], Direction::ToClient, transcript.to_client),
    ] {
        let messages = transcript.messages.iter().filter(|message| message.direction == direction);
        let mut place = 0;
        for (number, message) in messages.enumerate() {
            assert_eq!((message.number, message.offset), (number as u64, place as u64));
            assert_eq!(stream[place..][..message.bytes.len()], *message.bytes);
            place += message.bytes.len();
        }
        match end {
            End::Whole => assert_eq!(place, stream.len()),
            End::Incomplete { offset, length } => {
                assert_eq!((offset, offset + length), (place as u64, stream.len() as u64));
            }
            End::Unreadable { offset, .. } => assert_eq!(offset, place as u64),
            other => panic!("{other:?}"),
        }
    }
}

/// Opcodes fit in a signed byte, and one byte is easy for a fuzzer to find.
fn opcode(data: &[u8]) -> Option<(OpCode, &[u8])> {
    let mut reader = Reader::new(data);
    let opcode = u8::decode(&mut reader).ok()?;
    Some((OpCode(i32::from(opcode.cast_signed())), reader.rest()))
}

fn survives_round_trip<'b, M: Encode + PartialEq + Debug>(
    bytes: &'b [u8],
    buffer: &'b mut Vec<u8>,
    decode: impl Fn(&'b [u8]) -> Result<M, DecodeError>,
) {
    let message = match decode(bytes) {
        Ok(message) => message,
        Err(error) => {
            assert!(error.offset() <= bytes.len(), "{error}");
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    *buffer = encoded(&message);
    let same = |(new, old): (&u8, &u8)| new == old || (*new == 1 && *old > 1);
    assert_eq!(buffer.len(), bytes.len(), "{message:?}");
    assert!(buffer.iter().zip(bytes).all(same), "{message:?}");
    assert_eq!(decode(buffer), Ok(message));
}

/// Checks that a multi of the same items has the same bytes. A decoded multi copies its bytes; a
/// new one writes its own headers, without the unused error codes, and a body of each error.
fn survives_round_trip_item_by_item<'b, T>(
    multi: Result<Multi<'b, T>, DecodeError>,
    items: &'b mut Vec<T>,
) where
    T: DecodeMultiItem<'b> + PartialEq + Debug,
{
    let Ok(multi) = multi else { return };
    items.extend(multi.iter());
    let rebuilt = Multi::new(items);
    assert_eq!(rebuilt, multi);
    // A failed result of ClickHouse Keeper has no body.
    let bodies = encoded(&rebuilt).len() - multi.encoded_len();
    assert_eq!(bodies % 4, 0, "{multi:?}");
}

fn encoded(message: &impl Encode) -> Vec<u8> {
    let mut buffer = alloc::vec![0; message.encoded_len()];
    assert_eq!(message.encode_to_slice(&mut buffer), Ok(buffer.len()));
    buffer
}
