//! A watch as a handle.

use alloc::string::ToString;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::chroot::Chroot;
use crate::driver::Shared;
use crate::error::{Error, Outcome};
use crate::session::{End, RequestId, State, WatchedEvent};

/// A watch that fires once. Await it to learn what happened; drop it to remove it.
///
/// It survives the loss of a connection. An event that was missed meanwhile is told after the
/// reconnect, but not what came before it: a node that was deleted and created anew has changed.
///
/// # Errors
///
/// [`Error::Ended`] when the session ends before it fires.
#[derive(Debug)]
#[must_use = "a watch that is dropped is removed"]
pub struct Watch {
    request: RequestId,
    event: oneshot::Receiver<WatchedEvent>,
    shared: Arc<Shared>,
    chroot: Arc<Chroot>,
}

impl Watch {
    pub(super) fn new(
        request: RequestId,
        event: oneshot::Receiver<WatchedEvent>,
        shared: Arc<Shared>,
        chroot: Arc<Chroot>,
    ) -> Self {
        Self { request, event, shared, chroot }
    }
}

impl Future for Watch {
    type Output = Result<WatchedEvent, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.event).poll(cx).map(|event| match event {
            Ok(mut event) => {
                if let Some(path) = self.chroot.strip(&event.path)
                    && path.len() != event.path.len()
                {
                    event.path = path.to_string();
                }
                Ok(event)
            }
            Err(_) => {
                let end = match self.shared.lock().session.state() {
                    State::Ended(end) => end,
                    _ => End::Closed,
                };
                Err(Error::Ended { end, outcome: Outcome::NotApplied })
            }
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        if inner.watches.remove(&self.request).is_some() {
            inner.session.unwatch(self.request);
            inner.wake_driver();
        }
    }
}
