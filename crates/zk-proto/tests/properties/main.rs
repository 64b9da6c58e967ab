//! Properties of every record, every message and every stream.

mod generators;
mod streams;

use std::collections::BTreeSet;

use generators::{Generate, leak};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestCaseResult, TestRunner};
use zk_proto::*;

macro_rules! for_every_record {
    ($check:ident) => {
        for_every_record! { $check:
            RequestHeader, ReplyHeader, MultiHeader, Stat, Id<'_>, Acl<'_>, WatcherEvent<'_>,
            ErrorResponse, CreateRequest<'_>, CreateResponse<'_>, Create2Response<'_>,
            CreateTtlRequest<'_>, DeleteRequest<'_>, DeleteContainerRequest<'_>, ExistsRequest<'_>,
            ExistsResponse, GetDataRequest<'_>, GetDataResponse<'_>, SetDataRequest<'_>,
            SetDataResponse, GetAclRequest<'_>, GetAclResponse<'_>, SetAclRequest<'_>,
            SetAclResponse, GetChildrenRequest<'_>, GetChildrenResponse<'_>,
            GetChildren2Response<'_>, GetAllChildrenNumberRequest<'_>, GetAllChildrenNumberResponse,
            GetEphemeralsRequest<'_>, GetEphemeralsResponse<'_>, CheckVersionRequest<'_>,
            MultiRequest<'_>, MultiResponse<'_>, MultiReadRequest<'_>, MultiReadResponse<'_>,
            AddWatchRequest<'_>, CheckWatchesRequest<'_>, RemoveWatchesRequest<'_>, SetWatches<'_>,
            SetWatches2<'_>, SyncRequest<'_>, SyncResponse<'_>, AuthPacket<'_>, GetSaslRequest<'_>,
            SetSaslResponse<'_>, ClientInfo<'_>, WhoAmIResponse<'_>, ReconfigRequest<'_>,
            (ReplyHeader, WatcherEvent<'_>),
        }
    };
    ($check:ident: $($record:ty,)*) => {
        $( for_any(|record: $record| $check(record, Decode::decode_all)); )*
    };
}

impl<A: Generate, B: Generate> Generate for (A, B) {
    fn any() -> BoxedStrategy<Self> {
        (A::any(), B::any()).boxed()
    }
}

fn for_any<T: Generate>(check: impl Fn(T) -> TestCaseResult) {
    let config = ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() };
    if let Err(failure) = TestRunner::new(config).run(&T::any(), check) {
        panic!("{failure}");
    }
}

/// Encodes into a buffer of the exact length.
fn encoded(message: &impl Encode) -> &'static [u8] {
    let mut bytes = vec![0xa5; message.encoded_len()];
    assert_eq!(message.encode_to_slice(&mut bytes), Ok(bytes.len()));
    leak(bytes)
}

// ---- What was encoded is decoded again ---------------------------------------------------------

fn decodes_to_itself<M: Encode + PartialEq + std::fmt::Debug>(
    message: M,
    decode: impl Fn(&'static [u8]) -> Result<M, DecodeError>,
) -> TestCaseResult {
    let bytes = encoded(&message);
    let decoded = decode(bytes);
    prop_assert_eq!(decoded.as_ref(), Ok(&message));
    // A decoded list keeps its bytes instead of its items, which must make no difference.
    prop_assert_eq!(decoded.map(|decoded| encoded(&decoded)), Ok(bytes));
    Ok(())
}

#[test]
fn every_record_decodes_to_what_was_encoded() {
    for_every_record!(decodes_to_itself);
    for_any(|record: ConnectRequest<'_>| decodes_to_itself(record, Decode::decode_all));
    for_any(|record: ConnectResponse<'_>| decodes_to_itself(record, Decode::decode_all));
}

#[test]
fn every_request_and_response_decodes_to_what_was_encoded() {
    for_any(|request: Request<'_>| {
        decodes_to_itself(request, |body| Request::decode(request.opcode(), body))
    });
    for_any(|response: Response<'_>| {
        decodes_to_itself(response, |body| Response::decode(response.opcode(), body))
    });
}

/// The generators name the variants by hand; this test finds a missing one.
#[test]
fn every_operation_is_generated() {
    let supported: BTreeSet<_> = OpCode::REQUESTS.iter().copied().collect();
    let mut runner = TestRunner::deterministic();
    let mut sample = |count: usize| -> (BTreeSet<_>, BTreeSet<_>) {
        (0..count)
            .map(|_| {
                let tree = <(Request<'_>, Response<'_>)>::any().new_tree(&mut runner);
                let (request, response) = tree.expect("nothing is filtered").current();
                (request.opcode(), response.opcode())
            })
            .unzip()
    };
    assert_eq!(sample(2000), (supported.clone(), supported));
}

#[test]
fn the_operations_that_are_asked_for_are_those_that_have_a_record() {
    for opcode in (-200..=200).map(OpCode) {
        let unknown = Err(DecodeErrorKind::UnknownOperation(opcode.0));
        let has_records = [
            Request::decode(opcode, &[]).map(drop).map_err(|error| error.kind()) != unknown,
            Response::decode(opcode, &[]).map(drop).map_err(|error| error.kind()) != unknown,
        ];
        assert_eq!(has_records, [opcode.is_request(); 2], "{opcode}");
        assert_eq!(OpCode::REQUESTS.contains(&opcode), opcode.is_request(), "{opcode}");
    }
}

// ---- Lengths are exact -------------------------------------------------------------------------

fn needs_its_exact_length<M: Encode>(
    message: M,
    _: impl Fn(&'static [u8]) -> Result<M, DecodeError>,
) -> TestCaseResult {
    struct Count(usize);

    impl Sink for Count {
        fn put(&mut self, bytes: &[u8]) {
            self.0 += bytes.len();
        }
    }

    let needed = message.encoded_len();
    let mut count = Count(0);
    message.encode(&mut count);
    prop_assert_eq!(count.0, needed);
    let bytes = encoded(&message);
    for length in 0..needed {
        let mut buffer = vec![0; length];
        prop_assert_eq!(
            message.encode_to_slice(&mut buffer),
            Err(EncodeError::BufferTooSmall { needed })
        );
    }
    // Encoding does not touch a longer buffer behind the message.
    let mut buffer = vec![0xa5; needed + 3];
    prop_assert_eq!(message.encode_to_slice(&mut buffer), Ok(needed));
    prop_assert_eq!(buffer, [bytes, &[0xa5; 3]].concat());
    Ok(())
}

#[test]
fn a_buffer_of_any_other_length_is_told_from_one_that_fits() {
    for_every_record!(needs_its_exact_length);
    for_any(|record: ConnectRequest<'_>| needs_its_exact_length(record, Decode::decode_all));
    for_any(|record: ConnectResponse<'_>| needs_its_exact_length(record, Decode::decode_all));
    for_any(|request: Request<'_>| needs_its_exact_length(request, |_| Ok(request)));
    for_any(|response: Response<'_>| needs_its_exact_length(response, |_| Ok(response)));
}

// ---- Nothing less and nothing more is accepted -------------------------------------------------

fn is_not_its_prefix<M: Encode + std::fmt::Debug>(
    message: M,
    decode: impl Fn(&'static [u8]) -> Result<M, DecodeError>,
) -> TestCaseResult {
    let bytes = encoded(&message);
    for length in 0..bytes.len() {
        let error = decode(&bytes[..length]).map_err(|error| (error.kind(), error.offset()));
        match error {
            Err((DecodeErrorKind::Truncated { missing }, offset)) => {
                prop_assert!(offset <= length);
                prop_assert!(missing as usize <= bytes.len() - length);
            }
            Err((DecodeErrorKind::Unterminated, offset)) => prop_assert_eq!(offset, length),
            other => prop_assert!(false, "{} of {} bytes: {:?}", length, bytes.len(), other),
        }
    }
    Ok(())
}

fn is_not_itself_and_more<M: Encode + std::fmt::Debug>(
    message: M,
    decode: impl Fn(&'static [u8]) -> Result<M, DecodeError>,
) -> TestCaseResult {
    let bytes = encoded(&message);
    for more in 1..4 {
        let error = decode(leak([bytes, &vec![0; more]].concat()))
            .map_err(|error| (error.kind(), error.offset()));
        let expected = DecodeErrorKind::TrailingBytes(more as u32);
        prop_assert_eq!(error.err(), Some((expected, bytes.len())));
    }
    Ok(())
}

#[test]
fn a_prefix_of_a_message_is_an_error() {
    for_every_record!(is_not_its_prefix);
    for_any(|request: Request<'_>| {
        is_not_its_prefix(request, |body| Request::decode(request.opcode(), body))
    });
    for_any(|response: Response<'_>| {
        is_not_its_prefix(response, |body| Response::decode(response.opcode(), body))
    });
    let old = |record: ConnectRequest<'static>| ConnectRequest { read_only: None, ..record };
    for_any(|record| is_not_its_prefix(old(record), Decode::decode_all));
    let old = |record: ConnectResponse<'static>| ConnectResponse { read_only: None, ..record };
    for_any(|record| is_not_its_prefix(old(record), Decode::decode_all));
}

#[test]
fn bytes_behind_a_message_are_an_error() {
    for_every_record!(is_not_itself_and_more);
    for_any(|request: Request<'_>| {
        is_not_itself_and_more(request, |body| Request::decode(request.opcode(), body))
    });
    for_any(|response: Response<'_>| {
        is_not_itself_and_more(response, |body| Response::decode(response.opcode(), body))
    });
    let new = |record: ConnectRequest<'static>| ConnectRequest { read_only: Some(true), ..record };
    for_any(|record| is_not_itself_and_more(new(record), Decode::decode_all));
    let new =
        |record: ConnectResponse<'static>| ConnectResponse { read_only: Some(true), ..record };
    for_any(|record| is_not_itself_and_more(new(record), Decode::decode_all));
}

/// The only valid prefix: the last byte of a handshake came with 3.4.
#[test]
fn a_handshake_without_its_last_byte_is_that_of_an_old_peer() {
    for_any(|record: ConnectRequest<'_>| {
        let bytes = encoded(&ConnectRequest { read_only: Some(true), ..record });
        let cut = ConnectRequest::decode_all(&bytes[..bytes.len() - 1]);
        prop_assert_eq!(cut, Ok(ConnectRequest { read_only: None, ..record }));
        Ok(())
    });
    for_any(|record: ConnectResponse<'_>| {
        let bytes = encoded(&ConnectResponse { read_only: Some(true), ..record });
        let cut = ConnectResponse::decode_all(&bytes[..bytes.len() - 1]);
        prop_assert_eq!(cut, Ok(ConnectResponse { read_only: None, ..record }));
        Ok(())
    });
}

// ---- Hostile bytes -----------------------------------------------------------------------------

/// Checks that an accepted message encodes to as many bytes, and decodes to itself again.
fn is_consistent<M: Encode + PartialEq + std::fmt::Debug>(
    bytes: &'static [u8],
    decode: impl Fn(&'static [u8]) -> Result<M, DecodeError>,
) -> TestCaseResult {
    match decode(bytes) {
        Ok(message) => {
            prop_assert_eq!(message.encoded_len(), bytes.len());
            prop_assert_eq!(decode(encoded(&message)), Ok(message));
        }
        Err(error) => prop_assert!(error.offset() <= bytes.len()),
    }
    Ok(())
}

fn survives_as_everything(bytes: &'static [u8]) -> TestCaseResult {
    for opcode in OpCode::REQUESTS.iter().copied() {
        is_consistent(bytes, |bytes| Request::decode(opcode, bytes))?;
        is_consistent(bytes, |bytes| Response::decode(opcode, bytes))?;
    }
    is_consistent(bytes, ConnectRequest::decode_all)?;
    is_consistent(bytes, ConnectResponse::decode_all)?;
    is_consistent(bytes, <(ReplyHeader, WatcherEvent<'_>)>::decode_all)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn arbitrary_bytes_are_decoded_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        survives_as_everything(leak(bytes))?;
    }

    /// Most lengths here are correct, so decoding gets further than with arbitrary bytes.
    #[test]
    fn damaged_messages_are_decoded_or_refused(
        message in <(Request<'_>, Response<'_>)>::any(),
        damage in vec((any::<Index>(), prop_oneof![Just(0), Just(0x7f), Just(0xff), any::<u8>()]), 1..4),
    ) {
        for bytes in [encoded(&message.0), encoded(&message.1)] {
            let mut bytes = bytes.to_vec();
            for (place, byte) in damage.iter().filter(|_| !bytes.is_empty()).collect::<Vec<_>>() {
                *place.get_mut(&mut bytes) = *byte;
            }
            survives_as_everything(leak(bytes))?;
        }
    }
}
