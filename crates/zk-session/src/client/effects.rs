//! A lock under which no user code runs: deferred effects run after unlocking.
//!
//! A waker, an observer, or the drop of one may call any method of the client. Under the session's
//! lock that would deadlock.

use alloc::collections::VecDeque;
use core::ops::{Deref, DerefMut};
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::panic::catch_unwind;
use std::sync::PoisonError;

use crate::dispatch::{Effects, Wakers};
use crate::threads::{Mutex, MutexGuard};

/// The capacity that is kept for effects.
const MOST_KEPT: usize = 32;

/// A type that collects effects while it is locked.
pub(crate) trait HasEffects {
    fn effects(&mut self) -> &mut Effects;
}

/// A mutex that runs the collected effects after each unlock.
///
/// Wakers run first, in the thread that unlocks. All other effects run in order, in one thread at a
/// time: other threads leave theirs to that one.
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
    #[cfg(feature = "blocking")]
    pub(crate) fn wakes(&self) -> usize {
        self.wakes.load(Ordering::Acquire)
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        Guard { mutex: self, locked: self.locked(), woken: Woken(None), runs: Runs(None) }
    }

    fn locked(&self) -> MutexGuard<'_, T> {
        // Nothing panics under the lock; even then the session would be consistent.
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs deferred effects until none is left. `is_running` must be set before.
    pub(crate) fn run_deferred(&self) {
        let mut batch = VecDeque::new();
        loop {
            let mut locked = self.locked();
            let effects = locked.effects();
            // Reuses the buffer of the last batch, so that mostly nothing is allocated.
            core::mem::swap(&mut batch, &mut effects.deferred);
            effects.is_running = !batch.is_empty();
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
pub(crate) struct Guard<'a, T: HasEffects> {
    mutex: &'a EffectsMutex<T>,
    // Fields are dropped in this order: the effects run without the lock.
    locked: MutexGuard<'a, T>,
    woken: Woken,
    runs: Runs<'a, T>,
}

/// Wakers that run when this is dropped.
struct Woken(Option<Wakers>);

/// A mutex whose deferred effects run when this is dropped, even if a waker has panicked.
struct Runs<'a, T: HasEffects>(Option<&'a EffectsMutex<T>>);

impl<T: HasEffects> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.locked
    }
}

impl<T: HasEffects> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.locked
    }
}

impl<T: HasEffects> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let effects = self.locked.effects();
        if !effects.wakers.is_empty() {
            self.woken.0 = Some(core::mem::take(&mut effects.wakers));
            self.mutex.wakes.fetch_add(1, Ordering::Release);
        }
        if effects.has_deferred() {
            effects.is_running = true;
            self.runs.0 = Some(self.mutex);
        }
    }
}

impl Drop for Woken {
    #[inline]
    fn drop(&mut self) {
        if let Some(wakers) = &mut self.0 {
            wakers.wake();
        }
    }
}

impl<T: HasEffects> Drop for Runs<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(mutex) = self.0 {
            mutex.run_deferred();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::Deferred;
    use alloc::boxed::Box;
    use alloc::sync::Arc;
    use alloc::task::Wake;
    use core::task::Waker;

    impl HasEffects for Effects {
        fn effects(&mut self) -> &mut Effects {
            self
        }
    }

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker of the user's");
        }
    }

    #[test]
    fn deferred_effects_run_even_if_a_waker_panics() {
        let mutex = EffectsMutex::new(Effects::default());
        let runs = Arc::new(AtomicUsize::new(0));
        for _ in 0..2 {
            let counted = runs.clone();
            let unlock = AssertUnwindSafe(|| {
                let mut effects = mutex.lock();
                effects.wakers.push(Waker::from(Arc::new(Panics)));
                effects.deferred.push_back(Deferred::Run(Box::new(move || {
                    counted.fetch_add(1, Ordering::Relaxed);
                })));
            });
            assert!(catch_unwind(unlock).is_err());
        }
        assert_eq!(runs.load(Ordering::Relaxed), 2);
    }
}
