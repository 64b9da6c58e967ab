//! The lock on the embedded ensemble: guarantees, cost and cleanup.

mod cancel;
mod contend;
mod cost;
mod crowd;
mod elsewhere;
mod explained;
#[path = "../frozen.rs"]
mod frozen;
mod keeper;
mod long_list;
mod lose;
mod options;
mod others;
mod place;
mod refused;
mod release;
mod rw;
mod semaphore;
mod semaphore_cost;
mod trying;
mod working;

use zk_testkit::serve::Embedded;
use zk_testkit::suite::{
    HANG_TIMEOUT, SESSION_TIMEOUT, begun, client, eventually, until, waits_until, watches,
};

const LOCK: &str = "/locks/test";

async fn start() -> Embedded {
    Embedded::start(1).await.expect("loopback")
}

/// Returns the lock nodes of the ensemble.
fn lock_nodes(embedded: &Embedded) -> Vec<String> {
    let below = format!("{LOCK}/");
    embedded.with(|ensemble| {
        ensemble.paths().filter(|path| path.starts_with(&below)).map(str::to_owned).collect()
    })
}
