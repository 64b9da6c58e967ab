//! What drives the session of a client.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use zk_proto::Request;

use super::{Receiver, Router};
use crate::dispatch::Attached;
use crate::dispatch::attachment::{Attachment, Commands};
use crate::dispatch::watchers::Watcher;
use crate::error::Error;
use crate::session::{Reply, RequestId};
use crate::time::Instant;

/// What drives the session of a [`Client`](super::Client): a task of tokio, or threads. It has the
/// socket and the clock, and is shared by the handles of its client. Other types cannot implement
/// this.
pub trait Driver: Commands + fmt::Debug + Sized + 'static {
    /// Reads the session's clock.
    #[doc(hidden)]
    fn now(&self) -> Instant;

    /// Calls `look` under the session's lock, once, and sends nothing.
    #[doc(hidden)]
    fn look(&self, look: &mut dyn FnMut(&mut Router));

    /// Returns what `look` returns, as with [`look`](Self::look).
    #[doc(hidden)]
    fn locked<R>(&self, look: impl FnOnce(&mut Router) -> R) -> R {
        let (mut look, mut result) = (Some(look), None);
        self.look(&mut |router| result = look.take().map(|look| look(router)));
        result.expect("it was called")
    }

    /// Calls `act` under the session's lock, and performs the session's actions.
    #[doc(hidden)]
    fn act(self: &Arc<Self>, act: &mut dyn FnMut(&mut Router, Instant));

    /// [Submits](Router::submit) a request under the session's lock, and sends it. Returns its id, and
    /// whether the driver has checked that this process is not a fork. If not, it has written nothing
    /// yet, and the caller checks before it waits.
    ///
    /// Like `look` and `act`, it is not generic: so the session is compiled in this crate, and not again
    /// in that of each caller.
    #[doc(hidden)]
    fn submit(
        self: &Arc<Self>,
        request: &Request<'_>,
        reply: &Receiver<Result<Reply, Error>>,
        end: Option<Instant>,
        watcher: Option<Arc<dyn Watcher>>,
    ) -> Result<(RequestId, bool), Error>;

    /// Drops a watch, unless it is over. Returns what waits for it, to be dropped without the
    /// session's lock.
    #[doc(hidden)]
    fn unwatch(self: &Arc<Self>, request: RequestId) -> Option<Arc<dyn Watcher>>;

    /// Attaches a machine.
    #[doc(hidden)]
    fn attach(self: &Arc<Self>, machine: Box<dyn Attached>) -> Attachment;

    /// In a forked process, leaks the driver, so that nothing is closed. Returns whether this is one.
    ///
    /// Dropping the connection would end it for the parent as well: TLS sends `close_notify`, and
    /// both processes share one `epoll` instance.
    #[doc(hidden)]
    fn keep_if_forked(self: &Arc<Self>) -> bool {
        let is_forked = self.is_forked();
        if is_forked {
            core::mem::forget(self.clone());
        }
        is_forked
    }

    /// Records that a future waits. Returns whether the driver counts it, so that
    /// [`future_ends`](Self::future_ends) must follow.
    #[doc(hidden)]
    fn future_waits(self: &Arc<Self>) -> bool;

    /// Records that a future that was counted does not wait any more.
    #[doc(hidden)]
    fn future_ends(&self);
}

/// The driver of a future, and whether it counts that future.
#[derive(Debug)]
pub(crate) struct Driven<D: Driver> {
    pub(crate) driver: Arc<D>,
    is_counted: bool,
}

impl<D: Driver> Driven<D> {
    pub(crate) fn new(driver: &Arc<D>) -> Self {
        Self { driver: driver.clone(), is_counted: false }
    }

    /// Records that the future waits.
    pub(crate) fn waits(&mut self) {
        self.is_counted = self.is_counted || self.driver.future_waits();
    }

    /// Records that the future does not wait any more.
    pub(crate) fn ends(&mut self) {
        if core::mem::take(&mut self.is_counted) {
            self.driver.future_ends();
        }
    }
}

impl<D: Driver> Drop for Driven<D> {
    fn drop(&mut self) {
        self.ends();
    }
}
