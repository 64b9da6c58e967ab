//! A whole client without IO: a session, and the locks and requests on it.
//!
//! It is driven as its [`Session`] is: after every input or command take every
//! [action](SimClient::poll_action), every [note](SimClient::poll_note), what is to be
//! [transmitted](SimClient::transmit), and look at the [timeout](SimClient::poll_timeout).
//!
//! Inside it does what everybody does who joins the two machines: requests of a [`Machine`] are
//! submitted in their order, and answers, events and states are given to it in theirs.

mod telling;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::time::Duration;

use bytes::{Bytes, BytesMut};
use uuid::Uuid;
use zk_proto::{
    Encode, EventType, GetChildrenRequest, GetChildrenResponse, OpCode, Request, SessionId, Zxid,
    frame::{Piece, Splitter},
    path,
};
use zk_recipes::machine::{
    Borrower, Claim, Contender, Contest, Input, Loan, Machine, OpId, Operation, Output, Precedent,
    Renewal, Scheme,
};
use zk_session::session::{Action, Config, Event, Reply, RequestId, Session};
use zk_session::time::Instant;
use zk_session::{Error, Outcome, State};

use telling::unwatch;

use super::{AttemptId, Call, CallId, Demand, Note, Quirk};

/// Where the handshake has the newest transaction that the client has seen: behind the length of
/// the frame and the version of the protocol.
const LAST_ZXID_SEEN: core::ops::Range<usize> = 8..16;

/// Who made a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Call(CallId),
    Lock(AttemptId, OpId),
    /// A watch of it that is renewed.
    Renewal(AttemptId, OpId),
}

#[derive(Debug)]
struct Attempt {
    machine: Box<dyn Machine + Send>,
    directory: String,
    guid: Uuid,
    alarm: Option<Instant>,
    /// Its watches, and how to set them again.
    watches: Vec<(OpId, Operation)>,
    renewal: Renewal,
    /// When a watch was last asked for, or the session resumed.
    silent_since: Instant,
    /// When a watch is renewed, if it has heard nothing by then.
    silent_until: Option<Instant>,
}

/// See the module `sim`.
#[derive(Debug)]
pub struct SimClient {
    session: Session<Token>,
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
    watches: BTreeMap<RequestId, Token>,
    attempts: BTreeMap<AttemptId, Attempt>,
    /// What the last attempt in each directory has left.
    precedents: BTreeMap<String, Precedent>,
    /// Answers that were found without the session.
    answers: VecDeque<(Token, Result<Reply, Error>)>,
    notes: VecDeque<Note>,
}

/// # Getters
impl SimClient {
    /// How things stand with the session.
    pub fn state(&self) -> State {
        self.session.state()
    }

    /// The session.
    pub fn id(&self) -> SessionId {
        self.session.id()
    }

    /// The newest transaction that the session has seen.
    pub fn last_zxid(&self) -> Zxid {
        self.session.last_zxid()
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
        self.session.lease().map(Instant::since_start)
    }

    /// The session timeout.
    pub fn session_timeout(&self) -> Duration {
        self.session.timeout()
    }

    /// How many requests wait for an answer.
    pub fn waiting(&self) -> usize {
        self.calls.len()
    }

    /// How many attempts are not done yet.
    pub fn attempts(&self) -> usize {
        self.attempts.len()
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
            session: Session::new(instant(now), config),
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
            precedents: BTreeMap::new(),
            answers: VecDeque::new(),
            notes: VecDeque::new(),
        }
    }

    /// The connection asked for is there.
    pub fn handle_connected(&mut self, now: Duration) {
        self.inbox.clear();
        self.frames = Splitter::new(self.max_reply);
        self.transmitted = 0;
        self.session.handle_connected(instant(now));
        self.settle(now);
    }

    /// The connection is gone, or cannot be made.
    pub fn handle_disconnected(&mut self, now: Duration) {
        self.session.handle_disconnected(instant(now));
        self.settle(now);
    }

    /// A member was asked whether it can write.
    pub fn handle_probed(&mut self, now: Duration, member: usize, read_write: bool) {
        if self.quirk != Some(Quirk::StaysReadOnly) {
            self.session.handle_probed(instant(now), member, read_write);
            self.settle(now);
        }
    }

    /// Any piece of the stream has arrived.
    pub fn handle_bytes(&mut self, now: Duration, bytes: &[u8]) {
        self.inbox.extend_from_slice(bytes);
        loop {
            match self.frames.split(&mut self.inbox) {
                Ok(Some(Piece::Frame(frame))) => self.session.handle_frame(instant(now), frame),
                Ok(Some(Piece::TooLong { start, length })) => {
                    self.session.handle_oversized(instant(now), &start, length);
                }
                Ok(None) => return,
                Err(error) => {
                    self.inbox.clear();
                    self.session.handle_bad_frame(instant(now), error);
                }
            }
            self.settle(now);
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.sleeps_until.is_none_or(|until| until <= instant(now)) {
            self.sleeps_until = None;
            self.session.handle_timeout(instant(now));
        }
        self.settle(now);
        let is_due = |attempt: &Attempt| attempt.alarm.is_some_and(|at| at <= instant(now));
        let due = self.attempts.iter().filter(|(_, attempt)| is_due(attempt));
        for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(attempt) = self.attempts.get_mut(&id) {
                attempt.alarm = None;
            }
            self.tell_attempt(now, id, Input::Timer);
        }
        let is_silent =
            |attempt: &Attempt| attempt.silent_until.is_some_and(|at| at <= instant(now));
        let silent = self.attempts.iter().filter(|(_, attempt)| is_silent(attempt));
        for id in silent.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.renew_watch(now, id);
        }
        self.settle(now);
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
        self.notes.push_back(Note::Called(id, call.clone(), until));
        let until = until.filter(|_| self.quirk != Some(Quirk::ForgetsDeadlines));
        self.submit_call(id, call, until);
        self.settle(now);
        id
    }

    /// The watch that a request has asked for is not wanted any more.
    pub fn unwatch(&mut self, now: Duration, call: CallId) {
        self.notes.push_back(Note::Unwatched(call));
        unwatch(&mut self.session, &mut self.watches, Token::Call(call));
        self.settle(now);
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
        self.notes.push_back(Note::Contends(id, directory.to_owned(), demand));
        let (scheme, claim) = match demand {
            Demand::Mutex | Demand::Permits { .. } => (Scheme::CURATOR_MUTEX, Claim::Exclusive),
            Demand::Read => (Scheme::CURATOR_READ_WRITE, Claim::Shared),
            Demand::Write => (Scheme::CURATOR_READ_WRITE, Claim::Exclusive),
        };
        let contest = Contest::new(directory.to_owned(), scheme, guid, self.session.id());
        let contest =
            Contest { claim, precedent: self.precedents.get(directory).copied(), ..contest };
        let machine: Box<dyn Machine + Send> = match demand {
            Demand::Permits { count, of } => {
                Box::new(Borrower::new(Loan { contest, permits: count, maximum: Some(of) }))
            }
            _ => Box::new(Contender::new(contest)),
        };
        let attempt = Attempt {
            machine,
            directory: directory.to_owned(),
            guid,
            alarm: None,
            watches: Vec::new(),
            renewal: Renewal::new(guid.as_u64_pair().1 ^ id),
            silent_since: instant(now),
            silent_until: None,
        };
        self.attempts.insert(id, attempt);
        self.tell_attempt(now, id, Input::Session(self.session.state()));
        self.tell_end_of_lease(now, id);
        self.settle(now);
        id
    }

    /// The lock is not wanted any more.
    pub fn let_go(&mut self, now: Duration, attempt: AttemptId) {
        self.notes.push_back(Note::LetGo(attempt));
        self.tell_attempt(now, attempt, Input::LetGo);
        self.tell_end_of_lease(now, attempt);
        self.settle(now);
    }

    /// Ends the session.
    pub fn close(&mut self, now: Duration) {
        self.session.close();
        self.settle(now);
    }
}

/// # Outputs
impl SimClient {
    /// The next thing to do with the connection.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.session.poll_action()
    }

    /// The next thing to tell.
    pub fn poll_note(&mut self) -> Option<Note> {
        self.notes.pop_front()
    }

    /// Bytes to be sent now, as many as there is room for.
    pub fn transmit(&mut self, now: Duration, room: usize) -> Bytes {
        let output = self.session.output();
        let mut bytes = output[..output.len().min(room)].to_vec();
        self.session.handle_sent(instant(now), bytes.len());
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

    /// When [`handle_timeout`](Self::handle_timeout) is to be called.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let alarms = self
            .attempts
            .values()
            .flat_map(|attempt| attempt.alarm.into_iter().chain(attempt.silent_until));
        let session = self.session.poll_timeout().map(|at| Some(at).max(self.sleeps_until));
        let timeouts = alarms.chain(session.flatten());
        timeouts.min().map(Instant::since_start)
    }
}

fn instant(now: Duration) -> Instant {
    Instant::after_start(now)
}
