//! A film: a run of the simulator, step by step, as JSON.

mod reading;
mod steps;

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt::Write;
use core::time::Duration;

use uuid::Uuid;
use zk_proto::diagram::Style;
use zk_proto::{CreateMode, SessionId, Zxid};
use zk_recipes::machine::AttemptConfig;
use zk_session::State;

use crate::json::{list, quoted};
use crate::sim::{AttemptId, Bug, Call, Fault, LockKind, Options, Sim, SimClient};
use crate::wire::Wire;

/// The path of the lock.
pub const LOCK: &str = "/lock";

/// The time after which a step shows that time passes.
const TICK: Duration = Duration::from_millis(1_500);
/// The time of a write from a client to the storage.
const TRIP: Duration = Duration::from_millis(1);

/// What of a film differs from the simplest one.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The seed of the run.
    pub seed: u64,
    /// The names of the clients.
    pub clients: &'static [&'static str],
    /// The number of servers.
    pub servers: usize,
    /// A bug that all clients have.
    pub bug: Option<Bug>,
    /// Whether sessions are renewed when they expire.
    pub renew: bool,
    /// Whether there is a storage, and whether it refuses old tokens.
    pub storage: Option<bool>,
}

impl Default for Setting {
    fn default() -> Self {
        let clients = &["A", "B", "C"];
        Self { seed: 5, clients, servers: 3, bug: None, renew: false, storage: None }
    }
}

/// What a client does at the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Activity {
    #[default]
    Idle,
    Enters,
    Waits,
    Holds,
    /// May hold the lock, or not.
    Unsure,
}

impl Activity {
    const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Enters => "enters",
            Self::Waits => "waits",
            Self::Holds => "holds",
            Self::Unsure => "unsure",
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Actor {
    attempt: Option<AttemptId>,
    activity: Activity,
    /// The token of the lock that it holds, or thinks to hold.
    token: Option<Zxid>,
    state: String,
    stopped_until: Duration,
}

/// A storage outside of the ensemble, which the lock protects.
#[derive(Clone, Copy, Debug)]
struct Storage {
    fences: bool,
    newest: Zxid,
}

/// A step, as JSON without the closing brace.
type Step = String;

/// A film. See the module.
#[derive(Debug)]
pub struct Film {
    setting: Setting,
    sim: Sim,
    wire: Wire,
    actors: Vec<Actor>,
    owners: BTreeMap<SessionId, usize>,
    storage: Storage,
    /// The number of watch events of each client while it waited.
    events: Vec<usize>,
    /// The number of moments that were read.
    seen: usize,
    last_step: Duration,
    steps: Vec<Step>,
    /// The parts of the state as the last step shows them.
    shown: BTreeMap<&'static str, String>,
    stops: Vec<(usize, String)>,
    /// The violations that were reported, without their numbers.
    violations: BTreeSet<String>,
    /// The client whose delete was the last change of the queue.
    deleter: Option<usize>,
    run: usize,
}

impl Film {
    /// Creates a film in which all clients are connected, and the lock path exists. `run` tells the
    /// films of one story apart.
    pub fn new(setting: Setting, run: usize) -> Self {
        let options = Options {
            clients: setting.clients.len(),
            servers: setting.servers,
            bug: setting.bug,
            record: true,
            renew: setting.renew,
            seed: setting.seed,
            ..Options::default()
        };
        let mut sim = Sim::new(options);
        sim.advance(Duration::from_secs(1));
        let (path, mode) = (LOCK.to_owned(), CreateMode::PERSISTENT);
        sim.with(0, |now, client| client.call(now, Call::Create { path, mode }));
        sim.advance(Duration::from_secs(1));
        let mut film = Self {
            setting,
            actors: vec![Actor::default(); setting.clients.len()],
            events: vec![0; setting.clients.len()],
            sim,
            wire: Wire::default(),
            owners: BTreeMap::new(),
            storage: Storage { fences: setting.storage == Some(true), newest: Zxid::ZERO },
            seen: 0,
            last_step: Duration::from_secs(2),
            steps: Vec::new(),
            shown: BTreeMap::new(),
            stops: Vec::new(),
            violations: BTreeSet::new(),
            deleter: None,
            run,
        };
        film.read();
        film.begin("All clients are connected. Nobody wants the lock yet.");
        film
    }

    /// Forgets the steps so far: the film begins here.
    pub fn begin(&mut self, text: &str) {
        self.steps.clear();
        self.shown.clear();
        self.events.fill(0);
        self.say(None, Style::Plain, text);
    }

    /// Returns the steps so far.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns how many steps come before each stop, and what it says, as JSON without braces.
    pub fn stops(&self) -> &[(usize, String)] {
        &self.stops
    }

    /// Returns the lanes and the title, as JSON.
    pub fn cast(&self, title: &str) -> String {
        let clients = list(self.setting.clients.iter().map(quoted));
        let (title, servers) = (quoted(title), self.setting.servers);
        let storage = self.setting.storage.is_some();
        format!(
            "{{\"title\":{title},\"clients\":{clients},\"servers\":{servers},\"storage\":{storage}}}"
        )
    }

    /// Returns whether a client holds the lock, as far as it knows.
    pub fn holds(&self, client: usize) -> bool {
        self.actors[client].activity == Activity::Holds
    }

    /// Returns whether a client waits in the queue.
    pub fn waits(&self, client: usize) -> bool {
        self.actors[client].activity == Activity::Waits
    }

    /// Returns whether a client has an attempt.
    pub fn contends(&self, client: usize) -> bool {
        self.actors[client].activity != Activity::Idle
    }

    /// Returns whether the process of a client is stopped.
    pub fn is_stopped(&self, client: usize) -> bool {
        self.actors[client].stopped_until > self.sim.now()
    }

    /// Returns whether the session of a client is in this state.
    pub fn reached(&self, client: usize, state: &str) -> bool {
        self.actors[client].state == state
    }

    /// Returns the server of a client, or the first one.
    pub fn server_of(&self, client: usize) -> usize {
        match self.sim.client(client).map(SimClient::state) {
            Some(State::Connected { server, .. }) => server,
            _ => 0,
        }
    }

    // ---- Stops ---------------------------------------------------------------------------------

    /// Stops here, and tells the reader something.
    pub fn tell(&mut self, text: &str) {
        self.stops.push((self.steps.len(), format!("\"text\":{}", quoted(text))));
    }

    /// Asks the reader something at the last stop. Each answer has a remark; the first answer is
    /// right, and the page mixes them.
    pub fn ask(&mut self, question: &str, answers: &[(&str, &str)]) {
        let answers = list(
            answers.iter().map(|(answer, why)| format!("[{},{}]", quoted(answer), quoted(why))),
        );
        if let Some((_, stop)) = self.stops.last_mut() {
            // Writing to a `String` does not fail.
            let _ = write!(stop, ",\"question\":{},\"answers\":{answers}", quoted(question));
        }
    }

    // ---- Commands ------------------------------------------------------------------------------

    /// Lets time pass.
    pub fn wait(&mut self, time: Duration) {
        let until = self.sim.now() + time;
        while self.sim.now() < until {
            let rest = until - self.sim.now();
            self.wait_for_step(rest);
        }
    }

    /// Lets time pass until a condition holds.
    ///
    /// # Panics
    ///
    /// If it does not hold within a minute. Then a story has to be told anew.
    pub fn until(&mut self, condition: impl Fn(&Self) -> bool) {
        let limit = self.sim.now() + Duration::from_secs(60);
        while !condition(self) {
            assert!(self.sim.now() < limit, "a condition of a story does not hold: {self:?}");
            self.wait_for_step(Duration::from_secs(1));
        }
    }

    /// Lets time pass until a stopped process continues, right before its client handles input.
    pub fn until_runs(&mut self, client: usize) {
        let until = self.actors[client].stopped_until - TRIP * 3;
        self.wait(until.saturating_sub(self.sim.now()));
        self.actors[client].stopped_until = until;
        self.say(Some(&format!("c{client}")), Style::Plain, "runs again");
    }

    /// Lets time pass until something happens, for this time at most.
    pub fn wait_for_step(&mut self, time: Duration) {
        let (until, count) = (self.sim.now() + time, self.steps.len());
        while self.sim.now() < until && self.steps.len() == count {
            let tick = self.last_step + TICK;
            let limit = until.min(tick).saturating_sub(self.sim.now());
            let seen = self.seen;
            let moved = self.sim.run_until(limit, |sim| sim.moments().len() > seen);
            self.read();
            if !moved && self.sim.now() >= tick {
                self.say(None, Style::Plain, "time passes");
            }
        }
    }

    /// A client begins to contend.
    pub fn contend(&mut self, client: usize, kind: LockKind) {
        let shares = self.setting.bug == Some(Bug::SharesGuids);
        let digit = if shares { 1 } else { client as u128 + 1 };
        let node = Uuid::from_u128(digit * (u128::MAX / 15));
        self.actors[client].attempt = self.sim.with(client, |now, client| {
            // Mixed with the session once more, it is the one of the node. The bug does that itself.
            let guid = if shares { node } else { AttemptConfig::node_guid(node, client.id()) };
            client.contend(now, LOCK, kind, guid)
        });
        self.read();
    }

    /// A client releases, or gives up.
    pub fn release(&mut self, client: usize) {
        if let Some(attempt) = self.actors[client].attempt.take() {
            self.sim.with(client, |now, client| client.release(now, attempt));
            self.read();
        }
    }

    /// A fault happens.
    pub fn inject(&mut self, fault: Fault) {
        if let Fault::Pause(client, time) = fault {
            self.actors[client].stopped_until = self.sim.now() + time;
        }
        self.sim.inject(fault);
        self.read();
    }

    /// A client that thinks to hold the lock writes to the storage with its token.
    pub fn write(&mut self, client: usize) {
        let Some(token) = self.actors[client].token else { return };
        let (now, lane) = (self.sim.now(), format!("c{client}"));
        self.sim.advance(TRIP);
        self.read();
        let before = self.storage.newest;
        self.storage.newest = before.max(token);
        let text = format!("write, token {:#x}", token.0);
        self.message(&lane, "storage", Style::Plain, &text, (now, now + TRIP));
        self.sim.advance(TRIP);
        self.read();
        let stale = token < before;
        let (style, text) = match (stale, self.storage.fences) {
            (true, true) => (Style::Error, format!("refused: token {:#x} was here", before.0)),
            _ => (Style::Reply, "written".to_owned()),
        };
        self.message("storage", &lane, style, &text, (now + TRIP, now + TRIP * 2));
        if stale && !self.storage.fences {
            let text = format!(
                "VIOLATION: a write with token {:#x} was accepted after one with {:#x}",
                token.0, before.0
            );
            self.say(Some("storage"), Style::Error, &text);
        }
    }
}
