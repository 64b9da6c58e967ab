//! A model of many clients that come back after an outage, at servers that answer a fixed number of
//! handshakes a second.
//!
//! `cargo run --release -p zk-testkit --example herd -- [clients] [timeout-ms] [rate] [java]`
//!
//! The clients are real session cores on a virtual clock, or with `java` a sketch of Java's client:
//! a random delay below 1 s before each attempt. There are three servers. Each answers handshakes in
//! the order of their arrival, at the given rate, and also those whose client has given up since.
//! Everything else costs nothing. Prints a line for each outage.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zk_session::proto::{
    ConnectResponse, Encode, ErrorCode, Reader, ReplyHeader, Request, RequestHeader, SessionId,
    SyncRequest, Zxid, frame,
};
use zk_session::session::{Action, Config, Event, Session, State};
use zk_session::time::Instant;

const SERVERS: usize = 3;
/// The time of a packet from one side to the other.
const LATENCY: Duration = Duration::from_micros(500);

/// A time on the virtual clock, in nanoseconds.
type Time = u64;

const fn nanos(time: Duration) -> Time {
    time.as_nanos() as Time
}

/// A client as the model sees it.
trait Client {
    /// Acts on what is due. Returns what it does to its connection.
    fn step(&mut self, now: Time) -> Option<Act>;
    /// Returns when it wants to act next.
    fn due(&self) -> Option<Time>;
    fn connected(&mut self, now: Time);
    fn refused(&mut self, now: Time);
    fn welcomed(&mut self, now: Time);
    fn is_connected(&self) -> bool;
    /// Returns whether its lease has ended since the last call.
    fn take_lost(&mut self) -> bool;
}

#[derive(Clone, Copy)]
enum Act {
    Connect(usize),
    Disconnect,
}

/// The core of this repository. The server's replies to requests and pings cost no time.
struct Core {
    session: Session<()>,
    id: i64,
    timeout: Duration,
    lost: bool,
}

impl Core {
    fn deliver(&mut self, now: Time, message: &impl Encode) {
        let mut frame = BytesMut::new();
        message.encode(&mut frame);
        self.session.handle_frame(at(now), frame.freeze());
    }

    /// Answers what is sent, and reads the events.
    fn pump(&mut self, now: Time) {
        loop {
            let mut sent = Bytes::copy_from_slice(self.session.output());
            if sent.is_empty() || !self.is_connected() {
                break;
            }
            self.session.handle_sent(at(now), sent.len());
            let mut sent = BytesMut::from(std::mem::take(&mut sent));
            while let Ok(Some(body)) = frame::split_bytes(&mut sent, usize::MAX) {
                let header: RequestHeader =
                    zk_session::proto::Decode::decode(&mut Reader::new(&body)).expect("a request");
                let RequestHeader { xid, .. } = header;
                self.deliver(now, &ReplyHeader { xid, zxid: Zxid(1), err: ErrorCode::OK });
            }
        }
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::LeaseEnded => self.lost = true,
                Event::State(State::Connected { .. }) => {
                    let _ = self.session.submit(&Request::Sync(SyncRequest { path: "/" }), ());
                    return self.pump(now);
                }
                _ => {}
            }
        }
    }
}

const fn at(now: Time) -> Instant {
    Instant::after_start(Duration::from_nanos(now))
}

impl Client for Core {
    fn step(&mut self, now: Time) -> Option<Act> {
        self.session.handle_timeout(at(now));
        self.pump(now);
        let mut act = None;
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Connect(server) => act = Some(Act::Connect(server)),
                Action::Disconnect => act = Some(Act::Disconnect),
                Action::Probe(_) => {}
            }
        }
        act
    }

    fn due(&self) -> Option<Time> {
        self.session.poll_timeout().map(|due| nanos(due.since_start()))
    }

    fn connected(&mut self, now: Time) {
        self.session.handle_connected(at(now));
        let length = self.session.output().len();
        self.session.handle_sent(at(now), length);
    }

    fn refused(&mut self, now: Time) {
        self.session.handle_disconnected(at(now));
    }

    fn welcomed(&mut self, now: Time) {
        let answer = ConnectResponse {
            protocol_version: 0,
            timeout: self.timeout.as_millis() as i32,
            session_id: SessionId(self.id),
            password: Some(&[7; 16]),
            read_only: Some(false),
        };
        self.deliver(now, &answer);
        self.pump(now);
    }

    fn is_connected(&self) -> bool {
        matches!(self.session.state(), State::Connected { .. })
    }

    fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }
}

/// Java's client: `ClientCnxn.SendThread.run`, `StaticHostProvider.next`.
struct Java {
    rng: fastrand::Rng,
    timeout: Time,
    server: usize,
    /// Attempts since the last connection.
    attempts: usize,
    stage: Stage,
    due: Time,
    lease: Time,
    lost: bool,
}

#[derive(PartialEq)]
enum Stage {
    Waiting,
    Connecting,
    Connected,
}

impl Java {
    fn wait(&mut self, now: Time) {
        // A whole round of servers costs a second more.
        let round = if self.attempts > 0 && self.attempts.is_multiple_of(SERVERS) {
            1_000_000_000
        } else {
            0
        };
        self.stage = Stage::Waiting;
        self.due = now + self.rng.u64(..1_000_000_000) + round;
    }
}

impl Client for Java {
    fn step(&mut self, now: Time) -> Option<Act> {
        if self.lease <= now {
            (self.lease, self.lost) = (Time::MAX, true);
        }
        if self.due > now {
            return None;
        }
        match self.stage {
            Stage::Waiting => {
                self.server = (self.server + 1) % SERVERS;
                self.attempts += 1;
                self.stage = Stage::Connecting;
                self.due = now + self.timeout / SERVERS as Time;
                Some(Act::Connect(self.server))
            }
            Stage::Connecting => {
                self.wait(now);
                Some(Act::Disconnect)
            }
            Stage::Connected => {
                self.lease = now + self.timeout / 20 * 19;
                self.due = now + self.timeout / 3;
                None
            }
        }
    }

    fn due(&self) -> Option<Time> {
        Some(self.due.min(self.lease))
    }

    fn connected(&mut self, now: Time) {
        self.due = now + self.timeout / SERVERS as Time;
    }

    fn refused(&mut self, now: Time) {
        self.wait(now);
    }

    fn welcomed(&mut self, now: Time) {
        (self.stage, self.attempts) = (Stage::Connected, 0);
        self.lease = now + self.timeout / 20 * 19;
        self.due = now + self.timeout / 3;
    }

    fn is_connected(&self) -> bool {
        self.stage == Stage::Connected
    }

    fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    /// A client may have something to do.
    Wake(usize),
    /// The connection of this number reaches its server, or is refused.
    Arrive(usize, u64),
    /// The server has answered the first handshake in its queue.
    Answer(usize),
    /// A server goes down, or comes back.
    Down(usize),
    Up(usize),
}

struct Server {
    is_up: bool,
    /// The clients that wait for the answer to their handshake, and their connections.
    queue: VecDeque<(usize, u64)>,
}

struct Peer<C> {
    client: C,
    /// The number of its connection, or attempt, and the server.
    connection: u64,
    server: usize,
    wake: Time,
}

struct World<C> {
    now: Time,
    heap: BinaryHeap<Reverse<(Time, u64, Happening)>>,
    number: u64,
    peers: Vec<Peer<C>>,
    servers: [Server; SERVERS],
    service: Time,
    /// Attempts in each second since the outage began.
    attempts: Vec<u64>,
    began: Time,
    wasted: u64,
    lost: usize,
}

impl<C: Client> World<C> {
    fn schedule(&mut self, at: Time, what: Happening) {
        self.number += 1;
        self.heap.push(Reverse((at, self.number, what)));
    }

    /// Lets a client act, and notes when to wake it next.
    fn settle(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        while let Some(act) = peer.client.step(self.now) {
            self.number += 1;
            peer.connection = self.number;
            if let Act::Connect(server) = act {
                peer.server = server;
                let (connection, at) = (peer.connection, self.now + nanos(LATENCY));
                if self.now >= self.began {
                    let second = ((self.now - self.began) / 1_000_000_000) as usize;
                    self.attempts.resize(self.attempts.len().max(second + 1), 0);
                    self.attempts[second] += 1;
                }
                self.number += 1;
                self.heap.push(Reverse((at, self.number, Happening::Arrive(index, connection))));
                break;
            }
        }
        self.lost += usize::from(peer.client.take_lost());
        if let Some(due) = peer.client.due() {
            let due = due.max(self.now + 1);
            if peer.wake != due {
                peer.wake = due;
                self.number += 1;
                self.heap.push(Reverse((due, self.number, Happening::Wake(index))));
            }
        }
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Wake(index) if self.peers[index].wake == self.now => self.settle(index),
            Happening::Wake(_) => {}
            Happening::Arrive(index, connection) => {
                let peer = &mut self.peers[index];
                if peer.connection != connection {
                    return;
                }
                let server = peer.server;
                if !self.servers[server].is_up {
                    peer.client.refused(self.now);
                    return self.settle(index);
                }
                peer.client.connected(self.now);
                self.servers[server].queue.push_back((index, connection));
                if self.servers[server].queue.len() == 1 {
                    self.schedule(self.now + self.service, Happening::Answer(server));
                }
                self.settle(index);
            }
            Happening::Answer(server) => {
                let Some((index, connection)) = self.servers[server].queue.pop_front() else {
                    return;
                };
                if !self.servers[server].queue.is_empty() {
                    self.schedule(self.now + self.service, Happening::Answer(server));
                }
                if self.peers[index].connection == connection {
                    self.peers[index].client.welcomed(self.now);
                    self.settle(index);
                } else {
                    self.wasted += 1;
                }
            }
            Happening::Down(server) => {
                self.servers[server].is_up = false;
                self.servers[server].queue.clear();
                for index in 0..self.peers.len() {
                    let peer = &mut self.peers[index];
                    if peer.server == server {
                        peer.client.refused(self.now);
                        self.settle(index);
                    }
                }
            }
            Happening::Up(server) => self.servers[server].is_up = true,
        }
    }

    /// Runs until `end`, or until all are connected and it is later than `after`.
    fn run(&mut self, after: Time, end: Time) {
        let mut looked = 0;
        while let Some(Reverse((at, _, what))) = self.heap.pop() {
            self.now = at;
            self.happen(what);
            if at >= end {
                return;
            }
            if at > after && at > looked + 10_000_000 {
                looked = at;
                if self.peers.iter().all(|peer| peer.client.is_connected()) {
                    return;
                }
            }
        }
    }
}

struct Outcome {
    back: Option<f64>,
    lost: usize,
    expired: usize,
    peak: u64,
    wasted: u64,
}

/// Connects all clients, and takes `down` servers away for `outage`.
fn measure<C: Client>(
    clients: impl Iterator<Item = C>,
    timeout: Duration,
    rate: u64,
    down: usize,
    outage: Duration,
) -> Outcome {
    let mut rng = fastrand::Rng::with_seed(1);
    let timeout = nanos(timeout);
    let peers = clients.map(|client| Peer { client, connection: 0, server: 0, wake: 0 });
    let began = 2 * timeout;
    let mut world = World {
        now: 0,
        heap: BinaryHeap::new(),
        number: 0,
        peers: peers.collect(),
        servers: [(); SERVERS].map(|()| Server { is_up: true, queue: VecDeque::new() }),
        service: 1,
        attempts: Vec::new(),
        began,
        wasted: 0,
        lost: 0,
    };
    for index in 0..world.peers.len() {
        let at = rng.u64(1..timeout / 3);
        world.peers[index].wake = at;
        world.schedule(at, Happening::Wake(index));
    }
    world.run(Time::MAX, began);
    assert!(world.peers.iter().all(|peer| peer.client.is_connected()) && world.lost == 0);
    world.service = 1_000_000_000 / rate;
    let up = began + nanos(outage);
    for server in 0..down {
        world.happen(Happening::Down(server));
        world.schedule(up, Happening::Up(server));
    }
    world.run(up, up + timeout);
    let expired = world.peers.iter().filter(|peer| !peer.client.is_connected()).count();
    world.run(up, up + 30 * timeout);
    let is_back = world.peers.iter().all(|peer| peer.client.is_connected());
    Outcome {
        back: is_back.then(|| (world.now - up) as f64 / 1e9),
        lost: world.lost,
        expired,
        peak: world.attempts.iter().copied().max().unwrap_or(0),
        wasted: world.wasted,
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, default: u64| {
        arguments.get(place).and_then(|argument| argument.parse().ok()).unwrap_or(default)
    };
    let (count, timeout, rate) = (number(0, 100_000), number(1, 10_000), number(2, 5_000));
    let timeout = Duration::from_millis(timeout);
    let is_java = arguments.iter().any(|argument| argument == "java");
    println!("{count} clients, T = {timeout:?}, {SERVERS} servers of {rate} handshakes a second");
    for (down, outage) in [(1, 0), (SERVERS, 0), (SERVERS, 5)] {
        let outage = match outage {
            0 => Duration::from_millis(200),
            seconds => Duration::from_secs(seconds),
        };
        let outcome = if is_java {
            let java = |seed| Java {
                rng: fastrand::Rng::with_seed(seed),
                timeout: nanos(timeout),
                server: seed as usize % SERVERS,
                attempts: 0,
                stage: Stage::Waiting,
                due: 1,
                lease: Time::MAX,
                lost: false,
            };
            measure((0..count).map(java), timeout, rate, down, outage)
        } else {
            let core = |seed: u64| {
                let mut config = Config::new(SERVERS, seed);
                config.timeout = timeout;
                config.max_kept = 0;
                let session = Session::new(Instant::START, config);
                Core { session, id: 1 + seed as i64, timeout, lost: false }
            };
            measure((0..count).map(core), timeout, rate, down, outage)
        };
        let Outcome { back, lost, expired, peak, wasted } = outcome;
        let back = back.map_or("never".into(), |seconds| format!("{seconds:.1} s"));
        println!(
            "{down} down for {outage:?}: all back after {back}, {lost} locks and {expired} \
             sessions lost, at most {peak} attempts a second, {wasted} handshakes in vain"
        );
    }
}
