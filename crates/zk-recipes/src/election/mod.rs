//! Leader election: one contender after another.

#[cfg(feature = "blocking")]
pub(crate) mod recipe;
#[cfg(test)]
mod tests;

use alloc::string::String;

use zk_session::dispatch::Input;
use zk_session::proto::recording::Description;
use zk_session::proto::{Zxid, path};

use crate::attempt::requeuing::{Requeuing, Until};
use crate::attempt::{AttemptConfig, Command, Event, LockMode, Machine, Turn, WaitPolicy};
use crate::error::{LockError, Loss};
use crate::lock::Contender;

/// A candidate that stands for election until it resigns or its session ends. Drive it as a
/// [`Contender`].
///
/// It leads as long as it holds the lock. If it loses the lock or its place in the queue while the
/// session lives, it queues again after 100 ms, at the end. It does so too when its session is
/// [renewed](zk_session::session::State::Renewing). So events continue after [`Event::Lost`],
/// unless the session has ended.
///
/// It ignores the mode and the wait policy of its [`AttemptConfig`]. The GUID is that of the first
/// attempt. Each later one adds 1 to its upper half.
#[derive(Clone, Debug)]
pub struct ElectionMachine(Requeuing<Contender>);

impl Machine for ElectionMachine {
    fn handle(&mut self, input: Input, turn: &mut Turn<'_>) {
        self.0.handle(input, turn);
    }

    fn command(&mut self, command: Command, turn: &mut Turn<'_>) {
        self.0.command(command, turn);
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    fn outlives_session(&self) -> bool {
        true
    }

    fn describe(&self, description: &mut Description<'_>) {
        self.0.describe(description);
    }
}

impl ElectionMachine {
    /// Creates a candidate, which begins when its session is connected.
    pub fn new(config: AttemptConfig) -> Self {
        let (mode, wait_policy) = (LockMode::Exclusive, WaitPolicy::Queue);
        let contender = Contender::new(AttemptConfig { mode, wait_policy, ..config });
        Self(Requeuing::until(contender, Until::Released))
    }
}

/// The state of a candidate.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leadership {
    /// It waits for its turn, or is about to queue again.
    Follower,
    /// It leads.
    Leader(Term),
    /// It led when it lost its connection. Another may be elected once the session has expired.
    Suspended(Term),
    /// It resigns: it leads no more, and its node may still exist.
    Resigning,
    /// It has resigned, and its node is gone.
    Resigned,
    /// It can no longer be a candidate: the session has ended, or the ensemble refuses it.
    Failed(LockError),
}

/// The time from an election until that leader goes.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Term {
    /// The fencing token of the lock. It is greater than in any earlier term, so a new one shows
    /// that leadership was lost in between.
    pub token: Zxid,
    /// The path of the leader's node.
    pub node: String,
}

impl Leadership {
    /// Returns the state after an [`ElectionMachine`] on `lock_path` has reported `event`.
    #[must_use]
    pub fn after(&self, event: &Event, lock_path: &str) -> Self {
        match (self, event) {
            (_, Event::Acquired { node, token }) => {
                Self::Leader(Term { token: *token, node: path::child(lock_path, node) })
            }
            (Self::Leader(term), Event::Suspended) => Self::Suspended(term.clone()),
            (Self::Suspended(term), Event::Resumed) => Self::Leader(term.clone()),
            (_, Event::Lost(Loss::Ended(end))) => Self::Failed(LockError::Ended(*end)),
            (_, Event::Lost(_)) => Self::Follower,
            (_, Event::Releasing) => Self::Resigning,
            (_, Event::Released) => Self::Resigned,
            (_, Event::Failed(error)) => Self::Failed(error.clone()),
            _ => self.clone(),
        }
    }
}

zk_session::proto::formatted_by_debug! {
    [] ElectionMachine;
}
