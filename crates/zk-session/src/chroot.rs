//! The chroot of a client.

use alloc::borrow::Cow;
use alloc::format;

use zk_proto::path::{self, PathError};

use crate::sync::Arc;

/// The subtree that a client sees as the whole tree.
///
/// The client prefixes each path of a request with the chroot, and strips it from each path that
/// the server returns.
///
/// ```
/// use zk_session::Chroot;
///
/// let chroot = Chroot::new("/app")?;
/// assert_eq!(chroot.apply("/locks"), "/app/locks");
/// assert_eq!(chroot.strip("/app/locks"), Some("/locks"));
/// assert_eq!(chroot.strip("/other"), None);
/// # Ok::<(), zk_session::proto::path::PathError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chroot {
    /// `None` for the root, so that its clone needs no reference count.
    prefix: Option<Arc<str>>,
}

impl Chroot {
    /// Makes a chroot at a path of the server. With `/` the client sees the whole tree.
    ///
    /// # Errors
    ///
    /// [`PathError`] if `path` is invalid.
    pub fn new(path: &str) -> Result<Self, PathError> {
        path::validate(path)?;
        Ok(Self { prefix: (path != "/").then(|| path.into()) })
    }

    /// Makes a chroot at `path`, which is relative to this chroot.
    ///
    /// # Errors
    ///
    /// [`PathError`] if `path` is invalid.
    ///
    /// ```
    /// use zk_session::Chroot;
    ///
    /// let app = Chroot::new("/app")?;
    /// assert_eq!(app.below("/locks")?, Chroot::new("/app/locks")?);
    /// # Ok::<(), zk_session::proto::path::PathError>(())
    /// ```
    pub fn below(&self, path: &str) -> Result<Self, PathError> {
        path::validate(path)?;
        Self::new(&self.apply(path))
    }

    /// Returns the server's path for a path of the client.
    pub fn apply<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match (self.prefix.as_deref(), path) {
            (None, _) => Cow::Borrowed(path),
            (Some(prefix), "/") => Cow::Owned(prefix.into()),
            (Some(prefix), _) => Cow::Owned(format!("{prefix}{path}")),
        }
    }

    /// Returns the client's path for a path of the server, or `None` if it is outside the chroot.
    pub fn strip<'a>(&self, path: &'a str) -> Option<&'a str> {
        match path.strip_prefix(self.prefix.as_deref().unwrap_or_default())? {
            "" => Some("/"),
            // `/application` is not below `/app`.
            below => below.starts_with('/').then_some(below),
        }
    }
}

#[cfg(test)]
mod tests;
