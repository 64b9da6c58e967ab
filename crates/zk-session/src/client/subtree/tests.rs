use alloc::vec::Vec;

use super::*;

#[test]
fn ancestors_come_before_their_descendants() {
    for (path, all) in [("/", &[][..]), ("/a", &["/a"]), ("/a/b/c", &["/a", "/a/b", "/a/b/c"])] {
        assert_eq!(from_the_root(path).collect::<Vec<_>>(), all);
    }
    for (path, above) in
        [("/a/b", Some("/a")), ("/a/", Some("/a")), ("/a", None), ("/", None), ("a", None)]
    {
        assert_eq!(parent(path), above);
    }
}
