//! A whole client without IO: a session with its locks and requests.
//!
//! It is driven like its [`Session`]. After every input or command, take every
//! [action](SimClient::poll_action), every [event](SimClient::poll_event) and the bytes to
//! [transmit](SimClient::transmit), and update the [timeout](SimClient::poll_timeout).
//!
//! Inside it is built like the other clients: a [`Dispatcher`] with [attached](OnSession) locks.

mod attempt;
mod cache;
mod following;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::time::Duration;

use bytes::{Bytes, BytesMut};
use uuid::Uuid;
use zk_proto::frame::{Piece, Splitter};
use zk_proto::{GetDataRequest, GetDataResponse, GetSaslRequest, Request, SessionId, Xid, Zxid};
use zk_recipes::machine::cohort::Standing;
use zk_recipes::machine::{
    AttemptConfig, BarrierWait, CacheConfig, Command, Contender, HerdContender, IdleWatch,
    LockMode, Machine, OnSession, Participant, PermitRequest, Requeuing, Restart, Scheme,
    SemaphoreMachine, SimpleContender, WaitPolicy,
};
use zk_session::dispatch::{Attached, Dispatcher, Key, SharedSession, Token};
use zk_session::recording::Recording;
use zk_session::session::{Action, Cause, Config, Event, Reply, RequestId, Session};
use zk_session::time::Instant;
use zk_session::{ConfigFollower, Error, Outcome, ServerAddress, State};

use self::attempt::{Attempt, Log};
pub(super) use self::cache::SimCache;
use self::following::Following;
use super::{AttemptId, Bug, Call, CallId, ClientEvent, LockKind, rare};

/// The position of the last zxid in the handshake: after the length of the frame and the protocol
/// version.
const LAST_ZXID_SEEN: core::ops::Range<usize> = 8..16;

/// The unit of the drift of clocks.
const MILLION: i64 = 1_000_000;
/// The drift of [`Bug::RunsSlow`].
const SLOW_CLOCK: i64 = -200_000;
/// The lateness of [`Bug::WakesLate`].
const LATE: Duration = Duration::from_secs(1);
/// The time of a reply that [`Bug::GivesUpSlowConnections`] waits for.
const SHORT_TIME: Duration = Duration::from_millis(500);

/// A simulated client. See the module `sim`.
#[derive(Debug)]
pub struct SimClient {
    dispatcher: Dispatcher<CallId>,
    accepts_read_only: bool,
    authenticates: bool,
    bug: Option<Bug>,
    /// Bytes of an incomplete frame.
    inbox: BytesMut,
    /// Splits the stream into frames up to the longest reply.
    frames: Splitter,
    max_reply: usize,
    /// When it sent bytes that are not answered.
    asked_at: Option<Duration>,
    /// The number of bytes sent on this connection.
    transmitted: usize,
    servers: u32,
    /// Consecutive failed connection attempts.
    failures: u32,
    /// The end of the delay before the next connection attempt.
    sleeps_until: Option<Instant>,
    last_id: u64,
    /// Pending requests.
    calls: BTreeMap<CallId, Arc<Call>>,
    watches: BTreeMap<RequestId, CallId>,
    /// Unfinished attempts.
    attempts: BTreeMap<AttemptId, Key>,
    /// The watches of the queues of attempts.
    queues: BTreeMap<AttemptId, Key>,
    log: Log,
    /// How much faster its clock is than that of the servers, in millionths.
    drift: i64,
    /// The answered requests of the authentication exchange.
    rounds: u8,
    /// The state last reported.
    state: State,
    following: Option<Following>,
}

/// # Getters
impl SimClient {
    /// Returns the state of the session.
    pub fn state(&self) -> State {
        self.dispatcher.session().state()
    }

    /// Returns the session id.
    pub fn id(&self) -> SessionId {
        self.dispatcher.session().id()
    }

    /// Returns the last zxid that the session has seen.
    pub fn last_zxid(&self) -> Zxid {
        self.dispatcher.session().last_zxid()
    }

    /// Returns whether the session has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.state(), State::Ended(_))
    }

    /// Returns whether the client accepts read-only servers.
    pub fn accepts_read_only(&self) -> bool {
        self.accepts_read_only
    }

    /// Returns whether each connection begins with an authentication exchange.
    pub(super) fn authenticates(&self) -> bool {
        self.authenticates
    }

    /// Returns the time until which the ensemble must keep the session.
    pub fn lease(&self) -> Option<Duration> {
        self.dispatcher.session().lease().map(|at| self.on_servers(at))
    }

    /// Returns the session timeout.
    pub fn session_timeout(&self) -> Duration {
        self.dispatcher.session().timeout()
    }

    /// Returns the number of pending requests.
    pub fn waiting(&self) -> usize {
        self.calls.len()
    }

    /// Returns the number of attempts that are unfinished or still attached.
    pub fn attempts(&self) -> usize {
        self.attempts.len().max(self.dispatcher.attached())
    }
}

/// # Inputs
impl SimClient {
    /// Creates a client that starts now. Its clock is faster by `drift` millionths.
    pub fn new(
        now: Duration,
        mut config: Config,
        bug: Option<Bug>,
        drift: i64,
        recording: Option<&Recording>,
    ) -> Self {
        let accepts_read_only = config.read_only;
        let authenticates = config.authenticate;
        let drift = if bug == Some(Bug::RunsSlow) { SLOW_CLOCK } else { drift };
        let servers = u32::try_from(config.servers).unwrap_or(u32::MAX);
        config.read_only |= bug == Some(Bug::AlwaysAcceptsReadOnly);
        let (max_reply, at) = (config.max_reply, instant(now, drift));
        Self {
            dispatcher: match recording {
                Some(recording) => Dispatcher::recorded(at, config, recording, &[]),
                None => Dispatcher::new(Session::new(at, config)),
            },
            accepts_read_only,
            authenticates,
            asked_at: None,
            bug,
            inbox: BytesMut::new(),
            frames: Splitter::new(max_reply),
            max_reply,
            transmitted: 0,
            servers,
            failures: 0,
            sleeps_until: None,
            last_id: 0,
            calls: BTreeMap::new(),
            watches: BTreeMap::new(),
            attempts: BTreeMap::new(),
            queues: BTreeMap::new(),
            log: Log::default(),
            drift,
            rounds: 0,
            state: State::Connecting,
            following: None,
        }
    }

    /// Handles the success of a connection attempt.
    pub fn handle_connected(&mut self, now: Duration) {
        self.inbox.clear();
        self.frames = Splitter::new(self.max_reply);
        (self.transmitted, self.asked_at) = (0, None);
        let at = self.instant(now);
        self.session().handle_connected(at);
        self.drain(now);
    }

    /// Handles the end of the connection, or the failure of a connection attempt.
    pub fn handle_disconnected(&mut self, now: Duration) {
        let at = self.instant(now);
        self.session().handle_disconnected(at);
        self.drain(now);
    }

    /// Handles the answer to a probe.
    pub fn handle_probed(&mut self, now: Duration, server: usize, read_write: bool) {
        if self.bug != Some(Bug::StaysReadOnly) {
            let at = self.instant(now);
            self.session().handle_probed(at, server, read_write);
            self.drain(now);
        }
    }

    /// Handles any piece of the byte stream.
    pub fn handle_bytes(&mut self, now: Duration, bytes: &[u8]) {
        let at = self.instant(now);
        self.asked_at = None;
        self.inbox.extend_from_slice(bytes);
        self.session().handle_received(at, bytes.len());
        loop {
            match self.frames.split(&mut self.inbox) {
                Ok(Some(Piece::Frame(frame))) if self.drops(&frame) => {}
                Ok(Some(Piece::Frame(frame))) => self.session().handle_frame(at, frame),
                Ok(Some(Piece::TooLong { start, length })) => {
                    let at = self.instant(now);
                    self.session().handle_oversized(at, &start, length);
                }
                Ok(Some(Piece::Rest(bytes))) => self.session().handle_rest(at, bytes),
                Ok(None) => return,
                Err(error) => {
                    self.inbox.clear();
                    self.session().handle_bad_frame(at, error);
                }
            }
            self.drain(now);
        }
    }

    /// Handles the passing of time, after all input of this instant.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.gives_up_at().is_some_and(|at| at <= now) {
            self.asked_at = None;
            self.handle_disconnected(now);
        }
        if self.dispatcher.is_unsettled() {
            self.dispatcher.settle(self.instant(now));
            self.drain(now);
        }
        if self.sleeps_until.is_none_or(|until| until <= self.instant(now)) {
            self.sleeps_until = None;
            self.dispatcher.handle_timeout(self.instant(now));
            self.drain(now);
        }
    }

    /// Returns whether the bug drops this frame.
    fn drops(&self, frame: &[u8]) -> bool {
        let is_event = frame.starts_with(&Xid::NOTIFICATION.0.to_be_bytes());
        is_event && self.bug == Some(Bug::DropsEvents)
    }

    fn session(&mut self) -> &mut SharedSession<CallId> {
        self.dispatcher.session_mut()
    }
}

/// # Commands
impl SimClient {
    /// Submits a request.
    pub fn call(&mut self, now: Duration, call: Call) -> CallId {
        self.call_until(now, call, None)
    }

    /// Submits a request with an optional deadline.
    pub fn call_until(&mut self, now: Duration, call: Call, until: Option<Duration>) -> CallId {
        let (id, call) = (self.next_id(), Arc::new(call));
        self.log.record(ClientEvent::Submitted(id, call.clone(), until));
        let until = until.filter(|_| self.bug != Some(Bug::IgnoresDeadlines));
        self.submit(id, call, until);
        self.drain(now);
        id
    }

    /// Removes the watch that a request has set.
    pub fn unwatch(&mut self, now: Duration, call: CallId) {
        self.log.record(ClientEvent::Unwatched(call));
        let watch = self.watches.iter().find(|(_, id)| **id == call);
        if let Some(request) = watch.map(|(request, _)| *request) {
            self.watches.remove(&request);
            self.session().unwatch(request);
        }
        self.drain(now);
    }

    /// Starts an attempt to acquire a lock. The session has an id already.
    pub fn contend(
        &mut self,
        now: Duration,
        lock_path: &str,
        demand: LockKind,
        guid: Uuid,
    ) -> AttemptId {
        let id = self.next_id();
        let guid = match self.bug {
            Some(Bug::SharesGuids) => AttemptConfig::node_guid(guid, self.id()),
            _ => guid,
        };
        let attempt = (id, demand, guid);
        self.log.record(ClientEvent::AttemptStarted(id, lock_path.to_owned(), demand));
        let (scheme, mode) = match demand {
            LockKind::Read => (Scheme::CURATOR_READ_WRITE, LockMode::Shared),
            LockKind::Write => (Scheme::CURATOR_READ_WRITE, LockMode::Exclusive),
            _ => (Scheme::CURATOR_MUTEX, LockMode::Exclusive),
        };
        let mut config = AttemptConfig::new(lock_path.into(), scheme, guid);
        config.mode = mode;
        match demand {
            LockKind::Permits { count, of } => {
                let request = PermitRequest::new(config, count, Some(of));
                self.attach_requeuing(now, attempt, SemaphoreMachine::new(request));
            }
            LockKind::Textbook => self.attach(now, attempt, SimpleContender::new(config)),
            LockKind::Barrier => {
                let wait = BarrierWait::new(lock_path.to_owned(), WaitPolicy::Queue);
                self.attach(now, attempt, wait);
            }
            LockKind::DoubleBarrier { members } => {
                self.attach(now, attempt, Participant::new(config, members));
            }
            _ if self.bug == Some(Bug::WatchesParent) => {
                self.attach_requeuing(now, attempt, HerdContender::new(config));
            }
            _ => {
                let hint = self.log.hint(config.lock_path.clone());
                config.hint_cell = Some(Arc::new(hint));
                self.attach_requeuing(now, attempt, Contender::new(config));
            }
        }
        self.drain(now);
        id
    }

    fn attach_requeuing(
        &mut self,
        now: Duration,
        attempt: (AttemptId, LockKind, Uuid),
        machine: impl Restart + Send + 'static,
    ) {
        let machine = Requeuing::new(machine, self.dispatcher.session().renews());
        self.attach(now, attempt, machine);
    }

    fn attach(
        &mut self,
        now: Duration,
        attempt: (AttemptId, LockKind, Uuid),
        machine: impl Machine + Send + 'static,
    ) {
        let log = self.log.clone();
        let (id, _, guid) = attempt;
        let attempt = Attempt::new(attempt, machine, log, self.bug);
        let observer = attempt.observer();
        let attached = OnSession::new(attempt, observer, guid.as_u64_pair().1 ^ id);
        let attached = match self.bug {
            Some(Bug::NeverRenewsWatches) => attached.without_renewals(),
            _ => attached,
        };
        let key = self.dispatcher.attach(self.instant(now), Box::new(attached));
        self.attempts.insert(id, key);
    }

    /// Releases a lock, or cancels the attempt.
    pub fn release(&mut self, now: Duration, attempt: AttemptId) {
        self.log.record(ClientEvent::Released(attempt));
        self.command(now, attempt, Command::Release);
    }

    /// Returns what is known of the lock of an attempt. `None` before it is acquired.
    pub(super) fn standing(&self, attempt: AttemptId) -> Option<Standing> {
        self.log.standing(attempt)
    }

    /// Returns whether others may wait for the lock of an attempt, whose queue is watched.
    pub(super) fn is_contended(&self, attempt: AttemptId) -> bool {
        self.log.is_contended(attempt)
    }

    /// Watches the queue of a lock that is held.
    pub(super) fn watch_queue(
        &mut self,
        now: Duration,
        attempt: AttemptId,
        lock_path: &str,
        keep: Duration,
    ) {
        let Some(node) = self.log.node(attempt) else { return };
        let watch = IdleWatch::new(lock_path.into(), node, keep);
        let watch = OnSession::new(watch, self.log.queue_observer(attempt), attempt);
        let key = self.dispatcher.attach(self.instant(now), Box::new(watch));
        self.queues.insert(attempt, key);
        self.drain(now);
    }

    /// Returns, once, whether the lock of an attempt was idle for the time to keep it.
    pub(super) fn take_late(&self, attempt: AttemptId) -> bool {
        self.log.take_late(attempt)
    }

    /// The lock of an attempt is idle from now on.
    pub(super) fn begin_idle(&mut self, now: Duration, attempt: AttemptId) {
        if let Some(key) = self.queues.get(&attempt) {
            self.dispatcher.command(self.instant(now), *key, &mut Command::Leave);
        }
        self.drain(now);
    }

    /// Ends the watch of an attempt's queue, if there is one.
    pub(super) fn unwatch_queue(&mut self, now: Duration, attempt: AttemptId) {
        if let Some(key) = self.queues.remove(&attempt) {
            self.release_lasting(now, key);
        }
    }

    /// Looks whether the lease of the session has ended.
    pub(super) fn check_lease(&mut self, now: Duration, attempt: AttemptId) {
        self.command(now, attempt, Command::CheckLease);
    }

    /// Leaves a double barrier with the others.
    pub fn leave(&mut self, now: Duration, attempt: AttemptId) {
        self.log.record(ClientEvent::Leaving(attempt));
        self.command(now, attempt, Command::Leave);
    }

    /// Changes the mode of a held lock.
    pub fn convert(&mut self, now: Duration, attempt: AttemptId, mode: LockMode) {
        self.log.record(ClientEvent::Converting(attempt));
        self.command(now, attempt, Command::Convert(mode));
    }

    /// Records an event of those who drive it.
    pub(super) fn record(&self, event: ClientEvent) {
        self.log.record(event);
    }

    fn command(&mut self, now: Duration, attempt: AttemptId, mut command: Command) {
        if let Some(key) = self.attempts.get(&attempt) {
            self.dispatcher.command(self.instant(now), *key, &mut command);
        }
        self.drain(now);
    }

    /// Attaches a machine that outlives the session.
    pub(super) fn attach_lasting(&mut self, now: Duration, machine: Box<dyn Attached>) -> Key {
        let key = self.dispatcher.attach(self.instant(now), machine);
        self.drain(now);
        key
    }

    /// Releases what a machine holds.
    pub(super) fn release_lasting(&mut self, now: Duration, key: Key) {
        self.dispatcher.command(self.instant(now), key, &mut Command::Release);
        self.drain(now);
    }

    /// Attaches a cache, which lives as long as the client.
    pub fn cache(&mut self, now: Duration, config: CacheConfig) -> SimCache {
        let cache = SimCache::new(config, self.bug);
        let at = self.instant(now);
        self.dispatcher.attach(at, Box::new(cache.clone()));
        self.drain(now);
        cache
    }

    /// Closes the session.
    pub fn close(&mut self, now: Duration) {
        self.dispatcher.close(self.instant(now));
        self.drain(now);
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn submit(&mut self, id: CallId, call: Arc<Call>, until: Option<Duration>) {
        let token = Token::Caller(id);
        let until = until.map(|until| self.instant(until));
        let submitted = call.with_request(|request| match until {
            Some(until) => self.session().submit_until(request, token, until),
            None => self.session().submit(request, token),
        });
        let watches = call.watches();
        self.calls.insert(id, call);
        match submitted {
            Ok(request) if watches => {
                self.watches.insert(request, id);
            }
            Ok(_) => {}
            Err(error) => self.answered(id, Err(error)),
        }
    }
}

/// # Events
impl SimClient {
    /// Delivers everything that the session has to report.
    fn drain(&mut self, now: Duration) {
        while let Some(event) = self.dispatcher.poll_event(self.instant(now)) {
            self.handle_event(now, event);
            self.follow_config(now);
        }
        self.dispatcher.take_effects().run();
    }

    fn handle_event(&mut self, now: Duration, event: Event<CallId>) {
        if let Some(what) = rare::of_session(self.state, &event) {
            self.log.record(ClientEvent::Reached(what));
        }
        if self.handle_followed(&event) {
            return;
        }
        match event {
            Event::State(state) => {
                self.state = state;
                self.log.record(ClientEvent::State(state));
                (self.failures, self.sleeps_until) = (0, None);
            }
            Event::Disconnected { .. } if self.bug == Some(Bug::SleepsThroughOutages) => {
                self.failures += 1;
                if self.failures.is_multiple_of(self.servers) {
                    let doublings = (self.failures / self.servers - 1).min(16);
                    let longest =
                        Duration::from_millis(100 << doublings).min(Duration::from_secs(5));
                    self.sleeps_until = Some(self.instant(now) + longest * 3 / 4);
                }
            }
            Event::Reply { token, result } => self.answered(token, result),
            Event::Watch { requests, persistent, event } => {
                let fired = requests.iter().filter_map(|request| self.watches.remove(request));
                let fired: Vec<_> = fired.collect();
                let staying = persistent.iter().filter_map(|request| self.watches.get(request));
                for id in staying.copied().chain(fired) {
                    self.log.record(ClientEvent::Fired(id, event.clone()));
                }
            }
            Event::Authenticate { .. } if self.bug == Some(Bug::SkipsAuthentication) => {
                let at = self.instant(now);
                self.session().authenticated(at);
            }
            Event::Authenticate { .. } => self.authenticate(1),
            Event::AuthenticationReply { result, .. } => {
                // Servers without SASL answer each token with none. The exchange takes two rounds.
                let at = self.instant(now);
                self.rounds += u8::from(result.is_ok());
                match self.rounds {
                    2 => self.dispatcher.session_mut().authenticated(at),
                    _ => self.authenticate(2),
                }
            }
            Event::Gap { requests } if self.bug != Some(Bug::HidesGaps) => {
                for id in requests.iter().filter_map(|request| self.watches.get(request)) {
                    self.log.record(ClientEvent::Gap(*id));
                }
            }
            _ => {}
        }
    }

    /// Sends the next request of the authentication exchange.
    fn authenticate(&mut self, round: u8) {
        self.rounds = round - 1;
        let request = Request::Sasl(GetSaslRequest { token: Some(&[round]) });
        // The connection may be lost already.
        let _ = self.session().authenticate(&request);
    }

    fn answered(&mut self, id: CallId, result: Result<Reply, Error>) {
        let call = self.calls.remove(&id);
        let result = match (self.bug, call, result) {
            (Some(Bug::ResendsLostRequests), Some(call), Err(Error::ConnectionLost)) => {
                return self.submit(id, call, None);
            }
            (Some(Bug::TakesDeadlineForNotApplied), _, Err(Error::DeadlinePassed { .. })) => {
                Err(Error::DeadlinePassed { outcome: Outcome::NotApplied })
            }
            (_, _, result) => result,
        };
        self.log.record(ClientEvent::Answered(id, result));
    }
}

/// # Outputs
impl SimClient {
    /// Returns the next action on the connection.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.session().poll_action()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        let event = self.log.poll()?;
        if let ClientEvent::AttemptFinished(id) = event {
            self.attempts.remove(&id);
        }
        Some(event)
    }

    /// Returns the bytes to send now, `room` at most.
    pub fn transmit(&mut self, now: Duration, room: usize) -> Bytes {
        let output = self.session().output();
        let mut bytes = output[..output.len().min(room)].to_vec();
        let at = self.instant(now);
        self.session().handle_sent(at, bytes.len());
        if self.bug == Some(Bug::ForgetsLastZxid) {
            for (at, byte) in (self.transmitted..).zip(&mut bytes) {
                if LAST_ZXID_SEEN.contains(&at) {
                    *byte = 0;
                }
            }
        }
        self.transmitted += bytes.len();
        if !bytes.is_empty() {
            self.asked_at.get_or_insert(now);
        }
        bytes.into()
    }

    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout).
    ///
    /// A time in the past means: after all input of this instant.
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.dispatcher.is_unsettled() {
            return Some(Duration::ZERO);
        }
        let timeout = self.dispatcher.poll_timeout()?;
        let timeout = self.on_servers(timeout.max(self.sleeps_until.unwrap_or(timeout)));
        let late = if self.bug == Some(Bug::WakesLate) { LATE } else { Duration::ZERO };
        let timeout = timeout + late;
        Some(self.gives_up_at().map_or(timeout, |at| at.min(timeout)))
    }

    /// Returns when the bug gives up the connection.
    fn gives_up_at(&self) -> Option<Duration> {
        let asked_at = self.asked_at.filter(|_| self.bug == Some(Bug::GivesUpSlowConnections))?;
        Some(asked_at + SHORT_TIME)
    }

    fn instant(&self, now: Duration) -> Instant {
        instant(now, self.drift)
    }

    /// Returns the first time of the servers' clock at which this client's clock shows `at`.
    fn on_servers(&self, at: Instant) -> Duration {
        let nanos = at.since_start().as_nanos() as i128 * i128::from(MILLION);
        let rate = i128::from(MILLION + self.drift);
        Duration::from_nanos(((nanos + rate - 1) / rate).min(u64::MAX.into()) as u64)
    }
}

/// Returns the time on a clock that is faster by `drift` millionths.
fn instant(now: Duration, drift: i64) -> Instant {
    let local = now.as_nanos() as i128 * i128::from(MILLION + drift) / i128::from(MILLION);
    Instant::after_start(Duration::from_nanos(local as u64))
}
