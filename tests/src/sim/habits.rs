//! What clients do of their own accord: requests on shared nodes, and locks.

use alloc::collections::BTreeMap;
use core::time::Duration;

use uuid::Uuid;
use zk_proto::CreateMode;
use zk_recipes::machine::Event as LockEvent;
use zk_session::State;

use super::{AttemptId, Call, Demand, Note, SimClient};

/// Nodes that are written and read by all.
const REGISTERS: [&str; 3] = ["/registers/0", "/registers/1", "/registers/2"];
/// Nodes that come and go.
const BEACONS: [&str; 2] = ["/beacons/0", "/beacons/1"];
/// Locks.
const LOCKS: [&str; 3] = ["/locks/mutex", "/locks/shared", "/locks/permits"];
/// How many permits there are.
const PERMITS: u32 = 3;

/// The habits of one client.
#[derive(Debug)]
pub struct Habits {
    rng: fastrand::Rng,
    /// The client's, in names of which there is only one.
    incarnation: u64,
    named: u64,
    next_call: Option<Duration>,
    /// When the next attempt begins, for each lock that is not contended for.
    idle: BTreeMap<&'static str, Duration>,
    /// Attempts under way, and when they are to be let go.
    attempts: BTreeMap<AttemptId, (&'static str, Duration)>,
}

impl Default for Habits {
    /// None.
    fn default() -> Self {
        Self {
            rng: fastrand::Rng::with_seed(0),
            incarnation: 0,
            named: 0,
            next_call: None,
            idle: BTreeMap::new(),
            attempts: BTreeMap::new(),
        }
    }
}

impl Habits {
    /// Those of the client with this number.
    pub fn new(now: Duration, seed: u64, incarnation: u64) -> Self {
        let idle = LOCKS.into_iter().map(|lock| (lock, now)).collect();
        let rng = fastrand::Rng::with_seed(seed);
        Self { rng, incarnation, next_call: Some(now), idle, ..Self::default() }
    }

    /// When there is something to do.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let let_go = self.attempts.values().map(|(_, at)| *at);
        let_go.chain(self.idle.values().copied()).chain(self.next_call).min()
    }

    /// No more of it, but what was begun is finished.
    pub fn wind_down(&mut self) {
        self.next_call = None;
        self.idle.clear();
    }

    /// Does what is due.
    pub fn act(&mut self, now: Duration, client: &mut SimClient) {
        if self.next_call.is_some_and(|at| at <= now) {
            for _ in 0..self.rng.usize(1..4) {
                let call = self.choose();
                client.call(now, call);
            }
            self.next_call = Some(now + self.up_to(800));
        }
        let due: Vec<_> = self.idle.iter().filter(|(_, at)| **at <= now).map(|(l, _)| *l).collect();
        for lock in due {
            if matches!(client.state(), State::Connected { .. }) {
                self.idle.remove(lock);
                let guid = Uuid::from_u128(self.rng.u128(..));
                let attempt = client.contend(now, lock, self.demand(lock), guid);
                // Some give up while they wait.
                let patience = if self.rng.u8(..4) == 0 { self.up_to(2_000) } else { NEVER };
                self.attempts.insert(attempt, (lock, now + patience));
            } else {
                self.idle.insert(lock, now + Duration::from_millis(100));
            }
        }
        let due: Vec<_> =
            self.attempts.iter().filter(|(_, (_, at))| *at <= now).map(|(id, _)| *id).collect();
        for attempt in due {
            if let Some((_, at)) = self.attempts.get_mut(&attempt) {
                *at = now + NEVER;
            }
            client.let_go(now, attempt);
        }
    }

    /// What to want of a lock.
    fn demand(&mut self, lock: &str) -> Demand {
        match lock {
            "/locks/permits" => Demand::Permits { count: self.rng.u32(1..=2), of: PERMITS },
            "/locks/shared" if self.rng.u8(..3) > 0 => Demand::Read,
            "/locks/shared" => Demand::Write,
            _ => Demand::Mutex,
        }
    }

    /// Takes note of what has happened to the client.
    pub fn hear(&mut self, now: Duration, note: &Note) {
        match note {
            Note::Lock(id, LockEvent::Acquired { .. }) => {
                let hold = self.up_to(200);
                if let Some((_, at)) = self.attempts.get_mut(id) {
                    *at = (*at).min(now + hold);
                }
            }
            Note::Done(id) => {
                let pause = self.up_to(5_000);
                if let Some((lock, _)) = self.attempts.remove(id)
                    && self.next_call.is_some()
                {
                    self.idle.insert(lock, now + pause);
                }
            }
            _ => {}
        }
    }

    fn choose(&mut self) -> Call {
        let register = self.rng.choice(REGISTERS).unwrap_or_default();
        let beacon = self.rng.choice(BEACONS).unwrap_or_default();
        self.named += 1;
        let Self { incarnation, named, rng, .. } = self;
        let create = |path: String, mode| Call::Create { path, mode };
        match rng.u8(..16) {
            0..3 => Call::Write { path: register.into(), data: format!("{incarnation}-{named}") },
            3..8 => Call::Read { path: register.into() },
            8 => create(beacon.into(), CreateMode::PERSISTENT),
            9 => create(beacon.into(), CreateMode::EPHEMERAL),
            10 => Call::Delete { path: beacon.into() },
            11..13 => Call::Look { path: beacon.into() },
            13..15 => create(format!("/made/{incarnation}-{named}"), CreateMode::PERSISTENT),
            _ => create(format!("/made/{incarnation}-{named}-"), CreateMode::PERSISTENT_SEQUENTIAL),
        }
    }

    fn up_to(&mut self, millis: u64) -> Duration {
        Duration::from_micros(self.rng.u64(..millis * 1_000))
    }

    /// What must be there before the rest can be.
    pub fn groundwork() -> impl Iterator<Item = Call> {
        let parents = ["/registers", "/beacons", "/made"].into_iter();
        let create =
            |path: &str| Call::Create { path: path.to_owned(), mode: CreateMode::PERSISTENT };
        parents.chain(REGISTERS).map(create)
    }
}

/// Longer than any run.
const NEVER: Duration = Duration::from_secs(1 << 30);
