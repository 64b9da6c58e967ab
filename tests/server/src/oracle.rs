//! Oracles: they observe a lock from outside, and report broken guarantees.

use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zk_proto::Zxid;

/// A broken guarantee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A contender acquired the lock while another held it.
    TwoHolders {
        /// The new holder.
        newcomer: String,
        /// The previous holder.
        holder: String,
    },
    /// A fencing token did not exceed its predecessor.
    TokenNotRising {
        /// The new holder.
        holder: String,
        /// The token of the previous holder.
        before: Zxid,
        /// The token of the new holder.
        token: Zxid,
    },
    /// A lock node exists although its owner has finished.
    NodeLeft {
        /// The path of the node.
        node: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoHolders { newcomer, holder } => {
                write!(f, "{newcomer} acquired the lock while {holder} held it")
            }
            Self::TokenNotRising { holder, before, token } => {
                write!(f, "{holder} has the fencing token {token}, which does not exceed {before}")
            }
            Self::NodeLeft { node } => write!(f, "the lock node {node} was left behind"),
        }
    }
}

/// Records the acquisitions and releases of an exclusive lock, and every broken guarantee.
#[derive(Debug, Default)]
pub struct LockOracle {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    holders: Vec<String>,
    tokens: Vec<Zxid>,
    released_at: Option<Instant>,
    hand_overs: Vec<Duration>,
    violations: Vec<Violation>,
}

impl LockOracle {
    /// Returns an oracle that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that `who` holds the lock, after waiting since `waiting_since`. Returns the number
    /// of acquisitions so far.
    pub fn acquired(&self, who: &str, token: Zxid, waiting_since: Instant) -> usize {
        let now = Instant::now();
        let mut seen = self.lock();
        if let Some(holder) = seen.holders.last().cloned() {
            seen.violations.push(Violation::TwoHolders { newcomer: who.to_owned(), holder });
        }
        if let Some(before) = seen.tokens.last().copied().filter(|before| *before >= token) {
            let holder = who.to_owned();
            seen.violations.push(Violation::TokenNotRising { holder, before, token });
        }
        // Only an acquisition by a contender that waited is a hand-over.
        if let Some(released) = seen.released_at.filter(|released| waiting_since < *released) {
            seen.hand_overs.push(now - released);
        }
        seen.holders.push(who.to_owned());
        seen.tokens.push(token);
        seen.tokens.len()
    }

    /// Records that `who` is about to release the lock, or has lost it.
    pub fn gives_up(&self, who: &str) {
        let mut seen = self.lock();
        seen.released_at = Some(Instant::now());
        seen.holders.retain(|holder| holder != who);
    }

    /// Records a lock node that should not exist.
    pub fn found(&self, node: &str) {
        self.lock().violations.push(Violation::NodeLeft { node: node.to_owned() });
    }

    /// Returns the number of acquisitions.
    pub fn acquisitions(&self) -> usize {
        self.lock().tokens.len()
    }

    /// Returns the times from each release to the next acquisition by a waiter, sorted.
    pub fn hand_overs(&self) -> Vec<Duration> {
        let mut hand_overs = self.lock().hand_overs.clone();
        hand_overs.sort_unstable();
        hand_overs
    }

    /// Returns all broken guarantees.
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }
}

/// Returns the value below which `percent` per cent of `sorted` lie.
pub fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_guarantees_are_reported() {
        let oracle = LockOracle::new();
        let start = Instant::now();
        oracle.acquired("a", Zxid(5), start);
        oracle.acquired("b", Zxid(5), start);
        oracle.found("c");
        assert_eq!(
            oracle.violations(),
            [
                Violation::TwoHolders { newcomer: "b".into(), holder: "a".into() },
                Violation::TokenNotRising { holder: "b".into(), before: Zxid(5), token: Zxid(5) },
                Violation::NodeLeft { node: "c".into() },
            ]
        );
    }

    #[test]
    fn only_acquisitions_by_waiters_are_hand_overs() {
        let oracle = LockOracle::new();
        let start = Instant::now();
        oracle.acquired("a", Zxid(1), start);
        oracle.gives_up("a");
        oracle.acquired("b", Zxid(2), start);
        oracle.gives_up("b");
        oracle.acquired("c", Zxid(3), Instant::now());
        assert_eq!((oracle.acquisitions(), oracle.hand_overs().len()), (3, 1));
        assert_eq!(oracle.violations(), []);
    }

    #[test]
    fn percentiles_of_few_values() {
        let values: Vec<_> = (1..=4).map(Duration::from_millis).collect();
        assert_eq!(percentile(&values, 50), Some(Duration::from_millis(3)));
        assert_eq!(percentile(&values, 99), Some(Duration::from_millis(4)));
        assert_eq!(percentile(&[], 50), None);
    }
}
