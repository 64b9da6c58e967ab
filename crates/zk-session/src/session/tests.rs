//! Tests of the core against a scripted server. Time is an argument.

mod authenticating;
mod credentials;
mod deadlines;
mod ending;
#[cfg(feature = "blocking")]
mod ephemerals;
#[cfg(any(feature = "tracing", feature = "metrics"))]
mod exchanges;
mod handshake;
mod history;
mod oversized;
mod persistent;
mod pieces;
mod properties;
mod read_only;
mod rebalancing;
mod refusals;
mod renewing;
mod requests;
mod resuming;
mod room;
mod servers;
pub(super) mod sharing;
mod table;
mod timers;
mod traps;
mod watches;

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use bytes::BytesMut;
use zk_proto::{
    Create2Response, CreateMode, CreateRequest, Encode, EventType, ExistsRequest,
    GetChildren2Response, GetChildrenRequest, GetDataRequest, KeeperState, List, Stat,
};

use super::*;

const SESSION: SessionId = SessionId(0x0100_0000_0000_0001);
const PASSWORD: [u8; 16] = *b"sixteen letters!";
/// The session timeout that the server grants, in milliseconds: less than requested.
const GRANTED: i32 = 6_000;

/// A length beyond the limit of replies.
const TOO_LONG: usize = 100 << 20;

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A request as the server receives it.
#[derive(Debug, PartialEq, Eq)]
struct Sent {
    xid: Xid,
    opcode: OpCode,
    body: Bytes,
}

impl Sent {
    fn request(&self) -> Request<'_> {
        Request::decode(self.opcode, &self.body).expect("the session sends what can be read")
    }
}

/// A session, the server's end of its connection, and a clock.
struct Harness {
    session: Session<u32>,
    now: Instant,
    /// Bytes that the server has received on this connection and not decoded.
    received: BytesMut,
}

impl Harness {
    fn with(config: Config) -> Self {
        let now = Instant::after_start(ms(1_000_000));
        Self { session: Session::new(now, config), now, received: BytesMut::new() }
    }

    /// Makes a session with so many servers, not connected.
    fn new(servers: usize) -> Self {
        Self::with(Config::new(servers, 0))
    }

    /// Makes a session with one server, connected, without pending events.
    fn connected() -> Self {
        let mut h = Self::new(1);
        h.connect();
        h.events();
        h
    }

    // ---- The transport -------------------------------------------------------------------------

    fn actions(&mut self) -> Vec<Action> {
        core::iter::from_fn(|| self.session.poll_action()).collect()
    }

    /// Waits for an attempt to connect, which succeeds.
    fn reach(&mut self) -> usize {
        let server = loop {
            match self.actions().last() {
                Some(Action::Connect(server)) => break *server,
                _ => self.sleep(),
            };
        };
        self.received.clear();
        self.session.handle_connected(self.now);
        server
    }

    /// Returns the handshake as the server receives it. Call `reach` before.
    fn handshake(&mut self) -> Bytes {
        self.take_all();
        let handshake = self.payload().expect("a handshake is sent first");
        assert_eq!(self.payload(), None, "something follows the handshake");
        handshake
    }

    /// Connects, and answers the handshake as a server that has the session.
    fn connect(&mut self) -> usize {
        let server = self.reach();
        self.handshake();
        self.welcome();
        assert!(matches!(self.session.state(), State::Connected { .. }));
        server
    }

    fn welcome(&mut self) {
        self.answer_handshake(GRANTED, SESSION);
    }

    fn answer_handshake(&mut self, timeout: i32, session_id: SessionId) {
        self.deliver(&ConnectResponse {
            protocol_version: 0,
            timeout,
            session_id,
            password: Some(&PASSWORD),
            read_only: Some(false),
        });
    }

    fn disconnect(&mut self) {
        self.session.handle_disconnected(self.now);
    }

    fn deliver(&mut self, message: &impl Encode) {
        let mut frame = BytesMut::new();
        message.encode(&mut frame);
        self.session.handle_frame(self.now, frame.freeze());
    }

    /// Sends so many bytes.
    fn take(&mut self, count: usize) {
        self.received.extend_from_slice(&self.session.output()[..count]);
        self.session.handle_sent(self.now, count);
    }

    fn take_all(&mut self) {
        while !self.session.output().is_empty() {
            self.take(self.session.output().len());
        }
    }

    fn payload(&mut self) -> Option<Bytes> {
        frame::split_bytes(&mut self.received, usize::MAX).expect("a frame's length is right")
    }

    /// Returns the next request that the server has received completely.
    fn received(&mut self) -> Option<Sent> {
        let body = self.payload()?;
        let mut reader = Reader::new(&body);
        let RequestHeader { xid, opcode } =
            RequestHeader::decode(&mut reader).expect("requests have a header");
        Some(Sent { xid, opcode, body: body.slice(reader.position()..) })
    }

    /// Returns all requests that are sent now.
    fn sent(&mut self) -> Vec<Sent> {
        self.take_all();
        core::iter::from_fn(|| self.received()).collect()
    }

    fn sent_xids(&mut self) -> Vec<i32> {
        self.sent().iter().map(|sent| sent.xid.0).collect()
    }

    // ---- The server ----------------------------------------------------------------------------

    fn reply(&mut self, xid: i32, zxid: i64, err: ErrorCode) {
        self.reply_with(xid, zxid, err, &());
    }

    fn reply_with(&mut self, xid: i32, zxid: i64, err: ErrorCode, body: &impl Encode) {
        self.deliver(&(ReplyHeader { xid: Xid(xid), zxid: Zxid(zxid), err }, body));
    }

    /// Answers everything sent now in order, with success.
    fn answer_all(&mut self) {
        for sent in self.sent() {
            self.reply(sent.xid.0, 1, ErrorCode::OK);
        }
    }

    /// Serves the connection for longer than the time between pings.
    fn be_of_use(&mut self) {
        for _ in 0..2 {
            self.advance(ms(2_000));
            self.answer_all();
        }
    }

    /// Delivers a reply that is too long.
    fn reply_too_long(&mut self, xid: i32, zxid: i64, err: ErrorCode) {
        self.begin_too_long(xid, zxid, err);
        self.session.handle_rest(self.now, vec![0; TOO_LONG - 16].into());
    }

    /// Delivers the start of a reply that is too long.
    fn begin_too_long(&mut self, xid: i32, zxid: i64, err: ErrorCode) {
        let header = ReplyHeader { xid: Xid(xid), zxid: Zxid(zxid), err };
        let mut start = BytesMut::new();
        header.encode(&mut start);
        self.session.handle_oversized(self.now, &start, TOO_LONG);
    }

    fn notify(&mut self, event_type: EventType, path: &str) {
        let event = WatcherEvent { event_type, state: KeeperState::SYNC_CONNECTED, path };
        self.reply_with(Xid::NOTIFICATION.0, 1_000_000, ErrorCode::OK, &event);
    }

    // ---- The clock -----------------------------------------------------------------------------

    fn advance(&mut self, by: Duration) {
        self.now = self.now + by;
        self.session.handle_timeout(self.now);
    }

    /// Advances the clock to the next deadline. Returns by how much.
    fn sleep(&mut self) -> Duration {
        let due = self.session.poll_timeout().expect("something is due some day");
        let slept = due - self.now;
        self.advance(slept);
        slept
    }

    // ---- The caller ----------------------------------------------------------------------------

    fn submit(&mut self, request: &Request<'_>, token: u32) -> RequestId {
        self.session.submit(request, token).expect("the session takes requests")
    }

    fn sync(&mut self, token: u32) -> RequestId {
        self.submit(&SYNC, token)
    }

    /// Submits a request that sets a watch, and answers it with `err`.
    fn watch(&mut self, request: &Request<'_>, err: ErrorCode) -> RequestId {
        let id = self.submit(request, 0);
        let sent = self.sent().pop().expect("it was sent");
        assert_eq!(sent.opcode, request.opcode());
        self.reply(sent.xid.0, 1, err);
        self.events();
        id
    }

    fn events(&mut self) -> Vec<Event<u32>> {
        core::iter::from_fn(|| self.session.poll_event()).collect()
    }

    /// Returns the replies among the events: token, and error if the request failed.
    fn answers(&mut self) -> Vec<(u32, Option<Error>)> {
        let answer = |event| match event {
            Event::Reply { token, result } => Some((token, result.err())),
            _ => None,
        };
        self.events().into_iter().filter_map(answer).collect()
    }

    /// Returns the watch events.
    fn fired(&mut self) -> Vec<(Vec<RequestId>, EventType, String)> {
        let fired = |event| match event {
            Event::Watch { requests, event, .. } => {
                Some((requests, event.event_type, event.path.to_string()))
            }
            _ => None,
        };
        self.events().into_iter().filter_map(fired).collect()
    }

    /// Returns why the connection was lost, if it was.
    fn cause(&mut self) -> Option<Cause> {
        self.events().into_iter().find_map(|event| match event {
            Event::Disconnected { cause, .. } => Some(cause),
            _ => None,
        })
    }
}

const SYNC: Request<'static> = Request::Sync(zk_proto::SyncRequest { path: "/" });

fn create(path: &str) -> Request<'_> {
    Request::Create2(CreateRequest {
        path,
        data: Some(b"x"),
        acl: List::new(&[]),
        mode: CreateMode::PERSISTENT,
    })
}

fn exists(path: &str) -> Request<'_> {
    Request::Exists(ExistsRequest { path, watch: true })
}

fn get_data(path: &str) -> Request<'_> {
    Request::GetData(GetDataRequest { path, watch: true })
}

fn get_children(path: &str) -> Request<'_> {
    Request::GetChildren2(GetChildrenRequest { path, watch: true })
}

fn unknown(token: u32) -> (u32, Option<Error>) {
    (token, Some(Error::ConnectionLost))
}

fn ended(token: u32, end: End, outcome: Outcome) -> (u32, Option<Error>) {
    (token, Some(Error::Ended { end, outcome }))
}

impl<T> Session<T> {
    /// Returns the sum of the capacities of all buffers.
    fn kept(&self) -> usize {
        let in_flight = self.connection.as_ref().map_or(0, |open| open.in_flight.capacity());
        self.outbox.capacity() + in_flight + self.events.capacity() + self.actions.capacity()
    }
}
