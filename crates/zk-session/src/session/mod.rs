//! The core: one session's behaviour, without sockets, clocks, tasks or randomness of its own.
//!
//! [`Session`] has four kinds of methods. *Getters* look. *Inputs* (`handle_*`) tell it what the
//! transport and the clock did. *Commands* ([`submit`](Session::submit),
//! [`unwatch`](Session::unwatch), [`close`](Session::close)) tell it what the caller wants.
//! *Outputs* say what is to be done: [`poll_action`](Session::poll_action),
//! [`output`](Session::output), [`poll_event`](Session::poll_event),
//! [`poll_timeout`](Session::poll_timeout).
//!
//! **The rule**: after any input or command, drain the actions and the events, offer the output to
//! the transport, and call [`handle_timeout`](Session::handle_timeout) when the timeout has come.

mod event;
mod members;
mod outbox;
mod timers;
mod watches;

#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use core::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, ErrorCode, OpCode, Reader, RemoveWatchesRequest,
    ReplyHeader, Request, RequestHeader, SessionId, SetWatches, WatcherEvent, Xid, Zxid, frame,
};

pub use self::event::{Action, Cause, End, Event, Reply, State, WatchedEvent};
use self::members::Members;
use self::outbox::{Outbox, Owner, Pending};
use self::timers::{Timer, Timers};
use self::watches::{Registration, Removal, Watches};
use crate::error::{Error, Invalid, Outcome};
use crate::time::Instant;

/// The least time that one member gets to answer the handshake.
const LEAST_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The part of the session timeout by which a lease is cut short, for clocks that drift apart.
const LEASE_MARGIN: u32 = 20;

/// What a session is made with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// How many members the ensemble has.
    pub members: usize,
    /// The session timeout to ask for. The server may grant another one.
    pub timeout: Duration,
    /// The longest request that the server accepts, in bytes: its `jute.maxbuffer`.
    pub max_request: usize,
    /// The longest reply that is accepted, in bytes. Servers do not limit their replies.
    pub max_reply: usize,
    /// How many requests may wait for an answer.
    pub max_pending: usize,
    /// Decides the order of members and all delays that are random.
    pub seed: u64,
}

impl Config {
    /// A session of 10 seconds with an ensemble of `members`, and a server's default limits.
    pub fn new(members: usize) -> Self {
        Self {
            members,
            timeout: Duration::from_secs(10),
            max_request: frame::DEFAULT_LIMIT,
            max_reply: 64 << 20,
            max_pending: 1 << 16,
            seed: 0,
        }
    }
}

/// Names a request for as long as the session lives, and the watch that it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// One session with an ensemble. See the [module](self) for how to drive it.
///
/// `T` is what a request is submitted with and what comes back with its answer: a channel, an
/// index, whatever finds the caller again.
#[derive(Debug)]
pub struct Session<T> {
    config: Config,
    phase: Phase,
    closing: bool,
    /// The session and its password, once there is one.
    id: SessionId,
    password: Bytes,
    /// What the server granted; what was asked for before that.
    timeout: Duration,
    last_zxid: Zxid,
    lease_start: Option<Instant>,
    members: Members,
    timers: Timers,
    /// The handshake, and after it what must reach the server before any request.
    prelude: BytesMut,
    prelude_sent_at: Instant,
    outbox: Outbox<T>,
    watches: Watches,
    /// Cleared when a server turns out to be too old for it; asking again would cost a connection.
    can_remove_watches: bool,
    last_request: RequestId,
    statistics: Statistics,
    actions: VecDeque<Action>,
    events: VecDeque<Event<T>>,
}

/// What a session has sent and received so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Requests submitted, without pings and other requests of the session's own.
    pub requests: u64,
    /// Watch events received, wanted or not.
    pub notifications: u64,
    /// Connections on which the handshake succeeded.
    pub connections: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No connection; a timer says when to try the next member.
    Waiting,
    Connecting(usize),
    Handshaking(usize),
    Connected(usize),
    Ended(End),
}

/// # Getters
impl<T> Session<T> {
    /// How things stand.
    pub fn state(&self) -> State {
        match self.phase {
            Phase::Ended(end) => State::Ended(end),
            Phase::Connected(member) => State::Connected { member, session: self.id },
            _ if self.id == SessionId::NONE => State::Connecting,
            _ => State::Suspended,
        }
    }

    /// The session, or [`SessionId::NONE`] while there is none.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// The session timeout: granted by the server, or asked for while there is no session.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The newest transaction that a reply has told of. It never goes back.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// Until when the ensemble is bound to keep the session, as far as can be known here: the
    /// moment the newest acknowledged request was sent, plus the session timeout, less 5 %. `None`
    /// while there is no session, and from the moment it is being closed.
    ///
    /// It is no proof. A member that has lost touch with its leader acknowledges requests that
    /// the leader, which decides about expiry, never hears of.
    pub fn lease(&self) -> Option<Instant> {
        let start = self.lease_start.filter(|_| self.end().is_none());
        let margin = self.timeout / LEASE_MARGIN;
        start.map(|start| start + (self.timeout - margin))
    }

    /// What was sent and received so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// How many requests wait for an answer.
    pub fn pending(&self) -> usize {
        self.outbox.len()
    }
}

/// # Inputs
impl<T> Session<T> {
    /// A session that begins now to look for a member.
    pub fn new(now: Instant, mut config: Config) -> Self {
        // The wire can say no more than this.
        config.timeout = config.timeout.min(Duration::from_millis(i32::MAX as u64));
        config.max_request = config.max_request.min(i32::MAX as usize);
        let mut session = Self {
            phase: Phase::Waiting,
            closing: false,
            id: SessionId::NONE,
            password: Bytes::from_static(&[0; 16]),
            timeout: config.timeout,
            last_zxid: Zxid::ZERO,
            lease_start: None,
            members: Members::new(config.members, config.seed),
            timers: Timers::default(),
            prelude: BytesMut::new(),
            prelude_sent_at: now,
            outbox: Outbox::new(),
            watches: Watches::default(),
            can_remove_watches: true,
            last_request: RequestId(0),
            statistics: Statistics::default(),
            actions: VecDeque::new(),
            events: VecDeque::new(),
            config,
        };
        session.connect_next(now);
        session
    }

    /// The transport to the member of the last [`Action::Connect`] is there.
    pub fn handle_connected(&mut self, now: Instant) {
        let Phase::Connecting(member) = self.phase else {
            return;
        };
        self.phase = Phase::Handshaking(member);
        self.prelude_sent_at = now;
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid,
            timeout: self.config.timeout.as_millis() as i32,
            session_id: self.id,
            password: Some(&self.password),
            read_only: Some(false),
        };
        frame::encode(&request, &mut self.prelude).expect("a handshake is far below 2 GiB");
    }

    /// The transport could not be made, or is gone.
    pub fn handle_disconnected(&mut self, now: Instant) {
        if self.member().is_some() {
            self.disconnected(now, Cause::Transport);
        }
    }

    /// The member sent a frame of impossible length, after which nothing can be read.
    pub fn handle_bad_frame(&mut self, now: Instant, error: frame::FrameError) {
        self.disconnect(now, Cause::Frame(error));
    }

    /// A frame has arrived; this is what it holds behind its length.
    pub fn handle_frame(&mut self, now: Instant, payload: Bytes) {
        let result = match self.phase {
            Phase::Handshaking(member) => self.finish_handshake(now, member, &payload),
            Phase::Connected(_) => {
                self.timers.set(Timer::Read, now + self.read_timeout());
                self.handle_message(payload)
            }
            _ => Ok(()),
        };
        if let Err(cause) = result {
            self.disconnect(now, cause);
        }
    }

    /// The transport has taken `count` bytes of the [`output`](Self::output). `now` must be read
    /// *before* they were handed over, since a lease is counted from it.
    pub fn handle_sent(&mut self, now: Instant, count: usize) {
        let count = count.min(self.output().len());
        let prelude = count.min(self.prelude.len());
        self.prelude.advance(prelude);
        self.outbox.sent(now, count - prelude);
        if count > 0 && matches!(self.phase, Phase::Connected(_)) {
            self.timers.set(Timer::Ping, now + self.ping_interval());
        }
    }

    /// Time has passed. Does nothing while no deadline has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Retry => self.connect_next(now),
                Timer::Connect => self.disconnect(now, Cause::ConnectTimeout),
                Timer::Read => self.disconnect(now, Cause::ReadTimeout),
                Timer::Ping => {
                    if !self.outbox.has_ping() {
                        self.outbox.push(&Request::Ping(()), Owner::Session, None);
                    }
                    self.timers.set(Timer::Ping, now + self.ping_interval());
                }
            }
        }
    }
}

/// # Commands
impl<T> Session<T> {
    /// Sends a request, behind all that were submitted before. Its answer comes back with `token`.
    ///
    /// While there is no connection it waits for one. If it asks for a watch, that watch is known
    /// by the id returned, and stays until it fires or is [dropped](Self::unwatch).
    ///
    /// # Errors
    ///
    /// When the session has ended, or the request is impossible; `token` is dropped then.
    pub fn submit(&mut self, request: &Request<'_>, token: T) -> Result<RequestId, Error> {
        if let Some(end) = self.end() {
            return Err(Error::Ended { end, outcome: Outcome::NotApplied });
        }
        let id = RequestId(self.last_request.0 + 1);
        let registration = Registration::of(request, id);
        // A watch that cannot be set again would cost every connection to come.
        let again = registration.as_ref().map_or(0, Registration::replay_length);
        let length = outbox::request_length(request).max(again);
        let limit = self.config.max_request;
        if length > limit {
            return Err(Invalid::TooLarge { length, limit }.into());
        }
        if self.outbox.len() >= self.config.max_pending {
            return Err(Invalid::QueueFull { limit: self.config.max_pending }.into());
        }
        self.last_request = id;
        self.statistics.requests += 1;
        if let Some(registration) = &registration {
            self.watches.begin(registration);
        }
        self.outbox.push(request, Owner::Caller(token), registration);
        Ok(id)
    }

    /// The watch that a request asked for is not wanted any more. When nobody else waits for the
    /// same one, the server is told. Does nothing if the watch has fired.
    pub fn unwatch(&mut self, request: RequestId) {
        let removal = self.watches.remove(request);
        self.remove_watch(removal);
    }

    /// Ends the session, behind all requests submitted before. No more are accepted.
    ///
    /// The server then deletes the session's ephemeral nodes. Without a connection the session
    /// ends at once, and the server finds out when it expires.
    pub fn close(&mut self) {
        if self.end().is_some() {
            return;
        }
        self.closing = true;
        match self.phase {
            Phase::Connected(_) => {
                self.outbox.push(&Request::CloseSession(()), Owner::Session, None);
            }
            _ => {
                self.actions.push_back(Action::Disconnect);
                self.finish(End::Closed);
            }
        }
    }
}

/// # Outputs
impl<T> Session<T> {
    /// The next thing to do with the transport.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next thing to tell.
    pub fn poll_event(&mut self) -> Option<Event<T>> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The bytes that the transport is to take next; what it took goes to
    /// [`handle_sent`](Self::handle_sent).
    pub fn output(&self) -> &[u8] {
        match self.phase {
            // Whatever follows the handshake too early can destroy an answer that says that the
            // session has expired: the server closes, and the reset overtakes it.
            Phase::Handshaking(_) => &self.prelude,
            Phase::Connected(_) if !self.prelude.is_empty() => &self.prelude,
            Phase::Connected(_) => self.outbox.output(),
            _ => &[],
        }
    }
}

impl<T> Session<T> {
    fn member(&self) -> Option<usize> {
        match self.phase {
            Phase::Connecting(member) | Phase::Handshaking(member) | Phase::Connected(member) => {
                Some(member)
            }
            Phase::Waiting | Phase::Ended(_) => None,
        }
    }

    /// How the session has ended, or is about to.
    fn end(&self) -> Option<End> {
        match self.phase {
            Phase::Ended(end) => Some(end),
            _ => self.closing.then_some(End::Closed),
        }
    }

    fn connect_timeout(&self) -> Duration {
        let count = u32::try_from(self.members.count()).unwrap_or(u32::MAX).max(1);
        (self.config.timeout / count).max(LEAST_CONNECT_TIMEOUT)
    }

    fn read_timeout(&self) -> Duration {
        self.timeout / 3 * 2
    }

    fn ping_interval(&self) -> Duration {
        self.timeout / 3
    }

    fn connect_next(&mut self, now: Instant) {
        if let Some(member) = self.members.take_next() {
            self.phase = Phase::Connecting(member);
            self.timers.set(Timer::Connect, now + self.connect_timeout());
            self.actions.push_back(Action::Connect(member));
        }
    }

    fn finish_handshake(
        &mut self,
        now: Instant,
        member: usize,
        payload: &Bytes,
    ) -> Result<(), Cause> {
        let response =
            ConnectResponse::decode(&mut Reader::new(payload)).map_err(Cause::Malformed)?;
        let resumed = self.id != SessionId::NONE;
        // A server that hands out another session than the one asked for has lost that one.
        if response.is_expired() || (resumed && response.session_id != self.id) {
            self.actions.push_back(Action::Disconnect);
            self.finish(End::Expired);
            return Ok(());
        }
        self.id = response.session_id;
        self.password = response.password.map_or(Bytes::new(), |bytes| payload.slice_ref(bytes));
        self.timeout = Duration::from_millis(response.timeout.unsigned_abs().into());
        self.renew_lease(self.prelude_sent_at, ErrorCode::OK);
        self.members.succeeded();
        self.statistics.connections += 1;
        self.phase = Phase::Connected(member);
        self.timers.clear();
        self.timers.set(Timer::Read, now + self.read_timeout());
        self.timers.set(Timer::Ping, now + self.ping_interval());
        self.prelude.clear();
        self.replay_watches();
        self.events.push_back(Event::State(self.state()));
        Ok(())
    }

    /// Replies move `last_zxid` on while the batches are under way, so all carry the same one.
    fn replay_watches(&mut self) {
        for batch in self.watches.replay(self.config.max_request) {
            let header = RequestHeader { xid: Xid::SET_WATCHES, opcode: OpCode::SET_WATCHES };
            let body = SetWatches {
                relative_zxid: self.last_zxid,
                data_watches: batch.data[..].into(),
                exist_watches: batch.exist[..].into(),
                child_watches: batch.child[..].into(),
            };
            frame::encode(&(header, body), &mut self.prelude)
                .expect("a batch is bounded far below 2 GiB");
        }
    }

    fn handle_message(&mut self, payload: Bytes) -> Result<(), Cause> {
        let mut reader = Reader::new(&payload);
        let header = ReplyHeader::decode(&mut reader).map_err(Cause::Malformed)?;
        match header.xid {
            Xid::NOTIFICATION => {
                let event = WatcherEvent::decode(&mut reader).map_err(Cause::Malformed)?;
                self.fire(header.zxid, event);
            }
            Xid::PING => {
                if let Some(ping) = self.outbox.take_ping() {
                    self.renew_lease(ping.sent_at, header.err);
                }
            }
            Xid::SET_WATCHES if header.err != ErrorCode::OK => {
                return Err(Cause::WatchesRefused(header.err));
            }
            Xid::SET_WATCHES | Xid::AUTH => {}
            _ => {
                let body = payload.slice(reader.position()..);
                self.handle_reply(header, body)?;
            }
        }
        Ok(())
    }

    fn handle_reply(&mut self, header: ReplyHeader, body: Bytes) -> Result<(), Cause> {
        let Some(sent) = self.outbox.take_oldest() else {
            return Err(Cause::UnexpectedReply { expected: None, received: header.xid });
        };
        let pending = sent.pending;
        if pending.xid != header.xid {
            let cause =
                Cause::UnexpectedReply { expected: Some(pending.xid), received: header.xid };
            self.fail(pending, Error::ConnectionLost);
            return Err(cause);
        }
        self.renew_lease(sent.sent_at, header.err);
        if header.zxid > Zxid::ZERO {
            self.last_zxid = self.last_zxid.max(header.zxid);
        }
        if let Some(registration) = &pending.registration {
            let removal = self.watches.finish(registration, header.err);
            self.remove_watch(removal);
        }
        match pending.owner {
            Owner::Caller(token) => {
                let result = match header.err {
                    ErrorCode::OK => Ok(Reply { opcode: pending.opcode, zxid: header.zxid, body }),
                    code => Err(Error::Server(code)),
                };
                self.events.push_back(Event::Reply { token, result });
            }
            Owner::Session => match pending.opcode {
                OpCode::REMOVE_WATCHES => {
                    self.can_remove_watches &= header.err != ErrorCode::UNIMPLEMENTED;
                }
                OpCode::CLOSE_SESSION => {
                    self.actions.push_back(Action::Disconnect);
                    self.finish(End::Closed);
                }
                _ => {}
            },
        }
        Ok(())
    }

    /// The server has answered what was sent at `sent_at`.
    fn renew_lease(&mut self, sent_at: Instant, answer: ErrorCode) {
        let denies_session = matches!(
            answer,
            ErrorCode::SESSION_EXPIRED
                | ErrorCode::SESSION_MOVED
                | ErrorCode::UNKNOWN_SESSION
                | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH
        );
        if !denies_session {
            self.lease_start = self.lease_start.max(Some(sent_at));
        }
    }

    fn fire(&mut self, zxid: Zxid, event: WatcherEvent<'_>) {
        self.statistics.notifications += 1;
        let requests = self.watches.fire(event.event_type, event.path);
        if !requests.is_empty() {
            let event =
                WatchedEvent { event_type: event.event_type, path: event.path.into(), zxid };
            self.events.push_back(Event::Watch { requests, event });
        }
    }

    fn remove_watch(&mut self, removal: Option<Removal>) {
        // Without a connection the server has none, and what is not wanted is not set again.
        if let Some(Removal { path, watcher_type, to_be_set }) = removal
            && (to_be_set || matches!(self.phase, Phase::Connected(_)))
            && self.can_remove_watches
            && self.end().is_none()
        {
            let request =
                Request::RemoveWatches(RemoveWatchesRequest { path: &path, watcher_type });
            self.outbox.push(&request, Owner::Session, None);
        }
    }

    /// The transport must go, for a reason found here.
    fn disconnect(&mut self, now: Instant, cause: Cause) {
        if self.member().is_some() {
            self.actions.push_back(Action::Disconnect);
            self.disconnected(now, cause);
        }
    }

    /// The transport is gone.
    fn disconnected(&mut self, now: Instant, cause: Cause) {
        let was_connected = matches!(self.phase, Phase::Connected(_));
        if let Some(member) = self.member() {
            self.events.push_back(Event::Disconnected { member, cause });
        }
        if self.closing {
            return self.finish(End::Closed);
        }
        self.phase = Phase::Waiting;
        self.timers.clear();
        self.prelude.clear();
        let delay = if was_connected {
            for pending in self.outbox.lose_in_flight() {
                self.fail(pending, Error::ConnectionLost);
            }
            self.watches.disconnected();
            self.events.push_back(Event::State(self.state()));
            self.members.delay_after_loss()
        } else {
            self.members.delay_after_failure()
        };
        self.timers.set(Timer::Retry, now + delay);
    }

    fn finish(&mut self, end: End) {
        self.phase = Phase::Ended(end);
        self.timers.clear();
        self.prelude.clear();
        for pending in self.outbox.lose_in_flight() {
            self.fail(pending, Error::Ended { end, outcome: Outcome::Unknown });
        }
        for pending in self.outbox.drop_unsent() {
            self.fail(pending, Error::Ended { end, outcome: Outcome::NotApplied });
        }
        self.watches = Watches::default();
        self.events.push_back(Event::State(self.state()));
    }

    fn fail(&mut self, pending: Pending<T>, error: Error) {
        if let Some(registration) = &pending.registration {
            self.watches.abandon(registration);
        }
        if let Owner::Caller(token) = pending.owner {
            self.events.push_back(Event::Reply { token, result: Err(error) });
        }
    }
}
