//! A persistent watch.

use alloc::sync::Arc;
use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::sync::PoisonError;

use super::driver::{Driven, Driver};
use super::send::GONE;
use super::{WatchQueue, WatchUpdate, seen_from};
use crate::chroot::Chroot;
use crate::error::Error;
use crate::session::RequestId;
use crate::threads::Mutex;

/// A persistent watch, made by [`Client::watch`](super::Client::watch) and
/// [`Client::watch_recursively`](super::Client::watch_recursively). Drop it to remove it.
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
    queue: Arc<Mutex<WatchQueue>>,
    pub(crate) driven: Driven<D>,
    chroot: Chroot,
    pub(crate) is_over: bool,
}

impl<D: Driver> PersistentWatch<D> {
    /// The number of unread events that are kept.
    pub const BUFFER: usize = 1024;

    pub(super) fn new(
        request: RequestId,
        queue: Arc<Mutex<WatchQueue>>,
        driven: Driven<D>,
        chroot: Chroot,
    ) -> Self {
        Self { request, queue, driven, chroot, is_over: false }
    }

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
            match self.poll_queue(waker, &mut mine) {
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

    /// Polls the queue. `mine` is a clone of the waker, to leave there; the one that was there takes
    /// its place. Returns `None` if it needs one.
    pub(crate) fn poll_queue(
        &self,
        waker: &Waker,
        mine: &mut Option<Waker>,
    ) -> Option<Poll<Result<WatchUpdate, Error>>> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
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
            queue = router.dispatcher.unwatch(self.request);
            queue.as_ref().map(drop).ok_or(GONE)
        });
    }
}
