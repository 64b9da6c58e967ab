//! A lock under which no user code runs: deferred effects run after unlocking.
//!
//! A waker, an observer, or the drop of one may call any method of the client. Under the session's
//! lock that would deadlock.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::panic::catch_unwind;
use std::sync::PoisonError;

use crate::dispatch::Effects;
use crate::dispatch::effects::{EffectsQueue, Wakers};
use crate::threads::{Mutex, MutexGuard};

/// The capacity that is kept for effects.
const MOST_KEPT: usize = 32;

/// A type that collects effects while it is locked.
pub(crate) trait HasEffects {
    fn effects(&mut self) -> &mut Effects;
}

/// A mutex that runs the collected effects after each unlock.
///
/// Wakers run first, in the thread that unlocks. What is in a queue runs in order, in one thread at
/// a time: other threads leave theirs to that one. Callbacks run last, because they may wait.
/// Meanwhile other threads run everything else.
#[derive(Debug)]
pub(crate) struct EffectsMutex<T> {
    locked: Mutex<T>,
    /// Counts the unlocks that run wakers.
    wakes: AtomicUsize,
}

impl<T: HasEffects> EffectsMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { locked: Mutex::new(value), wakes: AtomicUsize::new(0) }
    }

    /// Returns a number that changes, before the unlock, whenever wakers are about to run. So a
    /// thread that holds the lock notices those that have not run yet.
    pub(crate) fn wakes(&self) -> usize {
        self.wakes.load(Ordering::Acquire)
    }

    pub(crate) fn lock(&self) -> EffectsGuard<'_, T> {
        EffectsGuard { locked: self.locked(), runs: Runs::new(self) }
    }

    /// Locks unless another thread has the lock.
    #[cfg(feature = "tokio")]
    pub(crate) fn try_lock(&self) -> Option<EffectsGuard<'_, T>> {
        let locked = match self.locked.try_lock() {
            Ok(locked) => locked,
            Err(std::sync::TryLockError::Poisoned(error)) => error.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return None,
        };
        Some(EffectsGuard { locked, runs: Runs::new(self) })
    }

    fn locked(&self) -> MutexGuard<'_, T> {
        // Nothing panics under the lock; even then the session would be consistent.
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs callbacks until none is left. Their queue must be [claimed](EffectsQueue::claim).
    pub(crate) fn run_callbacks(&self) {
        self.run(|effects| &mut effects.callbacks);
    }

    fn run(&self, queue: fn(&mut Effects) -> &mut EffectsQueue) {
        let mut batch = Vec::new();
        loop {
            let mut locked = self.locked();
            let queue = queue(locked.effects());
            // Reuses the buffer of the last batch, so that mostly nothing is allocated.
            core::mem::swap(&mut batch, &mut queue.deferred);
            queue.is_running = !batch.is_empty();
            drop(locked);
            if batch.is_empty() {
                return;
            }
            for deferred in batch.drain(..) {
                // The panic hook has reported a panic. Other observers still run.
                let _ = catch_unwind(AssertUnwindSafe(|| deferred.run()));
            }
            batch.shrink_to(MOST_KEPT);
        }
    }
}

/// Access to the content of an [`EffectsMutex`].
pub(crate) struct EffectsGuard<'a, T: HasEffects> {
    // Fields are dropped in this order: the effects run without the lock.
    locked: MutexGuard<'a, T>,
    runs: Runs<'a, T>,
}

/// The wakers and queues that this thread has claimed. They run on drop.
struct Runs<'a, T: HasEffects> {
    mutex: &'a EffectsMutex<T>,
    wakers: Option<Wakers>,
    others: bool,
    callbacks: bool,
}

impl<'a, T: HasEffects> Runs<'a, T> {
    fn new(mutex: &'a EffectsMutex<T>) -> Self {
        Self { mutex, wakers: None, others: false, callbacks: false }
    }
}

impl<T: HasEffects> Deref for EffectsGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.locked
    }
}

impl<T: HasEffects> DerefMut for EffectsGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.locked
    }
}

impl<T: HasEffects> Drop for EffectsGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let effects = self.locked.effects();
        if !effects.wakers.is_empty() {
            self.runs.wakers = Some(core::mem::take(&mut effects.wakers));
            self.runs.mutex.wakes.fetch_add(1, Ordering::Release);
        }
        self.runs.others = effects.others.claim();
        self.runs.callbacks = effects.callbacks.claim();
    }
}

impl<T: HasEffects> Drop for Runs<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(wakers) = self.wakers.take() {
            wake(wakers);
        }
        if self.others {
            self.mutex.run(|effects| &mut effects.others);
        }
        if self.callbacks {
            self.mutex.run_callbacks();
        }
    }
}

/// Runs wakers.
// Not inlined: most unlocks run none.
#[inline(never)]
fn wake(mut wakers: Wakers) {
    for waker in wakers.take() {
        // The panic hook has reported a panic. The other tasks still wake.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

#[cfg(test)]
mod tests;
