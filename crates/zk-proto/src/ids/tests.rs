//! Tests of sessions, transactions and passwords.

use alloc::format;

use super::*;

#[test]
fn a_zxid_is_an_epoch_and_a_counter() {
    let zxid = Zxid(0x0000_0005_8000_0002);
    assert_eq!((zxid.epoch(), zxid.counter()), (5, 0x8000_0002));
    assert_eq!(format!("{zxid} {:?}", Zxid(-1)), "0x580000002 Zxid(0xffffffffffffffff)");
}

#[test]
fn a_password_is_sixteen_bytes_and_not_shown() {
    let password = Password::from_wire(Some(b"sixteen  secrets"));
    assert_eq!(password, Some(Password(*b"sixteen  secrets")));
    assert_eq!(format!("{password:?}"), "Some(Password(16 bytes))");
    for other in [None, Some(&b"fifteen secrets"[..]), Some(b"seventeen secrets")] {
        assert_eq!(Password::from_wire(other), None);
    }
}
