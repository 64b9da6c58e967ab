//! Judges of what locks do, looking on from outside.

use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zk_proto::Zxid;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Somebody got the lock while another held it.
    TwoHolders {
        /// Who got it.
        newcomer: String,
        /// Who held it.
        holder: String,
    },
    /// A fencing token was not greater than the one before.
    TokenNotRising {
        /// Who got it.
        holder: String,
        /// The token of the holder before.
        before: Zxid,
        /// The token.
        token: Zxid,
    },
    /// A lock node is still there although its owner is done.
    NodeLeft {
        /// The node.
        node: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoHolders { newcomer, holder } => {
                write!(f, "{newcomer} got the lock while {holder} held it")
            }
            Self::TokenNotRising { holder, before, token } => {
                write!(f, "{holder} got the fencing token {token} after {before} had been given")
            }
            Self::NodeLeft { node } => write!(f, "the lock node {node} was left behind"),
        }
    }
}

/// Looks on while contenders come and go, and notes every broken promise of an exclusive lock.
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
    /// One that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `who` has the lock; it has stood in the queue since `waiting_since`. Says how many
    /// acquisitions that makes.
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
        // A hand-over is one to somebody who was waiting for it.
        if let Some(released) = seen.released_at.filter(|released| waiting_since < *released) {
            seen.hand_overs.push(now - released);
        }
        seen.holders.push(who.to_owned());
        seen.tokens.push(token);
        seen.tokens.len()
    }

    /// `who` is about to release the lock, or has lost it.
    pub fn gives_up(&self, who: &str) {
        let mut seen = self.lock();
        seen.released_at = Some(Instant::now());
        seen.holders.retain(|holder| holder != who);
    }

    /// The lock node is still there, and should not be.
    pub fn found(&self, node: &str) {
        self.lock().violations.push(Violation::NodeLeft { node: node.to_owned() });
    }

    /// How often the lock was acquired.
    pub fn acquisitions(&self) -> usize {
        self.lock().tokens.len()
    }

    /// How long it took from each release to the next acquisition by somebody who was waiting,
    /// shortest first.
    pub fn hand_overs(&self) -> Vec<Duration> {
        let mut hand_overs = self.lock().hand_overs.clone();
        hand_overs.sort_unstable();
        hand_overs
    }

    /// Every broken promise.
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }
}

/// The value below which `percent` of `sorted` lie.
pub fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_promises_are_noticed() {
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
    fn only_those_who_waited_are_handed_the_lock() {
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
