//! Nodes of this process's sessions that are no longer needed and that the ensemble refuses to
//! delete.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex as StdMutex;
use std::sync::PoisonError;

use zk_session::proto::SessionId;

/// The number of nodes to remember. Beyond that, the oldest is forgotten.
const MOST: usize = 1024;

/// The session and the name of each node.
///
/// A name with a GUID is never used twice, so it needs no path and no ensemble. The node of a
/// `SimpleLock` has the last part of its path as name, which may be that of others: its machine
/// ignores [`Command::BehindAbandoned`](crate::attempt::Command::BehindAbandoned). The session is that of the owner. For other clients of this
/// process, the node is deleted when that session ends.
static NAMES: StdMutex<VecDeque<(SessionId, String)>> = StdMutex::new(VecDeque::new());
/// The number of names. Waiters check it first.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn remember(session: SessionId, name: String) {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if names.len() == MOST {
        names.pop_front();
    }
    names.push_back((session, name));
    COUNT.store(names.len(), Ordering::Release);
}

fn is_known(session: SessionId, name: &str) -> bool {
    let is_same = |(of, known): &(SessionId, String)| (*of, known.as_str()) == (session, name);
    COUNT.load(Ordering::Acquire) > 0
        && NAMES.lock().unwrap_or_else(PoisonError::into_inner).iter().any(is_same)
}

/// The abandoned nodes of one attempt are counted and remembered, and it is noticed when the attempt
/// waits for one of its own session.
#[derive(Debug)]
pub(crate) struct Abandoned {
    /// The counter of `abandoned_nodes`.
    count: Arc<AtomicUsize>,
    /// The session of the attempt, and the node that it waits for.
    behind: Option<(SessionId, String)>,
}

impl Abandoned {
    pub(crate) const fn new(count: Arc<AtomicUsize>) -> Self {
        Self { count, behind: None }
    }

    /// Records that the attempt waits for this node.
    pub(crate) fn waits(&mut self, session: SessionId, behind: &str) {
        self.behind = Some((session, behind.into()));
    }

    /// Records that the ensemble refuses to delete this node of the attempt.
    pub(crate) fn add(&self, session: SessionId, node: String) {
        self.count.fetch_add(1, Ordering::Relaxed);
        remember(session, node);
    }

    /// Returns whether the node that the attempt waits for was abandoned, also if that happened while
    /// it waits. Only once.
    pub(crate) fn is_behind(&mut self) -> bool {
        self.behind.take_if(|(session, behind)| is_known(*session, behind)).is_some()
    }
}
