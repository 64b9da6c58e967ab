//! A film: a run of the simulator, step by step, as JSON.

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt::Write;
use core::time::Duration;

use uuid::Uuid;
use zk_proto::diagram::Style;
use zk_proto::{CreateMode, SessionId, Zxid, explain};
use zk_recipes::machine::{AttemptConfig, Event as LockEvent};
use zk_session::State;

use crate::json::{list, or_null, quoted, string};
use crate::label;
use crate::sim::{
    AttemptId, Bug, Call, ClientEvent, Cut, Direction, Fault, LockKind, Moment, Options, Sim,
    SimClient, What,
};
use crate::wire::{Sent, Wire};

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

    // ---- Reading the run -----------------------------------------------------------------------

    fn read(&mut self) {
        let mut moments = self.sim.moments()[self.seen..].to_vec();
        self.seen += moments.len();
        causes_first(&mut moments);
        for client in 0..self.actors.len() {
            let id = self.sim.client(client).map_or(SessionId::NONE, SimClient::id);
            if id != SessionId::NONE {
                self.owners.insert(id, client);
            }
        }
        for moment in moments {
            self.moment(moment.at, &moment.what);
        }
    }

    fn moment(&mut self, at: Duration, what: &What) {
        match what {
            What::Sent { link, client, server, direction, bytes } => {
                let lost = self.wire.sent(at, *link, (*client, *server), *direction, bytes);
                lost.into_iter().for_each(|sent| self.lose(&sent));
            }
            What::Arrived(link, direction, length) => {
                for sent in self.wire.arrived(*link, *direction, *length) {
                    if sent.style == Style::Event && self.waits(sent.client) {
                        self.events[sent.client] += 1;
                    }
                    if sent.direction == Direction::Up && sent.label.contains(": DELETE ") {
                        self.deleter = Some(sent.client);
                    } else if sent.label.contains(": CREATE2 ") {
                        self.deleter = None;
                    }
                    self.sent(&sent, Some(at));
                }
            }
            What::Client(client, event) => self.event(*client, event),
            What::Fault(fault) => self.fault(fault),
            What::Violation(text) => {
                let text = self.named(text);
                // The same again, at another time, is no news.
                let kind: String = text.chars().filter(|char| !char.is_ascii_digit()).collect();
                if !text.contains("sleeps until") && self.violations.insert(kind) {
                    let text = format!("VIOLATION: {}", self.reworded(text));
                    self.say(None, Style::Error, &text);
                }
            }
            What::Begun(_) | What::Gone(_) | What::Healed => {}
        }
    }

    /// Replaces attempts of the clients that started first, as in `(2, 1)`, by names.
    fn named(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (index, name) in self.setting.clients.iter().enumerate() {
            if let Some(rest) = text.strip_prefix(&format!("{}: ", index + 1)) {
                text = format!("{name} {rest}");
            }
            for attempt in 1..10 {
                text = text.replace(&format!("({}, {attempt})", index + 1), name);
            }
        }
        label::short(&text)
    }

    /// Says what the page can say better than the checker, whose clock is another one.
    fn reworded(&self, text: String) -> String {
        if let Some((who, _)) = text.split_once(" holds a lock at ") {
            return format!("{who} holds the lock after the end of its lease");
        }
        let woken = text.strip_suffix(" and another attempt");
        let Some((_, who)) = woken.and_then(|text| text.split_once(": its deletion woke ")) else {
            return text.replace(": Mutex", "");
        };
        let change = match self.deleter {
            Some(client) => format!("the delete of {}'s node", self.setting.clients[client]),
            None => "one change".to_owned(),
        };
        format!("{change} woke {who} and another waiter; only one can be next")
    }

    fn fault(&mut self, fault: &Fault) {
        let (lane, text) = match fault {
            Fault::Cut(client, Cut::AFTER_APPLIED) => {
                (format!("c{client}"), "loses its connection: requests arrive, replies do not")
            }
            Fault::Cut(client, _) => (format!("c{client}"), "loses its connection"),
            Fault::Isolate(client, _) => (format!("c{client}"), "is cut off from all servers"),
            Fault::Pause(client, _) => (format!("c{client}"), "stops running"),
            Fault::Expire(client) => {
                let name = self.setting.clients[*client];
                return self.say(
                    None,
                    Style::Error,
                    &format!("The servers expire {name}'s session"),
                );
            }
            Fault::Kill(server, _) => (format!("s{server}"), "dies"),
            Fault::Hold(server, _) => (format!("s{server}"), "falls behind"),
            _ => return,
        };
        self.say(Some(&lane), Style::Error, text);
        if let Fault::Cut(client, cut) = fault {
            for sent in self.wire.cut(*client, *cut) {
                self.lose(&sent);
            }
        }
    }

    fn event(&mut self, client: usize, event: &ClientEvent) {
        let lane = format!("c{client}");
        let actor = &mut self.actors[client];
        let (style, text) = match event {
            ClientEvent::State(state) => {
                actor.state = state_name(*state).to_owned();
                match state {
                    State::Suspended => (Style::Error, "has no connection".to_owned()),
                    State::Renewing => {
                        let again = actor.activity == Activity::Waits;
                        actor.activity = if again { Activity::Enters } else { Activity::Idle };
                        (
                            Style::Error,
                            "learns that its session has expired, and opens a new one".to_owned(),
                        )
                    }
                    State::Ended(end) => {
                        *actor = Actor { state: "ended".to_owned(), ..Actor::default() };
                        (Style::Error, format!("learns that its session has ended: {end}"))
                    }
                    _ => return,
                }
            }
            ClientEvent::AttemptStarted(_, _, kind) => {
                actor.activity = Activity::Enters;
                let text = match kind {
                    LockKind::Read => "wants to read".to_owned(),
                    LockKind::Write => "wants to write".to_owned(),
                    LockKind::Permits { count: 1, .. } => "wants a permit".to_owned(),
                    LockKind::Permits { count, .. } => format!("wants {count} permits"),
                    _ => "wants the lock".to_owned(),
                };
                (Style::Plain, text)
            }
            ClientEvent::Lock(_, event) => match event {
                LockEvent::Waiting { behind, .. } => {
                    actor.activity = Activity::Waits;
                    let text = match behind.rsplit('/').next() {
                        Some("leases") => "waits for others to release permits".to_owned(),
                        _ => format!("waits behind {}", label::short(behind)),
                    };
                    (Style::Plain, text)
                }
                LockEvent::Acquired { token, .. } => {
                    (actor.activity, actor.token) = (Activity::Holds, Some(*token));
                    (Style::Plain, format!("HOLDS, token {:#x}", token.0))
                }
                LockEvent::Suspended => {
                    actor.activity = Activity::Unsure;
                    (Style::Error, "may have lost it: does not know".to_owned())
                }
                LockEvent::Resumed => {
                    actor.activity = Activity::Holds;
                    (Style::Plain, "still HOLDS it".to_owned())
                }
                LockEvent::Lost(loss) => {
                    (actor.activity, actor.token) = (Activity::Idle, None);
                    (Style::Error, format!("has LOST it: {loss}"))
                }
                LockEvent::Failed(error) => {
                    (actor.activity, actor.token) = (Activity::Idle, None);
                    (Style::Error, format!("gets no lock: {error}"))
                }
                _ => return,
            },
            ClientEvent::Released(_) => {
                let had = actor.activity;
                (actor.activity, actor.token) = (Activity::Idle, None);
                let text = if had == Activity::Holds { "releases" } else { "gives up" };
                (Style::Plain, text.to_owned())
            }
            _ => return,
        };
        self.say(Some(&lane), style, &text);
    }

    // ---- Steps ---------------------------------------------------------------------------------

    fn sent(&mut self, sent: &Sent, arrived: Option<Duration>) {
        let (client, server) = (format!("c{}", sent.client), format!("s{}", sent.server));
        let (from, to) = match sent.direction {
            Direction::Up => (client, server),
            Direction::Down => (server, client),
        };
        // Nobody learns at once of a loss.
        let at = arrived.unwrap_or(sent.at.max(self.last_step));
        self.message(&from, &to, sent.style, &sent.label, (sent.at, at));
        let mut fields = Vec::new();
        // Frames of the simulator have no errors.
        let _ = explain::frame(&sent.bytes, sent.kind, &mut |field| {
            let (range, kind) = (&field.range, quoted(field.wire_type));
            let (path, value) = (quoted(field.path), quoted(field.value));
            fields.push(format!("[{},{},{kind},{path},{value}]", range.start, range.end));
        });
        let hex: String = sent.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let lost = if arrived.is_none() { ",\"lost\":true" } else { "" };
        self.extend(&format!("{lost},\"bytes\":\"{hex}\",\"fields\":{}", list(fields)));
    }

    fn lose(&mut self, sent: &Sent) {
        self.sent(sent, None);
    }

    fn message(
        &mut self,
        from: &str,
        to: &str,
        style: Style,
        label: &str,
        (sent, at): (Duration, Duration),
    ) {
        let label = quoted(label);
        self.add(at, &format!("\"from\":\"{from}\",\"to\":\"{to}\",\"sent\":{}", millis(sent)));
        self.extend(&format!(",\"style\":\"{}\",\"label\":{label}", style_name(style)));
    }

    fn say(&mut self, lane: Option<&str>, style: Style, text: &str) {
        let lane = or_null(lane.map(quoted));
        let (style, text) = (style_name(style), quoted(text));
        let note = format!("\"lane\":{lane},\"style\":\"{style}\",\"label\":{text}");
        self.add(self.sim.now(), &note);
    }

    /// Adds a step with what has changed of the state.
    fn add(&mut self, at: Duration, what: &str) {
        let mut step = format!("{{\"at\":{},{what}", millis(at));
        if self.run > 0 {
            let _ = write!(step, ",\"run\":{}", self.run);
        }
        for (name, value) in self.state() {
            if self.shown.get(name) != Some(&value) {
                let _ = write!(step, ",\"{name}\":{value}");
                self.shown.insert(name, value);
            }
        }
        self.steps.push(step);
        self.last_step = at;
    }

    fn extend(&mut self, more: &str) {
        if let Some(step) = self.steps.last_mut() {
            step.push_str(more);
        }
    }

    // ---- The state -----------------------------------------------------------------------------

    fn state(&self) -> [(&'static str, String); 5] {
        let newest = self.storage.newest.0;
        let storage = if newest == 0 { "null".to_owned() } else { format!("\"{newest:#x}\"") };
        [
            ("servers", self.servers()),
            ("clients", self.clients()),
            ("queue", self.queue()),
            ("events", list(self.events.iter().map(usize::to_string))),
            ("newest", storage),
        ]
    }

    fn servers(&self) -> String {
        let ensemble = self.sim.ensemble();
        list((0..self.setting.servers).map(|server| {
            let role = match ensemble.leader() {
                _ if !ensemble.is_alive(server) => "dead",
                None => "no quorum",
                Some(leader) if leader == server => "leader",
                Some(_) => "follower",
            };
            format!("[\"{role}\",\"{:#x}\"]", ensemble.applied(server).unwrap_or(Zxid::ZERO).0)
        }))
    }

    /// Returns the clients: activity, token, state, server, session, the end of the lease, and the
    /// session timeout.
    fn clients(&self) -> String {
        list(self.actors.iter().enumerate().map(|(index, actor)| {
            let token = or_null(actor.token.map(|token| format!("\"{:#x}\"", token.0)));
            let activity = actor.activity.name();
            let Some(client) = self.sim.client(index) else {
                return format!("[\"{activity}\",{token},\"gone\",null,null,null,0]");
            };
            let is_stopped = actor.stopped_until > self.sim.now();
            let (server, state) = match client.state() {
                _ if is_stopped => (None, "stopped"),
                State::Connected { server, .. } | State::ReadOnly { server, .. } => {
                    (Some(server), state_name(client.state()))
                }
                state => (None, state_name(state)),
            };
            let (server, lease) = (or_null(server), or_null(client.lease().map(millis)));
            let (id, timeout) = (client.id().0, client.session_timeout().as_millis());
            format!("[\"{activity}\",{token},\"{state}\",{server},\"{id:#x}\",{lease},{timeout}]")
        }))
    }

    /// Returns the nodes below the lock path in their order: path, owner, zxid, and the clients
    /// that watch each. The first entry is the lock path itself.
    fn queue(&self) -> String {
        let ensemble = self.sim.ensemble();
        let Some(tree) = ensemble.leader().and_then(|leader| ensemble.tree_of(leader)) else {
            return "[]".to_owned();
        };
        let watched = ensemble.watched();
        let mut nodes: Vec<_> = tree
            .iter()
            .filter(|(path, _)| path.starts_with(LOCK))
            .map(|(path, node)| {
                // The nodes of one parent, by their sequence numbers.
                let (parent, name) = path.rsplit_once('/').unwrap_or_default();
                let sequence = name.get(name.len().saturating_sub(10)..).unwrap_or(name);
                (parent, sequence.to_owned(), path, node.stat())
            })
            .collect();
        nodes.sort_by(|a, b| (a.0, &a.1, a.2).cmp(&(b.0, &b.1, b.2)));
        list(nodes.into_iter().map(|(_, _, path, stat)| {
            let owner = or_null(self.owners.get(&stat.ephemeral_owner));
            let watchers = watched.iter().filter(|(_, watched)| *watched == path);
            let mut watchers: Vec<_> =
                watchers.filter_map(|(session, _)| self.owners.get(session)).collect();
            watchers.sort();
            let watchers = list(watchers.into_iter().map(usize::to_string));
            let mut name = String::new();
            string(&mut name, label::short(path));
            format!("[{name},{owner},\"{:#x}\",{watchers}]", stat.czxid.0)
        }))
    }
}

/// Puts the loss of a connection before what a lock reports because of it: a client hears of the
/// state of its session last.
fn causes_first(moments: &mut [Moment]) {
    for index in 1..moments.len() {
        let What::Client(who, ClientEvent::State(State::Suspended)) = moments[index].what else {
            continue;
        };
        let at = moments[index].at;
        let is_effect = |moment: &&Moment| match moment.what {
            What::Client(client, ClientEvent::Lock(_, LockEvent::Suspended)) => {
                moment.at == at && client == who
            }
            _ => false,
        };
        let effects = moments[..index].iter().rev().take_while(is_effect).count();
        moments[index - effects..=index].rotate_right(1);
    }
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Connecting => "connecting",
        State::Connected { .. } => "connected",
        State::ReadOnly { .. } => "read-only",
        State::Suspended => "no connection",
        State::Renewing => "renewing",
        State::Ended(_) => "ended",
        _ => "unknown",
    }
}

fn style_name(style: Style) -> &'static str {
    match style {
        Style::Reply => "reply",
        Style::Event => "event",
        Style::Error => "error",
        Style::Lost => "lost",
        _ => "plain",
    }
}

/// Returns a time in milliseconds, as the page shows it.
fn millis(time: Duration) -> f64 {
    let hundredths = time.as_micros() / 10;
    hundredths as f64 / 100.0
}
