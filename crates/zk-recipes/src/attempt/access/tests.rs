use alloc::format;

use zk_session::proto::{Id, Perms};

use super::*;

#[test]
fn a_list_keeps_its_permissions() {
    let digest = Id { scheme: "digest", id: Some("u:p") };
    let acl = [Acl { perms: Perms::READ, id: digest }, Acl::OPEN];
    assert_eq!(AccessList::new(&acl).list(), List::new(&acl));
    assert_eq!(format!("{:?}", AccessList::new(&acl)), format!("{:?}", List::new(&acl)));
    assert_eq!(AccessList::default().list(), List::new(&[Acl::OPEN]));
}
