//! The handles of watches.

use alloc::sync::Arc;
use core::cell::RefCell;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::time::Instant;

use super::driver::{Inner, Shared, Wait};
use crate::chroot::Chroot;
use crate::client::{Receiver, WatchUpdate, seen_from};
use crate::error::{Error, Outcome};
use crate::session::{End, RequestId, WatchedEvent};

const CLOSED: Error = Error::Ended { end: End::Closed, outcome: Outcome::NotApplied };

/// A one-shot watch. Drop it to remove the watch.
///
/// It survives the loss of a connection. The server reports a missed change after the reconnect,
/// but only the last state: a node that was deleted and created again has changed.
///
/// ```no_run
/// # fn example(client: &zk_session::blocking::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let (names, _, changed) = client.get_children_and_watch("/workers")?;
/// println!("{names:?}");
/// match changed.wait_timeout(Duration::from_secs(10))? {
///     Some(event) => println!("{:?}", event.event_type),
///     None => println!("no change for 10 s"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a watch that is dropped is removed"]
pub struct Watch {
    request: RequestId,
    event: RefCell<Receiver<WatchedEvent>>,
    shared: Arc<Shared>,
    chroot: Chroot,
}

impl Watch {
    pub(super) fn new(
        request: RequestId,
        event: Receiver<WatchedEvent>,
        shared: Arc<Shared>,
        chroot: Chroot,
    ) -> Self {
        Self { request, event: RefCell::new(event), shared, chroot }
    }

    /// Waits until it fires, and returns the event.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] when the session ends before it fires.
    pub fn wait(self) -> Result<WatchedEvent, Error> {
        self.wait_until(None)?.ok_or(CLOSED)
    }

    /// Waits until it fires, at most for `timeout`. Returns `None` if it has not fired.
    ///
    /// # Errors
    ///
    /// Those of [`wait`](Self::wait). Also if the event was returned before.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Option<WatchedEvent>, Error> {
        self.wait_until(Instant::now().checked_add(timeout))
    }

    fn wait_until(&self, end: Option<Instant>) -> Result<Option<WatchedEvent>, Error> {
        let mut event = self.event.borrow_mut();
        match self.shared.wait(Wait::Reading, end, |_, waker| event.poll(waker)) {
            None => Ok(None),
            Some(Some(event)) => Ok(Some(seen_from(&self.chroot, event))),
            Some(None) => Err(self.shared.lock().router.end_of_watch()),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        let alone = inner.router.session().pending() == 0;
        if inner.router.stop_watching(self.request).is_some() {
            inner.send(&self.shared, alone, false);
        }
    }
}

/// A persistent watch, made by [`Client::watch`](super::Client::watch) and
/// [`Client::watch_recursively`](super::Client::watch_recursively). Drop it to remove it.
///
/// It is an [`Iterator`] that waits for each update, and ends after the first error.
///
/// It survives the loss of a connection, and reports a [`WatchUpdate::Gap`] then. Up to
/// [`BUFFER`](Self::BUFFER) events wait until they are read; later ones become a gap.
#[derive(Debug)]
#[must_use = "a watch that is dropped is removed"]
pub struct PersistentWatch {
    request: RequestId,
    shared: Arc<Shared>,
    chroot: Chroot,
    is_over: bool,
}

impl PersistentWatch {
    /// The number of unread events that are kept.
    pub const BUFFER: usize = 1024;

    pub(super) fn new(request: RequestId, shared: Arc<Shared>, chroot: Chroot) -> Self {
        Self { request, shared, chroot, is_over: false }
    }

    /// Waits for the next update. Updates come in the order of the changes.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] when the session has. [`Error::Unsupported`] when the session has moved to a
    /// server that is too old for persistent watches. The error is the same each time.
    pub fn wait(&mut self) -> Result<WatchUpdate, Error> {
        self.next_until(None).unwrap_or(Err(CLOSED))
    }

    /// Waits for the next update, at most for `timeout`. Returns `None` if there is none.
    ///
    /// # Errors
    ///
    /// Those of [`wait`](Self::wait).
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<WatchUpdate>, Error> {
        self.next_until(Instant::now().checked_add(timeout)).transpose()
    }

    fn next_until(&self, deadline: Option<Instant>) -> Option<Result<WatchUpdate, Error>> {
        let next = |inner: &mut Inner, waker: &Waker| {
            let queue = inner.router.watch_queue(self.request).ok_or(CLOSED)?;
            let Some(update) = queue.next() else {
                queue.reader = Some(waker.clone());
                return Poll::Pending;
            };
            Poll::Ready(update)
        };
        let update = self.shared.wait(Wait::Reading, deadline, next)?;
        Some(update.map(|update| match update {
            WatchUpdate::Event(event) => WatchUpdate::Event(seen_from(&self.chroot, event)),
            WatchUpdate::Gap => WatchUpdate::Gap,
        }))
    }
}

impl Iterator for PersistentWatch {
    type Item = Result<WatchUpdate, Error>;

    fn next(&mut self) -> Option<Result<WatchUpdate, Error>> {
        if self.is_over {
            return None;
        }
        let update = self.wait();
        self.is_over = update.is_err();
        Some(update)
    }
}

impl Drop for PersistentWatch {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        let alone = inner.router.session().pending() == 0;
        inner.router.stop_watching_persistently(self.request);
        inner.send(&self.shared, alone, false);
    }
}
