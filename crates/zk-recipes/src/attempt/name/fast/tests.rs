use alloc::format;

use super::*;

#[test]
fn a_guid_tag_tells_guids_apart_but_not_the_case_of_their_digits() {
    const GUID: &str = "1f0e8c1a-7a53-4c0f-9d9e-0a1b2c3d4e5f";
    let tag = |guid: &str| guid_tag_of(format!("_c_{guid}").as_bytes());
    assert!(tag(GUID).is_some() && tag("1f0e").is_none());
    assert_eq!(tag(&GUID.to_uppercase()), tag(GUID));
    assert_ne!(tag(&GUID.replace('f', "e")), tag(GUID));
}
