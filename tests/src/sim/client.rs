//! A whole client without IO: a session, and the locks and requests on it.
//!
//! It is driven as its [`Session`] is: after every input or command take every
//! [action](SimClient::poll_action), every [note](SimClient::poll_note), what is to be
//! [transmitted](SimClient::transmit), and look at the [timeout](SimClient::poll_timeout).
//!
//! Inside it is built as every client is: a [`Dispatcher`], and locks that are
//! [attached](OnSession) to it.

mod attempt;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::time::Duration;

use bytes::{Bytes, BytesMut};
use uuid::Uuid;
use zk_proto::frame::{Piece, Splitter};
use zk_proto::{SessionId, Xid, Zxid};
use zk_recipes::machine::{
    Borrower, Claim, Command, Contender, Contest, Loan, Machine, OnSession, Scheme,
};
use zk_session::dispatch::{Dispatcher, Key, Token};
use zk_session::session::{Action, Config, Event, Reply, RequestId, Session};
use zk_session::time::Instant;
use zk_session::{Error, Outcome, State};

use self::attempt::{Attempt, Log};
use super::{AttemptId, Call, CallId, Demand, Note, Quirk};

/// Where the handshake has the newest transaction that the client has seen: behind the length of
/// the frame and the version of the protocol.
const LAST_ZXID_SEEN: core::ops::Range<usize> = 8..16;

/// See the module `sim`.
#[derive(Debug)]
pub struct SimClient {
    dispatcher: Dispatcher<CallId>,
    accepts_read_only: bool,
    quirk: Option<Quirk>,
    /// Bytes of a frame that has not arrived as a whole.
    inbox: BytesMut,
    /// Splits it, and knows how long a frame may be.
    frames: Splitter,
    max_reply: usize,
    /// How many bytes were transmitted on this connection.
    transmitted: usize,
    members: u32,
    /// Attempts to connect that failed in a row.
    failures: u32,
    /// Until then it tries no other member.
    sleeps_until: Option<Instant>,
    last_id: u64,
    /// Requests that were not answered yet.
    calls: BTreeMap<CallId, Arc<Call>>,
    watches: BTreeMap<RequestId, CallId>,
    /// Attempts that are not done yet.
    attempts: BTreeMap<AttemptId, Key>,
    log: Log,
}

/// # Getters
impl SimClient {
    /// How things stand with the session.
    pub fn state(&self) -> State {
        self.dispatcher.session().state()
    }

    /// The session.
    pub fn id(&self) -> SessionId {
        self.dispatcher.session().id()
    }

    /// The newest transaction that the session has seen.
    pub fn last_zxid(&self) -> Zxid {
        self.dispatcher.session().last_zxid()
    }

    /// Whether the session has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.state(), State::Ended(_))
    }

    /// Whether a member will do that can only read.
    pub fn accepts_read_only(&self) -> bool {
        self.accepts_read_only
    }

    /// Until when the ensemble is bound to keep the session.
    pub fn lease(&self) -> Option<Duration> {
        self.dispatcher.session().lease().map(Instant::since_start)
    }

    /// The session timeout.
    pub fn session_timeout(&self) -> Duration {
        self.dispatcher.session().timeout()
    }

    /// How many requests wait for an answer.
    pub fn waiting(&self) -> usize {
        self.calls.len()
    }

    /// How many attempts are not done yet, or still attached.
    pub fn attempts(&self) -> usize {
        self.attempts.len().max(self.dispatcher.attached())
    }
}

/// # Inputs
impl SimClient {
    /// A client that begins now.
    pub fn new(now: Duration, mut config: Config, quirk: Option<Quirk>) -> Self {
        let accepts_read_only = config.read_only;
        let members = u32::try_from(config.members).unwrap_or(u32::MAX);
        config.read_only |= quirk == Some(Quirk::AcceptsReadOnlyUnasked);
        let max_reply = config.max_reply;
        Self {
            dispatcher: Dispatcher::new(Session::new(instant(now), config)),
            accepts_read_only,
            quirk,
            inbox: BytesMut::new(),
            frames: Splitter::new(max_reply),
            max_reply,
            transmitted: 0,
            members,
            failures: 0,
            sleeps_until: None,
            last_id: 0,
            calls: BTreeMap::new(),
            watches: BTreeMap::new(),
            attempts: BTreeMap::new(),
            log: Log::default(),
        }
    }

    /// The connection asked for is there.
    pub fn handle_connected(&mut self, now: Duration) {
        self.inbox.clear();
        self.frames = Splitter::new(self.max_reply);
        self.transmitted = 0;
        self.session().handle_connected(instant(now));
        self.drain(now);
    }

    /// The connection is gone, or cannot be made.
    pub fn handle_disconnected(&mut self, now: Duration) {
        self.session().handle_disconnected(instant(now));
        self.drain(now);
    }

    /// A member was asked whether it can write.
    pub fn handle_probed(&mut self, now: Duration, member: usize, read_write: bool) {
        if self.quirk != Some(Quirk::StaysReadOnly) {
            self.session().handle_probed(instant(now), member, read_write);
            self.drain(now);
        }
    }

    /// Any piece of the stream has arrived.
    pub fn handle_bytes(&mut self, now: Duration, bytes: &[u8]) {
        self.inbox.extend_from_slice(bytes);
        loop {
            match self.frames.split(&mut self.inbox) {
                Ok(Some(Piece::Frame(frame))) if self.drops(&frame) => {}
                Ok(Some(Piece::Frame(frame))) => self.session().handle_frame(instant(now), frame),
                Ok(Some(Piece::TooLong { start, length })) => {
                    self.session().handle_oversized(instant(now), &start, length);
                }
                Ok(None) => return,
                Err(error) => {
                    self.inbox.clear();
                    self.session().handle_bad_frame(instant(now), error);
                }
            }
            self.drain(now);
        }
    }

    /// Time has passed, and everything that has arrived by now was input.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.dispatcher.is_unsettled() {
            self.dispatcher.settle(instant(now));
            self.drain(now);
        }
        if self.sleeps_until.is_none_or(|until| until <= instant(now)) {
            self.sleeps_until = None;
            self.dispatcher.handle_timeout(instant(now));
            self.drain(now);
        }
    }

    /// Whether a quirk loses this frame.
    fn drops(&self, frame: &[u8]) -> bool {
        let is_event = frame.starts_with(&Xid::NOTIFICATION.0.to_be_bytes());
        is_event && self.quirk == Some(Quirk::DropsEvents)
    }

    fn session(&mut self) -> &mut Session<Token<CallId>> {
        self.dispatcher.session_mut()
    }
}

/// # Commands
impl SimClient {
    /// Makes a request.
    pub fn call(&mut self, now: Duration, call: Call) -> CallId {
        self.call_until(now, call, None)
    }

    /// Makes a request that is to be answered by then, one way or another.
    pub fn call_until(&mut self, now: Duration, call: Call, until: Option<Duration>) -> CallId {
        let (id, call) = (self.next_id(), Arc::new(call));
        self.log.note(Note::Called(id, call.clone(), until));
        let until = until.filter(|_| self.quirk != Some(Quirk::ForgetsDeadlines));
        self.submit(id, call, until);
        self.drain(now);
        id
    }

    /// The watch that a request has asked for is not wanted any more.
    pub fn unwatch(&mut self, now: Duration, call: CallId) {
        self.log.note(Note::Unwatched(call));
        let watch = self.watches.iter().find(|(_, id)| **id == call);
        if let Some(request) = watch.map(|(request, _)| *request) {
            self.watches.remove(&request);
            self.session().unwatch(request);
        }
        self.drain(now);
    }

    /// Enters the queue of a lock. The session must be connected.
    pub fn contend(
        &mut self,
        now: Duration,
        directory: &str,
        demand: Demand,
        guid: Uuid,
    ) -> AttemptId {
        let id = self.next_id();
        self.log.note(Note::Contends(id, directory.to_owned(), demand));
        let (scheme, claim) = match demand {
            Demand::Mutex | Demand::Permits { .. } => (Scheme::CURATOR_MUTEX, Claim::Exclusive),
            Demand::Read => (Scheme::CURATOR_READ_WRITE, Claim::Shared),
            Demand::Write => (Scheme::CURATOR_READ_WRITE, Claim::Exclusive),
        };
        let contest = Contest::new(directory.to_owned(), scheme, guid, self.id());
        let contest = Contest { claim, precedent: self.log.precedent(directory), ..contest };
        match demand {
            Demand::Permits { count, of } => {
                let loan = Loan { contest: contest.clone(), permits: count, maximum: Some(of) };
                self.attach(now, id, contest, Borrower::new(loan));
            }
            _ if self.quirk == Some(Quirk::WatchesTheDirectory) => {
                self.attach(now, id, contest.clone(), Contender::herd(contest));
            }
            _ => self.attach(now, id, contest.clone(), Contender::new(contest)),
        }
        self.drain(now);
        id
    }

    fn attach(
        &mut self,
        now: Duration,
        id: AttemptId,
        Contest { directory, guid, .. }: Contest,
        machine: impl Machine + Send + 'static,
    ) {
        let log = self.log.clone();
        let attempt = Attempt::new(id, machine, directory, guid, log, self.quirk);
        let observer = attempt.observer();
        let attached = OnSession::new(attempt, observer, guid.as_u64_pair().1 ^ id);
        let attached = match self.quirk {
            Some(Quirk::NeverRenews) => attached.without_renewals(),
            _ => attached,
        };
        let key = self.dispatcher.attach(instant(now), Box::new(attached));
        self.attempts.insert(id, key);
    }

    /// The lock is not wanted any more.
    pub fn let_go(&mut self, now: Duration, attempt: AttemptId) {
        self.log.note(Note::LetGo(attempt));
        if let Some(key) = self.attempts.get(&attempt) {
            self.dispatcher.command(instant(now), *key, &mut Command::LetGo);
        }
        self.drain(now);
    }

    /// Ends the session.
    pub fn close(&mut self, now: Duration) {
        self.session().close();
        self.drain(now);
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn submit(&mut self, id: CallId, call: Arc<Call>, until: Option<Duration>) {
        let (request, token) = (call.request(), Token::Caller(id));
        let submitted = match until {
            Some(until) => self.session().submit_until(&request, token, instant(until)),
            None => self.session().submit(&request, token),
        };
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
        while let Some(event) = self.dispatcher.poll_event(instant(now)) {
            self.handle_event(now, event);
        }
        self.dispatcher.take_effects().run();
    }

    fn handle_event(&mut self, now: Duration, event: Event<CallId>) {
        match event {
            Event::State(state) => {
                self.log.note(Note::State(state));
                (self.failures, self.sleeps_until) = (0, None);
            }
            Event::Disconnected { .. } if self.quirk == Some(Quirk::SleepsThroughOutages) => {
                self.failures += 1;
                if self.failures.is_multiple_of(self.members) {
                    let doublings = (self.failures / self.members - 1).min(16);
                    let longest =
                        Duration::from_millis(100 << doublings).min(Duration::from_secs(5));
                    self.sleeps_until = Some(instant(now) + longest * 3 / 4);
                }
            }
            Event::Reply { token, result } => self.answered(token, result),
            Event::Watch { requests, persistent, event } => {
                let fired = requests.iter().filter_map(|request| self.watches.remove(request));
                let fired: Vec<_> = fired.collect();
                let staying = persistent.iter().filter_map(|request| self.watches.get(request));
                for id in staying.copied().chain(fired) {
                    self.log.note(Note::Fired(id, event.clone()));
                }
            }
            Event::Gap { requests } if self.quirk != Some(Quirk::ConcealsGaps) => {
                for id in requests.iter().filter_map(|request| self.watches.get(request)) {
                    self.log.note(Note::Gap(*id));
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, id: CallId, result: Result<Reply, Error>) {
        let call = self.calls.remove(&id);
        let result = match (self.quirk, call, result) {
            (Some(Quirk::RepeatsWhatWasLost), Some(call), Err(Error::ConnectionLost)) => {
                return self.submit(id, call, None);
            }
            (Some(Quirk::TakesDeadlineForRefusal), _, Err(Error::DeadlinePassed { .. })) => {
                Err(Error::DeadlinePassed { outcome: Outcome::NotApplied })
            }
            (_, _, result) => result,
        };
        self.log.note(Note::Answered(id, result));
    }
}

/// # Outputs
impl SimClient {
    /// The next thing to do with the connection.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.session().poll_action()
    }

    /// The next thing to tell.
    pub fn poll_note(&mut self) -> Option<Note> {
        let note = self.log.poll()?;
        if let Note::Done(id) = note {
            self.attempts.remove(&id);
        }
        Some(note)
    }

    /// Bytes to be sent now, as many as there is room for.
    pub fn transmit(&mut self, now: Duration, room: usize) -> Bytes {
        let output = self.session().output();
        let mut bytes = output[..output.len().min(room)].to_vec();
        self.session().handle_sent(instant(now), bytes.len());
        if self.quirk == Some(Quirk::ForgetsWhatWasSeen) {
            for (at, byte) in (self.transmitted..).zip(&mut bytes) {
                if LAST_ZXID_SEEN.contains(&at) {
                    *byte = 0;
                }
            }
        }
        self.transmitted += bytes.len();
        bytes.into()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called. A time that has passed: as soon
    /// as everything that has arrived is input.
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.dispatcher.is_unsettled() {
            return Some(Duration::ZERO);
        }
        let timeout = self.dispatcher.poll_timeout()?;
        Some(timeout.max(self.sleeps_until.unwrap_or(timeout)).since_start())
    }
}

fn instant(now: Duration) -> Instant {
    Instant::after_start(now)
}
