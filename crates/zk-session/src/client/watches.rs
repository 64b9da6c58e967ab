//! Watches as handles.

use alloc::sync::Arc;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use futures_core::Stream;
use zk_proto::AddWatchMode;

use super::Client;
use crate::chroot::Chroot;
use crate::driver::Shared;
use crate::error::{Error, Outcome, RequestError};
use crate::face::{Notice, Receiver, operations, seen_from};
use crate::session::{End, RequestId, WatchedEvent};

/// A watch that fires once. Await it to learn what happened; drop it to remove it.
///
/// It survives the loss of a connection. An event that was missed meanwhile is told after the
/// reconnect, but not what came before it: a node that was deleted and created anew has changed.
///
/// # Errors
///
/// [`Error::Ended`] when the session ends before it fires.
///
/// # Cancellation
///
/// It can be awaited by reference, any number of times, until it has fired.
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
            None => Err(self.shared.lock().hub.ended().unwrap_or(CLOSED)),
        })
    }
}

const CLOSED: Error = Error::Ended { end: End::Closed, outcome: Outcome::NotApplied };

impl Drop for Watch {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.event.close();
        let mut inner = self.shared.lock();
        let alone = inner.hub.session().pending() == 0;
        let watcher = inner.hub.stop_watching(self.request);
        if watcher.is_some() {
            inner.send(alone);
        }
        drop(inner);
        drop(watcher);
    }
}

/// A watch that stays; made by [`Client::watch`] and [`Client::watch_recursively`]. Drop it to
/// remove it.
///
/// It is a [`Stream`] of notices, which ends behind the first error.
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

    /// Waits for what happens next. Notices come in the order of what they tell, and before every
    /// answer that shows it.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] when the session has. [`Error::Server`] when the session has moved to a
    /// member that is too old for persistent watches. The same is told again if asked again.
    ///
    /// # Cancellation
    ///
    /// No notice is lost.
    pub async fn next(&mut self) -> Result<Notice, Error> {
        poll_fn(|cx| self.poll_notice(cx)).await
    }

    fn poll_notice(&self, cx: &Context<'_>) -> Poll<Result<Notice, Error>> {
        let notice = self.shared.poll_notice(self.request, cx.waker());
        notice.map_ok(|notice| match notice {
            Notice::Event(event) => Notice::Event(seen_from(&self.chroot, event)),
            Notice::Gap => Notice::Gap,
        })
    }
}

impl Stream for PersistentWatch {
    type Item = Result<Notice, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let notice = self.poll_notice(cx);
        self.is_over = matches!(notice, Poll::Ready(Err(_)));
        notice.map(Some)
    }
}

impl Drop for PersistentWatch {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        let mailbox = inner.hub.stop_watching_for_good(self.request);
        inner.wake_driver();
        drop(inner);
        drop(mailbox);
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
    /// closes the connection. No watch is left then, nor when the future is dropped.
    pub fn watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<PersistentWatch, RequestError>> + Send + use<> {
        self.watch_persistently(path, AddWatchMode::PERSISTENT)
    }

    /// Watches a node and all below it, now and in future. Lists of children are not told as
    /// changed; the children that come and go are told themselves. See [`watch`](Self::watch).
    ///
    /// # Errors
    ///
    /// As [`watch`](Self::watch).
    pub fn watch_recursively(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<PersistentWatch, RequestError>> + Send + use<> {
        self.watch_persistently(path, AddWatchMode::PERSISTENT_RECURSIVE)
    }

    fn watch_persistently(
        &self,
        path: &str,
        mode: AddWatchMode,
    ) -> impl Future<Output = Result<PersistentWatch, RequestError>> + Send + use<> {
        let asked = operations::watch(self, path, mode);
        async move {
            let (answer, watch) = asked?;
            answer.await?;
            Ok(watch)
        }
    }
}
