//! An attempt to acquire a lock, from its beginning until the lock is held.

#[cfg(feature = "full")]
mod full;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem;
use core::task::{Context, Poll};

use super::call::Call;
use super::deadlocks::Mark;
use super::held_lock::{HeldLock, Holder};
use super::local::LocalAttempt;
use super::queue::{Attempted, Queue};
use super::session_client::{SessionClient, TimeLimit};
use super::status::SharedStatus;
use crate::attempt::{LockMode, WaitPolicy};
use crate::error::{LockError, RecipeError};

/// An attempt that has not begun, for a lock whose contenders are nodes of one queue.
pub(crate) struct Entrance<C> {
    pub(crate) queue: Queue<C>,
    pub(crate) operation: &'static str,
    pub(crate) mode: LockMode,
    pub(crate) wait_policy: WaitPolicy,
    /// The name of its owner.
    pub(crate) owner: Option<Arc<str>>,
}

impl<C: SessionClient> Entrance<C> {
    fn enter(&self) -> Attempted<C> {
        self.queue.enter(self.operation, self.mode, self.wait_policy)
    }

    fn call(&self) -> Call<C> {
        self.queue.call(self.operation)
    }
}

/// An attempt for a lock whose contenders are nodes of one queue. Dropping it gives up.
pub(crate) enum Acquiring<C> {
    /// It has not begun.
    Idle(Entrance<C>),
    Attempt(Attempted<C>, Option<Mark>),
    TakeTurns(Entrance<C>, Box<LocalAttempt>),
    Over,
}

impl<C: SessionClient> Acquiring<C> {
    /// Begins, if it has not begun.
    pub(crate) fn begin(&mut self) -> Result<(), RecipeError> {
        if let Self::Idle(_) = self
            && let Self::Idle(entrance) = mem::replace(self, Self::Over)
        {
            let Entrance { queue, mode, owner, .. } = &entrance;
            let mark = queue.options.local.mark(owner.as_ref(), || queue.server_path(), *mode);
            *self = match queue.local.clone() {
                None => Self::Attempt(entrance.enter(), mark),
                Some(local) => match local.enter(*mode, entrance.wait_policy, mark) {
                    Ok(attempt) => Self::TakeTurns(entrance, attempt),
                    Err(refusal) => return Err(entrance.call().failed(refusal)),
                },
            };
        }
        Ok(())
    }

    /// Waits until the lock is held, or the attempt has failed.
    pub(crate) fn poll(
        &mut self,
        limit: &mut TimeLimit,
        cx: &mut Context<'_>,
    ) -> Poll<Result<HeldLock<C>, RecipeError>> {
        self.begin()?;
        match self {
            Self::Attempt(attempted, mark) => {
                attempted.poll_held(limit, cx).map_ok(|held| match mark.take() {
                    Some(mark) => HeldLock { holder: mark.hold(held.holder), ..held },
                    None => held,
                })
            }
            Self::TakeTurns(entrance, attempt) => {
                if attempt.poll_turn(cx).is_pending() {
                    let late = limit.poll(&entrance.queue.client, cx);
                    return late.map(|()| Err(entrance.call().failed(LockError::TimedOut)));
                }
                attempt.poll_held(entrance, limit, cx).map_ok(|(node, holder)| {
                    let Call { client, path, .. } = entrance.call();
                    let (parent, holder) = (path.clone(), Holder::Special(holder));
                    HeldLock { client, path, parent, node, holder }
                })
            }
            Self::Idle(_) | Self::Over => Poll::Pending,
        }
    }

    /// Returns whether it takes turns with others of this process, or will.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Idle(entrance) => entrance.queue.local.is_some(),
            Self::TakeTurns(..) => true,
            Self::Attempt(..) | Self::Over => false,
        }
    }

    /// Returns the attempt if it takes turns with others of this process.
    pub(crate) fn taking_turns(&mut self) -> Option<&mut LocalAttempt> {
        match self {
            Self::TakeTurns(_, attempt) => Some(&mut **attempt),
            _ => None,
        }
    }

    /// Returns the status of its node, if it has one of its own.
    pub(crate) fn status(&self) -> Option<Arc<SharedStatus>> {
        match self {
            Self::Attempt(attempted, _) => attempted.status(),
            Self::TakeTurns(_, attempt) => attempt.status(),
            Self::Idle(_) | Self::Over => None,
        }
    }
}
