//! What is known of requests that borrow nothing.

use alloc::string::String;
use alloc::vec::Vec;

use super::*;
use crate::owned::storage::Storage;

impl<S: Storage> owned::Request<S> {
    /// Returns whether released servers do not survive the request.
    ///
    /// [`Request::harms_servers`](crate::Request::harms_servers) has the list.
    pub fn harms_servers(&self) -> bool {
        match self {
            Self::Check(_) => true,
            Self::CreateTtl(body) => is_deadly(body.mode, body.ttl),
            _ => false,
        }
    }
}

impl<S: Storage<Text = String, NullableText = Option<String>>> owned::Request<S> {
    /// Returns the path of the node that the request is about, if it is about a single node.
    ///
    /// [`Request::path`](crate::Request::path) has the details.
    pub fn path(&self) -> Option<&str> {
        path!(self, [&], |body| body.prefix_path.as_ref()).map(String::as_str)
    }

    /// Returns all paths in the request, to be changed: for example, to add a chroot.
    ///
    /// They are those of [`Request::paths`](crate::Request::paths).
    ///
    /// ```
    /// use zk_proto::owned::{IntoOwned, Request};
    /// use zk_proto::{DeleteRequest, Encode};
    ///
    /// let request = zk_proto::Request::Delete(DeleteRequest { path: "/a", version: -1 });
    /// let mut request: Request = request.into_owned();
    /// for path in request.paths_mut() {
    ///     path.insert_str(0, "/app");
    /// }
    /// assert_eq!(request.path(), Some("/app/a"));
    /// ```
    pub fn paths_mut(&mut self) -> Vec<&mut String> {
        type Paths = crate::owned::list::List<String>;
        fn all(list: &mut Paths) -> impl Iterator<Item = &mut String> {
            list.0.iter_mut().flatten()
        }

        match self {
            Self::Multi(multi) => multi.0.iter_mut().map(|op| op.path_mut()).collect(),
            Self::MultiRead(multi) => multi.0.iter_mut().map(|op| op.path_mut()).collect(),
            Self::SetWatches(body) => all(&mut body.data_watches)
                .chain(all(&mut body.exist_watches))
                .chain(all(&mut body.child_watches))
                .collect(),
            Self::SetWatches2(body) => all(&mut body.data_watches)
                .chain(all(&mut body.exist_watches))
                .chain(all(&mut body.child_watches))
                .chain(all(&mut body.persistent_watches))
                .chain(all(&mut body.persistent_recursive_watches))
                .collect(),
            single => path!(single, [&mut], |body| body.prefix_path.as_mut()).into_iter().collect(),
        }
    }
}
