use super::*;
use crate::dispatch::effects::Deferred;
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

struct Panics(AtomicUsize);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
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
fn a_waker_that_panics_stops_no_other_effect() {
    let mutex = EffectsMutex::new(Effects::default());
    let wakers = [(); 3].map(|()| Arc::new(Panics(AtomicUsize::new(0))));
    let (sender, ran) = mpsc::channel();
    let mut effects = mutex.lock();
    effects.wakers.extend(wakers.iter().cloned().map(Waker::from));
    effects.callbacks.deferred.push(Deferred::Run(Box::new(move || {
        sender.send(()).expect("the test runs");
    })));
    drop(effects);
    assert_eq!(wakers.map(|waker| waker.0.load(Ordering::Relaxed)), [1; 3]);
    assert_eq!(ran.try_recv(), Ok(()));
}

#[test]
fn effects_of_a_thread_stay_with_it_while_others_lock() {
    let mutex = Arc::new(EffectsMutex::new(Effects::default()));
    let order = Arc::new(AtomicUsize::new(0));
    let (theirs, seen) = (mutex.clone(), order.clone());
    let mut effects = mutex.lock();
    effects.others.deferred.push(Deferred::Run(Box::new(move || {
        drop(theirs.lock());
        assert_eq!(seen.load(Ordering::Relaxed), 0, "the callback ran too early");
        seen.store(1, Ordering::Relaxed);
    })));
    let seen = order.clone();
    effects.callbacks.deferred.push(Deferred::Run(Box::new(move || {
        seen.fetch_add(1, Ordering::Relaxed);
    })));
    drop(effects);
    assert_eq!(order.load(Ordering::Relaxed), 2);
}
