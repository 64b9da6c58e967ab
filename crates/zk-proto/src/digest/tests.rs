//! Tests of ids of the scheme `digest`.

use alloc::string::ToString;

use super::*;

/// A real server made the second id from credentials that kazoo sent.
#[test]
fn the_id_is_the_one_that_servers_compute() {
    for (credentials, id) in [
        ("u:p", "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="),
        ("alice:wonder", "alice:8y0lhh/7xkdEiwhX7vo9i+/Nmzc="),
    ] {
        assert_eq!(DigestId::from_credentials(credentials).to_string(), id);
    }
}

#[test]
fn the_user_ends_at_the_first_colon() {
    assert!(DigestId::from_credentials("u:p:q").to_string().starts_with("u:"));
    assert_ne!(DigestId::from_credentials("u:p:q"), DigestId::from_credentials("u:p"));
    assert!(DigestId::from_credentials("u").to_string().starts_with("u:"));
}
