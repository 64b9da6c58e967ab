//! A deterministic simulator: whole clients and an ensemble on a virtual clock and a virtual
//! network.
//!
//! A [`Sim`] is a number of [`SimClient`]s, each with a session, and one
//! [`Ensemble`]. Bytes between them take their time, in order; whatever
//! can happen to them, to a client or to a member is a [`Fault`]. All that is random comes from
//! one seed, and what happens at one moment happens in the order in which it was scheduled, then
//! members before clients, then clients by number. So one seed is one run, repeatable to the byte;
//! [`Sim::hash`] tells runs apart.
//!
//! After every step a [`Judge`] looks whether anybody has broken a promise. [`run`] makes a whole
//! run from a seed, and says what became of it.

mod call;
mod client;
mod faults;
mod habits;
mod judge;
mod link;
mod locks;
mod network;
mod note;
mod queue;
mod run;
mod trace;
mod watching;

use alloc::collections::BTreeMap;
use core::time::Duration;

use rustc_hash::FxHashMap;
use zk_session::session::{Action, Config};

pub use call::Call;
pub use client::SimClient;
pub use faults::{Fault, Outage};
pub use habits::Habits;
pub use judge::Judge;
pub use link::{Cut, Direction, LinkId, Tail};
pub use note::{AttemptId, CallId, Demand, Note, Quirk};
pub use run::{Report, Scale, run};

use crate::server::{self, ConnId, Ensemble, Output};
use link::{Link, Segment};
use queue::Queue;
use trace::Trace;

/// What a simulation is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides everything that is random.
    pub seed: u64,
    /// How many clients there are.
    pub clients: usize,
    /// How many members there are.
    pub members: usize,
    /// Whether clients do things of their own accord.
    pub habits: bool,
    /// Whether clients accept read-only members. Of those that have habits half of them do.
    pub read_only: bool,
    /// How long bytes take from one end to the other, at least.
    pub latency: Duration,
    /// The longest reply that clients accept, in bytes.
    pub max_reply: usize,
    /// A fault that all clients have.
    pub quirk: Option<Quirk>,
    /// Whether to print what happens.
    pub print: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            clients: 1,
            members: 3,
            habits: false,
            read_only: false,
            latency: Duration::from_micros(200),
            max_reply: Config::new(0, 0).max_reply,
            quirk: None,
            print: false,
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Sim {
    options: Options,
    now: Duration,
    queue: Queue<Occurrence>,
    rng: fastrand::Rng,
    ensemble: Ensemble,
    slots: Vec<Slot>,
    /// When each client or its habits have something to do.
    wakes: Vec<Duration>,
    incarnations: u64,
    links: FxHashMap<LinkId, Link>,
    next_link: u64,
    conns: FxHashMap<ConnId, LinkId>,
    /// Connections on which a member is asked whether it can write.
    probes: FxHashMap<ConnId, Probe>,
    /// Until when nothing arrives on the way between a client and a member.
    blocked: BTreeMap<(usize, usize, Direction), Duration>,
    judge: Judge,
    trace: Trace,
    steps: u64,
}

/// Where a client lives, and its successors when it has crashed or lost its session.
#[derive(Debug, Default)]
struct Slot {
    machine: Option<SimClient>,
    incarnation: u64,
    link: Option<LinkId>,
    /// Until then it does nothing and what it is told waits.
    paused_until: Duration,
    habits: Habits,
}

/// What has been scheduled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Occurrence {
    Arrival(LinkId, Direction),
    Fault(Fault),
    /// A member is asked whether it can write.
    Probe(Probe),
    /// It has answered that.
    Probed(Probe, bool),
    /// A member that was killed starts again.
    Restart(usize),
    /// A member that was cut off finds the others again.
    Reunite(usize),
    /// A member that was held catches up.
    Release(usize),
    /// A client begins anew in this slot.
    Begin(usize),
    /// A client that was paused goes on.
    Resume(usize),
}

/// The question of a client whether a member can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Probe {
    client: usize,
    incarnation: u64,
    member: usize,
}

/// What comes next, in the order in which things of one moment come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Scheduled,
    Ensemble,
    Client(usize),
}

impl Sim {
    /// A simulation in which every client begins at once.
    pub fn new(options: Options) -> Self {
        let config = server::Config {
            seed: options.seed,
            container_check: Duration::from_secs(7),
            read_only_mode: true,
            local_sessions: true,
            ..server::Config::members(options.members)
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
            judge: Judge::default(),
            trace: Trace::new(options.print),
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

    /// The time since the start.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// The hash of everything that went over the wire and of every moment at which it did.
    pub fn hash(&self) -> u64 {
        self.trace.hash()
    }

    /// How many steps were taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The ensemble.
    pub fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    /// A client, unless it has crashed.
    pub fn client(&self, client: usize) -> Option<&SimClient> {
        self.slots[client].machine.as_ref()
    }

    /// Who watches over everything.
    pub fn judge(&self) -> &Judge {
        &self.judge
    }

    // ---- Commands ------------------------------------------------------------------------------

    /// Has a client do something, now. `None` if there is no client at the moment.
    pub fn with<R>(
        &mut self,
        client: usize,
        command: impl FnOnce(Duration, &mut SimClient) -> R,
    ) -> Option<R> {
        let result = command(self.now, self.slots[client].machine.as_mut()?);
        self.drain_client(client);
        self.judge.look(&self.ensemble);
        Some(result)
    }

    /// Lets time pass.
    pub fn advance(&mut self, by: Duration) {
        self.run_until(by, |_| false);
    }

    /// Lets time pass until `condition` holds, but not more than `limit`. Whether it holds.
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

    /// Has the next thing happen, unless it is to happen after `until`. Whether it has.
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
                self.ensemble.handle_timeout(self.now);
                self.drain_ensemble();
            }
            Next::Client(client) => self.wake(client),
        }
        self.judge.look(&self.ensemble);
        true
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

    /// Notes when a client or its habits have something to do next.
    fn plan(&mut self, client: usize) {
        let slot = &self.slots[client];
        let timeout = slot.machine.as_ref().and_then(SimClient::poll_timeout);
        let due = timeout.into_iter().chain(slot.habits.poll_timeout()).min();
        // What arrives at this moment arrives before.
        let soonest = slot.paused_until.max(self.now);
        self.wakes[client] = due.map_or(Duration::MAX, |due| due.max(soonest));
    }

    fn wake(&mut self, client: usize) {
        self.trace.bytes(self.now, "tick of client", client as u64, &[]);
        let slot = &mut self.slots[client];
        if let Some(machine) = &mut slot.machine {
            machine.handle_timeout(self.now);
            slot.habits.act(self.now, machine);
            self.drain_client(client);
        }
        // Who has lost the session begins anew, as a service does.
        let slot = &self.slots[client];
        if slot.machine.as_ref().is_some_and(SimClient::has_ended) && self.options.habits {
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
            Occurrence::Restart(member) => self.restart(member),
            Occurrence::Reunite(member) => self.reunite(member),
            Occurrence::Release(member) => self.release(member),
            Occurrence::Begin(client) if self.slots[client].machine.is_none() => self.begin(client),
            Occurrence::Begin(_) => {}
            Occurrence::Resume(client) => self.drain_client(client),
        }
    }

    /// A client begins.
    fn begin(&mut self, client: usize) {
        self.incarnations += 1;
        let timeout = Duration::from_secs(self.rng.u64(4..=8));
        let mut config = Config::new(self.options.members, self.rng.u64(..));
        config.timeout = timeout;
        config.max_reply = self.options.max_reply;
        config.read_only = self.options.read_only || self.options.habits && self.rng.bool();
        let slot = &mut self.slots[client];
        slot.incarnation = self.incarnations;
        if self.options.habits {
            slot.habits = Habits::new(self.now, self.rng.u64(..), slot.incarnation);
        }
        slot.machine = Some(SimClient::new(self.now, config, self.options.quirk));
        self.drain_client(client);
    }

    /// A client is no more.
    fn end(&mut self, client: usize) {
        self.hang_up(client);
        let slot = &mut self.slots[client];
        slot.machine = None;
        slot.habits = Habits::default();
        self.judge.forget(slot.incarnation);
        self.plan(client);
    }
}
