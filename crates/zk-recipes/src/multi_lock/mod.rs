//! The order in which several locks are acquired, and the release of all of them when one fails.
//!
//! Each lock is acquired by a machine of its own. This module knows it only by its index in the
//! order of acquisition, so it works for locks of every kind.

#[cfg(feature = "blocking")]
pub(crate) mod recipe;

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use zk_session::proto::SessionId;

use crate::attempt::{LockMode, Scheme};
use crate::error::{LockError, Loss, SemaphoreError};

/// One of the locks that are to be acquired together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockSpec {
    /// The session that acquires the lock.
    pub session: SessionId,
    /// The chroot of the client, as a path of the server. [`path`](Self::path) is below it.
    pub root: String,
    /// The lock path. It decides the lock's position in the order of acquisition.
    pub path: String,
    /// How to acquire it.
    pub mode: Mode,
}

impl LockSpec {
    /// Makes the description of a lock that `session` acquires.
    pub const fn new(session: SessionId, root: String, path: String, mode: Mode) -> Self {
        Self { session, root, path, mode }
    }
}

/// How a lock is acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With one node in the queue of the lock.
    Lock {
        /// The names of its nodes.
        scheme: Scheme,
        /// Whether other clients may hold it at the same time.
        mode: LockMode,
    },
    /// With this number of permits of a semaphore.
    #[cfg(feature = "full")]
    Permits(u32),
}

impl Mode {
    /// Returns a mode that satisfies both: the stronger lock mode, or the sum of the permits.
    /// `None` if the two are different kinds of locks.
    fn and(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Lock { scheme, mode }, Self::Lock { scheme: same, mode: other }) => {
                (scheme == same).then_some(Self::Lock { scheme, mode: mode.max(other) })
            }
            #[cfg(feature = "full")]
            (Self::Permits(_), _) | (_, Self::Permits(_)) => {
                let (Self::Permits(some), Self::Permits(more)) = (self, other) else { return None };
                Some(Self::Permits(some.saturating_add(more)))
            }
        }
    }
}

zk_session::proto::named! {
    /// Why locks cannot be acquired together.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum MultiLockError {
        /// The list of locks is empty.
        Empty,
        /// The locks belong to more than one session.
        Sessions,
        /// The clients of the locks have different chroots. The same path would mean different
        /// nodes, and one transaction could not check all locks.
        Chroots,
        /// Two locks at one path name their nodes differently, so they would not exclude each
        /// other.
        Schemes {
            /// The lock path.
            path: String,
        },
    }
}

impl fmt::Display for MultiLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there are no locks to acquire"),
            Self::Sessions => f.write_str("the locks belong to more than one session"),
            Self::Chroots => f.write_str("the locks belong to clients with different chroots"),
            Self::Schemes { path } => {
                write!(f, "two locks at '{path}' name their nodes differently")
            }
        }
    }
}

impl core::error::Error for MultiLockError {}

/// Returns the order in which to acquire the locks: sorted by path, whatever order they are given
/// in.
///
/// If all clients follow this order, no client waits for a lock while it holds one that comes
/// later. So no two clients wait for each other.
///
/// A lock that is given more than once is acquired once, in a mode that satisfies all requests.
/// Each item of the result is the index of the first request for that lock, and the mode.
///
/// # Errors
///
/// [`MultiLockError`], if the locks cannot be acquired together.
pub fn acquisition_order(locks: &[LockSpec]) -> Result<Vec<(usize, Mode)>, MultiLockError> {
    let first = locks.first().ok_or(MultiLockError::Empty)?;
    if locks.iter().any(|lock| lock.session != first.session) {
        return Err(MultiLockError::Sessions);
    }
    if locks.iter().any(|lock| lock.root != first.root) {
        return Err(MultiLockError::Chroots);
    }
    let mut order: Vec<(usize, Mode)> = Vec::new();
    for (index, lock) in locks.iter().enumerate() {
        match order.binary_search_by_key(&&lock.path, |(first, _)| &locks[*first].path) {
            Err(place) => order.insert(place, (index, lock.mode)),
            Ok(same) => {
                let mismatch = || MultiLockError::Schemes { path: lock.path.clone() };
                let (_, mode) = &mut order[same];
                *mode = mode.and(lock.mode).ok_or_else(mismatch)?;
            }
        }
    }
    Ok(order)
}

/// One attempt to acquire several locks: all of them, or none.
///
/// Give it each [`Input`], then do what every [`Output`] says until there is none. Locks are
/// identified by their index in the order of acquisition.
#[derive(Clone, Debug)]
pub struct MultiAcquire {
    locks: usize,
    state: MultiStep,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Copy, Debug)]
enum MultiStep {
    /// This many locks are held, and the next one is waited for.
    Acquiring(usize),
    Held,
    Over,
}

/// An input of [`MultiAcquire`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// The lock that is waited for was acquired.
    Acquired,
    /// The lock that is waited for cannot be acquired.
    Failed(SemaphoreError),
    /// The lock with this index was held, and is lost.
    Lost(usize, Loss),
    /// The time limit for all locks has passed.
    TimedOut,
    /// The caller gives up waiting, or releases the locks.
    Release,
}

/// What the driver of a [`MultiAcquire`] must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Enter the queue of the lock with this index, and wait.
    Enter(usize),
    /// Release the lock with this index, or stop waiting for it.
    Release(usize),
    /// Report that all locks are held.
    Acquired,
    /// Report that the attempt failed, with the index of the lock that caused it and the error.
    Failed(usize, SemaphoreError),
}

impl MultiAcquire {
    /// Creates an attempt to acquire this many locks, at least one. The first output is there
    /// already.
    pub fn new(locks: usize) -> Self {
        let mut this = Self { locks, state: MultiStep::Acquiring(0), outputs: VecDeque::new() };
        this.enter(0);
        this
    }

    /// Returns the next output, if there is one.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Handles an input. Take all outputs afterwards.
    pub fn handle(&mut self, input: Input) {
        match (self.state, input) {
            (MultiStep::Acquiring(held), Input::Acquired) => self.enter(held + 1),
            (MultiStep::Acquiring(held), Input::Failed(error)) => self.fail(held, error),
            (MultiStep::Acquiring(held), Input::TimedOut) => self.fail(held, LockError::TimedOut),
            // The locks would not be held together, even if the others are acquired soon.
            (MultiStep::Acquiring(_), Input::Lost(index, loss)) => {
                self.fail(index, LockError::Lost(loss));
            }
            (MultiStep::Acquiring(_) | MultiStep::Held, Input::Release) => self.release(),
            // Once all are held, the caller decides what the loss of one means.
            (MultiStep::Held | MultiStep::Over, _) => {}
        }
    }

    fn enter(&mut self, index: usize) {
        if index < self.locks {
            self.state = MultiStep::Acquiring(index);
            self.outputs.push_back(Output::Enter(index));
        } else {
            self.state = MultiStep::Held;
            self.outputs.push_back(Output::Acquired);
        }
    }

    fn fail(&mut self, index: usize, error: impl Into<SemaphoreError>) {
        self.release();
        self.outputs.push_back(Output::Failed(index, error.into()));
    }

    /// Releases in reverse order, so that a contender woken by one release does not then wait for
    /// the next.
    fn release(&mut self) {
        let entered = match self.state {
            // Including the one that is waited for.
            MultiStep::Acquiring(held) => held + 1,
            MultiStep::Held => self.locks,
            MultiStep::Over => 0,
        };
        self.state = MultiStep::Over;
        for index in (0..entered).rev() {
            self.outputs.push_back(Output::Release(index));
        }
    }
}

zk_session::proto::formatted_by_debug! {
    [] Input;
    [] LockSpec;
    [] Mode;
    [] MultiAcquire;
    [] Output;
}

#[cfg(test)]
mod tests;
