//! Attempts of one process that share a node, as the rest of the client sees them.
//!
//! Only the [`Options`](crate::Options) for such attempts name what is behind these traits: a program
//! that sets none of them has no code for it. Nor does that know the type of the client.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::task::{Context, Poll};
use core::time::Duration;
use std::time::Instant;

use zk_session::Attachment;
use zk_session::dispatch::Attached;

use super::deadlocks::{Deadlocks, Mark};
use super::held_lock::SpecialHolder;
use super::report::HeldNode;
use super::session_client::TimeLimit;
use super::status::{Handle, SharedStatus};
use crate::attempt::{LockMode, WaitPolicy};
use crate::error::{LockError, RecipeError};
use crate::lock::cohort::HandOver;

/// The options for attempts of one process.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalOptions {
    pub(crate) hand_over: Option<HandOver>,
    pub(crate) keep_idle: Option<Duration>,
    pub(crate) deadlocks: Option<Deadlocks>,
    /// Set by the first two, so that only programs with one of these have code for them.
    pub(crate) start: Option<Start>,
}

/// Makes what attempts share, with the clock of their client.
type Start = fn(&LocalOptions, fn() -> Instant) -> Arc<LocalLock>;

impl LocalOptions {
    /// Returns what attempts share, if they share a node.
    pub(crate) fn start(&self, clock: fn() -> Instant) -> Option<Arc<LocalLock>> {
        self.start.map(|start| start(self, clock))
    }

    /// Adds an attempt to the graph and looks for a deadlock, if deadlocks are reported.
    pub(crate) fn mark(
        &self,
        owner: Option<&Arc<str>>,
        lock: impl FnOnce() -> Arc<str>,
        mode: LockMode,
    ) -> Option<Mark> {
        let (owner, deadlocks) = (owner?, self.deadlocks.as_ref()?);
        Some(deadlocks.waits(owner.clone(), lock(), mode))
    }
}

/// What the clones of a lock share.
pub(crate) type LocalLock = dyn ShareNode;

/// Decides which attempts take turns.
pub(crate) trait ShareNode: Send + Sync {
    /// Enters, at once. Fails if the attempt must not wait, and would.
    fn enter(
        self: Arc<Self>,
        mode: LockMode,
        wait_policy: WaitPolicy,
        mark: Option<Mark>,
    ) -> Result<Box<LocalAttempt>, LockError>;

    /// Returns the node that is shared, and how many attempts wait for it here.
    fn held(&self) -> Option<(String, usize)>;

    /// Returns how many attempts wait here.
    fn waiting(&self) -> usize;
}

/// An attempt that takes turns with others of this process. Dropping it gives up.
pub(crate) type LocalAttempt = dyn TakeTurns;

/// Waits for others, and for the lock.
pub(crate) trait TakeTurns: Send {
    /// Returns the status of its node, if it has one of its own.
    fn status(&self) -> Option<Arc<SharedStatus>>;

    /// Waits for others of this process.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Waits until the lock is held, or the attempt has failed. First comes its turn.
    fn poll_held(
        &mut self,
        entrance: &dyn Enter,
        limit: &mut TimeLimit,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(HeldNode, Box<SpecialHolder>), RecipeError>>;
}

/// Reaches the ensemble for an attempt.
pub(crate) trait Enter {
    /// Begins an attempt with a node of its own.
    fn enter(&self) -> Box<dyn NodeAttempt>;

    /// Attaches a machine to the session.
    fn attach(&self, machine: Box<dyn Attached>) -> Attachment;

    /// Returns the lock path with the chroot.
    fn server_path(&self) -> Arc<str>;
}

/// An attempt with a node of its own. Dropping it gives up.
pub(crate) trait NodeAttempt: Send {
    /// Waits until the lock is held, or the attempt has failed.
    fn poll_node(
        &mut self,
        limit: &mut TimeLimit,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(HeldNode, Option<Handle>), RecipeError>>;

    /// Returns the status of the machine. `None` once the lock is held.
    fn status(&self) -> Option<Arc<SharedStatus>>;

    /// Prepares the attempt for another caller, whose time limit begins. Returns whether it has come
    /// to no end.
    fn renew(&mut self) -> bool;
}
