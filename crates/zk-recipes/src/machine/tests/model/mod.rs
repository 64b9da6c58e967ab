//! A small world for any machine: one server, and for each party a session that is cut, resumes and
//! expires. What may go wrong is taken from a budget, so the world is finite.
//!
//! Whatever is answered or told is heard at once: what a party does then touches nobody else before
//! its next request is served, and what a cut takes away is as good as never answered. For members
//! that lag, and news that is late, see `world`.

mod tree;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::rc::Rc;
use core::fmt::{Debug, Write};
use core::hash::{Hash, Hasher};
use std::hash::DefaultHasher;

use zk_session::Outcome;

use super::search;
use super::*;
use tree::SessionWatch;
pub(super) use tree::Tree;

/// What is played: the machines, what their callers may do, and what must always be.
pub(super) trait Play: Clone + Hash {
    type Machine: Machine + Clone;

    /// The directory, which is there.
    const DIRECTORY: &'static str;

    /// A node that is left over from before, if any.
    fn left_over(&self) -> Option<&'static str> {
        None
    }

    fn machine(&self, contest: Contest) -> Self::Machine;

    /// What the caller of this party does at last, if nothing keeps it from that; and what it may
    /// also do.
    fn acts(&self, party: usize) -> (Option<Act>, Option<Act>);

    /// The caller has done so.
    fn acted(&mut self, party: usize, act: Act);

    /// The machine tells this.
    fn told(&mut self, party: usize, event: &Event, tree: &Tree) -> Result<(), String>;

    /// Whether it was told how it has ended.
    fn is_over(&self, party: usize) -> bool;

    /// Looks at what there is now.
    fn check(&mut self, tree: &Tree) -> Result<(), String>;

    fn take_sights(&mut self) -> BTreeSet<&'static str>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Leave,
    LetGo,
}

/// How much may go wrong.
#[derive(Clone, Copy, Default)]
pub(super) struct Budget {
    /// Connections cut and sessions expired.
    pub(super) faults: usize,
    /// Nodes deleted by somebody else.
    pub(super) meddling: usize,
    /// Sessions that the ensemble need not keep any longer.
    pub(super) leases: usize,
    /// Callers that do what they may also do.
    pub(super) whims: usize,
    /// Whether time passes only when nothing else is to be done, even while things may go wrong.
    pub(super) slow_clocks: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// The server answers the next request of this party.
    Serve(usize),
    Timer(usize),
    Act(usize, Act),
    /// The connection goes. Of what was not answered, so much has its effect.
    Cut {
        party: usize,
        applied: usize,
    },
    Resume(usize),
    Expire(usize),
    LeaseEnds(usize),
    /// Somebody deletes this one of the nodes of sessions.
    Meddle(usize),
}

#[derive(Clone)]
struct Party<M> {
    machine: Rc<M>,
    /// Stands for the state of `machine`.
    fingerprint: u64,
    connected: bool,
    /// As the ensemble knows it.
    expired: bool,
    timer: bool,
    /// Requests without an answer, the oldest first.
    asked: VecDeque<(OpId, Operation)>,
    watches: Vec<SessionWatch>,
    /// The newest transaction before the connection was lost.
    seen: i64,
}

impl<M: Machine> Hash for Party<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { fingerprint, connected, expired, timer, watches, seen, .. } = self;
        (fingerprint, connected, expired, timer, watches, seen).hash(state);
        for (op, operation) in &self.asked {
            op.hash(state);
            digest(operation).hash(state);
        }
    }
}

#[derive(Clone)]
pub(super) struct Model<P: Play> {
    pub(super) play: P,
    faults: usize,
    meddling: usize,
    leases: usize,
    whims: usize,
    slow_clocks: bool,
    tree: Tree,
    parties: Vec<Party<P::Machine>>,
}

/// Guids that are far enough from each other for several attempts of each party.
fn guid(party: usize) -> Uuid {
    Uuid::from_u128((party as u128 + 1) << 8)
}

fn session(party: usize) -> SessionId {
    SessionId(party as i64 + 1)
}

/// Stands for all that matters about something.
fn digest(value: &impl Debug) -> u64 {
    search::fingerprint(|text| write!(text, "{value:?}"))
}

impl<P: Play> search::World for Model<P> {
    type Action = Action;
    type Sight = &'static str;

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.faults, self.meddling, self.leases, self.whims).hash(&mut hasher);
        (&self.play, &self.tree, &self.parties).hash(&mut hasher);
        hasher.finish()
    }

    fn actions(&self) -> (Vec<Action>, Vec<Action>) {
        let (mut steps, mut faults) = (Vec::new(), Vec::new());
        for (index, party) in self.parties.iter().enumerate() {
            if party.machine.is_done() {
                continue;
            }
            if party.connected && !party.asked.is_empty() {
                steps.push(Action::Serve(index));
            }
            let (will, may) = self.play.acts(index);
            steps.extend(will.map(|act| Action::Act(index, act)));
            if self.whims > 0 {
                faults.extend(may.map(|act| Action::Act(index, act)));
            }
            if !party.connected {
                steps.push(Action::Resume(index));
            }
            if self.faults > 0 && party.connected {
                let cut = |applied| Action::Cut { party: index, applied };
                faults.extend((0..=party.asked.len()).map(cut));
            }
            if self.faults > 0 && !party.connected && !party.expired {
                faults.push(Action::Expire(index));
            }
            if self.leases > 0 {
                faults.push(Action::LeaseEnds(index));
            }
        }
        if self.meddling > 0 {
            faults.extend((0..self.tree.owned().count()).map(Action::Meddle));
        }
        if steps.is_empty() || !self.slow_clocks && self.faults + self.meddling > 0 {
            let timers = (0..self.parties.len()).filter(|party| self.parties[*party].timer);
            steps.extend(timers.map(Action::Timer));
        }
        (steps, faults)
    }

    fn after(&self, action: Action) -> Result<Self, String> {
        let mut model = self.clone();
        match action {
            Action::Serve(party) => model.serve(party)?,
            Action::Timer(party) => {
                model.parties[party].timer = false;
                model.perform(party, Some(Input::Timer))?;
            }
            Action::Act(party, act) => {
                model.whims -= usize::from(self.play.acts(party).0 != Some(act));
                model.play.acted(party, act);
                let input = match act {
                    Act::Leave => Input::Leave,
                    Act::LetGo => Input::LetGo,
                };
                model.perform(party, Some(input))?;
            }
            Action::Cut { party, applied } => {
                model.faults -= 1;
                model.cut(party, applied)?;
            }
            Action::Resume(party) => model.resume(party)?,
            Action::Expire(party) => {
                model.faults -= 1;
                model.parties[party].expired = true;
                model.tree.expire(party);
            }
            Action::LeaseEnds(party) => {
                model.leases -= 1;
                model.perform(party, Some(Input::LeaseEnded))?;
            }
            Action::Meddle(place) => {
                model.meddling -= 1;
                let path = model.tree.owned().nth(place).expect("a node").0.to_string();
                model.tree.delete(&path).expect("it is there");
            }
        }
        model.tell_events()?;
        model.play.check(&model.tree)?;
        Ok(model)
    }

    fn check_end(&self) -> Result<(), String> {
        match self.parties.iter().position(|party| !party.machine.is_done()) {
            Some(party) => Err(format!("{party} waits for ever")),
            None => Ok(()),
        }
    }

    fn take_sights(&mut self) -> BTreeSet<&'static str> {
        self.play.take_sights()
    }
}

impl<P: Play> Model<P> {
    pub(super) fn new(play: P, scheme: Scheme, parties: usize, budget: Budget) -> Self {
        let Budget { faults, meddling, leases, whims, slow_clocks } = budget;
        let party = |index| {
            let directory = P::DIRECTORY.to_string();
            Party {
                machine: Rc::new(play.machine(Contest::new(
                    directory,
                    scheme,
                    guid(index),
                    session(index),
                ))),
                fingerprint: 0,
                connected: true,
                expired: false,
                timer: false,
                asked: VecDeque::new(),
                watches: Vec::new(),
                seen: 0,
            }
        };
        let all: Vec<_> = (0..parties).map(party).collect();
        let tree = Tree::with([P::DIRECTORY].into_iter().chain(play.left_over()));
        let mut model =
            Self { play, faults, meddling, leases, whims, slow_clocks, tree, parties: all };
        for index in 0..parties {
            model.perform(index, None).expect("nothing has happened");
        }
        model
    }

    /// Gives the machine an input and does what it wants.
    fn perform(&mut self, index: usize, input: Option<Input>) -> Result<(), String> {
        let mut machine = (*self.parties[index].machine).clone();
        if let Some(input) = input {
            machine.handle(input);
        }
        while let Some(output) = machine.poll_output() {
            let party = &mut self.parties[index];
            match output {
                Output::SetTimer(_) => party.timer = true,
                Output::Settle => machine.handle(Input::Settled),
                Output::Unwatch(op) => party.watches.retain(|watch| watch.op != op),
                Output::Submit { op, operation } => {
                    if operation.watches() {
                        let path = operation.path().to_string();
                        party.watches.push(SessionWatch { op, path, watched: None });
                    }
                    party.asked.push_back((op, operation));
                }
                Output::Event(event) => self.play.told(index, &event, &self.tree)?,
            }
        }
        let done = machine.is_done();
        let party = &mut self.parties[index];
        party.fingerprint = digest(&machine);
        party.machine = Rc::new(machine);
        if done { self.finish(index) } else { Ok(()) }
    }

    /// Nothing that is still outstanding may matter.
    fn finish(&mut self, index: usize) -> Result<(), String> {
        let party = &mut self.parties[index];
        let creating = |(_, asked): &(OpId, Operation)| {
            asked.with_request(|request| matches!(request, Request::Create2(_)))
        };
        if !self.play.is_over(index) {
            return Err(format!("{index} is done and has not told how"));
        }
        if !party.expired && !party.watches.is_empty() {
            return Err(format!("{index} is done and leaves a watch"));
        }
        let leaves_node = self.tree.owned().any(|(_, owner)| owner == index);
        if !party.expired && (leaves_node || party.asked.iter().any(creating)) {
            return Err(format!("{index} is done and leaves a node"));
        }
        party.timer = false;
        party.asked.clear();
        party.watches.clear();
        Ok(())
    }

    fn serve(&mut self, index: usize) -> Result<(), String> {
        let party = &mut self.parties[index];
        let (op, operation) = party.asked.pop_front().expect("a request");
        let tree = &mut self.tree;
        let (result, watched) = operation.with_request(|request| tree.execute(index, request));
        let is_set = result.is_ok() || watched == tree::Watched::Absence;
        match party.watches.iter_mut().find(|watch| watch.op == op) {
            Some(watch) if is_set => watch.watched = Some(watched),
            _ => party.watches.retain(|watch| watch.op != op),
        }
        self.perform(index, Some(Input::Reply { op, result }))
    }

    fn tell_events(&mut self) -> Result<(), String> {
        while !self.tree.events.is_empty() {
            let (path, event_type) = self.tree.events.remove(0);
            for index in 0..self.parties.len() {
                let party = &mut self.parties[index];
                let told = |watch: &mut SessionWatch| watch.is_told(&path, event_type);
                if party.connected {
                    let told: Vec<_> = party.watches.extract_if(.., told).collect();
                    self.tell(index, told.into_iter().map(|watch| (watch.op, event_type)))?;
                }
            }
        }
        Ok(())
    }

    fn tell(
        &mut self,
        index: usize,
        events: impl Iterator<Item = (OpId, EventType)>,
    ) -> Result<(), String> {
        for (op, event_type) in events {
            self.perform(index, Some(Input::Watch { op, event_type }))?;
        }
        Ok(())
    }

    // ---- The session ---------------------------------------------------------------------------

    fn cut(&mut self, index: usize, applied: usize) -> Result<(), String> {
        let party = &mut self.parties[index];
        party.connected = false;
        party.seen = self.tree.zxid;
        party.watches.retain(|watch| watch.watched.is_some());
        let asked: Vec<_> = party.asked.drain(..).collect();
        for (_, operation) in asked.iter().take(applied) {
            operation.with_request(|request| drop(self.tree.execute(index, request)));
        }
        for (op, _) in asked {
            self.perform(index, Some(Input::Reply { op, result: lost() }))?;
        }
        self.perform(index, Some(Input::Session(State::Suspended)))
    }

    fn resume(&mut self, index: usize) -> Result<(), String> {
        let party = &mut self.parties[index];
        party.connected = true;
        if !party.expired {
            let connected = State::Connected { member: 0, session: session(index) };
            self.perform(index, Some(Input::Session(connected)))?;
            return self.tell_missed(index);
        }
        for (op, _) in core::mem::take(&mut party.asked) {
            let ended = Error::Ended { end: End::Expired, outcome: Outcome::NotApplied };
            self.perform(index, Some(Input::Reply { op, result: Err(ended) }))?;
        }
        self.perform(index, Some(Input::Session(State::Ended(End::Expired))))?;
        match self.parties[index].machine.is_done() {
            true => Ok(()),
            false => Err(format!("{index} outlives its session")),
        }
    }

    fn tell_missed(&mut self, index: usize) -> Result<(), String> {
        let party = &mut self.parties[index];
        let (tree, seen) = (&self.tree, party.seen);
        let missed = |watch: &SessionWatch| Some((watch.op, tree.missed(watch, seen)?));
        let missed: Vec<_> = party.watches.iter().filter_map(missed).collect();
        party.watches.retain(|watch| !missed.iter().any(|(op, _)| *op == watch.op));
        self.tell(index, missed.into_iter())
    }
}
