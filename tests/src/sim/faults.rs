//! Faults: scheduled by a test, or drawn from the seed.

use core::iter;

use super::*;

/// The way in which all servers become unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outage {
    /// The servers are dead: connections break, and new ones are refused.
    Dead,
    /// Bytes in both directions are delayed until the end of the outage.
    Silent,
    /// Connections break, then bytes in both directions are delayed until the end of the outage.
    Cut,
}

impl Outage {
    /// All kinds of outages.
    pub const ALL: [Self; 3] = [Self::Dead, Self::Silent, Self::Cut];
}

/// A fault, with its duration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Cuts the connection of a client.
    Cut(usize, Cut),
    /// Delays bytes between a client and its server, in one direction.
    Stall(usize, Direction, Duration),
    /// Delays bytes between a client and all servers, in both directions.
    Isolate(usize, Duration),
    /// Pauses a client, as a stopped process or a long garbage collection.
    Pause(usize, Duration),
    /// Kills a client. Another one starts later.
    Crash(usize, Duration),
    /// Loses the next watch event about a lock between server and client.
    Swallow(usize),
    /// Expires the session of a client.
    Expire(usize),
    /// Kills a server, which restarts later.
    Kill(usize, Duration),
    /// Partitions a server from the others.
    Partition(usize, Duration),
    /// Holds a server back: it applies no transactions, except by [`Step`](Self::Step).
    Hold(usize, Duration),
    /// Applies one transaction on a server that is held back.
    Step(usize),
    /// Makes all servers unreachable.
    Outage(Outage, Duration),
    /// Delays all bytes between a client and the servers by the first duration in each direction.
    Slow(usize, Duration, Duration),
    /// A third party forbids an operation on a node, for a time.
    Forbid(usize, Duration),
    /// A third party deletes the node of a contender.
    Clean(usize),
    /// This many contenders of a third party enter a queue.
    Contend(usize, usize),
}

impl Fault {
    /// The names of all faults.
    pub const NAMES: [&'static str; 17] = [
        "cut", "stall", "isolate", "pause", "crash", "swallow", "expire", "kill", "part", "hold",
        "step", "outage", "slow", "forbid", "clean", "contend", "crowd",
    ];

    /// Returns the name of the fault.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cut(..) => "cut",
            Self::Stall(..) => "stall",
            Self::Isolate(..) => "isolate",
            Self::Pause(..) => "pause",
            Self::Crash(..) => "crash",
            Self::Swallow(..) => "swallow",
            Self::Expire(..) => "expire",
            Self::Kill(..) => "kill",
            Self::Partition(..) => "part",
            Self::Hold(..) => "hold",
            Self::Step(..) => "step",
            Self::Outage(..) => "outage",
            Self::Slow(..) => "slow",
            Self::Forbid(..) => "forbid",
            Self::Clean(..) => "clean",
            Self::Contend(_, 1) => "contend",
            Self::Contend(..) => "crowd",
        }
    }
}

/// The kind of a fault, without its parameters.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Cut,
    Stall,
    Isolate,
    Pause,
    Crash,
    Expire,
    Swallow,
    Kill,
    Partition,
    Hold,
    Step,
    Outage,
    Slow,
    Forbid,
    Clean,
    Contend,
    Crowd,
}

/// The weight of each kind in the random choice.
const WEIGHTS: [(Kind, usize); 17] = [
    (Kind::Cut, 10),
    (Kind::Stall, 6),
    (Kind::Isolate, 2),
    (Kind::Pause, 3),
    (Kind::Crash, 2),
    (Kind::Expire, 1),
    (Kind::Swallow, 4),
    (Kind::Kill, 2),
    (Kind::Partition, 4),
    (Kind::Hold, 5),
    (Kind::Step, 3),
    (Kind::Outage, 1),
    (Kind::Slow, 2),
    (Kind::Forbid, 3),
    (Kind::Clean, 3),
    (Kind::Contend, 2),
    (Kind::Crowd, 1),
];

/// The longest delay of a slow link in one direction: the shortest session timeout.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(4);
/// The number of contenders that enter a queue at once.
const CROWD: usize = 300;

impl Kind {
    fn draw(rng: &mut fastrand::Rng) -> Self {
        let repeated = WEIGHTS.iter().flat_map(|(kind, weight)| iter::repeat_n(*kind, *weight));
        let kinds: Vec<_> = repeated.collect();
        kinds[rng.u32(..kinds.len() as u32) as usize]
    }
}

impl Fault {
    /// Draws `count` faults that start at `from` or later and end by `to`.
    pub(super) fn draw(
        rng: &mut fastrand::Rng,
        options: &Options,
        count: usize,
        (from, to): (Duration, Duration),
    ) -> Vec<(Duration, Self)> {
        let moment = |rng: &mut fastrand::Rng| {
            from + Duration::from_micros(rng.u64(..(to - from).as_micros() as u64))
        };
        let mut faults: Vec<_> = (0..count)
            .map(|_| {
                let at = moment(rng);
                (at, Self::draw_one(rng, options, to - at))
            })
            .collect();
        faults.sort_by_key(|(at, _)| *at);
        faults
    }

    fn draw_one(rng: &mut fastrand::Rng, options: &Options, rest: Duration) -> Self {
        let client = rng.usize(..options.clients);
        let server = rng.usize(..options.servers);
        // Logarithmic, so that short and long durations are equally likely.
        let most = rest.min(Duration::from_millis(100 << rng.u32(..8)));
        let time = most.mul_f64(rng.f64());
        match Kind::draw(rng) {
            Kind::Cut => Self::Cut(client, draw_cut(rng)),
            Kind::Stall => Self::Stall(client, Direction::ALL[rng.usize(..2)], time),
            Kind::Isolate => Self::Isolate(client, time),
            Kind::Pause => Self::Pause(client, time),
            Kind::Crash => Self::Crash(client, time),
            Kind::Expire => Self::Expire(client),
            Kind::Swallow => Self::Swallow(client),
            Kind::Kill => Self::Kill(server, time),
            // Long enough that new clients find only a read-only server.
            Kind::Partition => Self::Partition(server, rest.mul_f64(rng.f64())),
            Kind::Hold => Self::Hold(server, time),
            Kind::Step => Self::Step(server),
            Kind::Outage => Self::Outage(Outage::ALL[rng.usize(..3)], time),
            // Up to the session timeout in each direction.
            Kind::Slow => Self::Slow(client, MAX_DELAY.mul_f64(rng.f64()), rest.mul_f64(rng.f64())),
            Kind::Forbid => Self::Forbid(rng.usize(..256), time),
            Kind::Clean => Self::Clean(rng.usize(..4)),
            Kind::Contend => Self::Contend(rng.usize(..4), 1),
            Kind::Crowd => Self::Contend(rng.usize(..4), CROWD),
        }
    }
}

fn draw_cut(rng: &mut fastrand::Rng) -> Cut {
    let tail = |rng: &mut fastrand::Rng| Tail {
        bytes: match rng.u8(..3) {
            0 => 0,
            1 => rng.usize(..200),
            _ => usize::MAX,
        },
        silent: rng.u8(..6) == 0,
    };
    let (up, down) = (tail(rng), tail(rng));
    Cut { up, down }
}

/// # Faults
impl Sim {
    /// Injects a fault now.
    pub fn inject(&mut self, fault: Fault) {
        self.trace.bytes(self.now, fault.name(), 0, &[]);
        self.trace.moment(self.now, || What::Fault(fault.clone()));
        self.checker.count(fault.name());
        match fault {
            Fault::Cut(client, cut) => self.cut(client, cut),
            Fault::Stall(client, direction, time) => self.stall(client, direction, time),
            Fault::Isolate(client, time) => self.isolate(client, time),
            Fault::Pause(client, time) => self.pause(client, time),
            Fault::Crash(client, time) => self.crash(client, time),
            Fault::Swallow(client) => self.swallow(client),
            Fault::Expire(client) => self.expire(client),
            Fault::Kill(server, time) => {
                self.kill(server);
                self.queue.schedule(self.now + time, Occurrence::Restart(server));
            }
            Fault::Partition(server, time) => {
                self.cut_off(server);
                self.queue.schedule(self.now + time, Occurrence::Reunite(server));
            }
            Fault::Hold(server, time) => {
                self.hold(server);
                self.queue.schedule(self.now + time, Occurrence::Release(server));
            }
            Fault::Step(server) => self.apply_one(server),
            Fault::Outage(outage, time) => self.make_unreachable(outage, time),
            Fault::Slow(client, delay, time) => {
                self.slots[client].slow = (delay, self.now + time);
            }
            Fault::Forbid(node, time) => {
                self.forbid_outside(node);
                self.queue.schedule(self.now + time, Occurrence::Permit);
            }
            Fault::Clean(queue) => self.clean_outside(queue),
            Fault::Contend(queue, contenders) => self.contend_outside(queue, contenders),
        }
    }

    /// Cuts the connection of a client.
    pub fn cut(&mut self, client: usize, cut: Cut) {
        self.cut_link(client, cut);
    }

    /// Delays bytes in one direction between a client and its server for `time`.
    pub fn stall(&mut self, client: usize, direction: Direction, time: Duration) {
        let server = self.slots[client].link.and_then(|link| Some(self.links.get(&link)?.server));
        if let Some(server) = server {
            self.block(client, server, direction, time);
        }
    }

    /// Delays bytes between a client and all servers for `time`.
    pub fn isolate(&mut self, client: usize, time: Duration) {
        for server in 0..self.ensemble.servers() {
            for direction in Direction::ALL {
                self.block(client, server, direction, time);
            }
        }
    }

    fn block(&mut self, client: usize, server: usize, direction: Direction, time: Duration) {
        let until = self.blocked.entry((client, server, direction)).or_default();
        *until = (*until).max(self.now + time);
    }

    /// Makes all servers unreachable for all clients for `time`.
    ///
    /// A client must keep its session and its locks if its lease covers the sum of:
    ///
    /// * the outage,
    /// * the longest delay between two rounds of connection attempts, which is a twentieth of the
    ///   session timeout,
    /// * `reconnect`, the time of a handshake.
    ///
    /// The checker verifies that until the client is connected again. Returns the number of such
    /// clients.
    pub fn outage(&mut self, outage: Outage, time: Duration, reconnect: Duration) -> usize {
        let back = self.now + time;
        let keeps = |client: &SimClient| {
            let lease = client.lease().unwrap_or_default();
            back + client.session_timeout() / 20 + reconnect <= lease
        };
        let machines = self.slots.iter().filter_map(|slot| slot.machine.as_ref().zip(Some(slot)));
        let kept = machines.filter(|(machine, _)| keeps(machine)).map(|(_, slot)| slot.incarnation);
        let count = self.checker.expect_kept(kept);
        self.make_unreachable(outage, time);
        count
    }

    fn make_unreachable(&mut self, outage: Outage, time: Duration) {
        match outage {
            Outage::Dead => (0..self.ensemble.servers()).for_each(|server| {
                self.kill(server);
                self.queue.schedule(self.now + time, Occurrence::Restart(server));
            }),
            Outage::Silent | Outage::Cut => (0..self.options.clients).for_each(|client| {
                if outage == Outage::Cut {
                    self.cut(client, Cut::BEFORE_RECEIVED);
                }
                self.isolate(client, time);
            }),
        }
    }

    /// Pauses a client for `time`.
    pub fn pause(&mut self, client: usize, time: Duration) {
        let slot = &mut self.slots[client];
        slot.paused_until = slot.paused_until.max(self.now + time);
        self.queue.schedule(slot.paused_until, Occurrence::Resume(client));
        self.plan(client);
    }

    /// Kills a client. Another one starts after `time`.
    pub fn crash(&mut self, client: usize, time: Duration) {
        if self.slots[client].machine.is_some() {
            self.end(client);
            self.slots[client].paused_until = Duration::ZERO;
            self.queue.schedule(self.now + time, Occurrence::Begin(client));
        }
    }

    /// Expires the session of a client.
    pub fn expire(&mut self, client: usize) {
        if let Some(machine) = &self.slots[client].machine {
            self.ensemble.expire_session(self.now, machine.id());
            self.drain_ensemble();
        }
    }

    /// Makes the server of a client lose the next watch event about a lock.
    pub fn swallow(&mut self, client: usize) {
        if let Some(machine) = &self.slots[client].machine {
            self.ensemble.swallow_events(machine.id(), "/lock", 1);
            self.checker.locks.event_is_lost(self.slots[client].incarnation);
        }
    }

    /// Kills a server.
    pub fn kill(&mut self, server: usize) {
        self.ensemble.kill(self.now, server);
        self.drain_ensemble();
    }

    /// Restarts a server.
    pub fn restart(&mut self, server: usize) {
        self.trace.bytes(self.now, "restart of server", server as u64, &[]);
        self.ensemble.restart(self.now, server);
        self.drain_ensemble();
    }

    /// Partitions a server from the others. It may serve reads to clients that accept that.
    pub fn cut_off(&mut self, server: usize) {
        self.ensemble.cut_off(self.now, server);
        self.drain_ensemble();
    }

    /// Ends the partition of a server.
    pub fn reunite(&mut self, server: usize) {
        self.trace.bytes(self.now, "return of server", server as u64, &[]);
        self.ensemble.reunite(self.now, server);
        self.drain_ensemble();
    }

    /// Holds a server back, unless it leads.
    pub fn hold(&mut self, server: usize) {
        self.ensemble.hold(server);
    }

    /// Applies one transaction on a server that is held back.
    pub fn apply_one(&mut self, server: usize) {
        self.ensemble.step(self.now, server);
        self.drain_ensemble();
    }

    /// Lets a server catch up that was held back.
    pub fn release(&mut self, server: usize) {
        self.trace.bytes(self.now, "release of server", server as u64, &[]);
        self.ensemble.release(self.now, server);
        self.drain_ensemble();
    }

    /// Loses all data of all servers.
    pub fn wipe(&mut self) {
        self.checker.history_is_lost();
        self.ensemble.wipe(self.now);
        self.drain_ensemble();
    }

    /// Ends all faults, and closes connections without a client as TCP keep-alive does.
    pub fn heal(&mut self) {
        self.trace.moment(self.now, || What::Healed);
        for slot in &mut self.slots {
            slot.paused_until = slot.paused_until.min(self.now);
            slot.slow = Default::default();
        }
        self.blocked.clear();
        for server in 0..self.ensemble.servers() {
            self.restart(server);
            self.reunite(server);
            self.release(server);
        }
        self.permit_outside();
        self.reap_half_open();
        for client in 0..self.slots.len() {
            self.drain_client(client);
        }
    }
}
