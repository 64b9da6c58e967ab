//! Everything that can go wrong, by order or by the seed.

use core::iter;

use super::*;

/// How all servers are out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// They are dead: connections break, and new ones are refused.
    Dead,
    /// Nothing arrives at them, or from them. Later it does.
    Silent,
    /// As [`Silent`](Self::Silent), and connections break first.
    Cut,
}

impl Outage {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Dead, Self::Silent, Self::Cut];
}

/// Something that goes wrong, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The connection of a client is cut.
    Cut(usize, Cut),
    /// Nothing arrives between a client and the member it is connected to, in one direction.
    /// Later it does.
    Stall(usize, Direction, Duration),
    /// Nothing arrives between a client and any member. Later it does.
    Isolate(usize, Duration),
    /// A client is stopped. The world goes on without it.
    Pause(usize, Duration),
    /// The process of a client dies, and another one begins after a while.
    Crash(usize, Duration),
    /// The server of a client loses the next watch event about a lock that it should send to it.
    Swallow(usize),
    /// The session of a client is ended by the ensemble.
    Expire(usize),
    /// A member dies and starts again after a while.
    Kill(usize, Duration),
    /// A member loses touch with the others, and finds them again after a while.
    Part(usize, Duration),
    /// A member lags behind: it applies nothing for a while, or little by little.
    Hold(usize, Duration),
    /// A member that lags applies one more transaction.
    Step(usize),
}

impl Fault {
    /// What it is called.
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
            Self::Part(..) => "part",
            Self::Hold(..) => "hold",
            Self::Step(..) => "step",
        }
    }
}

/// What a fault that is drawn is to be.
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
    Part,
    Hold,
    Step,
}

/// How often each kind of fault is drawn.
const WEIGHTS: [(Kind, usize); 11] = [
    (Kind::Cut, 10),
    (Kind::Stall, 6),
    (Kind::Isolate, 2),
    (Kind::Pause, 3),
    (Kind::Crash, 2),
    (Kind::Expire, 1),
    (Kind::Swallow, 4),
    (Kind::Kill, 2),
    (Kind::Part, 4),
    (Kind::Hold, 5),
    (Kind::Step, 3),
];

impl Kind {
    fn draw(rng: &mut fastrand::Rng) -> Self {
        let repeated = WEIGHTS.iter().flat_map(|(kind, weight)| iter::repeat_n(*kind, *weight));
        let kinds: Vec<_> = repeated.collect();
        kinds[rng.u32(..kinds.len() as u32) as usize]
    }
}

impl Fault {
    /// Draws `count` faults between `from` and `to`. All of them are over at `to`.
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
        let member = rng.usize(..options.members);
        // Short ones are as likely as long ones, whatever the scale.
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
            Kind::Kill => Self::Kill(member, time),
            // Long enough for somebody to come who has no session yet.
            Kind::Part => Self::Part(member, rest.mul_f64(rng.f64())),
            Kind::Hold => Self::Hold(member, time),
            Kind::Step => Self::Step(member),
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
    /// Has something go wrong, now.
    pub fn inject(&mut self, fault: Fault) {
        self.trace.bytes(self.now, fault.name(), 0, &[]);
        self.trace.say(self.now, format_args!("--- {fault:?}"));
        self.judge.count(fault.name());
        match fault {
            Fault::Cut(client, cut) => self.cut(client, cut),
            Fault::Stall(client, direction, time) => self.stall(client, direction, time),
            Fault::Isolate(client, time) => self.isolate(client, time),
            Fault::Pause(client, time) => self.pause(client, time),
            Fault::Crash(client, time) => self.crash(client, time),
            Fault::Swallow(client) => self.swallow(client),
            Fault::Expire(client) => self.expire(client),
            Fault::Kill(member, time) => {
                self.kill(member);
                self.queue.schedule(self.now + time, Occurrence::Restart(member));
            }
            Fault::Part(member, time) => {
                self.cut_off(member);
                self.queue.schedule(self.now + time, Occurrence::Reunite(member));
            }
            Fault::Hold(member, time) => {
                self.hold(member);
                self.queue.schedule(self.now + time, Occurrence::Release(member));
            }
            Fault::Step(member) => self.apply_one(member),
        }
    }

    /// Cuts the connection of a client.
    pub fn cut(&mut self, client: usize, cut: Cut) {
        self.cut_link(client, cut);
    }

    /// Has nothing arrive in one direction between a client and its member for a while.
    pub fn stall(&mut self, client: usize, direction: Direction, time: Duration) {
        let member = self.slots[client].link.and_then(|link| Some(self.links.get(&link)?.member));
        if let Some(member) = member {
            self.block(client, member, direction, time);
        }
    }

    /// Has nothing arrive between a client and all members for a while.
    pub fn isolate(&mut self, client: usize, time: Duration) {
        for member in 0..self.options.members {
            for direction in Direction::ALL {
                self.block(client, member, direction, time);
            }
        }
    }

    fn block(&mut self, client: usize, member: usize, direction: Direction, time: Duration) {
        let until = self.blocked.entry((client, member, direction)).or_default();
        *until = (*until).max(self.now + time);
    }

    /// Puts all servers out of reach of all clients for a while.
    ///
    /// Every client whose lease lasts long enough is to keep its session and its locks: until the
    /// servers are back, the longest delay between two rounds of attempts has passed, which is a
    /// twentieth of the session timeout, and the client has had time to `reconnect`. The judge
    /// holds it to that until it is connected again. How many such clients there are.
    pub fn outage(&mut self, outage: Outage, time: Duration, reconnect: Duration) -> usize {
        let back = self.now + time;
        let keeps = |client: &SimClient| {
            let lease = client.lease().unwrap_or_default();
            back + client.session_timeout() / 20 + reconnect <= lease
        };
        let machines = self.slots.iter().filter_map(|slot| slot.machine.as_ref().zip(Some(slot)));
        let kept = machines.filter(|(machine, _)| keeps(machine)).map(|(_, slot)| slot.incarnation);
        let count = self.judge.expect_kept(kept);
        match outage {
            Outage::Dead => (0..self.options.members).for_each(|member| {
                self.kill(member);
                self.queue.schedule(back, Occurrence::Restart(member));
            }),
            Outage::Silent | Outage::Cut => (0..self.options.clients).for_each(|client| {
                if outage == Outage::Cut {
                    self.cut(client, Cut::BEFORE_RECEIVED);
                }
                self.isolate(client, time);
            }),
        }
        count
    }

    /// Stops a client for a while.
    pub fn pause(&mut self, client: usize, time: Duration) {
        let slot = &mut self.slots[client];
        slot.paused_until = slot.paused_until.max(self.now + time);
        self.queue.schedule(slot.paused_until, Occurrence::Resume(client));
        self.plan(client);
    }

    /// Kills a client. Another one takes its place after a while.
    pub fn crash(&mut self, client: usize, time: Duration) {
        if self.slots[client].machine.is_some() {
            self.end(client);
            self.slots[client].paused_until = Duration::ZERO;
            self.queue.schedule(self.now + time, Occurrence::Begin(client));
        }
    }

    /// Has the ensemble end the session of a client.
    pub fn expire(&mut self, client: usize) {
        if let Some(machine) = &self.slots[client].machine {
            self.ensemble.expire_session(self.now, machine.id());
            self.drain_ensemble();
        }
    }

    /// Has the next watch event about a lock for a client get lost by a fault of its server.
    pub fn swallow(&mut self, client: usize) {
        if let Some(machine) = &self.slots[client].machine {
            self.ensemble.swallow_events(machine.id(), "/lock", 1);
        }
    }

    /// Kills a member.
    pub fn kill(&mut self, member: usize) {
        self.ensemble.kill(self.now, member);
        self.drain_ensemble();
    }

    /// Starts a member again.
    pub fn restart(&mut self, member: usize) {
        self.trace.bytes(self.now, "restart of member", member as u64, &[]);
        self.ensemble.restart(self.now, member);
        self.drain_ensemble();
    }

    /// Has a member lose touch with the others. It may serve reads to those who accept that.
    pub fn cut_off(&mut self, member: usize) {
        self.ensemble.cut_off(self.now, member);
        self.drain_ensemble();
    }

    /// Has a member that was cut off find the others again.
    pub fn reunite(&mut self, member: usize) {
        self.trace.bytes(self.now, "return of member", member as u64, &[]);
        self.ensemble.reunite(self.now, member);
        self.drain_ensemble();
    }

    /// Makes a member lag behind, unless it leads.
    pub fn hold(&mut self, member: usize) {
        self.ensemble.hold(member);
    }

    /// Lets a member that lags behind apply one more transaction.
    pub fn apply_one(&mut self, member: usize) {
        self.ensemble.step(self.now, member);
        self.drain_ensemble();
    }

    /// Lets a member that lags behind catch up.
    pub fn release(&mut self, member: usize) {
        self.trace.bytes(self.now, "release of member", member as u64, &[]);
        self.ensemble.release(self.now, member);
        self.drain_ensemble();
    }

    /// No fault remains: what no client uses any more is closed, as keep-alive does.
    pub fn heal(&mut self) {
        for slot in &mut self.slots {
            slot.paused_until = slot.paused_until.min(self.now);
        }
        self.blocked.clear();
        for member in 0..self.options.members {
            self.restart(member);
            self.reunite(member);
            self.release(member);
        }
        self.reap_half_open();
        for client in 0..self.slots.len() {
            self.drain_client(client);
        }
    }
}
