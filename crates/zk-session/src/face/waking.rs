//! A lock under which nothing of the user's runs: wakers run once it is released.
//!
//! A waker, or the drop of one, may call any method of the client. Under the session's lock that
//! would be a deadlock.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use core::task::Waker;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Wakers to run after unlocking. The first one takes no allocation.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Wakers {
    #[inline]
    pub(crate) fn push(&mut self, waker: Waker) {
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.others.push(waker);
        }
    }

    #[inline]
    pub(super) fn wake(&mut self) {
        if let Some(first) = self.first.take() {
            first.wake();
            core::mem::take(&mut self.others).into_iter().for_each(Waker::wake);
        }
    }
}

impl Extend<Waker> for Wakers {
    fn extend<I: IntoIterator<Item = Waker>>(&mut self, wakers: I) {
        wakers.into_iter().for_each(|waker| self.push(waker));
    }
}

/// What collects wakers while it is locked.
pub(crate) trait Wakes {
    fn wakers(&mut self) -> &mut Wakers;
}

/// A mutex that runs the collected wakers whenever it is unlocked.
#[derive(Debug)]
pub(crate) struct WakingMutex<T>(Mutex<T>);

impl<T: Wakes> WakingMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        // Nothing panics while it holds the lock; if something did, the session is still whole.
        let locked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Guard { locked, woken: Woken::default() }
    }
}

/// Access to what a [`WakingMutex`] holds.
pub(crate) struct Guard<'a, T: Wakes> {
    // Fields are dropped in this order: the wakers run without the lock.
    locked: MutexGuard<'a, T>,
    woken: Woken,
}

/// Wakers that run when they are dropped.
#[derive(Default)]
struct Woken(Wakers);

impl<T: Wakes> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.locked
    }
}

impl<T: Wakes> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.locked
    }
}

impl<T: Wakes> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        core::mem::swap(self.locked.wakers(), &mut self.woken.0);
    }
}

impl Drop for Woken {
    #[inline]
    fn drop(&mut self) {
        self.0.wake();
    }
}
