//! The workload of an active client: requests on shared nodes, and recipes.

use alloc::collections::BTreeMap;
use core::time::Duration;

use uuid::Uuid;
use zk_proto::{CreateMode, Zxid};
use zk_recipes::machine::{Event as LockEvent, LockMode};
use zk_session::State;

use super::several::Several;
use super::tasks::Tasks;
use super::{AttemptId, Bug, Call, CallId, ClientEvent, LockKind, Options, SimClient};

/// Nodes that all clients write and read.
const REGISTERS: [&str; 3] = ["/registers/0", "/registers/1", "/registers/2"];
/// Nodes that clients create and delete.
const BEACONS: [&str; 2] = ["/beacons/0", "/beacons/1"];
/// Nodes that clients write, create and delete under persistent watches.
const SIGNALS: [&str; 2] = ["/signals/0", "/signals/1"];
/// The parent of [`SIGNALS`].
const ABOVE_SIGNALS: &str = "/signals";
/// The lock paths.
const LOCKS: [&str; 4] = [MUTEX, SHARED, "/locks/permits", OFTEN];
/// The paths of [`Targets::Recipes`].
const RECIPES: [&str; 6] = [MUTEX, SHARED, SEVERAL, TEXTBOOK, BARRIER, DOUBLE_BARRIER];
/// The attempts of [`Targets::Crowd`]: several for each path, which ends before the `#`.
const CROWD: [&str; 12] = [
    MUTEX,
    "/locks/mutex#1",
    "/locks/mutex#2",
    "/locks/mutex#3",
    "/locks/mutex#4",
    "/locks/mutex#5",
    "/locks/mutex#6",
    SHARED,
    "/locks/shared#1",
    "/locks/shared#2",
    "/locks/shared#3",
    "/locks/shared#4",
];
/// The interval at which a crowd of attempts begins.
const CROWD_EVERY: Duration = Duration::from_millis(250);
/// A mutex.
pub(super) const MUTEX: &str = "/locks/mutex";
/// A read/write lock.
pub(super) const SHARED: &str = "/locks/shared";
/// Stands for the attempts to acquire two locks together.
const SEVERAL: &str = "several";
/// The node of a textbook lock.
const TEXTBOOK: &str = "/textbook/lock";
/// A node that closes a barrier while it exists.
pub(super) const BARRIER: &str = "/gates/one";
/// A double barrier.
pub(super) const DOUBLE_BARRIER: &str = "/meeting";
/// A node that the holders of [`MUTEX`] write.
pub(super) const FENCED: &str = "/fenced";
/// The number of members of the double barrier.
const MEMBERS: usize = 3;
/// A lock that one client acquires many times in a row, mostly without contention.
const OFTEN: &str = "/locks/often";
/// The longest time between two such series, in milliseconds.
const SELDOM: u64 = 150_000;
/// The number of permits of the semaphore.
const PERMITS: u32 = 3;

/// What active clients acquire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Targets {
    /// Mutexes, a read/write lock and permits of a semaphore.
    #[default]
    Locks,
    /// A mutex, alone and together with another; a read/write lock whose holders convert it; the
    /// textbook lock; a barrier and a double barrier.
    Recipes,
    /// A mutex, and a read/write lock whose holders convert it, each by several tasks of a client.
    Tasks,
    /// A mutex and a read/write lock, each by many attempts of a client at once.
    Crowd,
}

/// The workload of one client: what it submits and acquires on its own.
#[derive(Debug)]
pub struct Behaviour {
    rng: fastrand::Rng,
    /// The incarnation of the client, which makes names unique.
    incarnation: u64,
    named: u64,
    /// How many attempts have begun.
    begun: u128,
    next_call: Option<Duration>,
    /// The persistent watch and the time at which it is removed.
    watching: Option<(CallId, Duration)>,
    /// When to read the watched nodes again because one may have changed.
    stale: Option<Duration>,
    /// When the next attempt begins, for each lock without an attempt.
    idle: BTreeMap<&'static str, Duration>,
    /// Attempts in progress, and when to release them.
    attempts: BTreeMap<AttemptId, (&'static str, Duration)>,
    targets: Targets,
    /// Two locks that are acquired together.
    several: Option<Several>,
    /// A bug of the workload.
    bug: Option<Bug>,
    /// When to write as a holder: with this token, while this node exists.
    writes: Vec<(Duration, Zxid, String)>,
    /// The modes of locks that may be converted, and when.
    modes: BTreeMap<AttemptId, (LockMode, Option<Duration>)>,
    /// The attempt that is inside the double barrier.
    inside: Option<AttemptId>,
    /// Tasks that take turns, at each lock.
    tasks: Vec<Tasks>,
}

impl Default for Behaviour {
    /// Returns an inactive behaviour.
    fn default() -> Self {
        Self {
            rng: fastrand::Rng::with_seed(0),
            incarnation: 0,
            named: 0,
            begun: 0,
            next_call: None,
            watching: None,
            stale: None,
            idle: BTreeMap::new(),
            attempts: BTreeMap::new(),
            targets: Targets::Locks,
            several: None,
            bug: None,
            writes: Vec::new(),
            modes: BTreeMap::new(),
            inside: None,
            tasks: Vec::new(),
        }
    }
}

impl Behaviour {
    /// Creates the behaviour of the client with this incarnation.
    pub fn new(now: Duration, seed: u64, incarnation: u64, options: &Options) -> Self {
        let mut behaviour = Self {
            rng: fastrand::Rng::with_seed(seed),
            incarnation,
            next_call: Some(now),
            targets: options.targets,
            bug: options.bug,
            ..Self::default()
        };
        let paths = match options.targets {
            Targets::Locks => &LOCKS[..],
            Targets::Recipes => &RECIPES,
            Targets::Crowd => &CROWD,
            Targets::Tasks => {
                behaviour.tasks = Tasks::all(now, &mut behaviour.rng, options.bug);
                &[]
            }
        };
        behaviour.idle.extend(paths.iter().map(|path| (*path, now)));
        if options.targets == Targets::Locks {
            let first = now + behaviour.up_to(SELDOM);
            behaviour.idle.insert(OFTEN, first);
        }
        behaviour
    }

    /// Returns the time at which [`act`](Self::act) is due.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let release = self.attempts.values().map(|(_, at)| *at);
        let unwatch = self.watching.map(|(_, until)| until);
        let convert = self.modes.values().filter_map(|(_, at)| *at);
        let several = self.several.iter().map(Several::poll_timeout);
        let writes = self.writes.iter().map(|(at, ..)| *at);
        let tasks = self.tasks.iter().map(Tasks::poll_timeout);
        let others = self.next_call.into_iter().chain(unwatch).chain(self.stale);
        let others = others.chain(convert).chain(several).chain(writes).chain(tasks);
        release.chain(self.idle.values().copied()).chain(others).min()
    }

    /// Stops new requests and attempts; those in progress finish. The watch stays.
    pub fn wind_down(&mut self) {
        self.next_call = None;
        self.watching = None;
        self.idle.clear();
        self.writes.clear();
        self.tasks.iter_mut().for_each(Tasks::wind_down);
    }

    /// Returns how many tasks wait or hold.
    pub(super) fn busy_tasks(&self) -> usize {
        self.tasks.iter().map(Tasks::busy).sum()
    }

    /// Submits the requests and starts the attempts that are due.
    pub fn act(&mut self, now: Duration, client: &mut SimClient) {
        if self.next_call.is_some_and(|at| at <= now) {
            for _ in 0..self.rng.usize(1..4) {
                let call = self.choose();
                if let Call::Read { path } = &call
                    && self.rng.bool()
                {
                    client.call(now, Call::Sync { path: path.clone() });
                }
                self.call(now, client, call);
            }
            if self.targets == Targets::Recipes && self.rng.bool() {
                let (path, mode) = (BARRIER.to_owned(), CreateMode::PERSISTENT);
                let opens = self.rng.bool();
                let call = if opens { Call::Delete { path } } else { Call::Create { path, mode } };
                client.call(now, call);
            }
            if self.watching.is_none() {
                let call = self.choose_watch();
                let id = self.call(now, client, call);
                self.watching = Some((id, now + self.up_to(10_000)));
            }
            self.next_call = Some(now + self.up_to(800));
        }
        if let Some((id, _)) = self.watching.take_if(|(_, until)| *until <= now) {
            client.unwatch(now, id);
        }
        if self.stale.take_if(|at| *at <= now).is_some() {
            for path in SIGNALS {
                client.call(now, Call::Peek { path: path.into() });
            }
        }
        let due: Vec<_> = self.idle.iter().filter(|(_, at)| **at <= now).map(|(l, _)| *l).collect();
        for lock in due {
            if matches!(client.state(), State::Connected { .. }) {
                self.idle.remove(lock);
                self.begin(now, client, lock);
            } else {
                self.idle.insert(lock, now + Duration::from_millis(100));
            }
        }
        self.convert(now, client);
        self.write_fenced(now, client);
        self.go_on_with_several(now, client);
        let mut tasks = core::mem::take(&mut self.tasks);
        for tasks in &mut tasks {
            tasks.act(now, client, &mut || self.next_guid());
        }
        self.tasks = tasks;
        let due: Vec<_> =
            self.attempts.iter().filter(|(_, (_, at))| *at <= now).map(|(id, _)| *id).collect();
        for attempt in due {
            let leaves = self.inside == Some(attempt) && self.rng.u8(..4) > 0;
            // Some do not wait for the others to the end.
            let gives_up = leaves && self.rng.u8(..8) == 0;
            let patience = if gives_up { self.up_to(1_000) } else { NEVER };
            if let Some((_, at)) = self.attempts.get_mut(&attempt) {
                *at = now + patience;
            }
            if leaves {
                self.inside = None;
                client.leave(now, attempt);
            } else {
                client.release(now, attempt);
            }
        }
    }

    /// Returns the GUID of the next attempt. All clients use the same ones, as boards with one seed.
    fn next_guid(&mut self) -> Uuid {
        self.begun += 1;
        Uuid::from_u128(self.begun)
    }

    /// Begins an attempt.
    fn begin(&mut self, now: Duration, client: &mut SimClient, lock: &'static str) {
        if lock == SEVERAL {
            let patience = self.patience();
            let until = now + patience;
            self.several = Some(Several::new(now, until, self.rng.bool(), self.bug));
            return;
        }
        let guid = self.next_guid();
        let path = lock.split('#').next().unwrap_or(lock);
        let demand = self.demand(path);
        let attempt = client.contend(now, path, demand, guid);
        let mode = match demand {
            LockKind::Read => Some(LockMode::Shared),
            LockKind::Write => Some(LockMode::Exclusive),
            _ => None,
        };
        if let Some(mode) = mode.filter(|_| self.targets == Targets::Recipes) {
            self.modes.insert(attempt, (mode, None));
        }
        // The others may never come.
        let patience = if lock == DOUBLE_BARRIER { self.up_to(4_000) } else { self.patience() };
        self.attempts.insert(attempt, (lock, now + patience));
    }

    /// Returns how long to wait for a lock. Some cancel while they wait.
    fn patience(&mut self) -> Duration {
        if self.rng.u8(..4) == 0 { self.up_to(2_000) } else { NEVER }
    }

    /// Plans writes of a holder, some of them after its release.
    fn plan_writes(&mut self, now: Duration, node: &str, token: Zxid) {
        for _ in 0..self.rng.usize(..3) {
            let at = now + self.up_to(300);
            self.writes.push((at, token, format!("{MUTEX}/{node}")));
        }
    }

    /// Writes as a holder, and reads behind a `sync`.
    fn write_fenced(&mut self, now: Duration, client: &mut SimClient) {
        let due: Vec<_> = self.writes.extract_if(.., |(at, ..)| *at <= now).collect();
        for (_, token, node) in due {
            self.named += 1;
            let path = FENCED.to_owned();
            let data = format!("{} {}-{}", token.0, self.incarnation, self.named);
            let node = (self.bug != Some(Bug::WritesUnfenced)).then_some(node);
            self.call(now, client, Call::WriteFenced { path: path.clone(), node, data });
            if self.rng.bool() {
                client.call(now, Call::Sync { path: path.clone() });
                self.call(now, client, Call::Read { path });
            }
        }
    }

    /// Converts the locks that are due.
    fn convert(&mut self, now: Duration, client: &mut SimClient) {
        for (attempt, (mode, at)) in &mut self.modes {
            if at.take_if(|at| *at <= now).is_some() {
                // Most owners wait for the answer before they release the lock.
                if self.rng.u8(..4) > 0
                    && let Some((_, release)) = self.attempts.get_mut(attempt)
                {
                    *release = NEVER;
                }
                let other = match mode {
                    LockMode::Shared => LockMode::Exclusive,
                    LockMode::Exclusive => LockMode::Shared,
                };
                client.convert(now, *attempt, other);
            }
        }
    }

    /// Decides whether to convert a lock, perhaps again.
    fn plan_conversion(&mut self, now: Duration, attempt: AttemptId, converted: Option<LockMode>) {
        let at = self.rng.bool().then(|| now + self.up_to(100));
        let hold = self.up_to(200);
        if let Some((_, release)) = self.attempts.get_mut(&attempt)
            && *release == NEVER
        {
            *release = now + hold;
        }
        if let Some((mode, next)) = self.modes.get_mut(&attempt) {
            *mode = converted.unwrap_or(*mode);
            *next = at;
        }
    }

    fn go_on_with_several(&mut self, now: Duration, client: &mut SimClient) {
        let Some(mut several) = self.several.take_if(|several| several.poll_timeout() <= now)
        else {
            return;
        };
        let hold = self.up_to(200);
        several.act(now, client, || self.next_guid(), hold);
        if !several.is_done() {
            self.several = Some(several);
        } else if self.next_call.is_some() {
            let pause = self.up_to(5_000);
            self.idle.insert(SEVERAL, now + pause);
        }
    }

    /// Chooses how to acquire a lock.
    fn demand(&mut self, lock: &str) -> LockKind {
        match lock {
            "/locks/permits" => LockKind::Permits { count: self.rng.u32(1..=2), of: PERMITS },
            SHARED if self.rng.u8(..3) > 0 => LockKind::Read,
            SHARED => LockKind::Write,
            TEXTBOOK => LockKind::Textbook,
            BARRIER => LockKind::Barrier,
            DOUBLE_BARRIER => LockKind::DoubleBarrier { members: MEMBERS },
            _ => LockKind::Mutex,
        }
    }

    /// Handles an event of the client.
    pub fn handle_event(&mut self, now: Duration, event: &ClientEvent) {
        if let Some(several) = &mut self.several {
            several.handle_event(now, event);
        }
        self.tasks.iter_mut().for_each(|tasks| tasks.handle_event(now, event));
        match event {
            ClientEvent::Lock(id, LockEvent::Acquired { node, token }) => {
                let is_often = self.attempts.get(id).is_some_and(|(lock, _)| *lock == OFTEN);
                // Some hold the lock for longer than their lease lasts.
                let is_long = !is_often && self.rng.u8(..32) == 0;
                let hold = self.up_to(match is_often {
                    true => 10,
                    false if is_long => 10_000,
                    false => 200,
                });
                if let Some((lock, at)) = self.attempts.get_mut(id) {
                    *at = (*at).min(now + hold);
                    match *lock {
                        DOUBLE_BARRIER => self.inside = Some(*id),
                        MUTEX if self.targets == Targets::Recipes => {
                            self.plan_writes(now, node, *token);
                        }
                        SHARED if self.targets == Targets::Recipes => {
                            self.plan_conversion(now, *id, None);
                        }
                        _ => {}
                    }
                }
            }
            ClientEvent::Lock(id, LockEvent::Converted { mode, .. }) => {
                self.plan_conversion(now, *id, Some(*mode));
            }
            ClientEvent::Lock(id, LockEvent::NotConverted(_)) => {
                self.plan_conversion(now, *id, None);
            }
            ClientEvent::Fired(id, _) | ClientEvent::Gap(id) if self.is_watching(*id) => {
                let pause = self.up_to(100);
                self.stale = self.stale.or(Some(now + pause));
            }
            ClientEvent::Answered(id, Err(_)) if self.is_watching(*id) => self.watching = None,
            ClientEvent::AttemptFinished(id) => {
                let again = self.rng.u8(..16) > 0;
                self.modes.remove(id);
                self.inside.take_if(|inside| inside == id);
                if let Some((lock, _)) = self.attempts.remove(id)
                    && self.next_call.is_some()
                {
                    let pause = self.up_to(match lock {
                        OFTEN if again => 20,
                        OFTEN => SELDOM,
                        DOUBLE_BARRIER => 1_000,
                        _ => 5_000,
                    });
                    let mut next = now + pause;
                    if self.targets == Targets::Crowd {
                        next = CROWD_EVERY * next.div_duration_f64(CROWD_EVERY).ceil() as u32;
                    }
                    self.idle.insert(lock, next);
                }
            }
            _ => {}
        }
    }

    fn is_watching(&self, id: CallId) -> bool {
        self.watching.is_some_and(|(watching, _)| watching == id)
    }

    /// Submits a request, sometimes with a deadline.
    fn call(&mut self, now: Duration, client: &mut SimClient, call: Call) -> CallId {
        let timeout = match self.rng.u8(..8) {
            // About as long as a round trip takes.
            0 => Some(self.up_to(6)),
            1 => Some(self.up_to(3_000)),
            _ => None,
        };
        client.call_until(now, call, timeout.map(|timeout| now + timeout))
    }

    fn choose_watch(&mut self) -> Call {
        match self.rng.usize(..SIGNALS.len() + 1) {
            0 => Call::Watch { path: ABOVE_SIGNALS.into(), below: true },
            index => Call::Watch { path: SIGNALS[index - 1].into(), below: false },
        }
    }

    fn choose(&mut self) -> Call {
        let register = self.rng.choice(REGISTERS).unwrap_or_default();
        let beacon = self.rng.choice(BEACONS).unwrap_or_default();
        let signal = self.rng.choice(SIGNALS).unwrap_or_default();
        self.named += 1;
        let Self { incarnation, named, rng, .. } = self;
        let create = |path: String, mode| Call::Create { path, mode };
        match rng.u8(..20) {
            0..3 => Call::Write { path: register.into(), data: format!("{incarnation}-{named}") },
            3..8 => Call::Read { path: register.into() },
            8 => create(beacon.into(), CreateMode::PERSISTENT),
            9 => create(beacon.into(), CreateMode::EPHEMERAL),
            10 => Call::Delete { path: beacon.into() },
            11..13 => Call::Look { path: beacon.into() },
            13..15 => create(format!("/made/{incarnation}-{named}"), CreateMode::PERSISTENT),
            15 => {
                create(format!("/made/{incarnation}-{named}-"), CreateMode::PERSISTENT_SEQUENTIAL)
            }
            16 => Call::Write { path: signal.into(), data: format!("{incarnation}-{named}") },
            17 => create(signal.into(), CreateMode::PERSISTENT),
            18 => Call::Delete { path: signal.into() },
            _ => Call::Peek { path: signal.into() },
        }
    }

    fn up_to(&mut self, millis: u64) -> Duration {
        Duration::from_micros(self.rng.u64(..millis * 1_000))
    }

    /// Returns the requests that create the parents of all other nodes.
    pub fn setup(targets: Targets) -> impl Iterator<Item = Call> {
        let parents = ["/registers", "/beacons", "/made", ABOVE_SIGNALS].into_iter();
        let of_recipes = ["/gates", FENCED].into_iter();
        let parents = parents.chain(of_recipes.filter(move |_| targets == Targets::Recipes));
        let create =
            |path: &str| Call::Create { path: path.to_owned(), mode: CreateMode::PERSISTENT };
        parents.chain(REGISTERS).map(create)
    }
}

/// Longer than any run.
const NEVER: Duration = Duration::from_secs(1 << 30);
