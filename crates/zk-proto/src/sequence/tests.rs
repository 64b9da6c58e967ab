//! Tests of sequence numbers.

use alloc::format;
use alloc::string::ToString;

use super::*;

#[test]
fn only_what_a_server_writes_is_a_sequence() {
    for number in [0, 1, 7, 70, 2_147_483_647, -1, -10, -999_999_999, i32::MIN] {
        let suffix = format!("{number:010}");
        assert_eq!(SequenceNumber::parse(&suffix), Some(SequenceNumber(number)), "{suffix}");
        assert_eq!(SequenceNumber(number).to_string(), suffix);
    }
    for suffix in [
        "",
        "7",
        "12",
        "+000000007",
        "00000000070",
        "-00000000001",
        "12345678901",
        "2147483648",
        "-2147483649",
        "000000000x",
        "000000000:",
        "/000000000",
        "-000000000",
        "0000000 07",
        "１０００００００００",
    ] {
        assert_eq!(SequenceNumber::parse(suffix), None, "{suffix}");
    }
}
