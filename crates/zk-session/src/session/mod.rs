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
//!
//! **Order.** Requests are sent, and executed, in the order in which they were submitted. Answers
//! come in that order, but for those of [`add_auth`](Session::add_auth), for deadlines that pass,
//! and for what a server refuses before it executes anything. Answers and watch events are one
//! stream: an event comes before any answer that shows its change.
//!
//! **Memory.** Requests take room until they are answered, at most [`Config::max_pending`] of them;
//! their bytes, until they are sent, at most [`Config::max_unsent`] and one request more. What the
//! session asks for itself does not count against these limits: a ping, a close, each credential
//! that was added on this connection, and one removal for each watch that was held on it or asked
//! for, until the server has answered it. Beside requests there are each watch that is held, each
//! different credential, and what was not drained. A reply shares the buffer of its frame, and
//! nothing is made room for before its bytes are there. A request without a watch costs no
//! allocation once the buffers have grown.
//!
//! What happens in which state is in a table in `docs/session.md`, which the tests check.

mod authenticating;
mod commands;
mod config;
mod connection;
mod credentials;
mod deadlines;
mod event;
mod handshake;
mod members;
mod outbox;
mod read_only;
mod rebalancing;
mod replies;
mod timers;
mod watches;

#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, ErrorCode, OpCode, Reader, ReplyHeader, Request,
    RequestHeader, SessionId, SetWatches, SetWatches2, WatcherEvent, Xid, Zxid, frame,
};

use self::authenticating::Exchange;
use self::config::Secret;
pub use self::config::{Config, Resume};
use self::credentials::Credentials;
pub use self::deadlines::ping_interval;
pub use self::event::{Action, Cause, End, Event, Reply, State, WatchedEvent};
use self::members::Members;
use self::outbox::{Late, Outbox, Owner, Pending};
use self::timers::{Timer, Timers};
use self::watches::{Fired, Registration, Removal, Watches};
use crate::error::{Error, Invalid, Outcome, outcome_of_success};
use crate::time::Instant;

/// The part of the session timeout by which a lease is cut short, for clocks that drift apart.
const LEASE_MARGIN: u32 = 20;
/// What stands for a password where there is no session.
const NO_PASSWORD: [u8; 16] = [0; 16];

/// Names a request for as long as the session lives, and the watch that it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// One session with an ensemble. See the [module](self) for how to drive it.
///
/// `T` is what a request is submitted with and what comes back with its answer: a channel, an
/// index, whatever finds the caller again.
///
/// A clone is another world, for those who explore what may follow: from the same inputs it makes
/// the same of them. One of both at most may be connected to a real member.
#[derive(Clone, Debug)]
pub struct Session<T> {
    config: Config,
    phase: Phase,
    closing: bool,
    /// The session and its password, once there is one.
    id: SessionId,
    password: Secret,
    /// What the server granted; what was asked for before that.
    timeout: Duration,
    last_zxid: Zxid,
    lease_start: Option<Instant>,
    /// When the ensemble was last sent something. If it has arrived, the session has its timeout
    /// from then on.
    touched_at: Option<Instant>,
    /// Whether the session is one that the ensemble knows, not just one read-only member.
    seen_read_write: bool,
    /// Whether the member that serves the session is read-only.
    read_only: bool,
    /// How long to wait behind the latest probe.
    probe_delay: Duration,
    members: Members,
    attempt_began: Instant,
    /// What it last took to reach a member, or to have it answer the handshake: the longer of both.
    reach_time: Option<Duration>,
    timers: Timers,
    /// The handshake, and after it what must reach the server before any request.
    prelude: BytesMut,
    prelude_sent_at: Instant,
    outbox: Outbox<T>,
    /// Whether there has been no connection for longer than the configured patience.
    impatient: bool,
    /// Whether a request was refused for want of room, and nobody was told of room since.
    refused: bool,
    /// What is being said before anything else.
    exchange: Option<Exchange<T>>,
    credentials: Credentials<T>,
    watches: Watches,
    /// Whether the member has answered anything since the handshake.
    served: bool,
    /// Watches being set again on this connection.
    unanswered_batches: usize,
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
    /// The handshake is answered, and something else has to be said before all others.
    Authenticating(usize),
    Connected(usize),
    Ended(End),
}

/// # Getters
impl<T> Session<T> {
    /// How things stand.
    pub fn state(&self) -> State {
        match self.phase {
            Phase::Ended(end) => State::Ended(end),
            Phase::Connected(member) if self.read_only => {
                State::ReadOnly { member, session: self.id }
            }
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
    /// moment the newest acknowledged request was sent, plus the session timeout, less 5 %. What a
    /// read-only member answers does not count, since it has no say in that. `None` while there is
    /// no session that a majority knows, and from the moment it is being closed.
    ///
    /// It is no proof. A member that has lost touch with its leader acknowledges requests that
    /// the leader, which decides about expiry, never hears of.
    pub fn lease(&self) -> Option<Instant> {
        let start = self.lease_start.filter(|_| self.end().is_none());
        let margin = self.timeout / LEASE_MARGIN;
        start.map(|start| start + (self.timeout - margin))
    }

    /// Whether the [lease](Self::lease) has ended, so that the ensemble need not keep the session
    /// any longer. The next answer to a request may renew it.
    pub fn lease_has_ended(&self, now: Instant) -> bool {
        self.lease().is_some_and(|end| end <= now)
    }

    /// What was sent and received so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// How many requests of callers wait for an answer. The session's own requests (pings, removals
    /// of watches, the close) do not count, and take no room from callers.
    pub fn pending(&self) -> usize {
        self.outbox.callers() + self.credentials.waiting() + usize::from(self.exchange.is_some())
    }

    /// Whether [`submit`](Self::submit) takes requests now. When it has refused one for want of
    /// room, [`Event::Room`] tells once that there is some again.
    pub fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// How many requests [`submit`](Self::submit) takes now, if they are so short that
    /// [`Config::max_unsent`] is not reached before.
    pub fn room(&self) -> usize {
        if self.end().is_some() || self.outbox.callers_bytes() >= self.config.max_unsent {
            return 0;
        }
        self.config.max_pending.saturating_sub(self.pending())
    }

    /// What it takes to take up this session elsewhere or later, by [`Config::resume`]; `None`
    /// while there is none that the whole ensemble knows, and when it has ended.
    pub fn resume(&self) -> Option<Resume> {
        let lives = self.seen_read_write && self.id != SessionId::NONE && self.end().is_none();
        lives.then(|| Resume {
            id: self.id,
            password: self.password.0.clone(),
            last_zxid: self.last_zxid,
        })
    }
}

/// # Inputs
impl<T> Session<T> {
    /// A session that begins now to look for a member.
    pub fn new(now: Instant, mut config: Config) -> Self {
        // The wire can say no more than this.
        config.timeout = config.timeout.min(Duration::from_millis(i32::MAX as u64));
        config.max_request = config.max_request.min(i32::MAX as usize);
        let resumed = config.resume.take();
        let seen_read_write = resumed.is_some();
        let Resume { id, password, last_zxid } = resumed.unwrap_or(Resume {
            id: SessionId::NONE,
            password: Bytes::from_static(&NO_PASSWORD),
            last_zxid: Zxid::ZERO,
        });
        let mut session = Self {
            phase: Phase::Waiting,
            closing: false,
            id,
            password: Secret(password),
            timeout: config.timeout,
            last_zxid,
            lease_start: None,
            touched_at: seen_read_write.then_some(now),
            seen_read_write,
            read_only: false,
            probe_delay: Duration::ZERO,
            members: Members::new(config.members, config.seed),
            attempt_began: now,
            reach_time: None,
            timers: Timers::default(),
            prelude: BytesMut::new(),
            prelude_sent_at: now,
            outbox: Outbox::new(),
            impatient: false,
            refused: false,
            exchange: None,
            credentials: Credentials::new(),
            watches: Watches::default(),
            served: false,
            unanswered_batches: 0,
            can_remove_watches: true,
            last_request: RequestId(0),
            statistics: Statistics::default(),
            actions: VecDeque::new(),
            events: VecDeque::new(),
            config,
        };
        session.begin_patience(now);
        session.connect_next(now);
        session
    }

    /// The transport has taken `count` bytes of the [`output`](Self::output). `now` must be read
    /// *before* they were handed over, since a lease is counted from it.
    pub fn handle_sent(&mut self, now: Instant, count: usize) {
        let count = count.min(self.output().len());
        let prelude = count.min(self.prelude.len());
        self.prelude.advance(prelude);
        if prelude > 0 && self.prelude.is_empty() {
            // It is needed once for each connection, and can be as long as all watches.
            self.prelude = BytesMut::new();
        }
        self.outbox.sent(now, count - prelude);
        if count > 0 && matches!(self.phase, Phase::Connected(_)) {
            self.touched(now);
            self.timers.set(Timer::Ping, now + self.ping_interval());
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
        let event = self.events.pop_front();
        outbox::shrink(&mut self.events);
        if event.is_none() && self.refused && self.has_room() {
            self.refused = false;
            return Some(Event::Room);
        }
        event
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Returns the deadline for the transport of the newest [`Action::Connect`] or, once it is
    /// connected, for the answer to the handshake. After it the session gives up the attempt by
    /// itself. Other deadlines, such as those of requests, may come earlier; they do not concern
    /// the server.
    pub fn connect_deadline(&self) -> Option<Instant> {
        self.timers.get(Timer::Connect)
    }

    /// The bytes that the transport is to take next; what it took goes to
    /// [`handle_sent`](Self::handle_sent).
    pub fn output(&self) -> &[u8] {
        match self.phase {
            // Whatever follows the handshake too early can destroy an answer that says that the
            // session has expired: the server closes, and the reset overtakes it.
            Phase::Handshaking(_) | Phase::Authenticating(_) => &self.prelude,
            Phase::Connected(_) if !self.prelude.is_empty() => &self.prelude,
            Phase::Connected(_) => self.outbox.output(),
            _ => &[],
        }
    }
}

impl<T> Session<T> {
    /// Whether there are events to poll, besides [`Event::Room`].
    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The server that is connected to, or being connected to.
    pub(crate) fn member(&self) -> Option<usize> {
        match self.phase {
            Phase::Connecting(member)
            | Phase::Handshaking(member)
            | Phase::Authenticating(member)
            | Phase::Connected(member) => Some(member),
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
}
