//! What a machine has reported last.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::{AtomicUsize, Ordering};

use zk_session::End;
use zk_session::proto::Zxid;

use crate::attempt::NodeName;
use crate::error::{LockError, Loss, Reason};

/// The node of a held lock.
#[derive(Clone, Debug)]
pub(crate) struct HeldNode {
    pub(crate) name: NodeName,
    pub(crate) token: Zxid,
    /// The names of all nodes, if there are several.
    pub(crate) leases: Box<[String]>,
}

/// The state of an acquired lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holding {
    /// The lock is held, as far as this client knows.
    Held,
    /// The connection is lost. The lock is probably held until the lease of the session ends. After
    /// that it is unknown.
    Suspended,
    /// The lock is no longer held.
    Lost(Loss),
}

impl Holding {
    /// Returns why the lock is no longer held, if so.
    pub(crate) const fn loss(self) -> Option<Loss> {
        match self {
            Self::Lost(loss) => Some(loss),
            Self::Held | Self::Suspended => None,
        }
    }
}

/// What the machine has reported of an acquired lock.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    Held,
    Suspended,
    Lost(Loss),
    /// The owner no longer holds it, and the servers may not know that yet.
    Releasing,
    Released,
    /// The release failed.
    Failed(LockError),
}

impl Status {
    /// Returns whether the lock may be held.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self, Self::Held | Self::Suspended)
    }

    /// Returns whether nothing is left to report.
    pub(crate) const fn is_over(&self) -> bool {
        !self.is_open() && !matches!(self, Self::Releasing)
    }
}

/// The loss if the client has ended without reporting one, as when its runtime is shut down.
pub(crate) const CLOSED: Loss = Loss::Ended(End::Closed);

/// Where an attempt stands in its queue, as of its last list of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The name of our node, which exists.
    pub node: String,
    /// The node that we wait for, as in [`Event::Waiting`](crate::Event::Waiting): if one is ahead,
    /// that of the holder. `None` while it is not known whether any is ahead.
    pub behind: Option<String>,
    /// How many contenders block us, or how many permits must be released first.
    pub ahead: Option<usize>,
}

/// The latest report of a machine.
#[derive(Debug)]
pub(crate) struct MachineReport {
    pub(crate) status: Status,
    pub(crate) revoked: bool,
    /// Whether others were ahead.
    pub(crate) is_waiting: bool,
    /// Our node in the queue.
    node: Option<NodeName>,
    /// The node that we wait for, and how many contenders are ahead.
    behind: Option<(String, usize)>,
    /// Whether the place has changed since it was last taken.
    has_moved: bool,
    /// The result of acquiring the lock, or of changing its mode.
    pub(crate) acquired: Option<Result<HeldNode, LockError>>,
    /// The error in place of that result, if it belongs to one recipe.
    pub(crate) refused: Option<Box<dyn Any + Send>>,
    /// Whether the machine has ended, and reports nothing more.
    pub(crate) is_final: bool,
    has_owner: bool,
    cleanup: Cleanup,
}

impl MachineReport {
    /// `cleanups` counts the running clean-ups.
    pub(crate) const fn new(cleanups: Arc<AtomicUsize>) -> Self {
        Self {
            status: Status::Held,
            revoked: false,
            is_waiting: false,
            node: None,
            behind: None,
            has_moved: false,
            acquired: None,
            refused: None,
            is_final: false,
            has_owner: true,
            cleanup: Cleanup { pending: false, all: cleanups },
        }
    }

    pub(crate) const fn holding(&self) -> Holding {
        match &self.status {
            Status::Held | Status::Suspended if self.is_final => Holding::Lost(CLOSED),
            Status::Held => Holding::Held,
            Status::Suspended => Holding::Suspended,
            Status::Lost(loss) => Holding::Lost(*loss),
            // Only after the guard has been released.
            Status::Releasing | Status::Released | Status::Failed(_) => {
                Holding::Lost(Loss::Released)
            }
        }
    }

    /// Sets the state of the lock. A lock that is no longer held is never held again.
    pub(crate) fn set_status(&mut self, status: Status) {
        let is_open = self.status.is_open();
        if is_open && !status.is_open() {
            self.clean_up();
        }
        if is_open || status.is_over() && !self.status.is_over() {
            self.status = status;
        }
    }

    /// Takes the result of acquiring the lock, or of changing its mode, if it is there.
    pub(crate) fn take_answer<R: Reason>(&mut self) -> Option<Result<HeldNode, R>> {
        match self.refused.take().map(|refused| refused.downcast()) {
            Some(Ok(refused)) => Some(Err(*refused)),
            _ => Some(self.acquired.take()?.map_err(R::from)),
        }
    }

    /// The lock is no longer wanted, and the machine deletes its nodes.
    pub(crate) fn clean_up(&mut self) {
        self.cleanup.begin();
    }

    /// The owner has dropped its handle.
    pub(crate) fn disown(&mut self) {
        self.has_owner = false;
        // A machine that has ended has nothing left to delete.
        if !self.is_final {
            self.clean_up();
        }
    }

    /// No node is left on the server, or the session has ended.
    pub(crate) fn finish(&mut self) {
        self.is_final = true;
        self.cleanup.end();
    }

    /// The node is in the queue. A candidate that has lost queues again, if it still has an owner.
    pub(crate) fn enqueued(&mut self, node: NodeName) {
        (self.node, self.behind, self.has_moved) = (Some(node), None, true);
        if self.has_owner {
            self.cleanup.end();
            self.status = Status::Held;
        }
    }

    /// Others are ahead.
    pub(crate) fn waits(&mut self, behind: String, ahead: usize) {
        self.is_waiting = true;
        if self.node.is_some() {
            (self.behind, self.has_moved) = (Some((behind, ahead)), true);
        }
    }

    /// Returns the place in the queue, if it has changed since the last call.
    pub(crate) fn take_place(&mut self) -> Option<Place> {
        let node = self.node.as_ref().filter(|_| core::mem::take(&mut self.has_moved))?;
        let (behind, ahead) = self.behind.clone().unzip();
        Some(Place { node: node.to_string(), behind, ahead })
    }
}

/// A running clean-up, counted in `pending_cleanups`.
#[derive(Debug)]
struct Cleanup {
    pending: bool,
    all: Arc<AtomicUsize>,
}

impl Cleanup {
    fn begin(&mut self) {
        if !core::mem::replace(&mut self.pending, true) {
            self.all.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn end(&mut self) {
        if core::mem::take(&mut self.pending) {
            self.all.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
