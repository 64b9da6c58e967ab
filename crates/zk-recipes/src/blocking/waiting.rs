//! How threads wait for a lock.

use alloc::sync::Arc;
use core::pin::Pin;
use core::task::Context;
use core::time::Duration;
use std::time::Instant;

use zk_session::blocking::Client;

use super::{Entrance, Held};
use crate::error::{LockError, RecipeError};
use crate::face::status::{Report, SharedStatus};
use crate::machine::Entry;

/// Waits until `find` finds something in the report of a machine. `None` if it has not by `end`;
/// `Some(None)` if the machine is gone without.
pub(super) fn wait<T>(
    client: &Client,
    status: &Arc<SharedStatus>,
    end: Option<Instant>,
    find: impl FnMut(&mut Report) -> Option<T> + Unpin,
) -> Option<Option<T>> {
    let mut found = status.wait(find);
    client.wait_for(end, |waker| Pin::new(&mut found).poll(&mut Context::from_waker(waker)))
}

impl Entrance {
    /// Waits for the lock, and gives up at `end`.
    pub(super) fn held(self, end: Option<Instant>) -> Result<Held, RecipeError> {
        let take = |report: &mut Report| report.place.take();
        match wait(&self.call.client, &self.handle.status, end, take) {
            Some(acquired) => self.finish(acquired),
            None => Err(self.call.failed(LockError::TimedOut)),
        }
    }
}

/// Returns how to make an attempt that may take so long, and when to give up. With no time at all,
/// the attempt ends by itself.
pub(super) fn entry(timeout: Duration) -> (Entry, Option<Instant>) {
    match timeout {
        Duration::ZERO => (Entry::OnlyIfFirst, None),
        timeout => (Entry::Queue, after(timeout)),
    }
}

/// When `timeout` from now is; never, if that is later than a clock can tell.
pub(super) fn after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// The method `$timeout`, which waits as `$wait` does, but not for ever.
macro_rules! limited {
    (
        $operation:literal: $timeout:ident:
        $wait:ident($($argument:ident: $type:ty),*) by $enter:ident($($given:expr),*) -> $guard:ty
    ) => {
        #[doc = concat!("Waits like [`", stringify!($wait), "`](Self::", stringify!($wait), "), but no longer than")]
        /// `timeout`, whatever the network does.
        ///
        /// With [`Duration::ZERO`](core::time::Duration::ZERO) it asks the server once: it waits
        /// for the answer, but neither for other contenders nor for a connection. Of two such calls
        /// at the same time, the first in the queue succeeds; of two calls of a `try_` method, both
        /// may fail.
        ///
        /// # Errors
        ///
        /// [`TimedOut`](crate::LockError::TimedOut), or
        /// [`NoConnection`](crate::LockError::NoConnection) if there is no connection when the time
        /// is over.
        pub fn $timeout(
            &self,
            $($argument: $type,)*
            timeout: core::time::Duration,
        ) -> Result<$guard, $crate::RecipeError> {
            let (entry, end) = $crate::blocking::waiting::entry(timeout);
            self.$enter($operation, $($given,)* entry, end)
        }
    };
}

pub(super) use limited;
