//! A small world for the machine: one directory on an ensemble whose members lag, and sessions
//! that are cut, resume elsewhere and expire. Every step is an [`Action`]; what may go wrong is
//! taken from a budget, so the world is finite and can be explored as a whole.
//!
//! It is a model of what a server promises, not of one server. Transactions are ordered; a member
//! applies them in order and answers a session in order; a session does not go back in time, since
//! it resumes only where all is known that it has seen; a watch fires once, in order with replies,
//! or after a resumption in the order of paths.

mod always;
mod driving;
mod ensemble;
mod flaw;
mod party;
mod session;

use alloc::collections::BTreeSet;
use core::hash::{Hash, Hasher};
use std::hash::DefaultHasher;

use super::line::{Index, Told};
use super::search;
use super::*;
use ensemble::{Ensemble, NodeId};
pub(super) use flaw::Flaw;
use party::Party;

const DIRECTORY: &str = "/lock";

/// What a contender is about.
#[derive(Clone, Copy)]
pub(super) struct Role {
    pub(super) claim: Claim,
    pub(super) entry: Entry,
    /// What it may want to hold the lock with, once it holds it.
    pub(super) wish: Option<Claim>,
    /// With what it contends once more after it has let go, relying on its precedent, if it does.
    pub(super) returns: Option<Claim>,
}

/// How the ensemble numbers nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    Rise,
    /// They are used up.
    End,
}

/// What the world is like, and how much may go wrong in it.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) scheme: Scheme,
    pub(super) roles: &'static [Role],
    pub(super) numbers: Numbers,
    pub(super) members: usize,
    /// Connections cut, sessions expired, and nodes deleted by somebody else.
    pub(super) faults: usize,
    /// Whether somebody else may also create nodes that look like a contender's.
    pub(super) forgeries: bool,
    /// Whether somebody may also remove the directory and make it anew, when nobody is in it.
    pub(super) recreations: bool,
    /// How many nodes were in the directory before.
    pub(super) created_before: usize,
    /// Contenders that let go before they have the lock.
    pub(super) impatient: usize,
    /// Whether news of the session overtakes answers that were received before, as they do when
    /// they go through different channels.
    pub(super) overtaking: bool,
    pub(super) flaw: Option<Flaw>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The member answers the next request of this contender.
    Serve(usize),
    /// The contender hears the next thing.
    Hear(usize),
    Timer(usize),
    LetGo(usize),
    /// The holder wants the lock with another claim.
    Convert(usize, Claim),
    /// The connection goes. Of what the member had sent, so much was received; of what it had not
    /// answered, so much was sent, and of that so much has its effect.
    Cut {
        contender: usize,
        received: usize,
        sent: usize,
        applied: usize,
    },
    Resume {
        contender: usize,
        member: usize,
    },
    Expire(usize),
    /// Somebody deletes a node.
    Meddle(NodeId),
    /// Somebody creates a node with the guid of this contender.
    Forge(usize),
    /// Somebody removes the directory and makes it anew.
    Recreate,
    /// A forged node goes with the session of whoever has forged it.
    Vanish(NodeId),
    /// The member applies the next transaction.
    CatchUp {
        member: usize,
    },
}

/// What is to happen somewhere in every world that is large enough for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sight {
    Acquired(usize),
    AcquiredWithoutAnotherRequest,
    AcquiredWithoutAList,
    Returned,
    Adopted,
    CreatedAgain,
    Resumed,
    LostToMeddling,
    LostToExpiry,
    Vanished,
    ReleasedBeforeAcquired,
    HeldTogether,
    Downgraded,
    Upgraded,
    NotUpgraded,
    /// A conversion whose answer was lost was found to have worked.
    FoundConverted,
    LeftWhileConverting,
    Busy,
    NoConnection,
    Exhausted,
}

#[derive(Clone)]
pub(super) struct World {
    bounds: Bounds,
    faults: usize,
    impatient: usize,
    ensemble: Ensemble,
    parties: Vec<Party>,
    sights: BTreeSet<Sight>,
}

fn guid(contender: usize) -> Uuid {
    Uuid::from_u128(contender as u128 + 1)
}

fn session(contender: usize) -> SessionId {
    SessionId(contender as i64 + 1)
}

impl World {
    pub(super) fn new(bounds: Bounds) -> Self {
        let party = |(contender, role): (usize, &Role)| Party::new(&bounds, contender, *role);
        let mut world = Self {
            bounds,
            faults: bounds.faults,
            impatient: bounds.impatient,
            ensemble: Ensemble::new(&bounds),
            parties: bounds.roles.iter().enumerate().map(party).collect(),
            sights: BTreeSet::new(),
        };
        for contender in 0..world.parties.len() {
            world.perform(contender, None, None).expect("nothing has happened");
        }
        world
    }
}

impl search::World for World {
    type Action = Action;
    type Sight = Sight;

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.faults, self.impatient, &self.ensemble, &self.parties).hash(&mut hasher);
        hasher.finish()
    }

    fn actions(&self) -> (Vec<Action>, Vec<Action>) {
        let (mut steps, mut faults) = (Vec::new(), Vec::new());
        // What a contender does when it hears something touches nobody else before its next
        // request is served. So it may as well happen now, unless a cut can take away what is to
        // be heard, or news can overtake it.
        let safe = |party: &Party| {
            (self.faults == 0 && party.member.is_some() && party.line.has_news())
                || (!self.bounds.overtaking && !party.line.inbox.is_empty())
        };
        if let Some(contender) = self.parties.iter().position(safe) {
            self.local_actions(contender, &mut steps, &mut faults);
            return (steps, faults);
        }
        steps.extend(self.ensemble.lagging().map(|member| Action::CatchUp { member }));
        steps.extend(self.ensemble.forged().map(Action::Vanish));
        for (contender, party) in self.parties.iter().enumerate() {
            if party.machine.is_done() {
                continue;
            }
            if party.member.is_some() && party.line.unserved() > 0 {
                steps.push(Action::Serve(contender));
            }
            self.local_actions(contender, &mut steps, &mut faults);
            if party.member.is_none() && !party.line.ended {
                let members = self.ensemble.members_that_know(party.line.seen);
                steps.extend(members.map(|member| Action::Resume { contender, member }));
            }
            if self.faults > 0 {
                faults.extend(self.cuts(contender));
                if party.member.is_none() && !party.line.expired {
                    faults.push(Action::Expire(contender));
                }
                if self.bounds.forgeries {
                    faults.push(Action::Forge(contender));
                }
            }
        }
        if self.faults > 0 && self.bounds.recreations && self.ensemble.there().next().is_none() {
            faults.push(Action::Recreate);
        }
        if self.faults > 0 {
            faults.extend(self.ensemble.there().map(|(node, _)| Action::Meddle(node)));
        }
        (steps, faults)
    }

    fn after(&self, action: Action) -> Result<Self, String> {
        let mut world = self.clone();
        match action {
            Action::Serve(contender) => world.serve(contender),
            Action::Hear(contender) => world.hear(contender)?,
            Action::Timer(contender) => {
                world.parties[contender].timer = false;
                world.perform(contender, Some(Input::Timer), None)?;
            }
            Action::LetGo(contender) => {
                let party = &mut world.parties[contender];
                party.let_go = true;
                world.impatient -= usize::from(party.told == Told::Nothing);
                if party.converting.is_some() {
                    world.sights.insert(Sight::LeftWhileConverting);
                }
                world.perform(contender, Some(Input::LetGo), None)?;
            }
            Action::Convert(contender, claim) => {
                let party = &mut world.parties[contender];
                (party.wish, party.converting) = (None, Some(claim));
                world.perform(contender, Some(Input::Convert(claim)), None)?;
            }
            Action::Cut { contender, received, sent, applied } => {
                world.faults -= 1;
                world.cut(contender, received, sent, applied);
            }
            Action::Resume { contender, member } => world.resume(contender, member),
            Action::Expire(contender) => {
                world.faults -= 1;
                world.parties[contender].line.expired = true;
                world.ensemble.expire(contender);
            }
            Action::Meddle(node) => {
                world.faults -= 1;
                world.ensemble.delete(node);
            }
            Action::Forge(contender) => {
                world.faults -= 1;
                let party = &world.parties[contender];
                world.ensemble.forge(party.guid, party.claim);
            }
            Action::Recreate => {
                world.faults -= 1;
                world.ensemble.recreate();
            }
            Action::Vanish(node) => {
                world.ensemble.delete(node);
            }
            Action::CatchUp { member } => world.apply_next(member),
        }
        if world.bounds.members == 1 {
            world.catch_up(0);
        }
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
    fn local_actions(&self, contender: usize, steps: &mut Vec<Action>, faults: &mut Vec<Action>) {
        let party = &self.parties[contender];
        if party.line.has_news() {
            steps.push(Action::Hear(contender));
        }
        if party.timer {
            steps.push(Action::Timer(contender));
        }
        if party.let_go {
            return;
        }
        match party.told {
            // It can, but an answer must come without it, too.
            Told::Held | Told::Suspended if party.converting.is_some() => {
                faults.push(Action::LetGo(contender));
            }
            Told::Held | Told::Suspended => {
                steps.push(Action::LetGo(contender));
                faults.extend(party.wish.map(|claim| Action::Convert(contender, claim)));
            }
            _ if self.impatient > 0 => faults.push(Action::LetGo(contender)),
            _ => {}
        }
    }

    fn cuts(&self, contender: usize) -> Vec<Action> {
        let party = &self.parties[contender];
        let mut cuts = Vec::new();
        if party.member.is_none() {
            return cuts;
        }
        // Received and heard at once is the same as received before, unless news overtake.
        let most_received = if self.bounds.overtaking { party.line.wire.len() } else { 0 };
        let unserved = party.line.unserved();
        for received in 0..=most_received {
            for sent in 0..=unserved {
                for applied in 0..=sent {
                    cuts.push(Action::Cut { contender, received, sent, applied });
                }
            }
        }
        cuts
    }

    fn catch_up(&mut self, member: usize) {
        while self.ensemble.is_lagging(member) {
            self.apply_next(member);
        }
    }

    /// The member applies the next transaction, and tells those who watch what goes.
    fn apply_next(&mut self, member: usize) {
        let now = self.ensemble.apply_next(member);
        for id in self.ensemble.deleted_at(now) {
            for party in self.parties.iter_mut().filter(|party| party.member == Some(member)) {
                party.line.fire(id, now);
            }
        }
    }
}
