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

use crate::dispatch::{Effects, Queue, Wakers};
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
/// a time: other threads leave theirs to that one. Callbacks run last, because they may wait, and
/// delay nothing but other callbacks.
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
        let runs = Runs { mutex: self, others: false, callbacks: false };
        Guard { locked: self.locked(), woken: Woken(None), runs }
    }

    fn locked(&self) -> MutexGuard<'_, T> {
        // Nothing panics under the lock; even then the session would be consistent.
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs callbacks until none is left. `is_running` of their queue must be set before.
    #[cfg(feature = "blocking")]
    pub(crate) fn run_callbacks(&self) {
        self.run(|effects| &mut effects.callbacks, true);
    }

    /// Runs what is in a queue until it is empty. `runs` means that `is_running` was set for this
    /// thread. Otherwise another thread may be running it, which then goes on alone.
    fn run(&self, queue: fn(&mut Effects) -> &mut Queue, mut runs: bool) {
        let mut batch = Vec::new();
        loop {
            let mut locked = self.locked();
            let queue = queue(locked.effects());
            if queue.is_running != runs {
                return;
            }
            // Reuses the buffer of the last batch, so that mostly nothing is allocated.
            core::mem::swap(&mut batch, &mut queue.deferred);
            runs = !batch.is_empty();
            queue.is_running = runs;
            drop(locked);
            if !runs {
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
    // Fields are dropped in this order: the effects run without the lock.
    locked: MutexGuard<'a, T>,
    woken: Woken,
    runs: Runs<'a, T>,
}

/// Wakers that run when this is dropped.
struct Woken(Option<Wakers>);

/// The queues to run when this is dropped, even if a waker has panicked.
struct Runs<'a, T: HasEffects> {
    mutex: &'a EffectsMutex<T>,
    others: bool,
    callbacks: bool,
}

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
            self.runs.mutex.wakes.fetch_add(1, Ordering::Release);
        }
        self.runs.others = effects.others.is_ready();
        self.runs.callbacks = effects.callbacks.is_ready();
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
        if self.others {
            self.mutex.run(|effects| &mut effects.others, false);
        }
        if self.callbacks {
            self.mutex.run(|effects| &mut effects.callbacks, false);
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
    use std::sync::mpsc;

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
    fn a_callback_that_waits_delays_only_other_callbacks() {
        let mutex = Arc::new(EffectsMutex::new(Effects::default()));
        let (sender, ran) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let theirs = mutex.clone();
        let report = move |name: &'static str| {
            let sender = sender.clone();
            Deferred::Run(Box::new(move || sender.send(name).expect("the test runs")))
        };
        let waits = report("begins");
        let waits = Deferred::Run(Box::new(move || {
            waits.run();
            let _ = released.recv();
        }));
        let thread = std::thread::spawn(move || theirs.lock().callbacks.deferred.push(waits));
        assert_eq!(ran.recv(), Ok("begins"));
        let mut effects = mutex.lock();
        effects.callbacks.deferred.push(report("callback"));
        effects.others.deferred.push(report("other"));
        drop(effects);
        assert_eq!(ran.try_iter().collect::<Vec<_>>(), ["other"]);
        drop(release);
        thread.join().expect("no panic");
        assert_eq!(ran.try_iter().collect::<Vec<_>>(), ["callback"]);
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
                effects.callbacks.deferred.push(Deferred::Run(Box::new(move || {
                    counted.fetch_add(1, Ordering::Relaxed);
                })));
            });
            assert!(catch_unwind(unlock).is_err());
        }
        assert_eq!(runs.load(Ordering::Relaxed), 2);
    }
}
