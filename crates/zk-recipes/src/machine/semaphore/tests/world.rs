//! A small world for borrowers: one semaphore on one server, and sessions that are cut, resume and
//! expire. Every step is an [`Action`]; what may go wrong is taken from a budget, so the world is
//! finite and can be explored as a whole.
//!
//! Whatever is answered or told is heard at once: what a borrower does then touches nobody else
//! before its next request is served, and what a cut takes away is as good as never answered.

mod always;
mod driving;
mod party;
mod server;
mod session;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use std::hash::DefaultHasher;

use uuid::Uuid;
use zk_session::proto::{ErrorCode, Request, SessionId};
use zk_session::session::State;

use super::super::super::tests::line::{Index, Message, Told};
use super::super::super::tests::search;
use super::super::super::{
    Borrower, Contest, Entry, Event, Input, Loan, Machine, OpId, Output, Scheme,
};
use party::{News, Party};

const DIRECTORY: &str = "/sem";

/// A node of the queue or a lease, by its place in `World::nodes`.
type NodeId = usize;

/// What the world is like, and how much may go wrong in it.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// How many permits each borrower wants.
    pub(super) wants: &'static [u32],
    pub(super) maximum: u8,
    /// Whether the first borrower keeps what it has got for ever.
    pub(super) keeper: bool,
    /// Whether the last borrower only tries.
    pub(super) trier: bool,
    /// Whether the first has to make the directories and the maximum.
    pub(super) fresh: bool,
    /// Connections cut, sessions expired, nodes deleted by somebody else.
    pub(super) faults: usize,
    /// Requests that the server refuses, or answers with garbage.
    pub(super) refusals: usize,
    /// Borrowers that let go before they have the permits.
    pub(super) impatient: usize,
    /// What the maximum may be changed to, one after another.
    pub(super) changes: &'static [Option<u8>],
    pub(super) flaw: Option<Flaw>,
}

/// What is broken on purpose, to see that it would be noticed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Leases are counted before ours are created, not behind.
    CountedBeforeCreated,
    /// Of all leases only the one `maximum` before ours is watched.
    OneLeaseWatched,
    /// Who wants two permits borrows one, leaves the queue, and borrows another.
    OneAtATime,
    /// That the maximum changes is not told.
    MaximumUnwatched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The server answers the next request of this borrower.
    Serve(usize),
    Timer(usize),
    LetGo(usize),
    /// The server refuses the next request, or carries it out and answers with garbage.
    Refuse(usize, Refusal),
    /// The connection goes, and with it all that was not heard. Of what was not answered, so much
    /// has its effect.
    Cut {
        borrower: usize,
        applied: usize,
    },
    Resume(usize),
    Expire(usize),
    /// Somebody deletes a node.
    Meddle(NodeId),
    /// The maximum becomes the next one.
    Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Refusal {
    ForNow,
    ForGood,
    Garbage,
}

/// What is to happen somewhere in every world that is large enough for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sight {
    Acquired(usize),
    Adopted,
    CreatedAgain,
    Resumed,
    LostToMeddling,
    LostToExpiry,
    Vanished,
    ReleasedBeforeAcquired,
    Busy,
    NoConnection,
    Refused,
    TooMany,
    OtherMaximum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Target {
    Node(NodeId),
    Leases,
    Maximum,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Wish {
    /// A place in the queue.
    Enter,
    /// So many leases.
    Lease(u32),
    CreateMaximum(u8),
    Directory(Kind, bool),
    List(Kind),
    Sync,
    Stat(NodeId),
    Watch(Target),
    Delete(NodeId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Place,
    Lease,
}

#[derive(Clone, Copy, Hash)]
enum Answer {
    Done,
    /// The first of the nodes that were created.
    Created(NodeId),
    No(ErrorCode),
    Garbage,
    Lost,
    Ended,
}

#[derive(Clone, Hash)]
struct Node {
    kind: Kind,
    number: i32,
    owner: usize,
    created: Index,
    deleted: Option<Index>,
}

impl Node {
    fn exists_at(&self, index: Index) -> bool {
        self.created <= index && self.deleted.is_none_or(|deleted| deleted > index)
    }
}

#[derive(Clone)]
pub(super) struct World {
    bounds: Bounds,
    faults: usize,
    refusals: usize,
    impatient: usize,
    changes: usize,
    nodes: Vec<Node>,
    log: Index,
    /// Which directories there are.
    directories: Vec<Kind>,
    /// All that the maximum ever was, and since when.
    maximum: Vec<(Index, Option<u8>)>,
    leases_changed: Index,
    parties: Vec<Party>,
    sights: BTreeSet<Sight>,
}

fn guid(borrower: usize) -> Uuid {
    Uuid::from_u128(borrower as u128 + 1)
}

fn session(borrower: usize) -> SessionId {
    SessionId(borrower as i64 + 1)
}

impl World {
    pub(super) fn new(bounds: Bounds) -> Self {
        let one_at_a_time = bounds.flaw == Some(Flaw::OneAtATime);
        let wants = |wants: u32| if one_at_a_time { 1 } else { wants };
        let parties = bounds.wants.iter().enumerate();
        let parties = parties.map(|(place, want)| Party::new(place, &bounds, wants(*want)));
        let kinds = if bounds.fresh { Vec::new() } else { [Kind::Place, Kind::Lease].into() };
        let mut world = Self {
            bounds,
            faults: bounds.faults,
            refusals: bounds.refusals,
            impatient: bounds.impatient,
            changes: 0,
            nodes: Vec::new(),
            log: 0,
            directories: kinds,
            maximum: alloc::vec![(0, Some(bounds.maximum).filter(|_| !bounds.fresh))],
            leases_changed: 0,
            parties: parties.collect(),
            sights: BTreeSet::new(),
        };
        for borrower in 0..world.parties.len() {
            world.perform(borrower, None, None).expect("nothing has happened");
        }
        world
    }
}

impl search::World for World {
    type Action = Action;
    type Sight = Sight;

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.faults, self.refusals, self.impatient, self.changes).hash(&mut hasher);
        (&self.nodes, self.log, &self.directories, &self.maximum).hash(&mut hasher);
        (self.leases_changed, &self.parties).hash(&mut hasher);
        hasher.finish()
    }

    fn actions(&self) -> (Vec<Action>, Vec<Action>) {
        let (mut steps, mut faults) = (Vec::new(), Vec::new());
        for (borrower, party) in self.parties.iter().enumerate() {
            if party.machine.is_done() {
                continue;
            }
            if party.connected && party.line.unserved() > 0 {
                steps.push(Action::Serve(borrower));
                if self.refusals > 0 {
                    let wish = party.line.next();
                    let refuse = |refusal: &Refusal| Action::Refuse(borrower, *refusal);
                    faults.extend(wish.refusals().iter().map(refuse));
                }
            }
            self.local_actions(borrower, &mut steps, &mut faults);
            if !party.connected && !party.line.ended {
                steps.push(Action::Resume(borrower));
            }
            if self.faults > 0 && party.connected {
                let unserved = party.line.unserved();
                faults.extend((0..=unserved).map(|applied| Action::Cut { borrower, applied }));
            }
            if self.faults > 0 && !party.connected && !party.line.expired {
                faults.push(Action::Expire(borrower));
            }
        }
        if self.faults > 0 {
            let there = |node: &NodeId| self.nodes[*node].exists_at(self.log);
            faults.extend((0..self.nodes.len()).filter(there).map(Action::Meddle));
        }
        if self.changes < self.bounds.changes.len() {
            faults.push(Action::Change);
        }
        // Where nothing can go wrong any more, time passes when nothing else is to be done.
        if !self.is_calm() || steps.is_empty() {
            let timers = (0..self.parties.len()).filter(|borrower| self.parties[*borrower].timer);
            steps.extend(timers.map(Action::Timer));
        }
        (steps, faults)
    }

    fn after(&self, action: Action) -> Result<Self, String> {
        let mut world = self.clone();
        match action {
            Action::Serve(borrower) => world.serve_all(borrower)?,
            Action::Refuse(borrower, refusal) => {
                world.refusals -= 1;
                world.refuse(borrower, refusal);
            }
            Action::Timer(borrower) => {
                world.parties[borrower].timer = false;
                world.perform(borrower, Some(Input::Timer), None)?;
            }
            Action::LetGo(borrower) => {
                let party = &mut world.parties[borrower];
                party.let_go = true;
                world.impatient -= usize::from(party.told == Told::Nothing);
                world.perform(borrower, Some(Input::LetGo), None)?;
            }
            Action::Cut { borrower, applied } => {
                world.faults -= 1;
                world.cut(borrower, applied);
            }
            Action::Resume(borrower) => world.resume(borrower),
            Action::Expire(borrower) => {
                world.faults -= 1;
                world.expire(borrower);
            }
            Action::Meddle(node) => {
                world.faults -= 1;
                world.delete(node);
            }
            Action::Change => {
                let maximum = world.bounds.changes[world.changes];
                world.changes += 1;
                world.change_maximum(maximum);
            }
        }
        world.hear_all()?;
        world.check()?;
        Ok(world)
    }

    fn check_end(&self) -> Result<(), String> {
        self.check_nobody_waits()
    }

    fn take_sights(&mut self) -> BTreeSet<Sight> {
        core::mem::take(&mut self.sights)
    }
}

impl World {
    fn is_calm(&self) -> bool {
        self.faults == 0 && self.refusals == 0
    }

    fn local_actions(&self, borrower: usize, steps: &mut Vec<Action>, faults: &mut Vec<Action>) {
        let party = &self.parties[borrower];
        let keeps = self.bounds.keeper && borrower == 0;
        let has_all = match (self.bounds.flaw, party.partner) {
            (Some(Flaw::OneAtATime), None) => false,
            (_, partner) => partner.is_none_or(|partner| {
                self.parties[partner].holds() || self.parties[partner].let_go
            }),
        };
        match party.told {
            _ if party.let_go => {}
            Told::Held | Told::Suspended if !keeps && has_all => {
                steps.push(Action::LetGo(borrower));
            }
            Told::Nothing if self.impatient > 0 => faults.push(Action::LetGo(borrower)),
            _ => {}
        }
    }

    /// What is read behind a write may as well be read at once, for others could have come in
    /// before the write; unless something can go wrong in between.
    fn serve_all(&mut self, borrower: usize) -> Result<(), String> {
        let party = &self.parties[borrower];
        let mut asked = party.line.unserved();
        let together = self.is_calm() || self.parties.len() > 1;
        loop {
            self.serve(borrower);
            self.hear_all()?;
            asked -= 1;
            let party = &self.parties[borrower];
            let next =
                party.line.asked.front().filter(|_| asked > 0 && together && party.connected);
            if next.is_none_or(|(_, wish)| wish.is_write()) {
                return Ok(());
            }
        }
    }

    fn hear_all(&mut self) -> Result<(), String> {
        while let Some(borrower) = self.parties.iter().position(|party| party.line.has_news()) {
            self.hear(borrower)?;
        }
        Ok(())
    }
}
