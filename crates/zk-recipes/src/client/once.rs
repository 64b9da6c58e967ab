//! A value that several callers need, and one of them creates.

use alloc::vec::Vec;
use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::sync::{OnceLock, PoisonError};
use std::time::Instant;

use zk_session::threads::{Mutex, MutexGuard};

use crate::client::SessionClient;
use crate::client::session_client::before;
use crate::error::LockError;

/// A value that is created once. If the caller that creates it fails or gives up, another one
/// continues.
#[derive(Debug)]
pub(crate) struct Once<T> {
    value: OnceLock<T>,
    making: Mutex<Making>,
}

#[derive(Debug, Default)]
struct Making {
    is_busy: bool,
    waiters: Vec<Waker>,
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self { value: OnceLock::new(), making: Mutex::default() }
    }
}

impl<T: Send + Sync> Once<T> {
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.get()
    }

    pub(crate) fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// Returns the value, and creates it if necessary. Waits for another caller until `end`.
    pub(crate) async fn get_or_make<C: SessionClient>(
        &self,
        client: &C,
        end: Option<Instant>,
        make: impl Future<Output = Result<T, LockError>>,
    ) -> Result<&T, LockError> {
        let turn = poll_fn(|cx| {
            let waker = cx.waker().clone();
            let mut making = self.making();
            if self.value.get().is_none() && core::mem::replace(&mut making.is_busy, true) {
                if !making.waiters.iter().any(|waiter| waiter.will_wake(&waker)) {
                    making.waiters.push(waker);
                }
                return Poll::Pending;
            }
            Poll::Ready(())
        });
        let turn = before(client, end, client.wait_for_others(end, turn)).await.flatten();
        turn.ok_or(LockError::TimedOut)?;
        let _guard = InitGuard(self);
        match self.value.get() {
            Some(value) => Ok(value),
            None => {
                let made = make.await?;
                Ok(self.value.get_or_init(|| made))
            }
        }
    }

    fn making(&self) -> MutexGuard<'_, Making> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right of one caller to create the value. It ends when dropped.
struct InitGuard<'a, T: Send + Sync>(&'a Once<T>);

impl<T: Send + Sync> Drop for InitGuard<'_, T> {
    fn drop(&mut self) {
        let mut making = self.0.making();
        making.is_busy = false;
        let waiters = core::mem::take(&mut making.waiters);
        drop(making);
        waiters.into_iter().for_each(Waker::wake);
    }
}
