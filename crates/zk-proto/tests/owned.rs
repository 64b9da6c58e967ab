//! Owned records equal the borrowed ones, and all of them can be generated.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use zk_proto::explain::{self, MessageKind};
use zk_proto::owned::{self, IntoOwned};
use zk_proto::*;

fn encoded(message: &impl Encode) -> Vec<u8> {
    let mut bytes = vec![0xa5; message.encoded_len()];
    assert_eq!(message.encode_to_slice(&mut bytes), Ok(bytes.len()));
    bytes
}

fn framed(message: &impl Encode) -> Vec<u8> {
    let mut bytes = vec![0xa5; frame::PREFIX_LEN + message.encoded_len()];
    assert_eq!(frame::encode_to_slice(message, &mut bytes), Ok(bytes.len()));
    bytes
}

fn is_of_keeper(error: &DecodeError) -> bool {
    let DecodeErrorKind::UnknownOperation(number) = error.kind() else { return false };
    let opcode = OpCode(number);
    keeper::layouts(opcode).is_some() || [OpCode::EXISTS, OpCode::GET_CHILDREN2].contains(&opcode)
}

/// Keeper has operations in a multiRead that ZooKeeper refuses there.
#[test]
fn an_operation_of_keeper_is_explained_and_not_decoded() {
    let read = MultiReadOp::GetChildren(GetChildrenRequest { path: "/a", watch: false });
    let header = RequestHeader { xid: Xid::FIRST, opcode: OpCode::MULTI_READ };
    let mut frame = framed(&(header, Multi::new(&[read])));
    frame[12..16].copy_from_slice(&OpCode::GET_CHILDREN2.0.to_be_bytes());
    let error = Request::decode(OpCode::MULTI_READ, &frame[12..]).expect_err("no such read");
    assert!(is_of_keeper(&error), "{error}");
    assert_eq!(explain::frame(&frame, MessageKind::Request, &mut |_| {}), Ok(()));
}

/// Checks that an owned record decodes to a borrowed one, and back.
macro_rules! is_the_same_in_both_forms {
    ($owned:expr, |$bytes:ident| $decode:expr) => {{
        let owned = $owned;
        let $bytes = &encoded(&owned)[..];
        let borrowed = $decode.expect("what was encoded");
        prop_assert_eq!(&encoded(&borrowed)[..], $bytes);
        prop_assert_eq!(borrowed.into_owned(), owned);
        let frame = bytes::Bytes::copy_from_slice($bytes);
        let shared = borrowed.to_owned_in(&frame);
        prop_assert_eq!(&encoded(&shared)[..], $bytes);
    }};
}

/// Checks that the fields are contiguous and cover the frame.
fn is_explained(frame: &[u8], message: MessageKind) -> Result<(), TestCaseError> {
    let mut end = 0;
    let result = explain::frame(frame, message, &mut |field| {
        assert_eq!(field.range.start, end, "{field:?}");
        assert!(!field.range.is_empty() && !field.value.to_string().is_empty(), "{field:?}");
        end = field.range.end;
    });
    prop_assert_eq!(result, Ok(()));
    prop_assert_eq!(end, frame.len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1024, ..Default::default() })]

    #[test]
    fn requests(request: owned::Request, xid: Xid) {
        is_the_same_in_both_forms!(request.clone(), |bytes| Request::decode(request.opcode(), bytes));
        let header = RequestHeader { xid, opcode: request.opcode() };
        is_explained(&framed(&(header, request)), MessageKind::Request)?;
    }

    #[test]
    fn responses(response: owned::Response, zxid: Zxid) {
        is_the_same_in_both_forms!(response.clone(), |bytes| {
            Response::decode(response.opcode(), bytes)
        });
        let header = ReplyHeader { xid: Xid::FIRST, zxid, err: ErrorCode::OK };
        is_explained(&framed(&(header, &response)), MessageKind::Reply(response.opcode()))?;
    }

    #[test]
    fn handshakes(request: owned::ConnectRequest, response: owned::ConnectResponse) {
        is_the_same_in_both_forms!(request.clone(), |bytes| ConnectRequest::decode_all(bytes));
        is_the_same_in_both_forms!(response.clone(), |bytes| ConnectResponse::decode_all(bytes));
        is_explained(&framed(&request), MessageKind::ConnectRequest)?;
        // A header of 16 bytes here would be a refusal.
        prop_assert!(response.encoded_len() > 16);
        is_explained(&framed(&response), MessageKind::ConnectResponse)?;
    }

    #[test]
    fn events(event: owned::WatcherEvent, mut header: ReplyHeader) {
        is_the_same_in_both_forms!(event.clone(), |bytes| WatcherEvent::decode_all(bytes));
        header.xid = Xid::NOTIFICATION;
        is_explained(&framed(&(header, &event)), MessageKind::UnknownReply)?;
        is_explained(&framed(&(header, event)), MessageKind::Reply(OpCode::GET_DATA))?;
    }

    /// A decoded list keeps its bytes; a list of the same items encodes them.
    #[test]
    fn lists_of_the_same_items_are_the_same_bytes(
        names: owned::GetChildrenResponse,
        multi: owned::MultiRequest,
    ) {
        let items: Vec<_> = names.children.iter().map(String::as_str).collect();
        if names.children.0.is_some() {
            prop_assert_eq!(encoded(&List::new(&items)), encoded(&names));
        }
        let bytes = encoded(&multi);
        let decoded = MultiRequest::decode_all(&bytes).expect("what was encoded");
        let items: Vec<_> = decoded.iter().collect();
        prop_assert_eq!(items.len(), multi.0.len());
        prop_assert_eq!(encoded(&Multi::new(&items)), bytes);
    }

    /// A damaged message is explained if and only if it is decoded, with the same error. Explanations
    /// also know the operations of ClickHouse Keeper, which the decoder leaves to it.
    #[test]
    fn damaged_requests_are_explained_if_they_are_decoded(
        request: owned::Request,
        place: prop::sample::Index,
        byte: u8,
    ) {
        let header = RequestHeader { xid: Xid::FIRST, opcode: request.opcode() };
        let mut frame = framed(&(header, request));
        let body = 12..frame.len();
        if !body.is_empty() {
            frame[12 + place.index(body.len())] = byte;
        }
        let decoded = Request::decode(header.opcode, &frame[body]).map(|_| ());
        let explained = explain::frame(&frame, MessageKind::Request, &mut |_| {});
        if decoded.as_ref().is_err_and(is_of_keeper) {
            return Ok(());
        }
        prop_assert_eq!(
            explained.map_err(|error| (error.kind(), error.field(), error.offset())),
            decoded.map_err(|error| (error.kind(), error.field(), error.offset() + 12))
        );
    }
}

#[test]
fn every_operation_is_made_up_in_both_directions() {
    let supported: BTreeSet<_> = (-20..=120)
        .map(OpCode)
        .filter(|opcode| match Request::decode(*opcode, &[]) {
            Ok(_) => true,
            Err(error) => error.kind() != DecodeErrorKind::UnknownOperation(opcode.0),
        })
        .collect();
    fn opcodes<T: Arbitrary<Parameters = GeneratorMode>>(
        of: impl Fn(T) -> OpCode,
    ) -> BTreeSet<OpCode> {
        let mut runner = TestRunner::deterministic();
        let strategy = any_with::<T>(GeneratorMode::Harmful);
        let mut sample = || strategy.new_tree(&mut runner).expect("nothing is filtered").current();
        (0..2000).map(|_| of(sample())).collect()
    }
    assert_eq!(opcodes(|request: owned::Request| request.opcode()), supported);
    assert_eq!(opcodes(|response: owned::Response| response.opcode()), supported);
}

#[test]
fn made_up_requests_have_valid_paths_and_harm_no_server_unless_that_is_asked_for() {
    let mut runner = TestRunner::deterministic();
    let mut count = |sample, is: fn(&owned::Request) -> bool| {
        let strategy = any_with::<owned::Request>(sample);
        let mut make = || strategy.new_tree(&mut runner).expect("nothing is filtered").current();
        (0..2000).filter(|_| is(&make())).count()
    };
    let harms = |request: &owned::Request| {
        let bytes = encoded(request);
        let borrowed = Request::decode(request.opcode(), &bytes).expect("what was encoded");
        assert_eq!(borrowed.harms_servers(), request.harms_servers());
        request.harms_servers()
    };
    let strays = |request: &owned::Request| {
        let bytes = encoded(request);
        let borrowed = Request::decode(request.opcode(), &bytes).expect("what was encoded");
        borrowed.path().is_some_and(|path| path::validate(path).is_err())
    };
    assert_eq!(
        [GeneratorMode::Valid, GeneratorMode::Arbitrary].map(|sample| count(sample, harms)),
        [0, 0]
    );
    assert!(count(GeneratorMode::Harmful, harms) > 20);
    assert_eq!(count(GeneratorMode::default(), strays), 0);
    assert!(count(GeneratorMode::Arbitrary, strays) > 500);
}

/// Checks what a client may expect of a reply.
fn fits(reply: &owned::Response, request: &owned::Request) {
    use owned::{MultiReadResult, MultiResult, Request, Response};

    assert_eq!(reply.opcode(), request.opcode());
    match (reply, request) {
        (Response::Multi(reply), Request::Multi(request)) => {
            assert_eq!(reply.0.len(), request.0.len());
            let bytes = encoded(reply);
            let failure = MultiResponse::decode_all(&bytes).expect("what was encoded").failure();
            for (place, (result, op)) in reply.0.iter().zip(&request.0).enumerate() {
                let MultiResult::Error(ErrorResponse { err }) = *result else {
                    let created = match op.header().opcode {
                        OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => OpCode::CREATE2,
                        opcode => opcode,
                    };
                    assert_eq!((result.header().opcode, failure), (created, None));
                    continue;
                };
                let (failed, why) = failure.expect("an operation that failed");
                assert_eq!(
                    err,
                    match place.cmp(&failed) {
                        Ordering::Less => ErrorCode::OK,
                        Ordering::Equal => why,
                        Ordering::Greater => ErrorCode::RUNTIME_INCONSISTENCY,
                    }
                );
            }
        }
        (Response::MultiRead(reply), Request::MultiRead(request)) => {
            assert_eq!(reply.0.len(), request.0.len());
            for (result, op) in reply.0.iter().zip(&request.0) {
                let is_error = matches!(result, MultiReadResult::Error(_));
                assert!(is_error || result.header().opcode == op.header().opcode);
            }
        }
        (Response::Create(reply), Request::Create(request)) => {
            assert!(reply.path.starts_with(&request.path));
            assert_eq!(reply.path != request.path, request.mode.is_sequential());
        }
        (Response::GetChildren2(reply), _) => {
            assert_eq!(reply.stat.num_children as usize, reply.children.len());
            assert!(reply.children.iter().all(|name| !name.contains('/') && !name.is_empty()));
        }
        (Response::GetData(reply), _) => {
            let length = reply.data.as_ref().map_or(0, Vec::len);
            assert_eq!(reply.stat.data_length as usize, length);
        }
        (Response::Sync(reply), Request::Sync(request)) => assert_eq!(reply.path, request.path),
        (Response::GetEphemerals(reply), Request::GetEphemerals(request)) => {
            let prefix = request.prefix_path.as_deref().unwrap_or_default();
            assert!(reply.ephemerals.iter().all(|path| path.starts_with(prefix)));
        }
        _ => {}
    }
}

#[test]
fn made_up_replies_fit_their_requests() {
    let mut runner = TestRunner::deterministic();
    let requests = any_with::<owned::Request>(GeneratorMode::Harmful);
    for _ in 0..4000 {
        let request = requests.new_tree(&mut runner).expect("nothing is filtered").current();
        let replies = request.replies(GeneratorMode::Valid);
        fits(&replies.new_tree(&mut runner).expect("nothing is filtered").current(), &request);
        let odd = request.replies(GeneratorMode::Arbitrary);
        let odd = odd.new_tree(&mut runner).expect("nothing is filtered").current();
        assert_eq!(odd.opcode(), request.opcode());
    }
}

#[cfg(feature = "arbitrary")]
#[test]
fn replies_made_of_arbitrary_bytes_fit_their_requests() {
    let mut runner = TestRunner::deterministic();
    let seeds = (any::<owned::Request>(), proptest::collection::vec(any::<u8>(), 0..300));
    for _ in 0..4000 {
        let (request, seed) = seeds.new_tree(&mut runner).expect("nothing is filtered").current();
        let mut source = arbitrary::Unstructured::new(&seed);
        if let Ok(reply) = request.reply_from(&mut source) {
            fits(&reply, &request);
        }
    }
}

#[cfg(feature = "arbitrary")]
#[test]
fn every_operation_is_made_of_arbitrary_bytes() {
    use arbitrary::Unstructured;

    fn check<T: for<'u> arbitrary::Arbitrary<'u> + Encode + core::fmt::Debug>(
        of: fn(&T) -> OpCode,
    ) -> usize {
        let mut runner = TestRunner::deterministic();
        let seeds = proptest::collection::vec(any::<u8>(), 200);
        let opcodes: BTreeSet<_> = (0..2000)
            .map(|_| {
                let seed = seeds.new_tree(&mut runner).expect("nothing is filtered").current();
                let value = T::arbitrary(&mut Unstructured::new(&seed)).expect("enough bytes");
                assert_eq!(encoded(&value).len(), value.encoded_len());
                of(&value)
            })
            .collect();
        opcodes.len()
    }
    let requests = check(|request: &owned::Request| {
        assert!(!request.harms_servers(), "{request:?}");
        request.opcode()
    });
    assert_eq!(requests + 1, check(owned::Response::opcode));
    // A check on its own harms servers.
    assert!(requests > 24, "{requests}");
    // An empty source is enough for some value.
    let nothing = &mut Unstructured::new(&[]);
    let _: owned::ConnectRequest = nothing.arbitrary().expect("zeros");
}

#[test]
fn a_buffer_that_lies_in_the_frame_is_shared_and_any_other_copied() {
    use bytes::Bytes;

    let frame = Bytes::from_static(b"\0\0\0\x05hello");
    let inside = frame.as_ptr_range();
    let mut reader = Reader::new(&frame);
    let data = Option::<&[u8]>::decode(&mut reader).expect("a buffer");
    let kept = data.to_owned_in(&frame).expect("not null");
    assert_eq!(kept, "hello");
    assert_eq!(kept.as_ptr(), inside.start.wrapping_add(4));
    for elsewhere in [&b"hello"[..], &[b'x'; 64], b""] {
        let kept = Some(elsewhere).to_owned_in(&frame).expect("not null");
        assert_eq!(kept, elsewhere);
        assert!(elsewhere.is_empty() || !inside.contains(&kept.as_ptr()));
    }
    assert_eq!(None::<&[u8]>.to_owned_in(&frame), None);
}

#[test]
fn null_stays_null() {
    let names = List::<'_, &str>::NULL.into_owned();
    assert_eq!(names, owned::List(None));
    assert_eq!((names.len(), encoded(&names)), (0, vec![0xff; 4]));
    assert_eq!(encoded(&owned::List::<String>::default()), [0; 4]);
    assert_eq!(owned::List::from(vec![7]), owned::List(Some(vec![7])));
    let id = Id { scheme: "auth", id: None }.into_owned();
    assert_eq!((id.id.clone(), &encoded(&id)[8..]), (None, &[0xff; 4][..]));
}

/// Types that contain records derive `Debug`, so they hide secrets, too.
#[test]
fn passwords_and_credentials_are_not_shown() {
    let secret = Some(&b"sesame"[..]);
    let shown = |record: &dyn core::fmt::Debug, owned: &dyn core::fmt::Debug| {
        let shown = format!("{record:?}");
        assert_eq!(shown, format!("{owned:?}"));
        let bytes = format!("{:?}", b"sesame");
        assert!(!shown.contains(bytes.trim_matches(['[', ']'])), "{shown}");
        shown
    };
    let asked = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout: 4000,
        session_id: SessionId(1),
        password: secret,
        read_only: None,
    };
    let granted = ConnectResponse {
        protocol_version: 0,
        timeout: 4000,
        session_id: SessionId(1),
        password: secret,
        read_only: None,
    };
    assert!(shown(&asked, &asked.into_owned()).contains("password: Secret(6 bytes)"));
    assert!(shown(&granted, &granted.into_owned()).contains("password: Secret(6 bytes)"));
    let auth = AuthPacket { auth_type: 0, scheme: "digest", auth: secret };
    assert_eq!(
        shown(&auth, &auth.into_owned()),
        r#"AuthPacket { auth_type: 0, scheme: "digest", auth: Secret(6 bytes) }"#
    );
    let sasl = Request::Sasl(GetSaslRequest { token: secret });
    assert_eq!(shown(&sasl, &sasl.into_owned()), "Sasl(GetSaslRequest { token: Secret(6 bytes) })");
    for (token, shows) in [(None, "Secret(none)"), (Some(&b""[..]), "Secret(0 bytes)")] {
        let sasl = GetSaslRequest { token };
        assert_eq!(format!("{sasl:?}"), format!("GetSaslRequest {{ token: {shows} }}"));
    }
    let password = Password(*b"sixteen  secrets");
    assert_eq!(format!("{password:?} {:?}", Password::NONE), "Password(16 bytes) Password(none)");
    // Other data is visible; otherwise this test would prove nothing.
    let data = SetDataRequest { path: "/a", data: secret, version: -1 };
    assert!(format!("{data:?}").contains("115, 101, 115, 97, 109, 101"));
}

#[test]
fn an_owned_multi_makes_the_headers_of_its_items_anew_and_a_borrowed_one_keeps_them() {
    let operations = [MultiOp::Check(CheckVersionRequest { path: "/a", version: 0 })];
    let usual = encoded(&Multi::new(&operations));
    // The error code in the header of the first item.
    let mut odd = usual.clone();
    odd[5..9].copy_from_slice(&7i32.to_be_bytes());
    let borrowed = MultiRequest::decode_all(&odd).expect("nobody reads it");
    assert_eq!(encoded(&borrowed), odd);
    assert_eq!(encoded(&borrowed.into_owned()), usual);
}
