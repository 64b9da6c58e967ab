//! Paths around a path.

/// How many nodes to delete before waiting for what became of them.
pub(crate) const AT_ONCE: usize = 1000;

/// Where a node belongs that is to be created, unless that is the root.
pub(crate) fn parent(path: &str) -> Option<&str> {
    // The path of a sequential node may end in a slash.
    let (parent, _) = path.rsplit_once('/')?;
    (!parent.is_empty()).then_some(parent)
}

/// A valid path's ancestors and itself, from the root down, but without the root.
pub(crate) fn from_the_root(path: &str) -> impl Iterator<Item = &str> {
    let slashes = path.match_indices('/').map(|(at, _)| at).skip(1);
    let ancestors = slashes.map(|end| path.get(..end).unwrap_or(path));
    ancestors.chain((path != "/").then_some(path))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn ancestors_come_before_their_descendants() {
        for (path, all) in [("/", &[][..]), ("/a", &["/a"]), ("/a/b/c", &["/a", "/a/b", "/a/b/c"])]
        {
            assert_eq!(from_the_root(path).collect::<Vec<_>>(), all);
        }
        for (path, above) in
            [("/a/b", Some("/a")), ("/a/", Some("/a")), ("/a", None), ("/", None), ("a", None)]
        {
            assert_eq!(parent(path), above);
        }
    }
}
