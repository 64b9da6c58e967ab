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

use zk_session::Client;
use zk_testkit::serve::Embedded;

/// Longer than any of these tests takes, so that no session expires by itself.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Long enough for whatever should not happen to happen.
const MOMENT: Duration = Duration::from_millis(50);

async fn start() -> Embedded {
    Embedded::start(1).await.expect("loopback")
}

async fn client(embedded: &Embedded) -> Client {
    let builder = Client::builder(&embedded.connect_string()).session_timeout(SESSION_TIMEOUT);
    builder.connect().await.expect("the embedded ensemble answers")
}

/// Waits until `condition` holds for the ensemble.
async fn eventually(embedded: &Embedded, what: &str, condition: impl Fn(&Embedded) -> bool) {
    let patience = tokio::time::Instant::now() + Duration::from_secs(10);
    while !condition(embedded) {
        assert!(tokio::time::Instant::now() < patience, "it never came to be: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The nodes that belong to sessions.
fn ephemerals(embedded: &Embedded) -> Vec<String> {
    embedded.with(|ensemble| {
        let sessions: Vec<_> = ensemble.sessions().collect();
        let nodes = sessions.into_iter().flat_map(|session| ensemble.ephemerals(session));
        nodes.map(str::to_owned).collect()
    })
}

fn watches(embedded: &Embedded) -> usize {
    embedded.with(|ensemble| ensemble.watches())
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
