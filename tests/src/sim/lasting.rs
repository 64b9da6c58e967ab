//! Runs of what lasts beyond a session: candidates of an election, and nodes that are kept alive.
//!
//! Clients renew their sessions, which expire now and then. After every step, nothing that a client
//! believes to hold may be that of an earlier session, and nobody leads whose lease has ended. In the
//! end, each candidate is in the queue again, and each node exists.

use alloc::sync::Arc;
use core::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;
use zk_proto::recording::Description;
use zk_proto::{Request, SessionId, Zxid};
use zk_recipes::LockError;
use zk_recipes::machine::{
    AttemptConfig, Command, ElectionMachine, EphemeralMachine, Event, Machine, Observer, OnSession,
    OpId, Scheme, Turn,
};
use zk_session::dispatch::{Input, Key, Port, Submission};
use zk_session::{End, State};

use super::*;
use crate::spied::{Spy, spied};

const CLIENTS: usize = 3;
const ELECTION: &str = "/election";
/// The time with faults.
const FAULTY: Duration = Duration::from_secs(20);
/// The time within which everything must be held again after the last fault.
const GRACE: Duration = Duration::from_secs(60);
/// The quiet time after the release of everything.
const REST: Duration = Duration::from_secs(20);

/// The faults that these runs do not have. A client that crashes takes its machines along, lost
/// events delay the end for minutes, and third parties may forbid a node for good.
pub const NOT_IN_LASTING: [&str; 6] = ["crash", "swallow", "forbid", "clean", "contend", "crowd"];

/// A bug of what lasts, which the oracle must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Takes the renewal of the session for its resumption.
    KeepsHolding,
    /// Ends with its session.
    EndsWithSession,
    /// Ignores the end of the lease.
    IgnoresLeases,
    /// Reports the end of a hold only when the servers have confirmed it.
    ReportsReleasesLate,
}

/// What a machine has reported.
#[derive(Debug, Default)]
struct Reported {
    /// The session and the path of the node that is held.
    held: Option<(SessionId, String)>,
    last: Zxid,
    counts: BTreeMap<&'static str, u64>,
    violations: Vec<String>,
}

#[derive(Clone, Debug)]
struct Reporter {
    parent: &'static str,
    flaw: Option<Flaw>,
    reported: Arc<Mutex<Reported>>,
}

impl Reporter {
    fn reported(&self) -> MutexGuard<'_, Reported> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, what: Option<&'static str>) {
        if let Some(what) = what {
            *self.reported().counts.entry(what).or_default() += 1;
        }
    }
}

impl Observer for Reporter {
    fn observe(&mut self, event: Event, port: &mut Port<'_>) {
        self.count(rare::of_lasting(self.parent == ELECTION, &event));
        let mut reported = self.reported();
        match event {
            Event::Acquired { node, token } => {
                let path = format!("{}/{node}", self.parent);
                if let Some(held) = reported.held.replace((port.session_id(), path)) {
                    reported.violations.push(format!("acquired while {held:?} is held"));
                }
                if token <= core::mem::replace(&mut reported.last, token) {
                    reported.violations.push(format!("token {token} does not rise"));
                }
            }
            // A server that is silent at the release: the node must be gone in the end nevertheless.
            Event::Releasing if self.flaw == Some(Flaw::ReportsReleasesLate) => {}
            Event::Lost(_)
            | Event::Releasing
            | Event::Released
            | Event::Failed(LockError::NotConfirmed(_) | LockError::Ended(End::Closed)) => {
                reported.held = None;
            }
            Event::Failed(error) => reported.violations.push(format!("failed: {error}")),
            _ => {}
        }
    }
}

/// A machine, perhaps with a flaw, whose rare events are counted.
#[derive(Debug)]
struct Watched<M> {
    machine: M,
    flaw: Option<Flaw>,
    notes: Notes,
}

#[derive(Debug)]
struct Notes {
    rare: rare::Watcher,
    reporter: Reporter,
}

impl Spy for RefCell<&mut Notes> {
    fn submits(&self, op: OpId, request: &Request<'_>, submission: Submission) -> bool {
        let Notes { rare, reporter } = &mut **self.borrow_mut();
        reporter.count(rare.submitted(op, request, submission));
        if let Request::Delete(delete) = request {
            let mut reported = reporter.reported();
            if let Some((_, path)) = reported.held.clone().filter(|held| held.1 == delete.path) {
                let what = format!("{path} is held, although its deletion is submitted");
                reported.violations.push(what);
            }
        }
        true
    }

    fn unwatches(&self, _: OpId) {}

    fn settles(&self) {
        self.borrow_mut().rare.settles();
    }

    fn reports(&self, event: &Event) -> bool {
        let Notes { rare, reporter } = &mut **self.borrow_mut();
        reporter.count(rare.event(event));
        true
    }
}

impl<M: Machine> Machine for Watched<M> {
    fn handle(&mut self, input: Input, turn: &mut Turn<'_>) {
        let Self { machine, flaw, notes } = self;
        notes.reporter.count(notes.rare.input(&input));
        let input = match (input, flaw) {
            (Input::LeaseEnded, Some(Flaw::IgnoresLeases)) => return,
            (Input::State(State::Renewing), Some(Flaw::KeepsHolding)) => {
                Input::State(State::Suspended)
            }
            (input, _) => input,
        };
        spied(turn, &RefCell::new(notes), |turn| machine.handle(input, turn));
    }

    fn command(&mut self, command: Command, turn: &mut Turn<'_>) {
        let Self { machine, notes, .. } = self;
        notes.reporter.count(notes.rare.command(command));
        spied(turn, &RefCell::new(notes), |turn| machine.command(command, turn));
    }

    fn is_done(&self) -> bool {
        self.machine.is_done()
    }

    fn describe(&self, description: &mut Description<'_>) {
        self.machine.describe(description);
    }

    fn outlives_session(&self) -> bool {
        self.flaw != Some(Flaw::EndsWithSession) && self.machine.outlives_session()
    }
}

/// A machine of a client.
struct Attached {
    client: usize,
    key: Key,
    reporter: Reporter,
}

impl Attached {
    fn new<M: Machine + Send + 'static>(
        sim: &mut Sim,
        client: usize,
        (parent, path): (&'static str, String),
        flaw: Option<Flaw>,
        make: fn(AttemptConfig) -> M,
    ) -> Option<Self> {
        let reporter = Reporter { parent, flaw, reported: Arc::default() };
        let (observer, random) = (reporter.clone(), sim.rng.u128(..));
        let key = sim.with(client, |now, it| {
            let guid = Uuid::from_u128(random);
            let config = AttemptConfig::new(path.into(), Scheme::CURATOR_LEADER, guid);
            let (machine, rare) = (make(config), rare::Watcher::default());
            let notes = Notes { rare, reporter: observer.clone() };
            let machine = Watched { machine, flaw, notes };
            let machine = OnSession::new(machine, observer, random as u64);
            it.attach_lasting(now, Box::new(machine))
        })?;
        Some(Self { client, key, reporter })
    }

    /// Returns whether its client's present session owns the node that it holds.
    fn is_held(&self, sim: &Sim) -> bool {
        let held = self.reporter.reported().held.clone();
        held.is_some_and(|(session, path)| {
            let node = sim.ensemble.node(&path);
            sim.client(self.client).is_some_and(|client| client.id() == session)
                && node.is_some_and(|node| node.stat().ephemeral_owner == session)
        })
    }
}

/// Checks that nothing is held across sessions, and that at most one candidate leads.
fn check(sim: &Sim, all: &[Attached], violations: &mut Vec<String>) {
    let mut leaders = 0;
    for attached in all {
        let held = attached.reporter.reported().held.clone();
        let (Some(client), Some((session, path))) = (sim.client(attached.client), held) else {
            continue;
        };
        if client.id() != session || client.state() == State::Renewing {
            violations.push(format!("{path} of {session} is held across sessions"));
        }
        // A node that is kept alive may outlive the lease: nobody waits for it.
        if attached.reporter.parent != ELECTION {
            continue;
        }
        let is_awake = sim.slots[attached.client].paused_until < sim.now;
        if is_awake && client.lease().is_some_and(|lease| lease < sim.now) {
            violations.push(format!("{path} leads after the end of the lease"));
        }
        let lives =
            sim.ensemble.leader().is_some() && sim.ensemble.session_timeout(session).is_some();
        leaders += usize::from(lives && attached.is_held(sim));
    }
    if leaders > 1 {
        violations.push(format!("{leaders} candidates lead"));
    }
}

/// Returns whether every node is kept alive, every candidate is in the queue, and one leads.
fn is_complete(sim: &Sim, all: &[Attached]) -> bool {
    let held = |election: bool| {
        let of_kind =
            move |attached: &&Attached| (attached.reporter.parent == ELECTION) == election;
        all.iter().filter(of_kind).filter(|attached| attached.is_held(sim)).count()
    };
    let candidates = sim.ensemble.node(ELECTION).map_or(0, |node| node.children().count());
    candidates == CLIENTS && held(true) == 1 && held(false) == CLIENTS
}

/// Executes a run from a seed.
pub fn run_lasting(seed: u64, flaw: Option<Flaw>) -> Report {
    let mut rng = fastrand::Rng::with_seed(!seed);
    let read_only = rng.bool();
    let options = Options {
        seed,
        clients: CLIENTS,
        renew: true,
        read_only,
        recording: (seed.is_multiple_of(8) && flaw.is_none())
            .then_some(Recording::ring as fn(_) -> _),
        ..Options::default()
    };
    let mut sim = Sim::new(options.clone());
    let mut all = Vec::new();
    for client in 0..CLIENTS {
        let election = (ELECTION, ELECTION.to_owned());
        let here = ("/here", format!("/here/{client}"));
        all.extend(Attached::new(&mut sim, client, election, flaw, ElectionMachine::new));
        all.extend(Attached::new(&mut sim, client, here, flaw, EphemeralMachine::new));
    }
    let window = (Duration::from_millis(500), FAULTY);
    for (at, fault) in Fault::draw(&mut rng, &options, 12, window) {
        if !NOT_IN_LASTING.contains(&fault.name()) {
            sim.schedule(at, fault);
        }
    }
    let mut moment = || {
        let span = (window.1 - window.0).as_micros() as u64;
        window.0 + Duration::from_micros(rng.u64(..span))
    };
    let expired = [(); 4].map(|()| moment());
    let mut deleted = [(); 4].map(|()| moment());
    deleted.sort();
    for at in expired {
        sim.schedule(at, Fault::Expire(rng.usize(..CLIENTS)));
    }
    let mut violations = Vec::new();
    let mut watch = |sim: &Sim| check(sim, &all, &mut violations);
    for until in deleted.into_iter().chain([FAULTY]) {
        sim.run_until(until - sim.now, |sim| {
            watch(sim);
            false
        });
        // Only held nodes are deleted: a waiting candidate notices the deletion of its own node
        // late, when its predecessor goes.
        let held = all.iter().filter(|attached| attached.is_held(&sim));
        let held: Vec<_> =
            held.filter_map(|it| Some(it.reporter.reported().held.clone()?.1)).collect();
        if let Some(path) = rng.choice(&held).filter(|_| until < FAULTY) {
            sim.delete_outside(path);
        }
    }
    sim.heal();
    let is_complete = sim.run_until(GRACE, |sim| {
        watch(sim);
        is_complete(sim, &all)
    });
    if !is_complete {
        violations.push("not everything is held again".to_owned());
    }
    // Half of them are released, the others close their session.
    for Attached { client, key, reporter } in &all {
        sim.with(*client, |now, it| match client % 2 {
            0 => it.release_lasting(now, *key),
            _ => it.close(now),
        });
        let held = reporter.reported().held.clone();
        violations.extend(held.map(|(_, path)| format!("{path} is held after its end began")));
    }
    sim.advance(REST);
    for parent in [ELECTION, "/here"] {
        for child in sim.ensemble.node(parent).into_iter().flat_map(|node| node.children()) {
            violations.push(format!("{parent}/{child} remains"));
        }
    }
    let attached: usize =
        (0..CLIENTS).filter_map(|client| Some(sim.client(client)?.attempts())).sum();
    if attached > 0 {
        violations.push(format!("{attached} machines remain"));
    }
    // Clients may leave half-open connections long after the last fault.
    sim.reap_half_open();
    sim.close_all();
    let mut report = sim.report();
    violations.append(&mut report.violations);
    violations.extend(sim.replay().0.iter().map(ToString::to_string));
    for attached in &all {
        let mut reported = attached.reporter.reported();
        for (what, count) in core::mem::take(&mut reported.counts) {
            *report.counts.entry(what).or_default() += count;
        }
        violations.append(&mut reported.violations);
    }
    violations.dedup();
    let acquired = ["election: leads", "kept node: made"];
    let acquisitions = acquired.iter().filter_map(|what| report.counts.get(what)).sum();
    Report { acquisitions, violations, ..report }
}
