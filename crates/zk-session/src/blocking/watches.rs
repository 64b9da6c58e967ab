//! Watches as handles.

use alloc::sync::Arc;
use core::cell::RefCell;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::time::Instant;

use super::Client;
use super::reading::Wait;
use super::shared::{Inner, Shared};
use crate::chroot::Chroot;
use crate::error::{Error, Outcome, RequestError};
use crate::face::{Notice, Receiver, operations, seen_from};
use crate::session::{End, RequestId, WatchedEvent};
use zk_proto::AddWatchMode;

const CLOSED: Error = Error::Ended { end: End::Closed, outcome: Outcome::NotApplied };

/// A watch that fires once. Drop it to remove it.
///
/// It survives the loss of a connection. An event that was missed meanwhile is told after the
/// reconnect, but not what came before it: a node that was deleted and created anew has changed.
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

    /// Waits until it fires, and says what happened.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] when the session ends before it fires.
    pub fn wait(self) -> Result<WatchedEvent, Error> {
        self.wait_until(None)?.ok_or(CLOSED)
    }

    /// As [`wait`](Self::wait), but no longer than this; `None` if it has not fired.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait), and when it has fired and was told before.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Option<WatchedEvent>, Error> {
        self.wait_until(Instant::now().checked_add(timeout))
    }

    fn wait_until(&self, end: Option<Instant>) -> Result<Option<WatchedEvent>, Error> {
        let mut event = self.event.borrow_mut();
        match self.shared.wait(Wait::Reading, end, |_, waker| event.poll(waker)) {
            None => Ok(None),
            Some(Some(event)) => Ok(Some(seen_from(&self.chroot, event))),
            Some(None) => Err(self.shared.lock().hub.ended().unwrap_or(CLOSED)),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        let alone = inner.hub.session().pending() == 0;
        if inner.hub.stop_watching(self.request).is_some() {
            inner.send(&self.shared, alone, false);
        }
    }
}

/// A watch that stays; made by [`Client::watch`] and [`Client::watch_recursively`]. Drop it to
/// remove it.
///
/// It is an [`Iterator`] that waits for each notice, and ends behind the first error.
///
/// It survives the loss of a connection, and tells of a [`Notice::Gap`] then. Events that are not
/// asked for wait, up to [`BUFFER`](Self::BUFFER) of them; what comes when there is no room is a
/// gap, too.
#[derive(Debug)]
#[must_use = "a watch that is dropped is removed"]
pub struct PersistentWatch {
    request: RequestId,
    shared: Arc<Shared>,
    chroot: Chroot,
    is_over: bool,
}

impl PersistentWatch {
    /// How many events wait to be asked for.
    pub const BUFFER: usize = 1024;

    pub(super) fn new(request: RequestId, shared: Arc<Shared>, chroot: Chroot) -> Self {
        Self { request, shared, chroot, is_over: false }
    }

    /// Waits for what happens next. Notices come in the order of what they tell.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] when the session has. [`Error::Server`] when the session has moved to a
    /// member that is too old for persistent watches. The same is told again if asked again.
    pub fn wait(&mut self) -> Result<Notice, Error> {
        self.next_until(None).unwrap_or(Err(CLOSED))
    }

    /// As [`wait`](Self::wait), but no longer than this; `None` if nothing has happened.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<Notice>, Error> {
        self.next_until(Instant::now().checked_add(timeout)).transpose()
    }

    fn next_until(&self, deadline: Option<Instant>) -> Option<Result<Notice, Error>> {
        let next = |inner: &mut Inner, waker: &Waker| {
            let mailbox = inner.hub.mailbox(self.request).ok_or(CLOSED)?;
            let Some(notice) = mailbox.notices.next() else {
                mailbox.reader = Some(waker.clone());
                return Poll::Pending;
            };
            Poll::Ready(notice)
        };
        let notice = self.shared.wait(Wait::Reading, deadline, next)?;
        Some(notice.map(|notice| match notice {
            Notice::Event(event) => Notice::Event(seen_from(&self.chroot, event)),
            Notice::Gap => Notice::Gap,
        }))
    }
}

impl Iterator for PersistentWatch {
    type Item = Result<Notice, Error>;

    fn next(&mut self) -> Option<Result<Notice, Error>> {
        if self.is_over {
            return None;
        }
        let notice = self.wait();
        self.is_over = notice.is_err();
        Some(notice)
    }
}

impl Drop for PersistentWatch {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        let alone = inner.hub.session().pending() == 0;
        inner.hub.stop_watching_for_good(self.request);
        inner.send(&self.shared, alone, false);
    }
}

/// # Watches that stay
impl Client {
    /// Watches a node, whether or not it exists, for whatever happens to it and for children that
    /// come and go. Needs a server since 3.6. What was before is not told: read the node once the
    /// watch is there.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] from a server before 3.6, which also
    /// closes the connection.
    pub fn watch(&self, path: &str) -> Result<PersistentWatch, RequestError> {
        let (answer, watch) = operations::watch(self, path, AddWatchMode::PERSISTENT)?;
        answer.wait_at(path)?;
        Ok(watch)
    }

    /// Watches a node and all below it, now and in future. Lists of children are not told as
    /// changed; the children that come and go are told themselves. See [`watch`](Self::watch).
    ///
    /// # Errors
    ///
    /// As [`watch`](Self::watch).
    pub fn watch_recursively(&self, path: &str) -> Result<PersistentWatch, RequestError> {
        let (answer, watch) = operations::watch(self, path, AddWatchMode::PERSISTENT_RECURSIVE)?;
        answer.wait_at(path)?;
        Ok(watch)
    }
}
