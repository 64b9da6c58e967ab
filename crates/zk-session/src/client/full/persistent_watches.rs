//! Persistent watches.

use alloc::boxed::Box;
use alloc::sync::Arc;

use zk_proto::{AddWatchMode, AddWatchRequest, OpCode, Request};

use super::persistent_watch::{PersistentWatch, WatchQueue};
use crate::client::answer::Decoder;
use crate::client::driver::{Driven, Driver};
use crate::client::{Answer, Client};
use crate::threads::Mutex;

/// # Persistent watches
impl<D: Driver> Client<D> {
    /// Watches a node, whether or not it exists: every change of the node, and its children that
    /// are created and deleted. Changes before the watch is set are not reported, so read the
    /// node after this returns. Needs a server since 3.6.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`](crate::Error::Unsupported) from a server before 3.6, which also
    /// closes the connection. No watch is left then.
    #[doc(alias = "addWatch")]
    pub fn watch(&self, path: &str) -> Answer<PersistentWatch<D>, D> {
        self.keep_watching(path, AddWatchMode::PERSISTENT)
    }

    /// Watches a node and all nodes below it, including nodes created later. A created or
    /// deleted child is reported by itself, not as a change of its parent's list of children.
    /// [`watch`](Self::watch) documents what is not reported.
    ///
    /// # Errors
    ///
    /// Those of [`watch`](Self::watch).
    pub fn watch_recursively(&self, path: &str) -> Answer<PersistentWatch<D>, D> {
        self.keep_watching(path, AddWatchMode::PERSISTENT_RECURSIVE)
    }

    fn keep_watching(&self, path: &str, mode: AddWatchMode) -> Answer<PersistentWatch<D>, D> {
        Answer::of(|| {
            let path = self.server_path(OpCode::ADD_WATCH, path)?;
            let request = Request::AddWatch(AddWatchRequest { path: &path, mode });
            let queue = Arc::new(Mutex::new(WatchQueue::new(PersistentWatch::<D>::BUFFER)));
            let (id, pending) = self.submit_with(&request, queue.clone())?;
            let driven = Driven::new(&pending.driven.driver);
            let watch = PersistentWatch::new(id, queue, driven, self.chroot.clone());
            Ok(Answer::new(pending, Decoder::Watch(Box::new(watch), |watch| watch)))
        })
    }
}
