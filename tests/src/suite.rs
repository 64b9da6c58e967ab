//! What suites of tests have in common, on the embedded ensemble and on a real server.

use core::time::Duration;
use std::time::Instant;

use zk_session::Client;

use crate::real::RealEnsemble;
use crate::serve::Embedded;

/// The longest that servers grant: no session expires by itself, however busy the machine is.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(40);

/// Turns a hang into a failure, and is too long for anything else.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An ensemble that tells what sessions have there.
pub trait Stage {
    /// Where its members are.
    fn connect_string(&self) -> String;

    /// The nodes that belong to sessions.
    fn ephemerals(&self) -> Vec<String>;

    /// How many watches it has.
    fn watches(&self) -> usize;
}

impl Stage for Embedded {
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
}

/// A single server.
impl Stage for RealEnsemble {
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
        // Of `wchs` and the like those on children are not seen.
        let monitor = self.four_letter(0, "mntr").expect("an answer");
        let count = monitor.lines().find_map(|line| line.strip_prefix("zk_watch_count"));
        count.expect("a count").trim().parse().expect("a number")
    }
}

/// A client of an ensemble.
///
/// # Panics
///
/// When the ensemble does not answer.
pub async fn client(stage: &impl Stage) -> Client {
    let builder = Client::builder(&stage.connect_string()).session_timeout(SESSION_TIMEOUT);
    builder.connect().await.expect("the ensemble answers")
}

/// Waits until `condition` holds for an ensemble.
///
/// # Panics
///
/// When it does not hold for too long; says `what` was waited for, and what there is.
pub async fn eventually<S: Stage>(stage: &S, what: &str, condition: impl Fn(&S) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition(stage) {
        if Instant::now() > until {
            let (nodes, watches) = (stage.ephemerals(), stage.watches());
            panic!("it never came to be: {what}; there are {nodes:?} and {watches} watches");
        }
        // Not by tokio's clock, which may stand still.
        let pause = || std::thread::sleep(Duration::from_millis(1));
        tokio::task::spawn_blocking(pause).await.expect("it does not panic");
    }
}

/// Drives `future`, which must still wait for somebody when `condition` holds for an ensemble.
///
/// # Panics
///
/// When the future is complete, and when the condition does not hold for too long.
pub async fn waits_until<S: Stage>(
    stage: &S,
    mut future: impl Future + Unpin,
    what: &str,
    condition: impl Fn(&S) -> bool,
) {
    tokio::select! {
        biased;
        _ = &mut future => panic!("it does not wait: {what}"),
        () = eventually(stage, what, condition) => {}
    }
}

/// The nodes that belong to sessions.
pub fn ephemerals(stage: &impl Stage) -> Vec<String> {
    stage.ephemerals()
}

/// How many watches an ensemble has.
pub fn watches(stage: &impl Stage) -> usize {
    stage.watches()
}

/// Waits until no session has a node or a watch.
///
/// # Panics
///
/// When one has for too long.
pub async fn nothing_is_left<S: Stage>(stage: &S) {
    let is_clean = |stage: &S| ephemerals(stage).is_empty() && watches(stage) == 0;
    eventually(stage, "no node and no watch", is_clean).await;
}
