//! The lock on the embedded ensemble: what it promises, what it costs, what it leaves behind.

mod cancel;
mod contend;
mod cost;
mod elsewhere;
mod hazards;
mod lose;
mod options;
mod others;
mod rw;
mod semaphore;
mod semaphore_cost;

use std::time::Duration;

use zk_session::Client;
use zk_testkit::serve::Embedded;

const LOCK: &str = "/locks/test";

/// Longer than any of these tests takes, so that no session expires by itself.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

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

/// The lock nodes that the ensemble has.
fn lock_nodes(embedded: &Embedded) -> Vec<String> {
    let below = format!("{LOCK}/");
    embedded.with(|ensemble| {
        ensemble.paths().filter(|path| path.starts_with(&below)).map(str::to_owned).collect()
    })
}

fn watches(embedded: &Embedded) -> usize {
    embedded.with(|ensemble| ensemble.watches())
}
