//! What is made of locks, on the embedded ensemble: what it promises, and what it leaves behind.

mod barrier;
mod double_barrier;
mod dropping;
#[path = "../frozen.rs"]
mod frozen;
mod herd;
mod leader;
mod multi_lock;
mod patience;
mod reentrant;
mod simple;

use std::time::Duration;

use zk_testkit::scenarios;
use zk_testkit::serve::Embedded;
use zk_testkit::suite::{
    HANG_TIMEOUT, SESSION_TIMEOUT, client, ephemerals, eventually, nothing_is_left, watches,
};

/// Long enough for whatever should not happen to happen.
const MOMENT: Duration = Duration::from_millis(50);

async fn start() -> Embedded {
    Embedded::start(1).await.expect("loopback")
}

/// Somebody else, with more rights than manners, deletes a node.
async fn meddle(embedded: &Embedded, path: &str) {
    client(embedded).await.delete(path, None).await.expect("deleted");
}
