//! Negative controls: lost wake-ups, which must be found.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::panic::catch_unwind;
use std::sync::Arc;

use shuttle::future::block_on;
use shuttle::sync::Mutex;
use shuttle::thread;

use super::in_many_orders;
use super::network::Network;
use super::threads::client;

/// Checks that some order makes a thread wait for ever.
fn assert_hangs(scene: fn()) {
    let failed = catch_unwind(|| in_many_orders(scene)).expect_err("a lost wake-up is found");
    let message = failed.downcast_ref::<String>().expect("a message");
    assert!(message.contains("deadlock"), "{message}");
}

/// A cell for a value and the task that waits for it, as the observer of a lock has one.
#[derive(Clone, Default)]
struct Cell {
    value: Arc<Mutex<Option<u32>>>,
    waiter: Arc<Mutex<Option<Waker>>>,
}

impl Cell {
    fn set(&self, value: u32) {
        *self.value.lock().expect("no panic") = Some(value);
        let waiter = self.waiter.lock().expect("no panic").take();
        waiter.into_iter().for_each(Waker::wake);
    }
}

impl Future for Cell {
    type Output = u32;

    /// Looks, unlocks, and only then leaves its waker.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u32> {
        if let Some(value) = *self.value.lock().expect("no panic") {
            return Poll::Ready(value);
        }
        *self.waiter.lock().expect("no panic") = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[test]
fn a_waker_that_is_left_too_late_is_found() {
    assert_hangs(|| {
        let cell = Cell::default();
        let sets = cell.clone();
        let sets = thread::spawn(move || sets.set(7));
        assert_eq!(block_on(cell), 7);
        sets.join().expect("no panic");
    });
}

#[test]
fn a_reader_that_is_woken_too_early_is_found() {
    assert_hangs(|| {
        let network = Network::waking_early();
        let server = network.serve();
        client(&network).close();
        server.finish();
    });
}
