//! What is played in a world: the machines, what their owners do, and what must always be.

use super::tree::Index;
use super::*;

/// What has happened on the way.
pub(in super::super) type Milestones = BTreeSet<&'static str>;

pub(in super::super) trait Play: Clone + Hash {
    type Machine: Machine + Clone;

    /// What is there before: paths, and what they hold.
    fn nodes(&self) -> Vec<(&str, &[u8])>;

    /// Clients and their machines, as they begin.
    fn machines(&self) -> Vec<Self::Machine>;

    /// What the owner of this machine can do now.
    fn acts(&self, client: usize) -> Vec<(Act, When)>;

    fn acted(&mut self, client: usize, act: Act, milestones: &mut Milestones);

    /// The machine requests this.
    fn asked(&mut self, _party: usize, _request: &Request<'_>, _sights: &mut Milestones) {}

    /// The machine receives the answer to this.
    fn heard(&mut self, _request: &Request<'_>, _sights: &mut Milestones) {}

    /// The machine reports this.
    fn told(&mut self, client: usize, event: &Event, scene: Scene<'_>) -> Result<(), String>;

    /// How far the machine has come, by what it has reported.
    fn progress(&self, client: usize) -> Told;

    /// Looks at what there is now.
    fn check(
        &mut self,
        tree: &Tree,
        lines: &[&Line],
        milestones: &mut Milestones,
    ) -> Result<(), String>;

    /// Whether this client has not begun yet.
    fn is_to_come(&self, _party: usize) -> bool {
        false
    }

    /// Whether this machine may be left waiting when nothing goes on by itself.
    fn may_wait(&self, _party: usize, _tree: &Tree) -> bool {
        false
    }

    /// The machine is done. Returns the next one of this client, if there is to be one.
    fn next(
        &mut self,
        _party: usize,
        _done: &Self::Machine,
        _connected: bool,
    ) -> Option<Self::Machine> {
        None
    }

    /// How the server may refuse this.
    fn refusals(&self, _request: &Request<'_>) -> &'static [Refusal] {
        &[]
    }

    /// What else can happen to the tree: by itself, or as a fault.
    fn outside(&self, _tree: &Tree, _may_go_wrong: bool) -> Vec<(Outside, When)> {
        Vec::new()
    }

    fn happens(&mut self, _outside: Outside, _tree: &mut Tree) {}
}

/// What an owner does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Act {
    Leave,
    Release,
    Convert(LockMode),
}

impl Act {
    pub(super) const fn input(self) -> Input {
        match self {
            Self::Leave => Input::Leave,
            Self::Release => Input::Release,
            Self::Convert(mode) => Input::Convert(mode),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum When {
    /// At last, if nothing keeps it from that.
    AtLast,
    /// Perhaps.
    Perhaps,
    /// Perhaps, and it is taken from the budget.
    Whim,
}

/// What somebody else does to the tree.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Outside {
    /// Creates a node with the guid of this client.
    Forge(usize),
    /// Its session ends.
    Vanish(NodeId),
    /// Removes the lock path and makes it anew.
    Recreate,
    /// Writes other data.
    Change,
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Refusal {
    ForNow,
    ForGood,
    /// It is done all the same, and the answer cannot be read.
    Garbage,
}

/// What a machine has reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in super::super) enum Told {
    #[default]
    Nothing,
    Held,
    Suspended,
    Over,
}

impl Told {
    /// After this event of a machine whose owner wants it no more, or still does. Whatever ends an
    /// attempt comes once, and only what is held is suspended, resumed or lost.
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

/// Why a machine reports something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Cause {
    /// Its node was created.
    Created,
    /// A node that was found was looked at.
    Looked,
    Settled,
    Other,
}

/// What surrounds a report.
pub(in super::super) struct Scene<'a> {
    pub(in super::super) tree: &'a Tree,
    /// What was just received is of the tree as it was then.
    pub(in super::super) now: Index,
    pub(in super::super) cause: Cause,
    pub(in super::super) milestones: &'a mut Milestones,
}

impl Scene<'_> {
    pub(in super::super) fn sees(&mut self, milestone: &'static str) {
        self.milestones.insert(milestone);
    }
}
