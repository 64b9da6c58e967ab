//! The fuzz target `session`: the input decides what the session's callers, clock, transport and
//! server do.
//!
//! Half of the steps are those of a correct server; otherwise few inputs would get far. Invariants
//! are asserted after each step.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::{Bytes, BytesMut};
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, Encode, ErrorCode, EventType, KeeperState, Multi,
    OpCode, Reader, ReplyHeader, Request, RequestHeader, SessionId, WatcherEvent, Xid, Zxid, frame,
};
use zk_session::session::{Action, Config, Event, RequestId, Session, SessionTicket, State};
use zk_session::time::Instant;

const PATHS: [&str; 4] = ["/", "/a", "/a/b", "/ab"];
const MAX_PENDING: usize = 12;
/// Requests of the session itself that may wait beside those of callers.
const OWN: usize = 2;
const MAX_REQUEST: usize = 128;
/// The bytes of all pings that can wait on a transport that takes nothing: 64 frames.
const PINGS: usize = 64 * 12;
/// The maximum number of steps in a run. Longer inputs find nothing that shorter ones do not.
const STEPS: usize = 2_000;

/// The operations that can set a watch. Half of the requests are of these.
const WATCHING: [OpCode; 5] = [
    OpCode::EXISTS,
    OpCode::GET_DATA,
    OpCode::GET_CHILDREN,
    OpCode::GET_CHILDREN2,
    OpCode::ADD_WATCH,
];

/// The steps of an input: one byte each, and the bytes that the step needs.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Returns a number below `end`, or 0 at the end of the input.
    fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte().unwrap_or_default()) % end.max(1)
    }

    fn path(&mut self) -> &'static str {
        PATHS[self.below(PATHS.len())]
    }

    fn error(&mut self) -> ErrorCode {
        match self.below(12) {
            0 => ErrorCode::NO_NODE,
            1 => ErrorCode::UNIMPLEMENTED,
            2 => ErrorCode::NOT_READ_ONLY,
            3 => ErrorCode::MARSHALLING_ERROR,
            4 => ErrorCode(-i32::from(self.byte().unwrap_or_default())),
            _ => ErrorCode::OK,
        }
    }
}

/// An encoded request.
struct Body {
    opcode: OpCode,
    bytes: Vec<u8>,
}

impl Body {
    fn request(&self) -> Request<'_> {
        Request::decode(self.opcode, &self.bytes).expect("a body that decodes")
    }
}

/// Returns the shortest request for `opcode`: the path if it has one, and zeros. The last byte says
/// whether to set a watch.
fn body(opcode: OpCode, path: &str, watch: bool) -> Body {
    let mut bytes = Vec::new();
    if matches!(opcode, OpCode::MULTI | OpCode::MULTI_READ) {
        Request::Multi(Multi::new(&[])).encode(&mut bytes);
        return Body { opcode, bytes };
    }
    path.encode(&mut bytes);
    for (start, length) in
        [&bytes[..], &[]].into_iter().flat_map(|start| (0..64).map(move |length| (start, length)))
    {
        for last in [u8::from(watch), 0] {
            let mut bytes = start.to_vec();
            bytes.resize(start.len() + length, 0);
            if let Some(byte) = bytes[start.len()..].last_mut() {
                *byte = last;
            }
            if Request::decode(opcode, &bytes).is_ok() {
                return Body { opcode, bytes };
            }
        }
    }
    unreachable!("{opcode} takes more than a path and 64 zeros")
}

struct World {
    session: Session<usize>,
    now: Instant,
    /// How often each accepted token was answered.
    answers: Vec<usize>,
    ids: Vec<RequestId>,
    /// Bytes sent on this connection that are not split into frames yet.
    wire: BytesMut,
    /// Whether this connection has sent its handshake, and whether it has received anything.
    greeted: bool,
    answered: bool,
    /// Whether the session has asked for an exchange on this connection.
    authenticating: bool,
    /// Requests that the server has not answered yet.
    due: Vec<(Xid, OpCode)>,
    servers: usize,
    zxid: i64,
    ended: bool,
}

/// Runs a session whose callers, clock, transport and server follow `data`.
pub fn session(data: &[u8]) {
    let _ = run(data);
}

/// Runs an input. Returns the state of the session before it is closed.
fn run(data: &[u8]) -> State {
    let mut input = Input(data);
    let mut world = World::new(&mut input);
    for _ in 0..STEPS {
        let Some(step) = input.byte() else { break };
        world.step(step, &mut input);
        world.look();
    }
    let last = world.session.state();
    world.session.close();
    world.session.handle_disconnected(world.now);
    world.look();
    assert!(world.ended);
    assert!(world.answers.iter().all(|count| *count == 1), "a request was never answered");
    assert_eq!((world.session.pending(), world.session.poll_timeout()), (0, None));
    last
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let flags = input.byte().unwrap_or_default();
        let servers = usize::from(flags % 4);
        let mut config = Config::new(servers, u64::from(flags));
        config.max_pending = MAX_PENDING;
        config.max_request = MAX_REQUEST;
        config.max_unsent = 400;
        config.read_only = flags & 4 != 0;
        config.disconnect_timeout = (flags & 8 != 0).then_some(Duration::from_secs(5));
        config.resume = (flags & 16 != 0)
            .then(|| SessionTicket::new(SessionId(7), Bytes::from_static(b"password"), Zxid(3)));
        config.authenticate = flags & 32 != 0;
        let now = Instant::START;
        Self {
            session: Session::new(now, config),
            now,
            answers: Vec::new(),
            ids: Vec::new(),
            wire: BytesMut::new(),
            greeted: false,
            answered: false,
            authenticating: false,
            due: Vec::new(),
            servers,
            zxid: 0,
            ended: servers == 0,
        }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        let now = self.now;
        match step % 32 {
            0..=2 => self.submit(input),
            3 => {
                if let Some(id) = self.ids.get(input.below(self.ids.len())) {
                    self.session.unwatch(*id);
                }
            }
            4 => {
                let token = self.answers.len();
                let secret = [input.byte().unwrap_or_default() % 4];
                if self.session.add_auth("digest", &secret, token).is_ok() {
                    self.answers.push(0);
                }
            }
            5 if input.below(32) == 0 => self.session.close(),
            5 => self.set_servers(input),
            6 | 7 | 24 => self.session.handle_connected(now),
            8 => {
                let count = input.below(80);
                self.take(count);
            }
            9..=11 | 25 | 26 => self.take(usize::MAX),
            12 => {
                let units = input.below(256) as u32;
                self.now = now + Duration::from_millis(1 << (units % 32));
                self.time_passes();
            }
            13 => {
                if let Some(due) = self.session.poll_timeout() {
                    self.now = self.now.max(due);
                }
                self.time_passes();
            }
            14 => self.session.handle_timeout(Instant::START),
            27 if self.authenticating => self.authenticate(input),
            15 | 16 | 27 | 28 => self.welcome(input),
            17 | 18 | 29..=31 => {
                if !self.due.is_empty() {
                    let (xid, _) = self.due.remove(0);
                    self.zxid += 1;
                    let header = ReplyHeader { xid, zxid: Zxid(self.zxid), err: input.error() };
                    self.deliver(&header);
                }
            }
            19 => {
                let event = WatcherEvent {
                    event_type: EventType(input.below(7) as i32 - 1),
                    state: KeeperState::SYNC_CONNECTED,
                    path: input.path(),
                };
                let header =
                    ReplyHeader { xid: Xid::NOTIFICATION, zxid: Zxid(-1), err: ErrorCode::OK };
                self.deliver(&(header, event));
            }
            20 => {
                let xids = [Xid::PING, Xid::AUTH, Xid::SET_WATCHES, Xid(0), Xid(1), Xid(i32::MIN)];
                let xid = xids[input.below(xids.len())];
                let zxid = Zxid(input.below(9) as i64 - 4);
                self.deliver(&ReplyHeader { xid, zxid, err: input.error() });
            }
            21 => {
                let length = input.below(60).min(input.0.len());
                let (payload, rest) = input.0.split_at(length);
                input.0 = rest;
                self.answered = true;
                self.session.handle_frame(now, Bytes::copy_from_slice(payload));
            }
            22 => {
                let server = input.below(6);
                self.session.handle_probed(now, server, step >= 128);
            }
            _ if step >= 192 => {
                let answered = !self.due.is_empty() && input.below(4) > 0;
                let xid = if answered { self.due.remove(0).0 } else { Xid(-i32::from(step % 5)) };
                let mut start = BytesMut::new();
                ReplyHeader { xid, zxid: Zxid(self.zxid), err: input.error() }.encode(&mut start);
                self.answered = true;
                self.session.handle_oversized(now, &start, usize::MAX);
            }
            _ if step >= 128 => self.session.handle_disconnected(now),
            _ => self.session.handle_bad_frame(now, frame::FrameError::Negative(-1)),
        }
    }

    fn submit(&mut self, input: &mut Input<'_>) {
        let path = input.path();
        let kind = input.byte().unwrap_or_default();
        let opcodes = if kind & 32 == 0 { &WATCHING } else { OpCode::REQUESTS };
        let body = body(opcodes[usize::from(kind % 32) % opcodes.len()], path, kind & 64 != 0);
        let request = body.request();
        let token = self.answers.len();
        let submitted = if kind & 128 != 0 {
            let deadline = self.now + Duration::from_millis(1 << (kind % 16));
            self.session.submit_until(&request, token, deadline)
        } else {
            self.session.submit(&request, token)
        };
        match submitted {
            Ok(id) => {
                self.answers.push(0);
                self.ids.push(id);
            }
            Err(error) => assert_eq!(error.outcome(), zk_session::Outcome::NotApplied),
        }
    }

    fn authenticate(&mut self, input: &mut Input<'_>) {
        if input.below(2) == 0 {
            return self.session.authenticated(self.now);
        }
        let opcode = OpCode::REQUESTS[input.below(OpCode::REQUESTS.len())];
        // Refused while another request of the exchange waits for its reply.
        let _ = self.session.authenticate(&body(opcode, "/", false).request());
    }

    fn set_servers(&mut self, input: &mut Input<'_>) {
        let count = input.below(5);
        let kept: Vec<_> = (0..self.servers).map(|_| Some(input.below(6))).collect();
        self.session.update_servers(self.now, &kept, count);
        self.servers = count;
    }

    /// Lets the transport take this many bytes.
    fn take(&mut self, count: usize) {
        let output = self.session.output();
        let count = count.min(output.len());
        self.wire.extend_from_slice(&output[..count]);
        self.session.handle_sent(self.now, count);
        while let Some(payload) =
            frame::split_bytes(&mut self.wire, usize::MAX).expect("a valid length")
        {
            if !self.greeted {
                ConnectRequest::decode_all(&payload).expect("a handshake first");
                self.greeted = true;
                continue;
            }
            assert!(self.answered, "sent before the handshake was answered");
            let mut reader = Reader::new(&payload);
            let header =
                RequestHeader::decode(&mut reader).expect("a request behind the handshake");
            Request::decode(header.opcode, reader.rest()).expect("a request that decodes");
            assert!(payload.len() <= MAX_REQUEST, "{header:?} is too long");
            self.due.push((header.xid, header.opcode));
        }
    }

    fn time_passes(&mut self) {
        self.session.handle_timeout(self.now);
        let due = self.session.poll_timeout();
        assert!(due.is_none_or(|due| due > self.now), "{due:?} is not after {:?}", self.now);
    }

    fn welcome(&mut self, input: &mut Input<'_>) {
        let session_id = SessionId(match input.below(32) {
            0 => 0,
            1 => 9,
            _ => 7,
        });
        if self.greeted && !self.answered {
            self.deliver(&ConnectResponse {
                protocol_version: 0,
                timeout: [3_000, 6_000, i32::MAX, 1][input.below(4)],
                session_id,
                password: Some(&[1; 16]),
                read_only: [Some(false), Some(true), None][input.below(3)],
            });
        }
    }

    fn deliver(&mut self, message: &impl Encode) {
        let mut payload = BytesMut::new();
        message.encode(&mut payload);
        self.answered = true;
        self.session.handle_frame(self.now, payload.freeze());
    }

    fn look(&mut self) {
        let mut actions = Vec::new();
        while let Some(action) = self.session.poll_action() {
            actions.push(action);
            match action {
                Action::Connect(server) | Action::Probe(server) => assert!(server < self.servers),
                Action::Disconnect => {}
            }
            if !matches!(action, Action::Probe(_)) {
                self.wire.clear();
                self.due.clear();
                (self.greeted, self.answered, self.authenticating) = (false, false, false);
            }
        }
        assert!(actions.len() <= 4, "{actions:?}");
        while let Some(event) = self.session.poll_event() {
            assert!(!self.ended, "{event:?} after the end");
            match event {
                Event::Reply { token, .. } => {
                    self.answers[token] += 1;
                    assert_eq!(self.answers[token], 1, "answered twice");
                }
                Event::Authenticate { .. } => self.authenticating = true,
                Event::State(State::Ended(_)) => self.ended = true,
                _ => {}
            }
        }
        assert_eq!(self.ended, matches!(self.session.state(), State::Ended(_)));
        let open = self.answers.iter().filter(|count| **count == 0).count();
        assert!(open <= self.session.pending(), "a token was not answered");
        assert!(self.session.pending() <= MAX_PENDING);
        // The session's own requests: at most a removal for each watch, and pings.
        let own = 400 + PINGS;
        assert!(self.session.output().len() <= own + (self.ids.len() + OWN) * MAX_REQUEST);
        if self.ended {
            assert_eq!((open, self.session.output().len()), (0, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use zk_session::End;

    use super::*;

    /// Returns pseudo-random input number `seed`, long enough to reach many states.
    fn noise(seed: u64) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..50 + seed % 500).map(|_| byte()).collect()
    }

    #[test]
    fn there_is_a_request_for_every_operation() {
        for opcode in OpCode::REQUESTS {
            for watch in [false, true] {
                assert_eq!(body(*opcode, "/a", watch).request().opcode(), *opcode);
            }
        }
    }

    /// Pseudo-random inputs must reach every state; otherwise the test would show nothing.
    #[test]
    fn random_inputs_reach_every_state_and_break_nothing() {
        let mut reached = BTreeMap::new();
        for seed in 0..20_000 {
            let name = match run(&noise(seed)) {
                State::Connecting => "connecting",
                State::Connected { .. } => "connected",
                State::ReadOnly { .. } => "read-only",
                State::Suspended => "suspended",
                State::Ended(End::Expired) => "expired",
                State::Ended(End::Closed) => "closed",
                State::Ended(End::AuthFailed) => "auth-failed",
                State::Ended(End::NoServers) => "no servers",
                other => panic!("{other:?}"),
            };
            *reached.entry(name).or_insert(0) += 1;
        }
        assert_eq!(reached.len(), 8, "{reached:?}");
        // Seldom do all servers refuse the credentials in a row.
        assert!(reached.values().all(|count| *count > 5), "{reached:?}");
    }
}
