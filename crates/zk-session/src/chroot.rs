//! A directory that a client takes for the root.

use alloc::borrow::Cow;
use alloc::format;
use alloc::sync::Arc;

use zk_proto::path::{self, PathError};

/// The part of the tree that a client sees: its paths are put below this one, and paths that
/// come back lose it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chroot {
    /// A path; none for the root, which so costs nothing to clone.
    prefix: Option<Arc<str>>,
}

impl Chroot {
    /// A client that sees only what is below `path`; `/` is everything.
    ///
    /// # Errors
    ///
    /// When `path` is no valid path.
    pub fn new(path: &str) -> Result<Self, PathError> {
        path::validate(path)?;
        Ok(Self { prefix: (path != "/").then(|| path.into()) })
    }

    /// A client that sees only what is below `path`, which is a path as this client sees it.
    ///
    /// # Errors
    ///
    /// When `path` is no valid path.
    pub fn below(&self, path: &str) -> Result<Self, PathError> {
        path::validate(path)?;
        Self::new(&self.apply(path))
    }

    /// The server's path of a client's path.
    pub fn apply<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match (self.prefix.as_deref(), path) {
            (None, _) => Cow::Borrowed(path),
            (Some(prefix), "/") => Cow::Owned(prefix.into()),
            (Some(prefix), _) => Cow::Owned(format!("{prefix}{path}")),
        }
    }

    /// The client's path of a server's path; `None` if it lies outside.
    pub fn strip<'a>(&self, path: &'a str) -> Option<&'a str> {
        match path.strip_prefix(self.prefix.as_deref().unwrap_or_default())? {
            "" => Some("/"),
            // `/application` is not below `/app`.
            below => below.starts_with('/').then_some(below),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_changes_nothing() {
        let root = Chroot::new("/").expect("valid");
        assert_eq!(root, Chroot::default());
        assert_eq!(root.apply("/a"), "/a");
        assert_eq!(root.strip("/a"), Some("/a"));
    }

    #[test]
    fn paths_are_moved_below_and_back() {
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
    fn one_is_below_another() {
        let chroot = Chroot::new("/app").expect("valid");
        assert_eq!(chroot.below("/"), Ok(chroot.clone()));
        assert_eq!(chroot.below("/a/b"), Chroot::new("/app/a/b"));
        assert_eq!(Chroot::default().below("/app"), Ok(chroot.clone()));
        assert!(chroot.below("a").is_err());
    }
}
