//! Whole runs: a seed in, a verdict out.

use super::*;

/// So long after the last fault and the last wish everybody must have been served.
const PATIENCE: Duration = Duration::from_secs(20);
/// And so much later for each event that a server may have lost: until each of three watches has been
/// renewed, with the longest session timeout.
const PATIENCE_PER_LOSS: Duration = Duration::from_secs(120);
/// How long nothing happens before a run is judged.
const REST: Duration = Duration::from_secs(20);

/// How large a run is.
#[derive(Clone, Debug)]
pub struct Scale {
    /// How many clients there are.
    pub clients: usize,
    /// How many faults are drawn.
    pub faults: usize,
    /// How long faults happen.
    pub faulty: Duration,
    /// How long clients go on with their habits.
    pub busy: Duration,
    /// The longest reply that clients accept, in bytes.
    pub max_reply: usize,
}

impl Scale {
    /// Four clients, for as long as it takes to get into trouble and out of it.
    pub fn small() -> Self {
        Self {
            clients: 4,
            faults: 15,
            faulty: Duration::from_secs(10),
            busy: Duration::from_secs(13),
            max_reply: Options::default().max_reply,
        }
    }

    /// Ten clients for a minute.
    pub fn large() -> Self {
        Self {
            clients: 10,
            faults: 25,
            faulty: Duration::from_secs(30),
            busy: Duration::from_secs(40),
            max_reply: Options::default().max_reply,
        }
    }
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The seed that it was made from.
    pub seed: u64,
    /// The hash of everything that happened.
    pub hash: u64,
    /// How many steps there were.
    pub steps: u64,
    /// How often a lock was acquired.
    pub acquisitions: u64,
    /// How often what has happened; faults by their names.
    pub counts: BTreeMap<&'static str, u64>,
    /// Every promise that was broken.
    pub violations: Vec<String>,
}

/// Makes a run: clients with habits and a plan of faults, then a time without faults, then
/// the end of all sessions.
pub fn run(seed: u64, scale: &Scale, quirk: Option<Quirk>, print: bool) -> Report {
    let options = Options {
        seed,
        clients: scale.clients,
        max_reply: scale.max_reply,
        habits: true,
        quirk,
        print,
        ..<_>::default()
    };
    let mut sim = Sim::new(options.clone());
    sim.with(0, |now, client| {
        for call in Habits::groundwork() {
            client.call(now, call);
        }
    });
    let mut rng = fastrand::Rng::with_seed(!seed);
    let window = (Duration::from_secs(1), scale.faulty);
    for (at, fault) in Fault::draw(&mut rng, &options, scale.faults, window) {
        sim.schedule(at, fault);
    }
    sim.advance(scale.faulty);
    sim.heal();
    sim.advance(scale.busy - scale.faulty);
    sim.wind_down();
    let losses = sim.judge.counts().get("swallow").map_or(0, |count| *count as u32);
    sim.run_until(PATIENCE + PATIENCE_PER_LOSS * losses, Sim::is_quiet);
    sim.advance(REST);
    sim.conclude();
    sim.close_all();
    sim.report()
}

impl Sim {
    /// Whether nobody waits for anything.
    fn is_quiet(&self) -> bool {
        let mut clients = self.slots.iter().filter_map(|slot| slot.machine.as_ref());
        clients.all(|client| client.waiting() + client.attempts() == 0)
    }

    /// Clients begin nothing new, and none that ends is replaced.
    fn wind_down(&mut self) {
        self.options.habits = false;
        for slot in &mut self.slots {
            slot.habits.wind_down();
        }
    }

    /// Has the judge look at what is there now that all is quiet.
    pub fn conclude(&mut self) {
        // Clients may have left half-open connections long after the last fault.
        self.reap_half_open();
        let clients: Vec<_> = self
            .slots
            .iter()
            .filter_map(|slot| Some((slot.incarnation, slot.machine.as_ref()?)))
            .collect();
        self.judge.conclude(&self.ensemble, &clients);
    }

    /// Ends all sessions, after which there must be nothing left of them.
    pub fn close_all(&mut self) {
        for client in 0..self.slots.len() {
            self.with(client, |now, client| client.close(now));
        }
        self.advance(Duration::from_secs(1));
        let sessions = self.ensemble.sessions().count();
        let (connections, watches) = (self.ensemble.connections(), self.ensemble.watches());
        if sessions + connections + watches > 0 {
            self.judge.violated(format!(
                "{sessions} sessions, {connections} connections and {watches} watches are left"
            ));
        }
    }

    /// What has become of it so far.
    pub fn report(&self) -> Report {
        Report {
            seed: self.options.seed,
            hash: self.hash(),
            steps: self.steps,
            acquisitions: self.judge.locks.acquisitions(),
            counts: self.judge.counts(),
            violations: self.judge.violations().to_vec(),
        }
    }
}
