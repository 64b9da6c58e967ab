//! What is made of locks, on the embedded ensemble: what it promises, and what it leaves behind.

mod barrier;
mod double_barrier;
mod dropping;
mod herd;
mod leader;
mod multi_lock;
mod patience;
mod reentrant;
mod simple;

use std::time::Duration;

use zk_testkit::serve::Embedded;
use zk_testkit::suite::{SESSION_TIMEOUT, client, eventually, watches};

/// Long enough for whatever should not happen to happen.
const MOMENT: Duration = Duration::from_millis(50);

async fn start() -> Embedded {
    Embedded::start(1).await.expect("loopback")
}

/// The nodes that belong to sessions.
fn ephemerals(embedded: &Embedded) -> Vec<String> {
    embedded.with(|ensemble| {
        let sessions: Vec<_> = ensemble.sessions().collect();
        let nodes = sessions.into_iter().flat_map(|session| ensemble.ephemerals(session));
        nodes.map(str::to_owned).collect()
    })
}

async fn nothing_is_left(embedded: &Embedded) {
    eventually(embedded, "no node and no watch", |embedded| {
        ephemerals(embedded).is_empty() && watches(embedded) == 0
    })
    .await;
}

/// Somebody else, with more rights than manners, deletes a node.
async fn meddle(embedded: &Embedded, path: &str) {
    client(embedded).await.delete(path, None).await.expect("deleted");
}
