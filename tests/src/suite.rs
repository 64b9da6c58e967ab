//! What suites of tests on the embedded ensemble have in common.

use core::time::Duration;

use tokio::time::{Instant, sleep};
use zk_session::Client;

use crate::serve::Embedded;

/// Longer than any of these tests takes, so that no session expires by itself.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// How long something may take that is to come to be.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client of an ensemble.
///
/// # Panics
///
/// When the ensemble does not answer.
pub async fn client(embedded: &Embedded) -> Client {
    let builder = Client::builder(&embedded.connect_string()).session_timeout(SESSION_TIMEOUT);
    builder.connect().await.expect("the embedded ensemble answers")
}

/// Waits until `condition` holds for an ensemble.
///
/// # Panics
///
/// When it does not hold for too long; says `what` was waited for.
pub async fn eventually(embedded: &Embedded, what: &str, condition: impl Fn(&Embedded) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition(embedded) {
        assert!(Instant::now() < until, "it never came to be: {what}");
        sleep(Duration::from_millis(1)).await;
    }
}

/// How many watches an ensemble has.
pub fn watches(embedded: &Embedded) -> usize {
    embedded.with(|ensemble| ensemble.watches())
}
