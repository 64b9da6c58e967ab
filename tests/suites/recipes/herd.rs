//! The number of waiters that a release wakes, counted on the wire.

use super::measure::{Kind, measure};

const WAITERS: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_one_waiter_or_all_by_the_kind_of_lock() {
    let all = WAITERS as u64;
    for (kind, woken) in [(Kind::Simple, all), (Kind::Herd, all), (Kind::Mutex, 1)] {
        let cost = measure(kind, WAITERS).await.expect("loopback");
        println!("{kind} with {WAITERS} waiters, per release: {cost:?}");
        // The holder watches its own node, too.
        assert_eq!(cost.notifications, woken + 1, "{kind}");
    }
}
