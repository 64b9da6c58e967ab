//! What lies between a machine and the server in the worlds that are explored: the requests,
//! answers, events and watches of one session, in order.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

/// A transaction's place in the log, and the state of the tree that it leads to.
pub(crate) type Index = u8;

/// What a server sends.
#[derive(Clone, Copy, Hash)]
pub(crate) enum Message<A, T> {
    Reply(A, Index),
    Fired(T, Index),
}

/// What a session tells.
#[derive(Clone, Copy, Hash)]
pub(crate) enum News<W, A> {
    Reply(u64, W, A, Index),
    Fired(u64, Index),
    Suspended,
    Connected,
    Expired,
}

impl<W, A> News<W, A> {
    pub(crate) fn is_state(&self) -> bool {
        matches!(self, Self::Suspended | Self::Connected | Self::Expired)
    }

    /// Of when the tree is that this tells of.
    pub(crate) fn now(&self) -> Index {
        match self {
            Self::Reply(.., now) | Self::Fired(_, now) => *now,
            _ => 0,
        }
    }
}

/// What a machine has told.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    Nothing,
    Held,
    Suspended,
    Over,
}

/// A watch, as the session knows it.
#[derive(Clone, Hash)]
pub(crate) struct SessionWatch<T> {
    op: u64,
    pub(crate) target: T,
    armed: bool,
}

/// The line: `W` is what can be asked for, `A` an answer, `T` what can be watched.
#[derive(Clone, Hash)]
pub(crate) struct Line<W, A, T> {
    /// As the ensemble knows it.
    pub(crate) expired: bool,
    /// As the session knows it.
    pub(crate) ended: bool,
    pub(crate) seen: Index,
    /// Requests without an answer, the oldest first.
    pub(crate) asked: VecDeque<(u64, W)>,
    /// To how many of these an answer is on its way.
    pub(crate) served: usize,
    pub(crate) wire: VecDeque<Message<A, T>>,
    pub(crate) inbox: VecDeque<News<W, A>>,
    pub(crate) watches: Vec<SessionWatch<T>>,
    /// What the server watches.
    pub(crate) watched: BTreeSet<T>,
}

impl<W: Copy, A: Copy, T: Copy + Ord> Line<W, A, T> {
    pub(crate) fn new() -> Self {
        Self {
            expired: false,
            ended: false,
            seen: 0,
            asked: VecDeque::new(),
            served: 0,
            wire: VecDeque::new(),
            inbox: VecDeque::new(),
            watches: Vec::new(),
            watched: BTreeSet::new(),
        }
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.inbox.is_empty() || !self.wire.is_empty()
    }

    /// How many requests the server has not answered.
    pub(crate) fn unserved(&self) -> usize {
        self.asked.len() - self.served
    }

    /// The oldest of these.
    pub(crate) fn next(&self) -> W {
        self.asked[self.served].1
    }

    pub(crate) fn watch(&mut self, op: u64, target: T) {
        self.watches.push(SessionWatch { op, target, armed: false });
    }

    pub(crate) fn unwatch(&mut self, op: u64) {
        self.watches.retain(|watch| watch.op != op);
        let watches = &self.watches;
        self.watched.retain(|target| watches.iter().any(|watch| watch.target == *target));
    }

    /// What is watched and set, as the session knows it.
    pub(crate) fn armed(&self) -> impl Iterator<Item = T> {
        self.watches.iter().filter(|watch| watch.armed).map(|watch| watch.target)
    }

    pub(crate) fn reply(&mut self, answer: A, now: Index) {
        self.served += 1;
        self.wire.push_back(Message::Reply(answer, now));
    }

    pub(crate) fn fire(&mut self, target: T, now: Index) {
        if self.watched.remove(&target) {
            self.wire.push_back(Message::Fired(target, now));
        }
    }

    /// The session reads the next message and notes what it has to tell. `fires` says whether an
    /// event is one of a watch.
    pub(crate) fn receive(&mut self, is_refusal: fn(&A) -> bool, fires: impl Fn(T, T) -> bool) {
        match self.wire.pop_front().expect("a message") {
            Message::Reply(answer, now) => {
                let (op, wish) = self.asked.pop_front().expect("a request");
                self.served -= 1;
                self.seen = self.seen.max(now);
                if is_refusal(&answer) {
                    self.watches.retain(|watch| watch.op != op);
                } else {
                    self.watches.iter_mut().for_each(|watch| watch.armed |= watch.op == op);
                }
                self.inbox.push_back(News::Reply(op, wish, answer, now));
            }
            Message::Fired(target, now) => {
                let fired =
                    |watch: &mut SessionWatch<T>| watch.armed && fires(target, watch.target);
                let fired = self.watches.extract_if(.., fired);
                self.inbox.extend(fired.map(|watch| News::Fired(watch.op, now)));
            }
        }
    }

    /// The connection goes, and with it what was not received. The oldest `sent` requests that have
    /// no answer are told to be lost, or whatever `answer` says.
    pub(crate) fn cut(&mut self, sent: usize, answer: impl Fn(&W) -> A) {
        for (op, wish) in self.asked.drain(..sent) {
            self.watches.retain(|watch| watch.op != op);
            self.inbox.push_back(News::Reply(op, wish, answer(&wish), 0));
        }
        self.inbox.push_back(News::Suspended);
        self.served = 0;
        self.wire.clear();
        self.watched.clear();
    }

    /// The session hears that it has expired.
    pub(crate) fn end(&mut self, answer: A) {
        self.ended = true;
        self.watches.clear();
        let lost = self.asked.drain(..);
        self.inbox.extend(lost.map(|(op, wish)| News::Reply(op, wish, answer, 0)));
        self.inbox.push_back(News::Expired);
    }

    /// Nobody listens any more.
    pub(crate) fn forget(&mut self) {
        self.served = 0;
        self.asked.clear();
        self.wire.clear();
        self.inbox.clear();
        self.watched.clear();
    }
}
