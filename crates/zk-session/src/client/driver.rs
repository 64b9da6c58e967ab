//! What drives the session of a client.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use super::Router;
use crate::dispatch::{Attached, Attachment, Commands};
use crate::error::Error;
use crate::time::Instant;

/// What drives the session of a [`Client`](super::Client): a task of tokio, or threads. It has the
/// socket and the clock, and is shared by the handles of its client. Other types cannot implement
/// this.
pub trait Driver: Commands + fmt::Debug + Sized + 'static {
    /// Reads the session's clock.
    #[doc(hidden)]
    fn now(&self) -> Instant;

    /// Calls `look` under the session's lock, and sends nothing.
    #[doc(hidden)]
    fn locked<R>(&self, look: impl FnOnce(&mut Router) -> R) -> R;

    /// Calls `act` under the session's lock, and carries out what the session wants then.
    #[doc(hidden)]
    fn act<R>(self: &Arc<Self>, act: impl FnOnce(&mut Router, Instant) -> R) -> R;

    /// Calls `submit` under the session's lock, and sends the request that it has submitted, unless
    /// it fails. Also returns whether this was found not to be a forked process. Otherwise the caller
    /// looks before it waits, since nothing was written yet.
    #[doc(hidden)]
    fn submit<R>(
        self: &Arc<Self>,
        submit: impl FnOnce(&mut Router) -> Result<R, Error>,
    ) -> Result<(R, bool), Error>;

    /// Attaches a machine.
    #[doc(hidden)]
    fn attach(self: &Arc<Self>, machine: Box<dyn Attached>) -> Attachment;

    /// Keeps everything for ever in a forked process. Returns whether this is one.
    #[doc(hidden)]
    fn keep_if_forked(self: &Arc<Self>) -> bool;

    /// Records that a future waits, of which the driver would not know otherwise. Returns whether
    /// the driver counts it, and so must be told of its end.
    #[doc(hidden)]
    fn future_waits(self: &Arc<Self>) -> bool;

    /// Records that a future that was counted does not wait any more.
    #[doc(hidden)]
    fn future_ends(&self);
}

/// The driver, as the future that has this sees it.
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
