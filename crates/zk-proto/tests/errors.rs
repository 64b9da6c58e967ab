//! Errors report the reason, the offset, the record and the field.

use zk_proto::{
    Decode, DecodeError, DecodeErrorKind, Encode, EncodeError, GetChildrenResponse, List, OpCode,
    Reader, Request, Response, SyncRequest, Xid, frame,
};

#[track_caller]
fn refused<T: std::fmt::Debug>(
    result: Result<T, DecodeError>,
    kind: DecodeErrorKind,
    offset: usize,
    message: &str,
) {
    let error = result.expect_err("bytes that are not the message");
    assert_eq!((error.kind(), error.offset(), error.to_string()), (kind, offset, message.into()));
}

#[test]
fn a_string_that_runs_past_the_end() {
    refused(
        Request::decode(OpCode::DELETE, b"\0\0\0\x04/a"),
        DecodeErrorKind::Truncated { missing: 2 },
        4,
        "at least 2 bytes are missing at byte 4 in DeleteRequest.path",
    );
}

#[test]
fn a_length_below_null() {
    refused(
        Request::decode(OpCode::SET_DATA, b"\0\0\0\x02/a\xff\xff\xff\xfe\0\0\0\0"),
        DecodeErrorKind::NegativeLength(-2),
        6,
        "length -2 is negative at byte 6 in SetDataRequest.data",
    );
}

#[test]
fn a_null_path() {
    refused(
        Request::decode(OpCode::SYNC, b"\xff\xff\xff\xff"),
        DecodeErrorKind::UnexpectedNull,
        0,
        "null is not allowed at byte 0 in SyncRequest.path",
    );
}

#[test]
fn a_string_that_is_not_utf8() {
    refused(
        Request::decode(OpCode::SYNC, b"\0\0\0\x03/a\xff"),
        DecodeErrorKind::InvalidUtf8,
        6,
        "the string is not UTF-8 at byte 6 in SyncRequest.path",
    );
}

#[test]
fn bytes_behind_the_record() {
    refused(
        Request::decode(OpCode::SYNC, b"\0\0\0\x02/a\0\0\0"),
        DecodeErrorKind::TrailingBytes(3),
        6,
        "3 bytes are left over at byte 6",
    );
}

#[test]
fn an_operation_without_a_record() {
    refused(
        Request::decode(OpCode(999), b"\0\0"),
        DecodeErrorKind::UnknownOperation(999),
        0,
        "operation 999 is not allowed here at byte 0",
    );
    refused(
        Request::decode(OpCode::MULTI, b"\0\0\0\x09\0\xff\xff\xff\xff"),
        DecodeErrorKind::UnknownOperation(9),
        9,
        "operation 9 is not allowed here at byte 9",
    );
}

#[test]
fn a_multi_without_an_end() {
    refused(
        Response::decode(OpCode::MULTI, b"\0\0\0\x02\0\0\0\0\0"),
        DecodeErrorKind::Unterminated,
        9,
        "the multi has no terminator at byte 9",
    );
}

#[test]
fn the_place_of_an_error_is_the_innermost_record() {
    // A creation whose only ACL entry has a null scheme.
    let body = b"\0\0\0\x02/a\xff\xff\xff\xff\0\0\0\x01\0\0\0\x1f\xff\xff\xff\xff";
    refused(
        Request::decode(OpCode::CREATE, body),
        DecodeErrorKind::UnexpectedNull,
        18,
        "null is not allowed at byte 18 in Id.scheme",
    );
}

#[test]
fn offsets_count_from_where_the_reader_began() {
    let mut reader = Reader::new(b"\0\0\0\x01\xff\xff\xff\xff");
    i32::decode(&mut reader).expect("an int");
    refused(
        SyncRequest::decode(&mut reader),
        DecodeErrorKind::UnexpectedNull,
        4,
        "null is not allowed at byte 4 in SyncRequest.path",
    );
}

#[test]
fn a_list_is_refused_before_it_is_read_if_it_claims_more_items_than_bytes() {
    refused(
        GetChildrenResponse::decode_all(b"\x7f\xff\xff\xff\0\0\0\0"),
        DecodeErrorKind::Truncated { missing: 0x7fff_fffb },
        4,
        "at least 2147483643 bytes are missing at byte 4 in GetChildrenResponse.children",
    );
    // Items without bytes would keep the loop busy for billions of rounds.
    let nothings = List::<'_, ()>::decode_all(b"\x7f\xff\xff\xff");
    refused(
        nothings,
        DecodeErrorKind::Truncated { missing: 0x7fff_ffff },
        4,
        "at least 2147483647 bytes are missing at byte 4",
    );
}

#[test]
fn the_first_string_of_a_list_that_is_wrong_is_the_error() {
    let names = |bytes: &'static [u8]| GetChildrenResponse::decode_all(bytes);
    refused(
        names(b"\0\0\0\x03\0\0\0\x01a\0\0\0\x03b\xffc\0\0\0\x09d"),
        DecodeErrorKind::InvalidUtf8,
        14,
        "the string is not UTF-8 at byte 14 in GetChildrenResponse.children",
    );
    refused(
        names(b"\0\0\0\x03\0\0\0\x01a\xff\xff\xff\xff\0\0\0\x01\xff"),
        DecodeErrorKind::UnexpectedNull,
        9,
        "null is not allowed at byte 9 in GetChildrenResponse.children",
    );
    refused(
        names(b"\0\0\0\x02\0\0\0\x01a\0\0\0\x03bc"),
        DecodeErrorKind::Truncated { missing: 1 },
        13,
        "at least 1 bytes are missing at byte 13 in GetChildrenResponse.children",
    );
    // These bytes form one character, but belong to two strings.
    refused(
        names(b"\0\0\0\x02\0\0\0\x01\xc3\0\0\0\x01\xa9"),
        DecodeErrorKind::InvalidUtf8,
        8,
        "the string is not UTF-8 at byte 8 in GetChildrenResponse.children",
    );
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn a_message_of_two_gibibytes_is_refused_before_it_is_written() {
    let megabyte = "x".repeat(1 << 20);
    let names = vec![&megabyte[..]; 2048];
    let message = GetChildrenResponse { children: List::new(&names) };
    let length = 4 + 2048 * (4 + (1 << 20));
    assert_eq!(message.encode_to_slice(&mut []), Err(EncodeError::TooLong { length }));
    assert_eq!(frame::encode_to_slice(&message, &mut []), Err(EncodeError::TooLong { length }));
    let names = vec![&megabyte[..]; 2047];
    let message = GetChildrenResponse { children: List::new(&names) };
    let needed = message.encoded_len();
    assert_eq!(message.encode_to_slice(&mut []), Err(EncodeError::BufferTooSmall { needed }));
}

#[test]
fn a_frame_that_does_not_fit_says_how_many_bytes_it_needs() {
    let message = SyncRequest { path: "/a" };
    let error = frame::encode_to_slice(&message, &mut [0; 9]);
    assert_eq!(error, Err(EncodeError::BufferTooSmall { needed: 10 }));
    assert_eq!(
        error.map_err(|error| error.to_string()),
        Err("the buffer is too small: 10 bytes are needed".into())
    );
    assert_eq!(frame::encode_to_slice(&message, &mut [0; 10]), Ok(10));
}

#[test]
fn ordinary_xids_never_run_into_reserved_ones() {
    assert_eq!(Xid::FIRST.next(), Xid(2));
    assert_eq!(Xid(i32::MAX).next(), Xid::FIRST);
    for reserved in -9..=0 {
        assert_eq!(Xid(reserved).next(), Xid::FIRST);
    }
}

#[test]
fn every_reason_has_a_name_that_does_not_change_with_its_text() {
    let error = SyncRequest::decode_all(b"").expect_err("no bytes");
    assert_eq!(error.name(), "Truncated");
    assert!(DecodeErrorKind::NAMES.contains(&error.name()));
    let error = EncodeError::TooLong { length: 1 << 31 };
    assert_eq!(error.to_string(), "a record of 2147483648 bytes exceeds the longest frame");
    assert_eq!(error.name(), "TooLong");
}
