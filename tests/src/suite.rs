//! Helpers for suites that run on the embedded ensemble and on a real server.

use core::pin::Pin;
use core::task::{Context, Waker};
use core::time::Duration;
use std::time::Instant;

use zk_session::Client;

use crate::real::RealEnsemble;
use crate::serve::Embedded;
use crate::server::{Ensemble, Version};
use crate::skipped::skip;

/// The longest timeout that servers grant, so that no session expires on a busy machine.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(40);

/// The time after which a hang becomes a failure.
pub const HANG_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns whether `ZK_LONG` is set, as in CI: some tests then take longer.
pub fn is_long() -> bool {
    std::env::var_os("ZK_LONG").is_some()
}

/// Returns whether a test that takes long may run. Otherwise, prints that it is skipped.
pub fn long_or_skip() -> bool {
    if !is_long() {
        skip("takes long: ZK_LONG=1 tests/all.sh");
    }
    is_long()
}

/// Returns the number in a variable of the environment.
///
/// # Panics
///
/// If it is not a number.
pub fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is not a number")))
}

/// An ensemble that can list the ephemeral nodes and count the watches of its sessions.
pub trait Fixture {
    /// Returns the connect string of its servers.
    fn connect_string(&self) -> String;

    /// Returns the paths of all ephemeral nodes.
    fn ephemerals(&self) -> Vec<String>;

    /// Returns the number of watches.
    fn watches(&self) -> usize;

    /// Returns the release that its servers behave like.
    fn version(&self) -> Version;
}

impl Fixture for Embedded {
    fn connect_string(&self) -> String {
        self.connect_string()
    }

    fn ephemerals(&self) -> Vec<String> {
        self.with(|ensemble| {
            let sessions: Vec<_> = ensemble.sessions().collect();
            let nodes = sessions.into_iter().flat_map(|session| ensemble.ephemerals(session));
            nodes.map(str::to_owned).collect()
        })
    }

    fn watches(&self) -> usize {
        self.with(|ensemble| ensemble.watches())
    }

    fn version(&self) -> Version {
        self.with(Ensemble::version)
    }
}

/// A single server.
impl Fixture for RealEnsemble {
    fn connect_string(&self) -> String {
        self.connect_string()
    }

    fn ephemerals(&self) -> Vec<String> {
        let dump = self.four_letter(0, "dump").expect("an answer");
        assert!(dump.contains("Sessions with Ephemerals"), "{dump}");
        let nodes = dump.lines().filter_map(|line| line.strip_prefix('\t'));
        nodes.filter(|node| node.starts_with('/')).map(str::to_owned).collect()
    }

    fn watches(&self) -> usize {
        // `wchs` and its variants do not count child watches.
        let monitor = self.four_letter(0, "mntr").expect("an answer");
        let count = monitor.lines().find_map(|line| line.strip_prefix("zk_watch_count"));
        count.expect("a count").trim().parse().expect("a number")
    }

    fn version(&self) -> Version {
        self.version()
    }
}

/// Connects a client to an ensemble.
///
/// # Panics
///
/// If the ensemble does not answer.
pub async fn client(fixture: &impl Fixture) -> Client {
    let builder = Client::builder(&fixture.connect_string()).session_timeout(SESSION_TIMEOUT);
    builder.connect().await.expect("connected")
}

/// Waits until `condition` holds for an ensemble.
///
/// # Panics
///
/// If it does not hold in time. The message has `what`, the ephemeral nodes and the watches.
pub async fn eventually<S: Fixture>(fixture: &S, what: &str, condition: impl Fn(&S) -> bool) {
    if !holds_in_time(|| condition(fixture)).await {
        let (nodes, watches) = (fixture.ephemerals(), fixture.watches());
        panic!("timed out waiting for: {what}; there are {nodes:?} and {watches} watches");
    }
}

/// Waits until `condition` holds.
///
/// # Panics
///
/// If it does not hold in time. The message has `what`.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    assert!(holds_in_time(condition).await, "timed out waiting for: {what}");
}

async fn holds_in_time(condition: impl Fn() -> bool) -> bool {
    let end = Instant::now() + HANG_TIMEOUT;
    let mut interval = Duration::from_millis(1);
    while !condition() {
        if Instant::now() > end {
            return false;
        }
        // Not tokio's clock, which a test may have paused.
        let pause = move || std::thread::sleep(interval);
        tokio::task::spawn_blocking(pause).await.expect("no panic");
        // A condition may take requests to a real server.
        interval = Duration::from_millis(20).min(2 * interval);
    }
    true
}

/// Polls `future`, which must still be pending when `condition` holds for an ensemble.
///
/// # Panics
///
/// If the future completes first, or the condition does not hold in time.
pub async fn waits_until<S: Fixture>(
    fixture: &S,
    mut future: impl Future + Unpin,
    what: &str,
    condition: impl Fn(&S) -> bool,
) {
    tokio::select! {
        biased;
        _ = &mut future => panic!("completed before: {what}"),
        () = eventually(fixture, what, condition) => {}
    }
}

/// Begins an operation, which then goes on without being awaited.
///
/// # Panics
///
/// If it completes at once.
pub fn begun<F: Future + Unpin>(mut future: F) -> F {
    let is_pending =
        Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_pending();
    assert!(is_pending, "completed at once");
    future
}

/// Returns the paths of all ephemeral nodes.
pub fn ephemerals(fixture: &impl Fixture) -> Vec<String> {
    fixture.ephemerals()
}

/// Returns the number of watches of an ensemble.
pub fn watches(fixture: &impl Fixture) -> usize {
    fixture.watches()
}

/// Waits until no session has an ephemeral node or a watch.
///
/// # Panics
///
/// If one still has after [`HANG_TIMEOUT`].
pub async fn nothing_is_left<S: Fixture>(fixture: &S) {
    let is_clean = |fixture: &S| ephemerals(fixture).is_empty() && watches(fixture) == 0;
    eventually(fixture, "no node and no watch", is_clean).await;
}
