//! Recipes made of locks, on the embedded ensemble: guarantees and cleanup.

mod barrier;
mod cache;
mod chroot;
mod deadlocks;
mod double_barrier;
mod dropping;
#[path = "../../../crates/zk-recipes/examples/service.rs"]
#[expect(dead_code, reason = "`main`")]
mod example;
#[path = "../frozen.rs"]
mod frozen;
mod hand_over;
mod herd;
mod keep_idle;
mod leader;
mod limits;
#[path = "../../../crates/zk-recipes/examples/herd/measure.rs"]
mod measure;
mod multi_lock;
mod oldest;
mod reentrant;
mod resumed;
mod service;
mod simple;
mod timeouts;

use std::time::Duration;

use zk_testkit::scenarios;
use zk_testkit::serve::Embedded;
use zk_testkit::suite::{
    HANG_TIMEOUT, SESSION_TIMEOUT, begun, client, ephemerals, eventually, nothing_is_left, until,
    watches,
};

/// How long to wait before concluding that something does not happen.
const MOMENT: Duration = Duration::from_millis(50);

async fn start() -> Embedded {
    Embedded::start(1).await.expect("loopback")
}

/// Deletes a node by another client.
async fn delete_node(embedded: &Embedded, path: &str) {
    client(embedded).await.delete(path, None).await.expect("deleted");
}
