//! A persistent watch, and the queue of its updates.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::sync::PoisonError;

use zk_proto::OpCode;

use crate::chroot::Chroot;
use crate::client::driver::{Driven, Driver};
use crate::client::{WatchUpdate, seen_from};
use crate::dispatch::Input;
use crate::dispatch::effects::Wakers;
use crate::dispatch::watchers::Watcher;
use crate::error::{Error, Outcome};
use crate::session::{RequestId, State, WatchedEvent};
use crate::threads::Mutex;

/// A persistent watch, made by [`Client::watch`](crate::client::Client::watch) and
/// [`Client::watch_recursively`](crate::client::Client::watch_recursively). Drop it to remove it.
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

    /// Polls the queue. `mine` is a clone of the waker, to leave there. The one that was there
    /// takes its place. Returns `None` if it needs one.
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
        self.driven.driver.unwatch(self.request);
    }
}

/// The unread updates, in order: at most its capacity and a gap.
#[derive(Debug)]
pub(super) struct WatchQueue {
    updates: VecDeque<WatchUpdate>,
    capacity: usize,
    end: Option<Error>,
    /// Wakes the reader, if it waits.
    reader: Option<Waker>,
}

impl WatchQueue {
    pub(super) fn new(capacity: usize) -> Self {
        Self { updates: VecDeque::new(), capacity, end: None, reader: None }
    }

    /// Adds an event, or a gap if the queue is full.
    fn push_event(&mut self, event: WatchedEvent) {
        if self.updates.len() < self.capacity {
            self.updates.push_back(WatchUpdate::Event(event));
        } else {
            self.push_gap();
        }
    }

    /// Adds a gap, unless the last update is one.
    fn push_gap(&mut self) {
        if self.updates.back() != Some(&WatchUpdate::Gap) {
            self.updates.push_back(WatchUpdate::Gap);
        }
    }

    /// Ends the watch, after the queued updates.
    fn end(&mut self, error: Error) {
        self.end.get_or_insert(error);
    }

    /// Takes the next update, or the end of the watch; `None` if the queue is empty.
    fn next(&mut self) -> Option<Result<WatchUpdate, Error>> {
        match self.updates.pop_front() {
            Some(update) => Some(Ok(update)),
            None => self.end.clone().map(Err),
        }
    }
}

impl Watcher for Mutex<WatchQueue> {
    fn handle(self: Arc<Self>, input: Input, wakers: &mut Wakers) {
        let mut queue = self.lock().unwrap_or_else(PoisonError::into_inner);
        match input {
            Input::Watch { event, .. } => queue.push_event(event),
            Input::Gap { .. } => queue.push_gap(),
            Input::WatchLost { code, .. } => queue.end(Error::refused(OpCode::ADD_WATCH, code)),
            Input::State(State::Ended(end)) => {
                queue.end(Error::Ended { end, outcome: Outcome::NotApplied });
            }
            _ => {}
        }
        wakers.extend(queue.reader.take());
    }

    fn outlives_session(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
