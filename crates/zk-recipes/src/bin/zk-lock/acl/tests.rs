//! Tests of access control lists as text.

use super::*;

#[test]
fn an_entry_is_between_its_first_and_its_last_colon() {
    let acl = |perms, scheme, id| Acl { perms, id: Id { scheme, id: Some(id) } };
    let ip = acl(Perms::READ | Perms::CREATE, "ip", "2001:db8::/32");
    assert_eq!(parse("ip:2001:db8::/32:rc,auth::cdrwa"), Ok(vec![ip, acl(Perms::ALL, "auth", "")]));
    for wrong in ["", "world", "world:anyone", "world:anyone:", "world:anyone:x", ":a:r", "a::r,"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}
