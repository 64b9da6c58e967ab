//! Several locks, taken together: in which order, and what becomes of some when another is not had.
//!
//! What the locks are does not matter here. Each is taken by a machine of its own, and known by its
//! place in the order.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use zk_session::proto::SessionId;

use super::{LockMode, Scheme};
use crate::error::{LockError, Loss};

/// What is wanted of one lock among several.
#[derive(Clone, Debug)]
pub struct Member {
    /// The session whose lock it is to be.
    pub session: SessionId,
    /// What the path is below, as a path of the server.
    pub root: String,
    /// The path of the lock, which tells its place among the others.
    pub path: String,
    /// How it is to be taken.
    pub demand: Demand,
}

/// How a lock is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// By a node in its queue.
    Place {
        /// How nodes are named there.
        scheme: Scheme,
        /// Whether it may be shared with others.
        mode: LockMode,
    },
    /// So many permits of a semaphore.
    Permits(u32),
}

impl Demand {
    /// What satisfies both; nothing if they are about different kinds of locks.
    fn and(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Place { scheme, mode }, Self::Place { scheme: same, mode: other }) => {
                (scheme == same).then_some(Self::Place { scheme, mode: mode.max(other) })
            }
            (Self::Permits(some), Self::Permits(more)) => {
                Some(Self::Permits(some.saturating_add(more)))
            }
            _ => None,
        }
    }
}

/// Why locks cannot be taken together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MultiLockError {
    /// There are none.
    Empty,
    /// They belong to more than one session.
    Sessions,
    /// Their clients have different chroots, so that a path of one means something else to another,
    /// and there is none for a transaction on all of them.
    Chroots,
    /// Two at one path name their nodes in different ways, and would not see each other.
    Schemes {
        /// The path.
        path: String,
    },
}

impl fmt::Display for MultiLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there are no locks to take"),
            Self::Sessions => f.write_str("the locks belong to more than one session"),
            Self::Chroots => f.write_str("the locks belong to clients with different chroots"),
            Self::Schemes { path } => {
                write!(f, "two locks at '{path}' name their nodes in different ways")
            }
        }
    }
}

impl core::error::Error for MultiLockError {}

/// The order in which locks are taken: that of their paths, whatever the order in which they are
/// given. If all go by it, nobody waits for a lock while holding one that comes after it, so no two
/// wait for each other.
///
/// A lock that is given more than once is taken once, in a way that satisfies all. What comes back
/// is the place of the first of those among `members`, and that way.
///
/// # Errors
///
/// [`MultiLockError`].
pub fn in_order(members: &[Member]) -> Result<Vec<(usize, Demand)>, MultiLockError> {
    let first = members.first().ok_or(MultiLockError::Empty)?;
    if members.iter().any(|member| member.session != first.session) {
        return Err(MultiLockError::Sessions);
    }
    if members.iter().any(|member| member.root != first.root) {
        return Err(MultiLockError::Chroots);
    }
    let mut by_path = BTreeMap::new();
    for (place, member) in members.iter().enumerate() {
        match by_path.entry(&member.path) {
            Entry::Vacant(vacant) => drop(vacant.insert((place, member.demand))),
            Entry::Occupied(mut same) => {
                let (_, demand) = same.get_mut();
                let mismatch = || MultiLockError::Schemes { path: member.path.clone() };
                *demand = demand.and(member.demand).ok_or_else(mismatch)?;
            }
        }
    }
    Ok(by_path.into_values().collect())
}

/// One attempt to take locks together: all of them, or none.
///
/// Tell it what happens, then do what it [wants](Self::poll_output), until it wants nothing.
#[derive(Clone, Debug)]
pub struct MultiAcquire {
    locks: usize,
    step: Step,
    wanted: VecDeque<Wanted>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many are held, and the next is waited for.
    Taking(usize),
    Held,
    Over,
}

/// What has happened to locks that are taken together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The lock that is waited for is ours.
    Acquired,
    /// It cannot be had.
    Failed(LockError),
    /// A lock that was ours is not any more.
    Lost(usize, Loss),
    /// The time to wait for all of them is over.
    TooLate,
    /// The caller wants none of them any more.
    Release,
}

/// What is to be done about locks that are taken together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Wait for this lock.
    Enter(usize),
    /// Give up waiting for this lock, or release it.
    Release(usize),
    /// Tell the caller that all are held.
    Acquired,
    /// Tell the caller that none is, and which is to blame, for what.
    Failed(usize, LockError),
}

impl MultiAcquire {
    /// An attempt to take so many locks, which begins now. There should be at least one.
    pub fn new(locks: usize) -> Self {
        let mut this = Self { locks, step: Step::Taking(0), wanted: VecDeque::new() };
        this.take(0);
        this
    }

    /// The next thing to be done.
    pub fn poll_output(&mut self) -> Option<Wanted> {
        self.wanted.pop_front()
    }

    /// Takes note of what has happened.
    pub fn handle(&mut self, happening: Happening) {
        match (self.step, happening) {
            (Step::Taking(held), Happening::Acquired) => self.take(held + 1),
            (Step::Taking(held), Happening::Failed(error)) => self.fail(held, error),
            (Step::Taking(held), Happening::TooLate) => self.fail(held, LockError::TimedOut),
            // What was to be held together is not, however soon the others come.
            (Step::Taking(_), Happening::Lost(place, loss)) => {
                self.fail(place, LockError::Lost(loss));
            }
            (Step::Taking(_) | Step::Held, Happening::Release) => self.release(),
            // What is held is the caller's, and so is the decision what its loss means.
            (Step::Held | Step::Over, _) => {}
        }
    }

    fn take(&mut self, place: usize) {
        if place < self.locks {
            self.step = Step::Taking(place);
            self.wanted.push_back(Wanted::Enter(place));
        } else {
            self.step = Step::Held;
            self.wanted.push_back(Wanted::Acquired);
        }
    }

    fn fail(&mut self, place: usize, error: LockError) {
        self.release();
        self.wanted.push_back(Wanted::Failed(place, error));
    }

    /// Releases the last lock first: a contender that waits for it holds none of those behind it.
    fn release(&mut self) {
        let places = match self.step {
            // With the one that is waited for.
            Step::Taking(held) => held + 1,
            Step::Held => self.locks,
            Step::Over => 0,
        };
        self.step = Step::Over;
        self.wanted.extend((0..places).rev().map(Wanted::Release));
    }
}

#[cfg(test)]
mod tests;
