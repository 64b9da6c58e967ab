//! The workload of a world: its machines, the actions of their owners, and its invariants.

use super::tree::Index;
use super::*;

/// The milestones that were reached.
pub(in super::super) type Milestones = BTreeSet<&'static str>;

pub(in super::super) trait Workload: Clone + Hash {
    type Machine: Machine + Clone;

    /// Returns the nodes that exist at the beginning, with their data.
    fn nodes(&self) -> Vec<(&str, &[u8])>;

    /// Returns the machine of each client.
    fn machines(&self) -> Vec<Self::Machine>;

    /// Returns what the owner of this machine can do now.
    fn owner_actions(&self, client: usize) -> Vec<(OwnerAction, Timing)>;

    fn owner_acted(&mut self, client: usize, act: OwnerAction, milestones: &mut Milestones);

    /// Called when the machine submits a request.
    fn requested(&mut self, _client: usize, _request: &Request<'_>, _milestones: &mut Milestones) {}

    /// Called when the machine receives a successful reply.
    fn replied(&mut self, _request: &Request<'_>, _milestones: &mut Milestones) {}

    /// Called when the machine reports an event. Returns an error if the event is wrong.
    fn reported(
        &mut self,
        client: usize,
        event: &Event,
        context: ReportContext<'_>,
    ) -> Result<(), String>;

    /// Returns the progress of the machine, by its events.
    fn progress(&self, client: usize) -> Progress;

    /// Checks the invariants.
    fn check(
        &mut self,
        tree: &Tree,
        lines: &[&Line],
        milestones: &mut Milestones,
    ) -> Result<(), String>;

    /// Returns whether this client has not started yet.
    fn is_unstarted(&self, _client: usize) -> bool {
        false
    }

    /// Returns whether this machine may wait although nothing more happens by itself.
    fn may_wait(&self, _client: usize, _tree: &Tree) -> bool {
        false
    }

    /// Returns the next machine of this client, whose machine is done. `None`: there is none.
    fn next(
        &mut self,
        _client: usize,
        _done: &Self::Machine,
        _connected: bool,
    ) -> Option<Self::Machine> {
        None
    }

    /// Returns how the server may refuse this request.
    fn refusals(&self, _request: &Request<'_>) -> &'static [Refusal] {
        &[]
    }

    /// Returns changes of the tree by others: by themselves, or as faults.
    fn outside_changes(&self, _tree: &Tree, _may_go_wrong: bool) -> Vec<(OutsideChange, Timing)> {
        Vec::new()
    }

    fn apply_outside(&mut self, _outside: OutsideChange, _tree: &mut Tree) {}
}

/// A command of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum OwnerAction {
    Leave,
    Release,
    Convert(LockMode),
}

impl OwnerAction {
    pub(super) const fn input(self) -> Input {
        match self {
            Self::Leave => Input::Leave,
            Self::Release => Input::Release,
            Self::Convert(mode) => Input::Convert(mode),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Timing {
    /// Happens in the end, if nothing prevents it.
    Eventually,
    /// May happen.
    Optional,
    /// May happen, at the expense of the budget.
    Budgeted,
}

/// A change of the tree by another program.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum OutsideChange {
    /// Creates a node with the GUID of this client.
    Forge(usize),
    /// The session of this node ends.
    Vanish(NodeId),
    /// Deletes the lock path and creates it again.
    Recreate,
    /// Writes other data.
    Change,
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Refusal {
    Temporary,
    Permanent,
    /// The request is executed, and its reply is malformed.
    Garbage,
}

/// The progress of a machine, by its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in super::super) enum Progress {
    #[default]
    Nothing,
    Held,
    Suspended,
    Over,
}

impl Progress {
    /// Returns the progress after an event. `release`: whether the owner has released the lock.
    ///
    /// `None` if the event must not come. An attempt ends once, and only a held lock is suspended,
    /// resumed or lost.
    pub(in super::super) fn after(self, event: &Event, release: bool) -> Option<Self> {
        match (self, event) {
            (Self::Nothing, Event::Enqueued { .. } | Event::Waiting { .. } | Event::Permits(_)) => {
                Some(Self::Nothing)
            }
            (Self::Nothing, Event::Acquired { .. }) if !release => Some(Self::Held),
            (Self::Held, Event::Suspended) => Some(Self::Suspended),
            (Self::Suspended, Event::Resumed) => Some(Self::Held),
            (Self::Held | Self::Suspended, Event::Converted { .. } | Event::NotConverted(_))
                if !release =>
            {
                Some(self)
            }
            (Self::Held | Self::Suspended, Event::Lost(_)) if !release => Some(Self::Over),
            (Self::Nothing, Event::Failed(_)) if !release => Some(Self::Over),
            (Self::Nothing | Self::Held | Self::Suspended, Event::Released) if release => {
                Some(Self::Over)
            }
            _ => None,
        }
    }

    pub(in super::super) const fn is_held(self) -> bool {
        matches!(self, Self::Held | Self::Suspended)
    }
}

/// The input that led to an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Cause {
    /// The reply to the creation of its node.
    Created,
    /// The stat of a node that was found.
    Looked,
    Settled,
    Other,
}

/// The circumstances of an event.
pub(in super::super) struct ReportContext<'a> {
    pub(in super::super) tree: &'a Tree,
    /// The state of the tree that the input showed.
    pub(in super::super) now: Index,
    pub(in super::super) cause: Cause,
    pub(in super::super) milestones: &'a mut Milestones,
}

impl ReportContext<'_> {
    pub(in super::super) fn reach(&mut self, milestone: &'static str) {
        self.milestones.insert(milestone);
    }
}
