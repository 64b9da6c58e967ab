//! Runs of what lasts beyond a session: candidates of an election, and nodes that are kept alive.
//!
//! Clients renew their sessions, which expire now and then. After every step, nothing that a client
//! believes to hold may be that of an earlier session, and nobody leads whose lease has ended. In the
//! end, each candidate is in the queue again, and each node exists.

use alloc::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;
use zk_proto::{SessionId, Zxid};
use zk_recipes::LockError;
use zk_recipes::machine::{
    AttemptConfig, ElectionMachine, EphemeralMachine, Event, Input, Machine, Observer, OnSession,
    Output, Scheme,
};
use zk_session::State;
use zk_session::dispatch::{Key, Port};

use super::*;

const CLIENTS: usize = 3;
const ELECTION: &str = "/election";
/// The time with faults.
const FAULTY: Duration = Duration::from_secs(20);
/// The time within which everything must be held again after the last fault.
const GRACE: Duration = Duration::from_secs(60);
/// The quiet time after the release of everything.
const REST: Duration = Duration::from_secs(20);

/// A bug of what lasts, which the oracle must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Takes the renewal of the session for its resumption.
    KeepsHolding,
    /// Ends with its session.
    EndsWithSession,
    /// Ignores the end of the lease.
    IgnoresLeases,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Lasting {
    /// How often sessions were renewed.
    pub renewals: u64,
    /// How often something was acquired.
    pub acquisitions: u64,
    /// All violations of guarantees.
    pub violations: Vec<String>,
}

/// What a machine has reported.
#[derive(Debug, Default)]
struct Reported {
    /// The session and the path of the node that is held.
    held: Option<(SessionId, String)>,
    last: Zxid,
    acquisitions: u64,
    violations: Vec<String>,
}

#[derive(Clone, Debug)]
struct Watcher {
    parent: &'static str,
    reported: Arc<Mutex<Reported>>,
}

impl Watcher {
    fn reported(&self) -> MutexGuard<'_, Reported> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Watcher {
    fn observe(&mut self, event: Event, port: &mut Port<'_>) {
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
                reported.acquisitions += 1;
            }
            // A server that is silent at the release: the node must be gone in the end nevertheless.
            Event::Lost(_) | Event::Released | Event::Failed(LockError::NotConfirmed(_)) => {
                reported.held = None;
            }
            Event::Failed(error) => reported.violations.push(format!("failed: {error}")),
            _ => {}
        }
    }
}

/// A machine with a flaw.
#[derive(Debug)]
struct Flawed<M>(M, Option<Flaw>);

impl<M: Machine> Machine for Flawed<M> {
    fn handle(&mut self, input: Input) {
        if matches!(input, Input::LeaseEnded) && self.1 == Some(Flaw::IgnoresLeases) {
            return;
        }
        self.0.handle(match input {
            Input::Session(State::Renewing) if self.1 == Some(Flaw::KeepsHolding) => {
                Input::Session(State::Suspended)
            }
            input => input,
        });
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.0.poll_output()
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    fn outlives_session(&self) -> bool {
        self.1 != Some(Flaw::EndsWithSession) && self.0.outlives_session()
    }
}

/// A machine of a client.
struct Attached {
    client: usize,
    key: Key,
    watcher: Watcher,
}

impl Attached {
    fn new<M: Machine + Send + 'static>(
        sim: &mut Sim,
        client: usize,
        (parent, path): (&'static str, String),
        flaw: Option<Flaw>,
        make: fn(AttemptConfig) -> M,
    ) -> Option<Self> {
        let watcher = Watcher { parent, reported: Arc::default() };
        let (observer, random) = (watcher.clone(), sim.rng.u128(..));
        let key = sim.with(client, |now, it| {
            let guid = Uuid::from_u128(random);
            let config = AttemptConfig::new(path.into(), Scheme::CURATOR_LEADER, guid, it.id());
            let machine = OnSession::new(Flawed(make(config), flaw), observer, random as u64);
            it.attach_lasting(now, Box::new(machine))
        })?;
        Some(Self { client, key, watcher })
    }

    /// Returns whether its client's present session owns the node that it holds.
    fn is_held(&self, sim: &Sim) -> bool {
        let held = self.watcher.reported().held.clone();
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
        let held = attached.watcher.reported().held.clone();
        let (Some(client), Some((session, path))) = (sim.client(attached.client), held) else {
            continue;
        };
        if client.id() != session || client.state() == State::Renewing {
            violations.push(format!("{path} of {session} is held across sessions"));
        }
        // A node that is kept alive may outlive the lease: nobody waits for it.
        if attached.watcher.parent != ELECTION {
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
        let of_kind = move |attached: &&Attached| (attached.watcher.parent == ELECTION) == election;
        all.iter().filter(of_kind).filter(|attached| attached.is_held(sim)).count()
    };
    let candidates = sim.ensemble.node(ELECTION).map_or(0, |node| node.children().count());
    candidates == CLIENTS && held(true) == 1 && held(false) == CLIENTS
}

/// Executes a run from a seed.
pub fn run_lasting(seed: u64, flaw: Option<Flaw>) -> Lasting {
    let options = Options { seed, clients: CLIENTS, renew: true, ..Options::default() };
    let mut sim = Sim::new(options.clone());
    let mut all = Vec::new();
    for client in 0..CLIENTS {
        let election = (ELECTION, ELECTION.to_owned());
        let here = ("/here", format!("/here/{client}"));
        all.extend(Attached::new(&mut sim, client, election, flaw, ElectionMachine::new));
        all.extend(Attached::new(&mut sim, client, here, flaw, EphemeralMachine::new));
    }
    let mut rng = fastrand::Rng::with_seed(!seed);
    let window = (Duration::from_millis(500), FAULTY);
    for (at, fault) in Fault::draw(&mut rng, &options, 12, window) {
        // A client that crashes takes its machines along, lost events delay the end for minutes,
        // and third parties may forbid a node for good.
        let is_left_out = matches!(
            fault,
            Fault::Crash(..)
                | Fault::Swallow(_)
                | Fault::Forbid(..)
                | Fault::Clean(_)
                | Fault::Contend(..)
        );
        if !is_left_out {
            sim.schedule(at, fault);
        }
    }
    for _ in 0..4 {
        let at =
            window.0 + Duration::from_micros(rng.u64(..(window.1 - window.0).as_micros() as u64));
        sim.schedule(at, Fault::Expire(rng.usize(..CLIENTS)));
    }
    let mut violations = Vec::new();
    let mut watch = |sim: &Sim| check(sim, &all, &mut violations);
    sim.run_until(FAULTY, |sim| {
        watch(sim);
        false
    });
    sim.heal();
    let is_complete = sim.run_until(GRACE, |sim| {
        watch(sim);
        is_complete(sim, &all)
    });
    if !is_complete {
        violations.push("not everything is held again".to_owned());
    }
    let renewals = sim.renewals();
    for Attached { client, key, .. } in &all {
        sim.with(*client, |now, it| it.release_lasting(now, *key));
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
    violations.extend(sim.report().violations);
    let mut acquisitions = 0;
    for attached in &all {
        let mut reported = attached.watcher.reported();
        acquisitions += reported.acquisitions;
        violations.append(&mut reported.violations);
    }
    violations.dedup();
    Lasting { renewals, acquisitions, violations }
}

impl Sim {
    fn renewals(&self) -> u64 {
        let clients = self.slots.iter().filter_map(|slot| slot.machine.as_ref());
        clients.map(|client| client.renewals()).sum()
    }
}
