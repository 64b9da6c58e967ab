//! The workload of a world: its machines, the actions of their owners, and its invariants.

use super::tree::Index;
use super::*;

/// The milestones that were reached.
pub(crate) type Milestones = BTreeSet<&'static str>;

pub(crate) trait Workload: Clone + Hash + Send {
    /// An injected bug: returns whether the machine takes the lock without the list that it asks for,
    /// as if it were alone.
    fn overlooks_others(&self, _client: usize, _tree: &Tree, _now: Index) -> bool {
        false
    }

    type Machine: Machine + Clone + Send + Sync;

    /// Returns the nodes that exist at the beginning, with their data.
    fn nodes(&self) -> Vec<(&str, &[u8])>;

    /// Returns the machine of each client.
    fn machines(&self) -> Vec<Self::Machine>;

    /// Returns an earlier client that begins in the same way as this one, if there is one.
    fn twin(&self, _client: usize) -> Option<usize> {
        None
    }

    /// Returns what the owner of this machine can do now. With delays, this depends on nothing that
    /// other clients do.
    fn owner_actions(&self, client: usize, owners: &[Owner]) -> Vec<(Command, Timing)> {
        owners[client].release_action()
    }

    /// Called when the owner gives a command.
    fn owner_acted(
        &mut self,
        _client: usize,
        _act: Command,
        _owners: &[Owner],
        _milestones: &mut Milestones,
    ) {
    }

    /// Called when the machine submits a request.
    fn requested(&mut self, _client: usize, _request: &Request<'_>, _milestones: &mut Milestones) {}

    /// Called when the machine receives a successful reply.
    fn replied(&mut self, _request: &Request<'_>, _milestones: &mut Milestones) {}

    /// Called when the machine reports an event. Returns its progress, or an error if the event is
    /// wrong.
    fn reported(
        &mut self,
        client: usize,
        event: &Event,
        context: ReportContext<'_>,
    ) -> Result<Progress, String>;

    /// Checks the invariants.
    fn check(
        &mut self,
        _tree: &Tree,
        _owners: &[Owner],
        _lines: &[&Line],
        _milestones: &mut Milestones,
    ) -> Result<(), String> {
        Ok(())
    }

    /// Returns whether this client has not started yet.
    fn is_unstarted(&self, _client: usize, _owners: &[Owner]) -> bool {
        false
    }

    /// Returns whether this machine may wait although nothing more happens by itself.
    fn may_wait(&self, _client: usize, _owners: &[Owner], _tree: &Tree) -> bool {
        false
    }

    /// Returns the next machine of this client, whose machine is done. `None`: there is none.
    fn next(&mut self, _client: usize, _connected: bool) -> Option<Self::Machine> {
        None
    }

    /// Called before the machine handles an input.
    fn begin_turn(&mut self, _client: usize) {}

    /// Called after the machine has handled an input. Returns another client that begins therefore,
    /// with its machine.
    fn end_turn(
        &mut self,
        _client: usize,
        _milestones: &mut Milestones,
    ) -> Option<(usize, Self::Machine)> {
        None
    }

    /// Returns how the server may refuse this request.
    fn refusals(&self, _request: &Request<'_>) -> &'static [Refusal] {
        &[]
    }

    /// Returns changes of the tree by others: by themselves, or as faults.
    fn outside_changes(
        &self,
        _owners: &[Owner],
        _tree: &Tree,
        _may_go_wrong: bool,
    ) -> Vec<(OutsideChange, Timing)> {
        Vec::new()
    }

    fn apply_outside(&mut self, _outside: OutsideChange, _tree: &mut Tree) {}
}

/// The owner of a machine: what it knows, and whether it wants the lock.
#[derive(Clone, Default, Hash)]
pub(crate) struct Owner {
    pub(crate) progress: Progress,
    /// Whether it has released the lock, or given up waiting.
    pub(crate) release: bool,
}

impl Owner {
    /// Returns whether it relies on the lock.
    pub(crate) fn holds(&self) -> bool {
        self.progress.is_held() && !self.release
    }

    /// Returns the release: of a held lock in the end, so that others can acquire it, and otherwise
    /// at the expense of the budget.
    pub(crate) fn release_action(&self) -> Vec<(Command, Timing)> {
        let when = if self.progress.is_held() { Timing::Eventually } else { Timing::Budgeted };
        let released = self.release;
        (!released).then_some((Command::Release, when)).into_iter().collect()
    }

    /// Returns the progress after an event.
    ///
    /// An attempt ends once, and only a held lock is suspended, resumed or lost.
    pub(crate) fn after(&self, client: usize, event: &Event) -> Result<Progress, String> {
        use Progress::{Held, Nothing, Over, Suspended};
        let Self { progress, release } = *self;
        match (progress, event) {
            (Nothing, Event::Enqueued { .. } | Event::Waiting { .. } | Event::Permits(_)) => {
                Ok(Nothing)
            }
            (Nothing, Event::Acquired { .. }) if !release => Ok(Held),
            (Held, Event::Suspended) => Ok(Suspended),
            (Suspended, Event::Resumed) => Ok(Held),
            (
                Held | Suspended,
                Event::Converted { .. } | Event::NotConverted(_) | Event::Revoked,
            ) if !release => Ok(progress),
            (Held | Suspended, Event::Lost(_))
            | (Nothing, Event::Failed(_) | Event::Refused(_))
                if !release =>
            {
                Ok(Over)
            }
            (
                Nothing | Held | Suspended,
                Event::Released | Event::Failed(LockError::NotConfirmed(_)),
            ) if release => Ok(Over),
            _ => Err(format!("{client} reports {event:?} out of turn")),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timing {
    /// Happens in the end, if nothing prevents it.
    Eventually,
    /// May happen.
    Optional,
    /// May happen, at the expense of the budget.
    Budgeted,
}

/// A change of the tree by another program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OutsideChange {
    /// Creates a node with the GUID of this client.
    Forge(usize),
    /// The session of this node ends.
    Vanish(NodeId),
    /// Deletes the lock path and creates it again.
    Recreate,
    /// Writes other data.
    Change,
    /// Asks the owner of this node to release the lock.
    Revoke(NodeId),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    Temporary,
    Permanent,
    /// The request is executed, and its reply is malformed.
    Garbage,
}

/// The progress of a machine, by its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Progress {
    #[default]
    Nothing,
    Held,
    Suspended,
    Over,
}

impl Progress {
    pub(crate) const fn is_held(self) -> bool {
        matches!(self, Self::Held | Self::Suspended)
    }
}

/// The input that led to an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The reply to the creation of its node.
    Created,
    /// The stat of a node that was found.
    Looked,
    Settled,
    Other,
}

/// The circumstances of an event.
pub(crate) struct ReportContext<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) owners: &'a [Owner],
    /// The state of the tree that the input showed.
    pub(crate) now: Index,
    pub(crate) cause: Cause,
    pub(crate) milestones: &'a mut Milestones,
}

impl ReportContext<'_> {
    pub(crate) fn reach(&mut self, milestone: &'static str) {
        self.milestones.insert(milestone);
    }
}
