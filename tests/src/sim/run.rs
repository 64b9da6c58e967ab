//! Whole runs: from a seed to a report.

use zk_session::recording::Recording;

use super::faults::MAX_DELAY;
use super::*;

/// The time within which all requests must complete after the last fault.
const GRACE: Duration = Duration::from_secs(20);
/// The additional time for each watch event that a server may have lost. It covers the renewal of
/// three watches with the longest session timeout.
const GRACE_PER_LOSS: Duration = Duration::from_secs(120);
/// The quiet time before the final check.
const REST: Duration = Duration::from_secs(20);

/// The size of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The number of clients.
    pub clients: usize,
    /// The number of random faults.
    pub faults: usize,
    /// The end of the time with faults.
    pub faulty: Duration,
    /// The end of the time with active clients.
    pub busy: Duration,
    /// The longest reply that clients accept, in bytes.
    pub max_reply: usize,
    /// What clients acquire.
    pub targets: Targets,
    /// Whether the servers are a ClickHouse Keeper. The seed determines its age.
    pub is_keeper: bool,
}

impl Scale {
    /// Returns the scale of a short run: four clients for 13 s.
    pub fn small() -> Self {
        Self {
            clients: 4,
            faults: 20,
            faulty: Duration::from_secs(10),
            busy: Duration::from_secs(13),
            max_reply: Options::default().max_reply,
            targets: Targets::default(),
            is_keeper: false,
        }
    }

    /// Returns the scale of a long run: ten clients for 40 s.
    pub fn large() -> Self {
        Self {
            clients: 10,
            faults: 35,
            faulty: Duration::from_secs(30),
            busy: Duration::from_secs(40),
            max_reply: Options::default().max_reply,
            targets: Targets::default(),
            is_keeper: false,
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// The hash of the trace.
    pub hash: u64,
    /// The number of steps.
    pub steps: u64,
    /// The number of acquisitions.
    pub acquisitions: u64,
    /// How often each thing has happened, faults by their names.
    pub counts: BTreeMap<&'static str, u64>,
    /// All violations of guarantees.
    pub violations: Vec<String>,
}

/// Executes a run: active clients with random faults, then a time without faults, then the end of
/// all sessions. With odd seeds, clients renew their sessions.
pub fn run(seed: u64, scale: &Scale, bug: Option<Bug>, print: bool) -> Report {
    execute(scale, Options { seed, bug, print, ..Options::default() }).report()
}

/// Executes a run as [`run`] does. Returns the finished simulation with its
/// [moments](Sim::moments) and the [recordings](Sim::recordings) of its clients.
pub fn record(seed: u64, scale: &Scale, bug: Option<Bug>) -> Sim {
    let recording: Option<fn(usize) -> _> = Some(Recording::ring);
    execute(scale, Options { seed, bug, record: true, recording, ..Options::default() })
}

fn execute(scale: &Scale, options: Options) -> Sim {
    let options = Options {
        clients: scale.clients,
        max_reply: scale.max_reply,
        targets: scale.targets,
        keeper: scale
            .is_keeper
            .then(|| Keeper::ALL[(options.seed / 2) as usize % Keeper::ALL.len()]),
        is_active: true,
        renew: options.seed % 2 == 1,
        ..options
    };
    let mut sim = Sim::new(options.clone());
    sim.with(0, |now, client| {
        for call in Behaviour::setup(options.targets) {
            client.call(now, call);
        }
    });
    let mut rng = fastrand::Rng::with_seed(!options.seed);
    let window = (Duration::from_secs(1), scale.faulty);
    for (at, fault) in Fault::draw(&mut rng, &options, scale.faults, window) {
        sim.schedule(at, fault);
    }
    sim.advance(scale.faulty);
    sim.heal();
    sim.advance(scale.busy - scale.faulty);
    sim.wind_down();
    if options.targets == Targets::Recipes {
        sim.open_barrier();
    }
    let counts = sim.checker.counts();
    // A server withholds events of nodes that a client may not read.
    let losses = ["swallow", "forbid"].iter().filter_map(|fault| counts.get(fault)).sum::<u64>();
    sim.run_until(GRACE + GRACE_PER_LOSS * losses as u32, Sim::is_quiet);
    sim.advance(REST);
    sim.conclude();
    sim.close_all();
    sim
}

impl Sim {
    /// Returns whether no request and no attempt is pending.
    fn is_quiet(&self) -> bool {
        let mut clients = self.slots.iter().filter_map(|slot| slot.machine.as_ref());
        clients.all(|client| client.waiting() + client.attempts() == 0)
            && self.slots.iter().all(|slot| slot.behaviour.busy_tasks() == 0)
    }

    /// Opens the barrier when nobody can close it any more: after all requests, and after those of
    /// lost connections that are still on their way.
    fn open_barrier(&mut self) {
        self.run_until(GRACE, |sim| {
            let mut clients = sim.slots.iter().filter_map(|slot| slot.machine.as_ref());
            clients.all(|client| client.waiting() == 0)
        });
        self.advance(MAX_DELAY + Duration::from_secs(1));
        self.delete_outside(behaviour::BARRIER);
    }

    /// Stops all behaviour; clients that end are not replaced.
    fn wind_down(&mut self) {
        self.options.is_active = false;
        for slot in &mut self.slots {
            slot.behaviour.wind_down();
        }
    }

    /// Runs the final check of a quiet simulation.
    pub fn conclude(&mut self) {
        // Clients may leave half-open connections long after the last fault.
        self.reap_half_open();
        let clients: Vec<_> = self
            .slots
            .iter()
            .filter_map(|slot| Some((slot.incarnation, slot.machine.as_ref()?)))
            .collect();
        self.checker.conclude(&self.ensemble, &clients);
        for Slot { incarnation, behaviour, .. } in &self.slots {
            if behaviour.busy_tasks() > 0 {
                self.checker
                    .violated(format!("{incarnation}: {} tasks wait", behaviour.busy_tasks()));
            }
        }
        self.check();
    }

    /// Closes all sessions and checks that nothing of them is left.
    pub fn close_all(&mut self) {
        for client in 0..self.slots.len() {
            self.with(client, |now, client| client.close(now));
        }
        self.advance(Duration::from_secs(1));
        let sessions = self.ensemble.sessions().count();
        let (connections, watches) = (self.ensemble.connections(), self.ensemble.watches());
        if sessions + connections + watches > 0 {
            self.checker.violated(format!(
                "{sessions} sessions, {connections} connections and {watches} watches are left"
            ));
        }
        self.check();
    }

    /// Returns the report so far.
    pub fn report(&self) -> Report {
        Report {
            seed: self.options.seed,
            hash: self.hash(),
            steps: self.steps,
            acquisitions: self.checker.locks.acquisitions(),
            counts: self.checker.counts(),
            violations: self.checker.violations().to_vec(),
        }
    }
}
