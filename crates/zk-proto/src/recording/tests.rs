//! Tests of recordings.

use proptest::prelude::*;

use super::*;
use crate::{AuthPacket, Encode, RequestHeader, SetDataRequest, Xid, frame};

fn numbers() -> [i64; 7] {
    [0, 1, -1, 63, -64, i64::MAX, i64::MIN]
}

#[test]
fn fields_are_read_as_they_were_written() {
    let (mut writer, mut bytes) = (Writer::default(), Vec::new());
    writer.record(&mut bytes, Kind::CLOCK, 1 << 60, |fields| fields.number(3));
    writer.record(&mut bytes, Kind::FRAME, 5, |fields| {
        fields.message(b"a secret and data", &[2..8, 13..17]);
        numbers().into_iter().for_each(|number| fields.signed(number));
        fields.number(u64::MAX);
        fields.bytes(b"end");
    });
    let records: Vec<_> = Reader::of_records(&bytes).map(|record| record.expect("one")).collect();
    let [clock, frame] = records[..] else { panic!("{records:?}") };
    assert_eq!((clock.time.as_nanos(), frame.time.as_nanos()), (1 << 60, 5));
    assert_eq!([clock.bytes, frame.bytes].concat(), bytes);
    let mut fields = frame.fields();
    assert_eq!(fields.message().as_deref(), Ok(&b"a \0\0\0\0\0\0 and \0\0\0\0"[..]));
    assert_eq!(numbers().map(|_| fields.signed().expect("a number")), numbers());
    assert_eq!((fields.number(), fields.bytes()), (Ok(u64::MAX), Ok(&b"end"[..])));
    assert_eq!((fields.number(), fields.rest()), (Err(Malformed::Record), &[][..]));
    // The process has ended within the last record.
    assert_eq!(Reader::of_records(&bytes[..bytes.len() - 1]).count(), 1);
}

fn left_out(opcode: crate::OpCode, body: &impl Encode, keeps_data: bool) -> Vec<u8> {
    let (mut bytes, mut found) = (Vec::new(), Vec::new());
    frame::encode(&(RequestHeader { xid: Xid(1), opcode }, body), &mut bytes).expect("short");
    gaps(&bytes, MessageKind::Request, keeps_data, &mut found);
    found.into_iter().flat_map(|gap| bytes[gap].to_vec()).collect()
}

#[test]
fn secrets_are_left_out_and_data_by_default() {
    use crate::OpCode;

    let auth = AuthPacket { auth_type: 0, scheme: "digest", auth: Some(b"alice:secret") };
    assert_eq!(left_out(OpCode::AUTH, &auth, true), b"alice:secret");
    let set = SetDataRequest { path: "/a", data: Some(b"data"), version: -1 };
    assert_eq!(left_out(OpCode::SET_DATA, &set, false), b"data");
    assert_eq!(left_out(OpCode::SET_DATA, &set, true), b"");
    // A body that cannot be decoded may hold secrets.
    assert_eq!(left_out(OpCode::AUTH, &"alice:secret", true), b"alice:secret");
}

proptest! {
    #[test]
    #[cfg_attr(miri, ignore = "properties take too long for Miri")]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
        for record in Reader::of_records(&bytes).flatten() {
            let _ = alloc::format!("{record}");
            let mut fields = record.fields();
            while fields.number().is_ok() {}
            let _ = (record.fields().bytes(), record.fields().message());
        }
    }
}
