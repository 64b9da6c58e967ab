//! What an attempt has come to: a lock, and what holds it. A [`Guard`](crate::Guard) is its face.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::iter;
use core::ops::Deref;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, ready};

use zk_session::proto::path;
use zk_session::{Attachment, End};

use super::call::Call;
use super::report::{CLOSED, HeldNode, MachineReport, Status};
use super::session_client::{SessionClient, TimeLimit};
use super::status::{Handle, OnLoss, WaitFor};
use crate::attempt::Command;
use crate::error::{LockError, Loss, RecipeError, Unconfirmed};

/// A lock that is held, or permits of a semaphore.
pub(crate) struct HeldLock<C> {
    pub(crate) client: C,
    /// The path of the lock.
    pub(crate) path: Arc<str>,
    pub(crate) parent: Arc<str>,
    pub(crate) node: HeldNode,
    pub(crate) holder: Holder,
}

/// The node of a held lock. Dropping it releases the lock.
pub(crate) enum Holder {
    Own(Handle),
    Special(Box<SpecialHolder>),
}

impl Holder {
    pub(crate) fn special(&self) -> Option<&SpecialHolder> {
        match self {
            Self::Own(_) => None,
            Self::Special(holder) => Some(&**holder),
        }
    }

    /// Returns the node, which the caller releases. `None` if others have it.
    pub(crate) fn end(self) -> Option<Handle> {
        match self {
            Self::Own(handle) => Some(handle),
            Self::Special(holder) => holder.end(),
        }
    }
}

impl Deref for Holder {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        match self {
            Self::Own(handle) => handle,
            Self::Special(holder) => holder.handle(),
        }
    }
}

/// What a lock has in place of a node of its own. Dropped, it releases the lock.
pub(crate) type SpecialHolder = dyn HoldNode;

/// Holds a lock with a node.
pub(crate) trait HoldNode: Send + Sync {
    fn handle(&self) -> &Handle;

    /// Returns the node, which the caller releases. `None` if others have it.
    fn end(self: Box<Self>) -> Option<Handle>;

    /// Returns how many holders of this process have had the node before.
    fn turn(&self) -> u32 {
        0
    }

    /// Returns what is set when the turn ends, if that may be before the lock is released.
    fn signal(&self) -> Option<Arc<AtomicBool>> {
        None
    }

    /// Returns a callback that does not run after the turn.
    fn until_end(&self, run: OnLoss) -> OnLoss {
        run
    }

    /// Keeps the node for this guard. Returns whether no other guard has it.
    #[cfg(feature = "full")]
    fn keep(&mut self) -> bool {
        true
    }
}

impl<C: SessionClient> HeldLock<C> {
    /// The operation and path that its errors name.
    pub(crate) fn call(&self, operation: &'static str) -> Call<C> {
        Call { operation, path: self.path.clone(), client: self.client.clone() }
    }

    pub(crate) fn path_of(&self, node: &str) -> String {
        path::child(&self.parent, node)
    }

    /// Returns the nodes that exist while the lock is held.
    pub(crate) fn node_paths(&self) -> Vec<String> {
        let others = self.node.leases.iter().skip(1).map(|name| &**name);
        let names = iter::once(&*self.node.name).chain(others);
        names.map(|name| self.path_of(name)).collect()
    }

    /// Waits until the lock is lost.
    pub(crate) fn losing(&self) -> Losing {
        let (status, attachment) = (&self.holder.status, &self.holder.attachment);
        let ended = self.holder.special().and_then(|holder| holder.signal());
        let lost = status.wait(loss as fn(&mut MachineReport) -> _);
        Losing { lost, attachment: attachment.clone(), ended }
    }

    /// Begins the release.
    pub(crate) fn releasing(self) -> Releasing {
        Releasing::new(self.path, &self.holder)
    }
}

/// Waits until a lock is lost.
pub(crate) struct Losing {
    lost: WaitFor<fn(&mut MachineReport) -> Option<Loss>>,
    attachment: Attachment,
    /// Whether the turn has ended.
    ended: Option<Arc<AtomicBool>>,
}

impl Future for Losing {
    type Output = Loss;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Loss> {
        if !self.attachment.command(&mut Command::CheckLease) && self.attachment.is_forked() {
            return Poll::Ready(Loss::Ended(End::Forked));
        }
        let lost = Pin::new(&mut self.lost).poll(cx);
        match &self.ended {
            Some(ended) if ended.load(Ordering::Acquire) => Poll::Ready(Loss::Released),
            _ => lost.map(|loss| loss.unwrap_or(CLOSED)),
        }
    }
}

/// Waits until a lock is no longer held.
pub(crate) struct Releasing {
    released: WaitFor<fn(&mut MachineReport) -> Option<Status>>,
    path: Arc<str>,
}

impl Releasing {
    /// The release begins when the handle is dropped.
    pub(crate) fn new(path: Arc<str>, handle: &Handle) -> Self {
        handle.check_process();
        Self { released: handle.status.wait(over as fn(&mut MachineReport) -> _), path }
    }

    pub(crate) fn poll<C: SessionClient>(
        &mut self,
        client: &C,
        limit: &mut TimeLimit,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), RecipeError>> {
        let released = match Pin::new(&mut self.released).poll(cx) {
            Poll::Ready(over) => released(over),
            Poll::Pending => {
                ready!(limit.poll(client, cx));
                Err(LATE)
            }
        };
        Poll::Ready(released.map_err(|error| RecipeError::new("release", &self.path, error)))
    }
}

/// The time limit has passed before the confirmation.
pub(crate) const LATE: LockError = LockError::NotConfirmed(Unconfirmed::TimedOut);

/// Returns why the lock was lost, once it is.
const fn loss(report: &mut MachineReport) -> Option<Loss> {
    report.holding().loss()
}

/// Returns the last status, once it is known.
pub(crate) fn over(report: &mut MachineReport) -> Option<Status> {
    report.status.is_over().then(|| report.status.clone())
}

/// The result of a release. `None` if the machine has ended without one.
pub(crate) fn released(over: Option<Status>) -> Result<(), LockError> {
    match over {
        Some(Status::Failed(error)) => Err(error),
        Some(Status::Lost(loss)) => Err(LockError::Lost(loss)),
        Some(_) => Ok(()),
        // The runtime was shut down.
        None => Err(LockError::NotConfirmed(Unconfirmed::Ended(End::Closed))),
    }
}
