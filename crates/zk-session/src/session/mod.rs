//! The session core: one session, without sockets, clocks, tasks or randomness of its own.
//!
//! [`Session`] has four kinds of methods:
//!
//! * *Getters* return facts.
//! * *Inputs* (`handle_*`) report what the transport and the clock did.
//! * *Commands* ([`submit`](Session::submit), [`unwatch`](Session::unwatch),
//!   [`close`](Session::close)) carry out what the caller wants.
//! * *Outputs* ([`poll_action`](Session::poll_action), [`output`](Session::output),
//!   [`poll_event`](Session::poll_event), [`poll_timeout`](Session::poll_timeout)) return what the
//!   driver has to do.
//!
//! **The rule.** After each input or command, drain the actions and the events, and offer the
//! output to the transport. Call [`handle_timeout`](Session::handle_timeout) when the timeout has
//! come.
//!
//! ```
//! use zk_session::session::{Action, Config, Session, State};
//! use zk_session::time::Instant;
//!
//! let mut session: Session<()> = Session::new(Instant::START, Config::new(3, 42));
//! assert_eq!(session.state(), State::Connecting);
//! assert!(matches!(session.poll_action(), Some(Action::Connect(server)) if server < 3));
//! ```
//!
//! The module [`event_loop`](crate::event_loop) has a complete driver, over any transport.
//!
//! **Order.** Servers execute requests in the order in which they were submitted. Replies come in
//! that order, with three exceptions: those of [`add_auth`](Session::add_auth), deadlines that
//! pass, and requests that a server refuses before it executes them. Replies and watch events are
//! one stream: an event comes before any reply that shows its change.
//!
//! **Memory.** The session keeps:
//!
//! * requests until they are answered: at most [`Config::max_pending`], and the rest of a step of a
//!   machine;
//! * their bytes until they are sent: at most [`Config::max_unsent`] and one more request, or
//!   step of a machine;
//! * its own requests, beyond these limits, until they are answered: pings, a close, credentials, and
//!   at most one removal for each watch set or requested on this connection;
//! * each watch that is set, and each different credential;
//! * with one of the clients, 16 bytes for each of its ephemeral nodes, whose paths take at most
//!   `max_ephemerals` bytes;
//! * the actions and events that were not drained.
//!
//! A reply shares the buffer of its frame. The session allocates nothing for bytes that have not
//! arrived. A request without a watch costs no allocation once the buffers have grown.
//!
//! `docs/tables/session-states.md` lists what each input does in each state. A test compares it
//! with the code.

mod authenticating;
mod commands;
mod config;
mod connection;
mod credentials;
mod deadlines;
#[cfg_attr(not(feature = "blocking"), path = "uncounted.rs")]
mod ephemerals;
pub(crate) mod event;
#[cfg_attr(not(any(feature = "tracing", feature = "metrics")), path = "unrecorded.rs")]
pub(crate) mod exchanges;
pub(crate) mod growth;
mod handshake;
mod hasher;
mod history;
mod in_flight;
pub(crate) mod inbox;
mod outbox;
mod pending;
mod queue;
mod read_only;
mod rebalancing;
mod refusals;
mod renewing;
mod replies;
mod servers;
mod timers;
pub(crate) mod watches;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::time::Duration;

use bytes::{Buf, Bytes};
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, ErrorCode, EventType, OpCode, Reader, ReplyHeader,
    Request, RequestHeader, SessionId, SetWatches, SetWatches2, WatcherEvent, Xid, Zxid, frame,
    recording::Kind,
};

use self::authenticating::Refusals;
use self::config::HiddenBytes;
pub use self::config::{Config, SessionTicket};
use self::connection::{Connection, Receiving, Stage};
use self::credentials::Credentials;
use self::deadlines::Timeouts;
pub use self::deadlines::ping_interval;
use self::ephemerals::Ephemerals;
pub use self::event::{Action, Cause, Event, Reply, RequestId, ServerKind, State, WatchedEvent};
use self::exchanges::Exchanges;
use self::history::{History, Purpose};
use self::outbox::Outbox;
pub(crate) use self::pending::Again;
use self::pending::{Late, PendingRequest, RequestOwner};
use self::queue::ShortQueue;
use self::refusals::Suspect;
use self::servers::Servers;
use self::timers::{ConnectionTimer, SessionTimer, Timers};
use self::watches::{Fired, Removal, SessionWatches, WatchRequest};
pub use crate::end::End;
use crate::error::{Error, Invalid, Outcome, outcome_of_success, required_version};
use crate::recorder::Recorder;
use crate::time::{Instant, Span, earlier};

// What a feature adds is behind one of these. Without the feature, the compiler leaves it out.
pub(crate) const AUTHENTICATION: bool = cfg!(feature = "full");
const DEADLINES: bool = cfg!(feature = "full");
const KEEPERS: bool = cfg!(feature = "full");
pub(crate) const PERSISTENT_WATCHES: bool = cfg!(feature = "full");
/// The password that the handshake carries without a session.
const NO_PASSWORD: [u8; 16] = [0; 16];

/// One session with an ensemble. See the [module](self) for how to drive it.
///
/// `T` is the token of a request: it comes back with the reply and identifies the caller, for
/// example as a channel or an index.
///
/// For model checking: a clone given the same inputs behaves the same. Only one of them may drive a
/// real connection.
#[derive(Clone, Debug)]
pub struct Session<T> {
    config: Config,
    /// The connection to a server, or the attempt to connect. If there is none, the retry timer
    /// says when the session tries the next server.
    connection: Option<Connection<T>>,
    /// Whether a session before this one has expired.
    is_successor: bool,
    /// Whether the session ends with the next reply, or with the connection.
    closing: bool,
    ended: Option<End>,
    /// The id of the session, or [`SessionId::NONE`] before the first handshake.
    id: SessionId,
    password: HiddenBytes,
    /// As granted by the server, or requested before that.
    timeouts: Timeouts,
    last_zxid: Zxid,
    lease_start: Option<Instant>,
    /// When the session last sent something to the ensemble. If that has arrived, the ensemble
    /// counts the session timeout from then on.
    touched_at: Option<Instant>,
    /// Whether a read-write server has served the session. If not, at most one read-only server
    /// knows it.
    seen_read_write: bool,
    /// Whether a server has served the session, here or before it was resumed.
    has_begun: bool,
    servers: Servers,
    history: History,
    /// A request that was unanswered when the last connection ended.
    suspect: Option<Suspect>,
    /// The length of the longest request that a server has answered, in bytes.
    longest_answered: usize,
    /// How long the last server took to connect or to answer the handshake, whichever was longer.
    reach_time: Option<Span>,
    timers: Timers<SessionTimer>,
    outbox: Outbox<T>,
    /// Whether the session is without a connection for longer than the [disconnect
    /// timeout](field@Config::disconnect_timeout).
    disconnect_timed_out: bool,
    /// Whether the session refused a request for lack of room, and has not reported room since.
    refused: bool,
    credentials: Credentials<T>,
    refusals: Refusals,
    ephemerals: Ephemerals,
    watches: SessionWatches,
    /// The kind of the server that last answered a handshake.
    server_kind: ServerKind,
    /// Cleared when a server is too old to remove watches, or may be: an attempt costs a connection.
    can_remove_watches: bool,
    /// The number of the last request.
    last_request: u64,
    statistics: Statistics,
    exchanges: Exchanges,
    pub(crate) recorder: Recorder,
    actions: ShortQueue<Action>,
    events: ShortQueue<Event<T>>,
}

/// Counters of what a session has sent and received.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Requests submitted. The session's own requests, such as pings, do not count.
    pub requests: u64,
    /// Watch events received, including those without a waiting caller.
    pub notifications: u64,
    /// Connections on which the handshake succeeded.
    pub connections: u64,
    /// Sessions that have expired and were [renewed](Config::renew).
    pub renewals: u64,
}

/// # Getters
impl<T> Session<T> {
    /// Returns the state of the session.
    pub fn state(&self) -> State {
        let session = self.id;
        match (self.ended, &self.connection) {
            (Some(End::Expired), _) if self.config.renews() => State::Renewing,
            (Some(end), _) => State::Ended(end),
            (None, Some(connection)) if connection.stage == Stage::Connected => {
                let server = connection.server;
                match self.is_read_only() {
                    true => State::ReadOnly { server, session },
                    false => State::Connected { server, session },
                }
            }
            _ if !self.has_begun && self.renews() && self.is_successor => State::Renewing,
            _ if !self.has_begun => State::Connecting,
            _ => State::Suspended,
        }
    }

    /// Returns the id of the session, or [`SessionId::NONE`] while there is none.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Returns the kind of the servers, by the last answer to a handshake.
    pub fn server_kind(&self) -> ServerKind {
        self.server_kind
    }

    /// Returns the session timeout: granted by the server, or requested while there is no session.
    pub fn timeout(&self) -> Duration {
        self.timeouts.session.duration()
    }

    /// Returns whether a new session follows one that has expired; see
    /// [`Config::renew`](field@Config::renew).
    pub fn renews(&self) -> bool {
        self.config.renews()
    }

    /// Returns the newest transaction that a reply of this session has reported. It never decreases
    /// within a session.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// Returns until when the ensemble has to keep the session, as far as the client can know.
    ///
    /// That is the time at which the newest acknowledged request was sent, plus the session
    /// timeout, less 5 %. Replies of a read-only server do not count, because it cannot keep a
    /// session alive.
    ///
    /// Returns `None` before the first reply of a read-write server, and after the session was
    /// closed or has ended.
    ///
    /// The lease is no proof. A server that is cut off from the leader acknowledges requests that
    /// the leader never sees, and the leader decides when a session expires.
    pub fn lease(&self) -> Option<Instant> {
        self.lease_end().filter(|_| self.end().is_none())
    }

    /// Returns whether the [lease](Self::lease) has ended, so that the ensemble may expire the
    /// session. The next reply may renew it. Also returns `true` once the session has ended.
    pub fn lease_has_ended(&self, now: Instant) -> bool {
        self.ended.is_some() || self.is_past_lease(now)
    }

    /// Returns whether the lease of a session that has not ended is over.
    pub(crate) fn is_past_lease(&self, now: Instant) -> bool {
        self.ended.is_none() && self.lease_end().is_some_and(|end| end <= now)
    }

    /// Returns the end of the lease, also if the session is being closed: the reply to that may never
    /// arrive.
    fn lease_end(&self) -> Option<Instant> {
        self.lease_start.map(|start| start.after(self.timeouts.lease))
    }

    /// Returns the counters of this session.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Returns how many watches servers have to keep for the session.
    pub fn watches(&self) -> usize {
        self.watches.len()
    }

    /// Returns how many requests of callers wait for a reply.
    ///
    /// The session's own requests (pings, removals of watches, the close) do not count.
    pub fn pending(&self) -> usize {
        let on_connection = self.connection.as_ref().map_or(0, |open| open.in_flight.callers);
        let credentials = if AUTHENTICATION { self.credentials.waiting() } else { 0 };
        self.outbox.callers + credentials + on_connection
    }

    /// Returns whether [`submit`](Self::submit) has room for a request now. After the
    /// disconnect timeout it has, but refuses all requests.
    ///
    /// After a refusal for lack of room, the session reports [`Event::Room`] once when there is
    /// room again.
    pub fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// Returns for how many requests [`submit`](Self::submit) has room now, if their bytes stay below
    /// [`Config::max_unsent`].
    ///
    /// ```
    /// use zk_session::session::{Config, Session};
    /// use zk_session::time::Instant;
    ///
    /// let mut config = Config::new(3, 42);
    /// config.max_pending = 100;
    /// let session: Session<()> = Session::new(Instant::START, config);
    /// assert!(session.has_room());
    /// assert_eq!(session.room(), 100);
    /// ```
    pub fn room(&self) -> usize {
        if self.end().is_some() || self.outbox.callers_bytes >= self.config.max_unsent {
            return 0;
        }
        self.config.max_pending.saturating_sub(self.pending())
    }

    /// Returns the credentials to resume this session in another process, by [`Config::resume`].
    ///
    /// Returns `None` while no read-write server has served the session, and after it has ended.
    pub fn ticket(&self) -> Option<SessionTicket> {
        let lives = self.seen_read_write && self.id != SessionId::NONE && self.end().is_none();
        lives.then(|| SessionTicket {
            id: self.id,
            password: self.password.0.clone(),
            last_zxid: self.last_zxid,
        })
    }
}

/// # Inputs
impl<T> Session<T> {
    /// Makes a session that starts to connect now. Its first action is [`Action::Connect`].
    // Inlined, it would move the fields one by one.
    #[cfg_attr(target_os = "none", inline(never))]
    pub fn new(now: Instant, mut config: Config) -> Self {
        // The wire format has 32 bits for each.
        config.timeout = config.timeout.min(Duration::from_millis(i32::MAX as u64));
        config.max_request = config.max_request.min(i32::MAX as usize);
        // A session that refused every request would be of no use.
        config.max_pending = config.max_pending.max(1);
        config.max_unsent = config.max_unsent.max(1);
        let resumed = config.resume.take();
        let seen_read_write = resumed.is_some();
        let SessionTicket { id, password, last_zxid } = resumed.unwrap_or(SessionTicket {
            id: SessionId::NONE,
            password: Bytes::from_static(&NO_PASSWORD),
            last_zxid: Zxid::ZERO,
        });
        let mut session = Self {
            connection: None,
            is_successor: false,
            closing: false,
            ended: (config.servers == 0).then_some(End::NoServers),
            id,
            password: HiddenBytes(password),
            timeouts: Timeouts::new(config.timeout),
            last_zxid,
            lease_start: None,
            touched_at: seen_read_write.then_some(now),
            seen_read_write,
            has_begun: id != SessionId::NONE,
            servers: Servers::new(config.servers, config.seed),
            history: History::default(),
            suspect: None,
            longest_answered: 0,
            reach_time: None,
            timers: Timers::new(),
            outbox: Outbox::new(config.max_kept),
            disconnect_timed_out: false,
            refused: false,
            credentials: Credentials::new(),
            refusals: Refusals::default(),
            ephemerals: Ephemerals::new(&config),
            watches: SessionWatches::new(config.seed),
            server_kind: ServerKind::default(),
            can_remove_watches: true,
            last_request: 0,
            statistics: Statistics::default(),
            exchanges: Exchanges::default(),
            recorder: Recorder::default(),
            actions: ShortQueue::new(),
            events: ShortQueue::new(),
            config,
        };
        if session.ended.is_none() {
            session.begin_disconnect_timeout(now);
            session.connect_next(now);
        }
        session
    }

    /// Reports that the transport has taken `count` bytes of the [`output`](Self::output).
    ///
    /// Read `now` *before* the transport takes the bytes, because the lease counts from it.
    pub fn handle_sent(&mut self, now: Instant, count: usize) {
        let Some(connection) = &mut self.connection else { return };
        if self.recorder.is_on() {
            let output = connection.output(&self.outbox);
            self.recorder.sent(now, output.get(..count).unwrap_or(output));
        }
        let count = connection.sent(now, count, &mut self.outbox);
        if count > 0 && connection.stage == Stage::Connected {
            connection.timers.set(ConnectionTimer::Ping, now.after(self.timeouts.ping));
            self.touched(now);
        }
        self.taken(now, count);
    }
}

/// # Outputs
impl<T> Session<T> {
    /// Returns the next action to carry out on the transport.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.recorder.action(self.actions.front());
        let action = self.actions.pop_front();
        self.actions.shrink(self.config.max_kept);
        action
    }

    /// Returns the next event. [`Event::Room`] comes after all others.
    pub fn poll_event(&mut self) -> Option<Event<T>> {
        if self.recorder.is_on() {
            self.recorder.event(self.events.front());
        }
        let event = self.events.pop_front();
        self.events.shrink(self.config.max_kept);
        if event.is_none() && self.refused && self.has_room() {
            self.refused = false;
            self.recorder.event(Some(&Event::<T>::Room));
            return Some(Event::Room);
        }
        event
    }

    /// Returns whether there are events to poll, besides [`Event::Room`].
    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns whether there are events to poll.
    pub(crate) fn reports(&self) -> bool {
        self.has_events() || self.refused && self.has_room()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout), or `None` if nothing is due
    /// ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let of_connection = self.connection.as_ref().and_then(|open| open.timers.next());
        earlier(of_connection, self.timers.next())
    }

    /// Returns the deadline of the current attempt to connect: first for the transport, then for
    /// the answer to the handshake.
    ///
    /// The session itself gives up the attempt after it. Other deadlines, such as those of
    /// requests, may come earlier; they do not affect the attempt.
    pub fn connect_deadline(&self) -> Option<Instant> {
        self.connection.as_ref()?.timers.get(ConnectionTimer::Connect)
    }

    /// Returns the bytes to send next. Report what the transport took to
    /// [`handle_sent`](Self::handle_sent).
    pub fn output(&self) -> &[u8] {
        self.connection.as_ref().map_or(&[], |connection| connection.output(&self.outbox))
    }
}

impl<T> Session<T> {
    /// Returns how many bytes an empty buffer keeps.
    pub(crate) fn max_kept(&self) -> usize {
        self.config.max_kept
    }

    /// Returns the longest reply to accept, in bytes.
    pub(crate) fn max_reply(&self) -> usize {
        self.config.max_reply
    }

    /// Returns the server of the connection, or of the attempt to connect.
    pub(crate) fn server(&self) -> Option<usize> {
        self.connection.as_ref().map(|connection| connection.server)
    }

    /// Returns how the session has ended, or is about to end.
    fn end(&self) -> Option<End> {
        self.ended.or(self.closing.then_some(End::Closed))
    }

    /// Returns whether a server serves the session.
    fn is_connected(&self) -> bool {
        self.stage() == Some(Stage::Connected)
    }

    /// Returns the stage of the connection, if there is one.
    fn stage(&self) -> Option<Stage> {
        self.connection.as_ref().map(|connection| connection.stage)
    }

    /// Returns whether the server of the connection is read-only.
    fn is_read_only(&self) -> bool {
        let is_read_only = |connection: &Connection<T>| connection.is_read_only;
        self.connection.as_ref().is_some_and(is_read_only)
    }
}
