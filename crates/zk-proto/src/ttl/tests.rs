//! Tests of times to live.

use super::*;

#[test]
fn a_time_to_live_has_forty_bits_and_is_not_zero() {
    for milliseconds in [1, 60_000, 0xff_ffff_ffff] {
        assert_eq!(Ttl::from_millis(milliseconds).map(Ttl::as_millis), Some(milliseconds));
    }
    for milliseconds in [i64::MIN, -1, 0, 0x100_0000_0000, i64::MAX] {
        assert_eq!(Ttl::from_millis(milliseconds), None);
    }
    assert_eq!(Ttl::from_millis(0xff_ffff_ffff), Some(Ttl::MAX));
}
