//! An attempt to acquire a lock, from its beginning until the lock is held.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem;
use core::task::{Context, Poll};

use super::deadlocks::Mark;
use super::guard::Guard;
use super::local::LocalAttempt;
use super::queue::{Attempted, Entrance};
use super::session_client::{SessionClient, TimeLimit};
use super::status::SharedStatus;
use crate::error::RecipeError;

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
            let mark = entrance.mark();
            *self = match entrance.local() {
                None => Self::Attempt(entrance.enter(), mark),
                Some(local) => match local.enter(entrance.mode, entrance.wait_policy, mark) {
                    Ok(attempt) => Self::TakeTurns(entrance, attempt),
                    Err(refusal) => return Err(entrance.failed(refusal)),
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
    ) -> Poll<Result<Guard<C>, RecipeError>> {
        self.begin()?;
        match self {
            Self::Attempt(attempted, mark) => {
                attempted.poll_held(limit, cx).map_ok(|guard| guard.of_owner(mark.take()))
            }
            Self::TakeTurns(entrance, attempt) => {
                attempt.poll_held(entrance, limit, cx).map_ok(|(node, holder)| {
                    let queue = &entrance.queue;
                    Guard::of_holder(queue.client.clone(), queue.path.clone(), node, holder)
                })
            }
            Self::Idle(_) | Self::Over => Poll::Pending,
        }
    }

    /// Returns whether it takes turns with others of this process, or will.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Idle(entrance) => entrance.local().is_some(),
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
