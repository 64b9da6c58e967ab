//! How threads wait for persistent watches.

use core::task::Poll;
use core::time::Duration;
use std::time::Instant;

use super::Threads;
use super::driver::Wait;
use super::wait::CLOSED;
use crate::client::WatchUpdate;
use crate::client::full::persistent_watch::PersistentWatch;
use crate::error::Error;

/// # Waiting in threads
impl PersistentWatch<Threads> {
    /// Waits for the next update. Updates come in the order of the changes.
    ///
    /// # Errors
    ///
    /// Those of [`next`](Self::next).
    pub fn wait(&mut self) -> Result<WatchUpdate, Error> {
        self.wait_until(None).unwrap_or(Err(CLOSED))
    }

    /// Waits for the next update, at most for `timeout`. Returns `None` if there is none.
    ///
    /// # Errors
    ///
    /// Those of [`next`](Self::next).
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<WatchUpdate>, Error> {
        self.wait_until(Instant::now().checked_add(timeout)).transpose()
    }

    fn wait_until(&self, end: Option<Instant>) -> Option<Result<WatchUpdate, Error>> {
        self.driven.driver.wait(Wait::Reading, end, |_, waker| {
            let mut mine = Some(waker.clone());
            self.poll_queue(waker, &mut mine).unwrap_or(Poll::Pending)
        })
    }
}

impl Iterator for PersistentWatch<Threads> {
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
