//! Persistent watches.

use core::future::poll_fn;
use core::task::{Poll, Waker};

use zk_proto::{AddWatchMode, AddWatchRequest, OpCode, Request};

use super::answer::{Decoder, GONE};
use super::driver::{Driven, Driver};
use super::{Answer, Client, Router, WatchUpdate, seen_from};
use crate::chroot::Chroot;
use crate::error::Error;
use crate::session::RequestId;

/// # Persistent watches
impl<D: Driver> Client<D> {
    /// Watches a node, whether or not it exists: every change of the node, and its children that
    /// are created and deleted. Changes before the watch is set are not reported, so read the
    /// node after this returns. Needs a server since 3.6.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] from a server before 3.6, which also closes the connection. No watch
    /// is left then.
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
            let (id, pending) = self.submit_with(&request, &mut |router, id| {
                router.keep_watching(id, PersistentWatch::<D>::BUFFER);
            })?;
            let (driver, chroot) = (&pending.driven.driver, self.chroot.clone());
            let watch = PersistentWatch {
                request: id,
                driven: Driven::new(driver),
                chroot,
                is_over: false,
            };
            Ok(Answer::new(pending, Decoder::Watch(watch, |watch| watch)))
        })
    }
}

/// A persistent watch, made by [`Client::watch`] and [`Client::watch_recursively`]. Drop it to remove
/// it.
///
/// It survives the loss of a connection, and reports a [`WatchUpdate::Gap`] then. Up to
/// [`BUFFER`](Self::BUFFER) events wait until they are read; later ones become a gap.
///
/// Read it by [`next`](Self::next) in tasks, and by `wait` in threads. The one of tokio is also a
/// `Stream`, and that of threads an [`Iterator`]. Both end after the first error.
#[derive(Debug)]
#[must_use = "a watch that is dropped is removed"]
pub struct PersistentWatch<D: Driver> {
    request: RequestId,
    pub(crate) driven: Driven<D>,
    chroot: Chroot,
    pub(crate) is_over: bool,
}

impl<D: Driver> PersistentWatch<D> {
    /// The number of unread events that are kept.
    pub const BUFFER: usize = 1024;

    /// Waits for the next update. Updates come in the order of the changes, each before any answer
    /// that shows its change.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] when the session has ended. [`Error::Unsupported`] when the session has moved
    /// to a server that is too old for persistent watches. The error is the same each time.
    ///
    /// # Cancellation
    ///
    /// No update is lost.
    pub async fn next(&mut self) -> Result<WatchUpdate, Error> {
        poll_fn(|cx| self.poll_update(cx.waker())).await
    }

    pub(crate) fn poll_update(&mut self, waker: &Waker) -> Poll<Result<WatchUpdate, Error>> {
        // Cloned and dropped without the lock.
        let mut mine = None;
        loop {
            let driver = &self.driven.driver;
            match driver.locked(|router| self.poll_queue(router, waker, &mut mine)) {
                None => mine = Some(waker.clone()),
                Some(Poll::Pending) => {
                    self.driven.waits();
                    return Poll::Pending;
                }
                Some(update) => {
                    self.driven.ends();
                    return update;
                }
            }
        }
    }

    /// Polls under the session's lock. `mine` is a clone of the waker, to leave in the queue; the one
    /// that was there takes its place. Returns `None` if it needs one.
    pub(crate) fn poll_queue(
        &self,
        router: &mut Router,
        waker: &Waker,
        mine: &mut Option<Waker>,
    ) -> Option<Poll<Result<WatchUpdate, Error>>> {
        let Some(queue) = router.watch_queue(self.request) else { return Some(Poll::Pending) };
        if let Some(update) = queue.next() {
            return Some(Poll::Ready(update.map(|update| match update {
                WatchUpdate::Event(event) => WatchUpdate::Event(seen_from(&self.chroot, event)),
                WatchUpdate::Gap => WatchUpdate::Gap,
            })));
        }
        if !queue.reader.as_ref().is_some_and(|reader| reader.will_wake(waker)) {
            mine.as_ref()?;
            core::mem::swap(&mut queue.reader, mine);
        }
        Some(Poll::Pending)
    }
}

impl<D: Driver> Drop for PersistentWatch<D> {
    fn drop(&mut self) {
        // It is dropped without the session's lock.
        let mut queue = None;
        let _ = self.driven.driver.submit(&mut |router| {
            queue = router.stop_watching_persistently(self.request);
            queue.as_ref().map(drop).ok_or(GONE)
        });
    }
}
