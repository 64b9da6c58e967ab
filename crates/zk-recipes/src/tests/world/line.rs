//! One session between a machine and its server: requests, replies, events and watches, in order.

use super::tree::{Index, Watched};
use super::*;

/// The distance of a cut from the start of a list, and of another one from its end: within a name.
pub(crate) const CUT: usize = 20;

/// A request without a reply.
#[derive(Clone)]
pub(crate) struct PendingRequest {
    pub(crate) op: OpId,
    pub(crate) operation: Arc<Operation>,
    /// A hash of `operation`.
    digest: u64,
    pub(crate) is_behind_sync: bool,
}

impl PendingRequest {
    pub(crate) fn is_write(&self) -> bool {
        !self.is(|request| {
            use Request::{Exists, GetChildren, GetData, Sync};
            matches!(request, Exists(_) | GetChildren(_) | GetData(_) | Sync(_))
        })
    }

    pub(crate) fn is(&self, what: impl FnOnce(&Request<'_>) -> bool) -> bool {
        self.operation.with_request(what)
    }
}

impl Hash for PendingRequest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.digest, self.is_behind_sync).hash(state);
    }
}

/// What becomes of a request that was lost with its connection.
#[derive(Clone, Copy)]
pub(crate) enum AfterLoss {
    Fails,
    /// An injected bug.
    SeemsAnswered,
    /// An injected bug.
    IsResent,
}

/// A reply, with the state of the tree that it shows.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) result: Arc<Result<Reply, Error>>,
    pub(crate) now: Index,
    /// The watch that the server has set.
    watch: Option<Watched>,
    digest: u64,
}

impl Answer {
    pub(crate) fn new(result: Result<Reply, Error>, watch: Option<Watched>, now: Index) -> Self {
        let digest = match &result {
            Ok(reply) => {
                let mut hasher = DefaultHasher::new();
                (reply.opcode.0, reply.zxid.0, reply.has_more, &reply.body[..]).hash(&mut hasher);
                hasher.finish()
            }
            Err(error) => digest(error),
        };
        Self { result: Arc::new(result), now, watch, digest }
    }

    pub(crate) fn has_more(&self) -> bool {
        self.result.as_ref().as_ref().is_ok_and(|reply| reply.has_more)
    }

    /// Cuts a list within the first name and within the last.
    pub(crate) fn in_pieces(&self) -> Vec<Self> {
        let whole = match &*self.result {
            Ok(whole) if whole.body.len() > 2 * CUT => whole,
            _ => return [self.clone()].into(),
        };
        let mut body = whole.body.clone();
        let tail = body.split_off(body.len() - CUT);
        let middle = body.split_off(CUT);
        let pieces = [(body, true), (middle, true), (tail, false)];
        let answer = |(body, has_more)| {
            Self::new(Ok(harness::piece(whole, body, has_more)), self.watch, self.now)
        };
        pieces.map(answer).into()
    }

    pub(crate) fn lost(error: Error) -> Self {
        Self::new(Err(error), None, 0)
    }
}

impl Hash for Answer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.digest, self.now, self.watch).hash(state);
    }
}

/// A message of a server.
#[derive(Clone, Hash)]
pub(crate) enum Message {
    Reply(Answer),
    Fired(Arc<str>, i32, Index),
}

/// An event of a session.
#[derive(Clone)]
pub(crate) enum SessionEvent {
    Reply(PendingRequest, Answer),
    Fired(OpId, i32, Index),
    Suspended,
    Connected(SessionId),
    Renewing,
    Expired,
}

impl Hash for SessionEvent {
    fn hash<H: Hasher>(&self, state: &mut H) {
        core::mem::discriminant(self).hash(state);
        match self {
            Self::Reply(asked, answer) => (asked, answer).hash(state),
            Self::Fired(_, event, now) => (event, now).hash(state),
            Self::Connected(session) => session.hash(state),
            Self::Suspended | Self::Renewing | Self::Expired => {}
        }
    }
}

#[derive(Clone)]
pub(crate) struct SessionWatch {
    op: OpId,
    pub(crate) path: Arc<str>,
    is_of_children: bool,
    /// `None` until the server has confirmed the watch.
    set: Option<Watched>,
}

impl Hash for SessionWatch {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.path, self.is_of_children, self.set).hash(state);
    }
}

/// Its hash leaves out the ids of requests: see [`ops`](Line::ops).
#[derive(Clone, Default, Hash)]
pub(crate) struct Line {
    /// Whether the ensemble has expired the session.
    pub(crate) expired: bool,
    /// Whether the session knows that it has expired.
    pub(crate) ended: bool,
    /// Whether the session is renewed, and the machine does not know it yet.
    pub(crate) is_renewing: bool,
    pub(crate) seen: Index,
    /// Requests without a reply, oldest first.
    pub(crate) asked: VecDeque<PendingRequest>,
    /// How many of these the server has answered. Their replies are on the way.
    pub(crate) served: usize,
    /// Whether all messages of the server are lost.
    pub(crate) loses_replies: bool,
    wire: VecDeque<Message>,
    pub(crate) inbox: VecDeque<SessionEvent>,
    pub(crate) watches: Vec<SessionWatch>,
    /// The watches that the server holds.
    watched: BTreeSet<(Arc<str>, Watched)>,
}

impl Line {
    pub(crate) fn has_events(&self) -> bool {
        !self.inbox.is_empty() || !self.wire.is_empty()
    }

    /// Returns whether the server watches this node.
    pub(crate) fn is_watched(&self, path: &str) -> bool {
        self.watched.iter().any(|(watched, _)| **watched == *path)
    }

    /// Returns the number of requests that the server has not answered.
    pub(crate) fn unserved(&self) -> usize {
        self.asked.len() - self.served
    }

    /// Returns the positions of the writes among the requests that the server has not answered.
    pub(crate) fn unserved_writes(&self) -> impl Iterator<Item = usize> {
        let unserved = self.asked.iter().skip(self.served).enumerate();
        unserved.filter(|(_, asked)| asked.is_write()).map(|(position, _)| position)
    }

    /// Returns the ids of its requests.
    pub(crate) fn ops(&self) -> impl Iterator<Item = OpId> {
        let of_event = |event: &SessionEvent| match event {
            SessionEvent::Reply(asked, _) => Some(asked.op),
            SessionEvent::Fired(op, ..) => Some(*op),
            _ => None,
        };
        let asked = self.asked.iter().map(|asked| asked.op);
        let watches = self.watches.iter().map(|watch| watch.op);
        asked.chain(self.inbox.iter().filter_map(of_event)).chain(watches)
    }

    /// Returns the states of the tree that its messages show.
    pub(crate) fn shown(&self) -> impl Iterator<Item = Index> {
        let by_message = |message: &Message| match message {
            Message::Reply(Answer { now, .. }) | Message::Fired(_, _, now) => *now,
        };
        let by_event = |event: &SessionEvent| match event {
            SessionEvent::Reply(_, Answer { now, .. }) | SessionEvent::Fired(_, _, now) => {
                Some(*now)
            }
            _ => None,
        };
        self.wire.iter().map(by_message).chain(self.inbox.iter().filter_map(by_event))
    }

    /// Returns the oldest request that the server has not answered.
    pub(crate) fn next(&self) -> &PendingRequest {
        &self.asked[self.served]
    }

    pub(crate) fn submit(&mut self, op: OpId, operation: Operation) {
        if self.ended || self.is_renewing {
            return;
        }
        let is_sync = |request: &Request<'_>| matches!(request, Request::Sync(_));
        let is_behind_sync = self.asked.back().is_some_and(|before| before.is(is_sync));
        if operation.watches() {
            let path = operation.path().as_str().into();
            let is_of_children = operation.with_request(|it| matches!(it, Request::GetChildren(_)));
            self.watches.push(SessionWatch { op, path, is_of_children, set: None });
        }
        let mut hasher = DefaultHasher::new();
        operation.hash(&mut hasher);
        let digest = hasher.finish();
        let operation = Arc::new(operation);
        self.asked.push_back(PendingRequest { op, operation, digest, is_behind_sync });
    }

    pub(crate) fn unwatch(&mut self, op: OpId) {
        self.watches.retain(|watch| watch.op != op);
        let watches = &self.watches;
        let is_wanted = |path: &Arc<str>, of_children| {
            watches.iter().any(|it| it.path == *path && it.is_of_children == of_children)
        };
        self.watched.retain(|(path, watched)| is_wanted(path, *watched == Watched::Children));
    }

    /// Makes the server watch another path than requested.
    pub(crate) fn redirect(&mut self, op: OpId, path: Arc<str>) {
        let watch = self.watches.iter_mut().find(|watch| watch.op == op);
        watch.into_iter().for_each(|watch| watch.path = path.clone());
    }

    // ---- The server ----------------------------------------------------------------------------

    /// Sends a reply: whole, or a list in pieces.
    pub(crate) fn reply(&mut self, answer: Answer, is_cut: bool) {
        let PendingRequest { op, operation, .. } = self.next();
        if let Some(set) = answer.watch {
            // Also if the watch is no longer wanted.
            let watch = self.watches.iter().find(|watch| watch.op == *op);
            let path =
                watch.map_or_else(|| operation.path().as_str().into(), |watch| watch.path.clone());
            self.watched.insert((path, set));
        }
        self.served += 1;
        let pieces = if is_cut { answer.in_pieces() } else { [answer].into() };
        pieces.into_iter().for_each(|piece| self.send(Message::Reply(piece)));
    }

    pub(crate) fn send(&mut self, message: Message) {
        if !self.loses_replies {
            self.wire.push_back(message);
        }
    }

    /// Loses the messages in transit, and those to come.
    pub(crate) fn lose_replies(&mut self) {
        self.loses_replies = true;
        self.wire.clear();
    }

    pub(crate) fn fire(&mut self, path: &Arc<str>, event: EventType, now: Index) {
        let before = self.watched.len();
        self.watched.retain(|(of, watched)| of != path || !watched.receives(event));
        if self.watched.len() < before {
            self.send(Message::Fired(path.clone(), event.0, now));
        }
    }

    // ---- The session ---------------------------------------------------------------------------

    /// Reads the next message and queues the events that follow from it.
    pub(crate) fn receive(&mut self) {
        match self.wire.pop_front().expect("a message") {
            Message::Reply(answer) if answer.has_more() => {
                let asked = self.asked.front().expect("a request").clone();
                self.inbox.push_back(SessionEvent::Reply(asked, answer));
            }
            Message::Reply(answer) => {
                let asked = self.asked.pop_front().expect("a request");
                self.served -= 1;
                self.seen = self.seen.max(answer.now);
                match answer.watch {
                    None => self.watches.retain(|watch| watch.op != asked.op),
                    set => {
                        let its = self.watches.iter_mut().filter(|watch| watch.op == asked.op);
                        its.for_each(|watch| watch.set = set);
                    }
                }
                self.inbox.push_back(SessionEvent::Reply(asked, answer));
            }
            Message::Fired(path, event, now) => {
                let fired = |watch: &mut SessionWatch| {
                    let receives = |set: Watched| set.receives(EventType(event));
                    watch.path == path && watch.set.is_some_and(receives)
                };
                let fired = self.watches.extract_if(.., fired);
                self.inbox.extend(fired.map(|watch| SessionEvent::Fired(watch.op, event, now)));
            }
        }
    }

    /// Breaks the connection. All messages in transit are lost, and the oldest `sent` requests
    /// without a reply fail, or what `then` says.
    pub(crate) fn cut(&mut self, sent: usize, then: impl Fn(&PendingRequest) -> AfterLoss) {
        let mut resent = VecDeque::new();
        for asked in self.asked.drain(..self.served + sent) {
            self.watches.retain(|watch| watch.op != asked.op);
            let answer = match then(&asked) {
                AfterLoss::Fails => Answer::lost(Error::ConnectionLost),
                AfterLoss::SeemsAnswered => Answer::new(ok(), None, 0),
                AfterLoss::IsResent => {
                    resent.push_back(asked);
                    continue;
                }
            };
            self.inbox.push_back(SessionEvent::Reply(asked, answer));
        }
        resent.append(&mut self.asked);
        self.asked = resent;
        self.inbox.push_back(SessionEvent::Suspended);
        (self.served, self.loses_replies) = (0, false);
        self.wire.clear();
        self.watched.clear();
    }

    /// Connects again and sets the watches again: by class and path, or in reverse order.
    pub(crate) fn resume(&mut self, tree: &Tree, now: Index, session: SessionId, reversed: bool) {
        self.inbox.push_back(SessionEvent::Connected(session));
        let armed = self.watches.iter().filter_map(|it| Some((it.path.clone(), it.set?)));
        let mut armed: Vec<_> = armed.collect::<BTreeSet<_>>().into_iter().collect();
        if reversed {
            armed.reverse();
        }
        armed.sort_by_key(|(_, watched)| *watched == Watched::Children);
        for (path, watched) in armed {
            let missed = tree.missed(&path, watched, self.seen, now);
            self.watched.insert((path.clone(), watched));
            missed.into_iter().for_each(|event| self.fire(&path, event, now));
        }
    }

    /// Returns whether the order in which watches are set again can matter.
    pub(crate) fn has_several_watches(&self) -> bool {
        let mut paths = self.watches.iter().filter(|it| it.set.is_some()).map(|it| &it.path);
        let first = paths.next();
        paths.any(|path| Some(path) != first)
    }

    /// Reports to the session that it has expired.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.watches.clear();
        let ended = || Error::Ended { end: End::Expired, outcome: Outcome::NotApplied };
        let lost = self.asked.drain(..);
        self.inbox.extend(lost.map(|asked| SessionEvent::Reply(asked, Answer::lost(ended()))));
        self.inbox.push_back(SessionEvent::Expired);
    }

    /// Puts a new session in the place of the expired one. It need not know the same transactions.
    pub(crate) fn renew(&mut self) {
        self.watches.clear();
        self.asked.clear();
        (self.expired, self.is_renewing, self.seen) = (false, true, 0);
        self.inbox.push_back(SessionEvent::Renewing);
    }

    /// Drops everything, since the machine is done.
    pub(crate) fn forget(&mut self) {
        (self.served, self.loses_replies) = (0, false);
        self.asked.clear();
        self.wire.clear();
        self.inbox.clear();
        self.watches.clear();
        self.watched.clear();
    }
}
