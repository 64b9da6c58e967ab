//! A deterministic simulator: whole clients and an ensemble on a virtual clock and a virtual
//! network.
//!
//! A [`Sim`] consists of [`SimClient`]s, each with a session, and one [`Ensemble`]. The network
//! delays the bytes between them and keeps their order. A [`Fault`] hits a connection, a client or
//! a server.
//!
//! One seed determines one run to the byte, and [`Sim::hash`] identifies it:
//!
//! * Every random choice comes from the seed.
//! * Occurrences of one instant happen in the order in which they were scheduled, then come the
//!   servers, then the clients by number.
//!
//! A [`Checker`] verifies all guarantees after every step. [`run`] executes a whole run from a seed
//! and returns a [`Report`].

mod barriers;
mod behaviour;
mod bug;
mod caches;
mod call;
mod checker;
mod client;
mod event;
mod faults;
mod following;
mod histories;
mod lasting;
mod link;
mod locks;
mod moment;
mod network;
mod outages;
mod outsider;
pub mod picture;
mod queue;
pub mod rare;
mod run;
mod several;
mod tasks;
mod trace;
mod watching;

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use rustc_hash::FxHashMap;
use zk_recipes::recording::{Recording, ReplayError, Ring, replay};
use zk_session::State;
use zk_session::session::{Action, Config};

pub use behaviour::{Behaviour, Targets};
pub use bug::Bug;
pub use caches::caches;
pub use call::Call;
pub use checker::Checker;
pub use client::SimClient;
pub use event::{AttemptId, CallId, ClientEvent, LockKind};
pub use faults::{Fault, Outage};
pub use following::{REPLACED, following};
pub use lasting::{Flaw, NOT_IN_LASTING, run_lasting};
pub use link::{Cut, Direction, LinkId, Tail};
pub use moment::{Moment, What};
pub use outages::{outages, reconnections};
pub use run::{Report, Scale, record, run};

use crate::server::{self, ConnId, Ensemble, Keeper, Output, Version};
use link::{Link, Segment};
use queue::Queue;
use trace::Trace;

/// One client of this many accepts only short replies, so that it reads lists in pieces.
const NARROW: u64 = 4;
/// The longest of them in bytes: a list of two contenders.
const SHORT_REPLY: usize = 190;
/// One client of this many has a small limit of pending requests, so that its session refuses some.
const LIMITED: u64 = 3;
/// This limit.
const FEW_REQUESTS: usize = 8;
/// How much faster or slower the clock of an active client may be, in millionths.
const MAX_DRIFT: i64 = 10_000;

/// Configuration of a simulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of every random choice.
    pub seed: u64,
    /// The number of clients.
    pub clients: usize,
    /// The number of servers.
    pub servers: usize,
    /// Whether clients submit requests and acquire locks on their own.
    pub is_active: bool,
    /// Whether clients accept read-only servers. Half of all active clients do anyway.
    pub read_only: bool,
    /// Whether clients renew their sessions. If not, a client that lost its session is replaced.
    pub renew: bool,
    /// Whether clients follow the configuration of the ensemble.
    pub follow: bool,
    /// The shortest time that bytes travel in one direction.
    pub latency: Duration,
    /// The longest reply that clients accept, in bytes.
    pub max_reply: usize,
    /// The release that the servers behave like.
    pub version: Version,
    /// The ClickHouse Keeper that they are, if any.
    pub keeper: Option<Keeper>,
    /// What active clients acquire.
    pub targets: Targets,
    /// A bug that all clients have.
    pub bug: Option<Bug>,
    /// Whether to print a trace.
    pub print: bool,
    /// Whether to keep the [moments](Sim::moments) of the run.
    pub record: bool,
    /// What makes the [recordings](Sim::recordings) of clients, if they are wanted. A browser has no
    /// clock for them.
    pub recording: Option<fn(usize) -> (Recording, Ring)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            clients: 1,
            servers: 3,
            is_active: false,
            read_only: false,
            renew: false,
            follow: false,
            latency: Duration::from_micros(200),
            max_reply: Config::new(0, 0).max_reply,
            version: Version::default(),
            keeper: None,
            targets: Targets::default(),
            bug: None,
            print: false,
            record: false,
            recording: None,
        }
    }
}

/// A simulation: clients, an ensemble and a network on a virtual clock.
#[derive(Debug)]
pub struct Sim {
    options: Options,
    now: Duration,
    queue: Queue<Occurrence>,
    rng: fastrand::Rng,
    ensemble: Ensemble,
    slots: Vec<Slot>,
    /// The time of the next timeout of each client or its behaviour.
    wakes: Vec<Duration>,
    incarnations: u64,
    links: FxHashMap<LinkId, Link>,
    next_link: u64,
    conns: FxHashMap<ConnId, LinkId>,
    /// Connections that probe whether a server can write.
    probes: FxHashMap<ConnId, Probe>,
    /// The end of each blockade of one direction between a client and a server.
    blocked: BTreeMap<(usize, usize, Direction), Duration>,
    /// Nodes on which a third party forbids operations.
    forbidden: BTreeSet<String>,
    checker: Checker,
    /// The number of violations in the trace.
    recorded: usize,
    trace: Trace,
    recordings: Vec<Ring>,
    steps: u64,
}

/// Holds a client, and its successors after a crash or the loss of its session.
#[derive(Debug, Default)]
struct Slot {
    machine: Option<SimClient>,
    incarnation: u64,
    link: Option<LinkId>,
    /// The end of a pause, in which the client handles no input.
    paused_until: Duration,
    /// The additional delay of bytes in each direction, and its end.
    slow: (Duration, Duration),
    behaviour: Behaviour,
}

/// A scheduled occurrence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Occurrence {
    Arrival(LinkId, Direction),
    Fault(Fault),
    /// A probe arrives at a server.
    Probe(Probe),
    /// The answer to a probe arrives: whether the server can write.
    Probed(Probe, bool),
    /// A killed server restarts.
    Restart(usize),
    /// A partitioned server rejoins the others.
    Reunite(usize),
    /// A held server catches up.
    Release(usize),
    /// A third party permits everything again.
    Permit,
    /// A new client starts in this slot.
    Begin(usize),
    /// A paused client continues.
    Resume(usize),
}

/// A client probes whether a server can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Probe {
    client: usize,
    incarnation: u64,
    server: usize,
}

/// The source of the next step, in the order within one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Scheduled,
    Ensemble,
    Client(usize),
}

impl Sim {
    /// Creates a simulation in which every client starts at once.
    pub fn new(options: Options) -> Self {
        let config = server::Config {
            seed: options.seed,
            container_check: Duration::from_secs(7),
            read_only_mode: true,
            local_sessions: true,
            version: options.version,
            client_addresses: (0..options.servers).map(following::address).collect(),
            ..server::Config::servers(options.servers)
        };
        let config = match options.keeper {
            Some(keeper) => server::Config { read_only_mode: false, ..config.with_keeper(keeper) },
            None => config,
        };
        let mut sim = Self {
            now: Duration::ZERO,
            queue: Queue::new(),
            rng: fastrand::Rng::with_seed(options.seed),
            ensemble: Ensemble::new(config),
            slots: Vec::new(),
            wakes: vec![Duration::MAX; options.clients],
            incarnations: 0,
            links: FxHashMap::default(),
            next_link: 0,
            conns: FxHashMap::default(),
            probes: FxHashMap::default(),
            blocked: BTreeMap::new(),
            forbidden: BTreeSet::new(),
            checker: Checker::default(),
            recorded: 0,
            trace: Trace::new(options.print, options.record),
            recordings: Vec::new(),
            steps: 0,
            options,
        };
        for client in 0..sim.options.clients {
            sim.slots.push(Slot::default());
            sim.begin(client);
        }
        sim
    }

    // ---- Getters -------------------------------------------------------------------------------

    /// Returns the time since the start.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Returns the hash of all bytes on the network and of their times.
    pub fn hash(&self) -> u64 {
        self.trace.hash()
    }

    /// Returns the number of steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the ensemble.
    pub fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    /// Returns a client, unless it has crashed.
    pub fn client(&self, client: usize) -> Option<&SimClient> {
        self.slots[client].machine.as_ref()
    }

    /// Returns a client that believes to hold a lock.
    pub fn holder(&self, lock: &str) -> Option<usize> {
        let (incarnation, _) = self.checker.locks.holder(lock)?;
        self.slots.iter().position(|slot| slot.incarnation == incarnation)
    }

    /// Returns what a [`picture`] shows of the run so far, if it is recorded.
    pub fn moments(&self) -> &[Moment] {
        self.trace.moments()
    }

    /// Returns the recordings of all clients so far.
    pub fn recordings(&self) -> impl Iterator<Item = Vec<u8>> {
        self.recordings.iter().map(Ring::bytes)
    }

    /// Replays the recordings of all clients. Returns the differences, and how many machines have
    /// decided again. Without recordings, there is nothing to replay.
    pub fn replay(&self) -> (Vec<ReplayError>, usize) {
        let (mut errors, mut decided) = (Vec::new(), 0);
        for recording in self.recordings() {
            match replay(&recording) {
                Ok(replayed) if replayed.repeated == 0 => decided += replayed.decided,
                Ok(replayed) => panic!("a machine is not described: {replayed:?}"),
                Err(error) => errors.push(error),
            }
        }
        assert!(decided > 0 || !errors.is_empty() || self.recordings.is_empty());
        (errors, decided)
    }

    /// Returns the checker.
    pub fn checker(&self) -> &Checker {
        &self.checker
    }

    // ---- Commands ------------------------------------------------------------------------------

    /// Runs `command` on a client. Returns `None` if the slot has no client now.
    pub fn with<R>(
        &mut self,
        client: usize,
        command: impl FnOnce(Duration, &mut SimClient) -> R,
    ) -> Option<R> {
        let result = command(self.now, self.slots[client].machine.as_mut()?);
        self.drain_client(client);
        self.check();
        Some(result)
    }

    /// Advances the clock by `by`.
    pub fn advance(&mut self, by: Duration) {
        self.run_until(by, |_| false);
    }

    /// Advances the clock until `condition` holds, by `limit` at most. Returns whether it holds.
    pub fn run_until(&mut self, limit: Duration, mut condition: impl FnMut(&Self) -> bool) -> bool {
        let until = self.now + limit;
        while !condition(self) {
            if !self.step(until) {
                self.now = until;
                return false;
            }
        }
        true
    }

    /// Schedules a fault.
    pub fn schedule(&mut self, at: Duration, fault: Fault) {
        self.queue.schedule(at, Occurrence::Fault(fault));
    }

    // ---- Steps ---------------------------------------------------------------------------------

    /// Takes the next step unless it is due after `until`. Returns whether it took one.
    fn step(&mut self, until: Duration) -> bool {
        let (at, next) = self.next();
        if at > until {
            return false;
        }
        self.now = self.now.max(at);
        self.steps += 1;
        match next {
            Next::Scheduled => {
                if let Some(occurrence) = self.queue.pop() {
                    self.occur(occurrence);
                }
            }
            Next::Ensemble => {
                self.trace.bytes(self.now, "tick of the ensemble", 0, &[]);
                self.expire_overdue();
                self.drain_ensemble();
            }
            Next::Client(client) => self.wake(client),
        }
        self.check();
        true
    }

    /// Checks the ensemble, and records the violations since the last check.
    fn check(&mut self) {
        self.checker.check(&self.ensemble);
        for violation in &self.checker.violations()[self.recorded..] {
            self.trace.moment(self.now, || What::Violation(violation.clone()));
        }
        self.recorded = self.checker.violations().len();
    }

    /// Expires sessions, and checks that no lease of theirs is open.
    fn expire_overdue(&mut self) {
        let has_expired = |ensemble: &Ensemble, client: &SimClient| {
            ensemble.session_timeout(client.id()).is_none()
        };
        let clients =
            self.slots.iter().filter_map(|it| Some((it.incarnation, it.machine.as_ref()?)));
        let alive: Vec<_> = clients.filter(|(_, it)| !has_expired(&self.ensemble, it)).collect();
        self.ensemble.handle_timeout(self.now);
        for (who, client) in alive {
            if has_expired(&self.ensemble, client)
                && let Some(lease) = client.lease().filter(|lease| *lease > self.now)
            {
                let what = format!("{who}: its session expires before its lease ends at {lease:?}");
                self.checker.violated(what);
            }
        }
    }

    fn next(&self) -> (Duration, Next) {
        let or_never = |at: Option<Duration>| at.unwrap_or(Duration::MAX);
        let scheduled = (or_never(self.queue.next_at()), Next::Scheduled);
        let ensemble = (or_never(self.ensemble.poll_timeout()), Next::Ensemble);
        let (mut client, mut at) = (0, Duration::MAX);
        for (other, wake) in self.wakes.iter().enumerate() {
            if *wake < at {
                (client, at) = (other, *wake);
            }
        }
        scheduled.min(ensemble).min((at, Next::Client(client)))
    }

    /// Updates the time of the next timeout of a client or its behaviour.
    fn plan(&mut self, client: usize) {
        let slot = &self.slots[client];
        let timeout = slot.machine.as_ref().and_then(SimClient::poll_timeout);
        let due = timeout.into_iter().chain(slot.behaviour.poll_timeout()).min();
        // Input of this instant is handled before the timeout.
        let soonest = slot.paused_until.max(self.now);
        self.wakes[client] = due.map_or(Duration::MAX, |due| due.max(soonest));
    }

    fn wake(&mut self, client: usize) {
        self.trace.bytes(self.now, "tick of client", client as u64, &[]);
        let slot = &mut self.slots[client];
        if let Some(machine) = &mut slot.machine {
            machine.handle_timeout(self.now);
            slot.behaviour.act(self.now, machine);
            self.drain_client(client);
        }
        // A client that lost its session is replaced, as a supervisor restarts a service.
        let slot = &self.slots[client];
        if slot.machine.as_ref().is_some_and(SimClient::has_ended) && self.options.is_active {
            self.end(client);
            self.queue.schedule(self.now + Duration::from_millis(50), Occurrence::Begin(client));
        }
    }

    fn occur(&mut self, occurrence: Occurrence) {
        match occurrence {
            Occurrence::Arrival(link, direction) => self.arrive(link, direction),
            Occurrence::Fault(fault) => self.inject(fault),
            Occurrence::Probe(probe) => self.arrive_probe(probe),
            Occurrence::Probed(probe, read_write) => self.arrive_probed(probe, read_write),
            Occurrence::Restart(server) => self.restart(server),
            Occurrence::Reunite(server) => self.reunite(server),
            Occurrence::Release(server) => self.release(server),
            Occurrence::Permit => self.permit_outside(),
            Occurrence::Begin(client) if self.slots[client].machine.is_none() => self.begin(client),
            Occurrence::Begin(_) => {}
            Occurrence::Resume(client) => self.drain_client(client),
        }
    }

    /// Starts a client.
    fn begin(&mut self, client: usize) {
        self.incarnations += 1;
        let timeout = Duration::from_secs(self.rng.u64(4..=8));
        let mut config = Config::new(self.options.servers, self.rng.u64(..));
        config.timeout = timeout;
        config.max_reply = self.options.max_reply;
        config.renew = self.options.renew;
        config.read_only = self.options.read_only || self.options.is_active && self.rng.bool();
        let mut drift = 0;
        if self.options.is_active {
            // A Keeper has no SASL.
            config.authenticate = self.rng.u8(..3) == 0 && self.options.keeper.is_none();
            drift = self.rng.i64(-MAX_DRIFT..=MAX_DRIFT);
            if self.incarnations.is_multiple_of(NARROW) {
                config.max_reply = config.max_reply.min(SHORT_REPLY);
            }
            if self.incarnations.is_multiple_of(LIMITED) {
                config.max_pending = FEW_REQUESTS;
            }
        }
        let slot = &mut self.slots[client];
        slot.incarnation = self.incarnations;
        if self.options.is_active {
            let seed = self.rng.u64(..);
            slot.behaviour = Behaviour::new(self.now, seed, slot.incarnation, &self.options);
        }
        let recording = self.options.recording.map(|make| {
            let (recording, ring) = make(usize::MAX);
            self.recordings.push(ring);
            recording
        });
        let bug = self.options.bug;
        let mut machine = SimClient::new(self.now, config, bug, drift, recording.as_ref());
        if self.options.follow && self.options.bug != Some(Bug::IgnoresConfig) {
            machine.follow((0..self.options.servers).map(following::named).collect());
        }
        slot.machine = Some(machine);
        self.trace.moment(self.now, || What::Begun(client));
        self.drain_client(client);
    }

    /// Removes a client.
    fn end(&mut self, client: usize) {
        self.hang_up(client);
        let slot = &mut self.slots[client];
        slot.machine = None;
        slot.behaviour = Behaviour::default();
        self.checker.forget(slot.incarnation);
        self.trace.moment(self.now, || What::Gone(client));
        self.plan(client);
    }
}
