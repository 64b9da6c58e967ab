//! A contender, and the session that it has for itself.

use alloc::rc::Rc;
use core::hash::{Hash, Hasher};

use super::super::line::{self, Line};
use super::ensemble::{Answer, NodeId, Wish};
use super::*;

pub(super) type News = line::News<Wish, Answer>;

/// How a contender got the lock.
#[derive(Clone, Copy, Hash)]
pub(super) struct Grant {
    /// What it knew of the tree is of then.
    pub(super) at: Index,
    pub(super) token: Index,
    pub(super) claim: Claim,
    /// The number of its node.
    pub(super) number: i32,
}

#[derive(Clone)]
pub(super) struct Party {
    role: Role,
    /// Of the present attempt.
    pub(super) guid: usize,
    pub(super) machine: Rc<Contender>,
    /// Stands for the state of `machine`.
    fingerprint: u64,
    /// What it wants the lock with, or holds it with.
    pub(super) claim: Claim,
    pub(super) wish: Option<Claim>,
    pub(super) converting: Option<Claim>,
    /// Whether there may be a second node, for an upgrade.
    pub(super) upgrades: bool,
    pub(super) told: Told,
    pub(super) let_go: bool,
    pub(super) timer: bool,
    /// How often it has asked for a node.
    pub(super) creations: usize,
    pub(super) grant: Option<Grant>,
    pub(super) member: Option<usize>,
    pub(super) line: Line<Wish, Answer, NodeId>,
}

impl Party {
    pub(super) fn new(bounds: &Bounds, contender: usize, role: Role) -> Self {
        Self::with_precedent(bounds, contender, contender, role, None)
    }

    /// The next attempt of one that returns, which has this to rely on.
    pub(super) fn next(&self, bounds: &Bounds, contender: usize, precedent: Precedent) -> Self {
        let claim = self.role.returns.unwrap_or(self.claim);
        let role = Role { claim, wish: None, returns: None, ..self.role };
        let guid = self.guid + bounds.roles.len();
        let next = Self::with_precedent(bounds, contender, guid, role, Some(precedent));
        Self { member: self.member, line: self.line.clone(), ..next }
    }

    fn with_precedent(
        bounds: &Bounds,
        contender: usize,
        number: usize,
        role: Role,
        precedent: Option<Precedent>,
    ) -> Self {
        let (scheme, session) = (bounds.scheme, session(contender));
        let mut machine = Contender::new(Contest {
            claim: role.claim,
            entry: role.entry,
            precedent,
            ..Contest::new(DIRECTORY.to_string(), scheme, guid(number), session)
        });
        if role.entry != Entry::Queue {
            machine.handle(Input::Session(State::Connected { member: 0, session }));
        }
        machine.mistake = bounds.flaw.and_then(Flaw::mistake);
        Self {
            role,
            guid: number,
            machine: Rc::new(machine),
            fingerprint: 0,
            claim: role.claim,
            wish: role.wish,
            converting: None,
            upgrades: false,
            told: Told::Nothing,
            let_go: false,
            timer: false,
            creations: 0,
            grant: None,
            member: Some(0),
            line: Line::new(),
        }
    }

    pub(super) fn set_machine(&mut self, machine: Contender) {
        self.fingerprint = search::fingerprint(|text| machine.hash_into(text));
        self.machine = Rc::new(machine);
    }

    /// Whether it relies on having the lock. Whoever gives exclusiveness up, or does not have it
    /// yet, does not rely on that.
    pub(super) fn believes(&self) -> Option<(Claim, i32)> {
        let held = matches!(self.told, Told::Held | Told::Suspended) && !self.let_go;
        let claim = if self.converting.is_some() { Claim::Shared } else { self.claim };
        self.grant.filter(|_| held).map(|grant| (claim, grant.number))
    }

    /// What the next attempt has to rely on, if there is to be one.
    pub(super) fn precedent(&self, flaw: Option<Flaw>) -> Option<Precedent> {
        let returns = self.role.returns.is_some() && self.member.is_some() && !self.line.ended;
        let left = self.machine.precedent().filter(|_| returns)?;
        let claim = match flaw {
            Some(Flaw::PrecedentOfReader) => Claim::Exclusive,
            _ => left.claim,
        };
        // In this world it has followed so many others that it relies on it.
        Some(Precedent { claim, followed: u32::MAX, ..left })
    }

    /// Nobody listens any more.
    pub(super) fn forget(&mut self) {
        self.timer = false;
        self.line.forget();
    }
}

impl Hash for Party {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { fingerprint, guid, told, let_go, timer, creations, grant, .. } = self;
        (fingerprint, told, let_go, timer, creations, grant).hash(state);
        (guid, self.role.returns, self.claim, self.wish, self.converting, self.upgrades)
            .hash(state);
        (self.member, &self.line).hash(state);
    }
}
