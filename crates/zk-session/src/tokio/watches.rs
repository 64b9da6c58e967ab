//! The handles of watches.

use alloc::sync::Arc;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use super::driver::Shared;
use crate::chroot::Chroot;
use crate::client::{Receiver, WatchUpdate, seen_from};
use crate::error::Error;
use crate::session::{RequestId, WatchedEvent};
use futures_core::Stream;

/// A one-shot watch. Await it to receive the event; drop it to remove the watch.
///
/// It survives the loss of a connection. The server reports a missed change after the reconnect,
/// but only the last state: a node that was deleted and created again has changed.
///
/// # Errors
///
/// [`Error::Ended`] when the session ends before the watch fires.
///
/// # Cancellation
///
/// It can be awaited by reference, repeatedly, until it has fired.
///
/// ```no_run
/// # async fn example(client: &zk_session::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let (data, _, changed) = client.get_data_and_watch("/config").await?;
/// println!("{data:?}");
/// let event = changed.await?;
/// println!("{:?} {}", event.event_type, event.path);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a watch that is dropped is removed"]
pub struct Watch {
    request: RequestId,
    event: Receiver<WatchedEvent>,
    shared: Arc<Shared>,
    chroot: Chroot,
    is_over: bool,
}

impl Watch {
    pub(super) fn new(
        request: RequestId,
        event: Receiver<WatchedEvent>,
        shared: Arc<Shared>,
        chroot: Chroot,
    ) -> Self {
        Self { request, event, shared, chroot, is_over: false }
    }
}

impl Future for Watch {
    type Output = Result<WatchedEvent, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let event = ready!(self.event.poll(cx.waker()));
        self.is_over = true;
        Poll::Ready(match event {
            Some(event) => Ok(seen_from(&self.chroot, event)),
            None => Err(self.shared.lock().router.end_of_watch()),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.event.close();
        let mut inner = self.shared.lock();
        let alone = inner.router.session().pending() == 0;
        let watcher = inner.router.stop_watching(self.request);
        if watcher.is_some() {
            inner.send(alone, None);
        }
        drop(inner);
        drop(watcher);
    }
}

/// A persistent watch, made by [`Client::watch`](super::Client::watch) and
/// [`Client::watch_recursively`](super::Client::watch_recursively). Drop it to remove it.
///
/// It is a [`Stream`] of updates, which ends after the first error.
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

    /// Waits for the next update. Updates come in the order of the changes, each before any answer
    /// that shows its change.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] when the session has. [`Error::Unsupported`] when the session has moved to a
    /// server that is too old for persistent watches. The error is the same each time.
    ///
    /// # Cancellation
    ///
    /// No update is lost.
    pub async fn next(&mut self) -> Result<WatchUpdate, Error> {
        poll_fn(|cx| self.poll_update(cx)).await
    }

    fn poll_update(&self, cx: &Context<'_>) -> Poll<Result<WatchUpdate, Error>> {
        let update = self.shared.poll_update(self.request, cx.waker());
        update.map_ok(|update| match update {
            WatchUpdate::Event(event) => WatchUpdate::Event(seen_from(&self.chroot, event)),
            WatchUpdate::Gap => WatchUpdate::Gap,
        })
    }
}

impl Stream for PersistentWatch {
    type Item = Result<WatchUpdate, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let update = self.poll_update(cx);
        self.is_over = matches!(update, Poll::Ready(Err(_)));
        update.map(Some)
    }
}

impl Drop for PersistentWatch {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        let queue = inner.router.stop_watching_persistently(self.request);
        inner.wake_driver();
        drop(inner);
        drop(queue);
    }
}
