//! Tests of chroots.

use super::*;

#[test]
fn the_root_changes_nothing() {
    let root = Chroot::new("/").expect("valid");
    assert_eq!(root, Chroot::default());
    assert_eq!(root.apply("/a"), "/a");
    assert_eq!(root.strip("/a"), Some("/a"));
}

#[test]
fn paths_are_prefixed_and_stripped() {
    let chroot = Chroot::new("/app").expect("valid");
    for (client, server) in [("/", "/app"), ("/a", "/app/a"), ("/a/b", "/app/a/b")] {
        assert_eq!(chroot.apply(client), server);
        assert_eq!(chroot.strip(server), Some(client));
    }
    assert_eq!(chroot.strip("/application/a"), None);
    assert_eq!(chroot.strip("/other"), None);
    assert!(Chroot::new("app").is_err());
    assert!(Chroot::new("/app/").is_err());
}

#[test]
fn a_chroot_can_be_nested() {
    let chroot = Chroot::new("/app").expect("valid");
    assert_eq!(chroot.below("/"), Ok(chroot.clone()));
    assert_eq!(chroot.below("/a/b"), Chroot::new("/app/a/b"));
    assert_eq!(Chroot::default().below("/app"), Ok(chroot.clone()));
    assert!(chroot.below("a").is_err());
}
