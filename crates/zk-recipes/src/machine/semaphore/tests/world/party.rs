//! A borrower, and the session that it has for itself.

use super::*;

/// What the server sends.
#[derive(Clone, Copy, Hash)]
pub(super) enum Message {
    Reply(Answer, Index),
    Fired(Target, Index),
}

/// What a session tells.
#[derive(Clone, Copy, Hash)]
pub(super) enum News {
    Reply(u64, Wish, Answer, Index),
    Fired(u64, Index),
    Suspended,
    Connected,
    Expired,
}

#[derive(Clone, Hash)]
pub(super) struct SessionWatch {
    pub(super) op: u64,
    pub(super) target: Target,
    pub(super) armed: bool,
}

/// What a borrower has told.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Told {
    Nothing,
    Held,
    Suspended,
    Over,
}

/// A borrower, and the session that it has for itself.
#[derive(Clone)]
pub(super) struct Party {
    pub(super) machine: Rc<Borrower>,
    /// Stands for the state of `machine`.
    pub(super) fingerprint: u64,
    pub(super) wants: u32,
    /// Who borrows for the same owner.
    pub(super) partner: Option<usize>,
    pub(super) told: Told,
    pub(super) let_go: bool,
    pub(super) timer: bool,
    pub(super) creations: usize,
    /// The transaction that created the leases that it was granted.
    pub(super) token: Index,
    /// When it asked for leases.
    pub(super) asked_for_leases: Index,
    pub(super) connected: bool,
    /// As the ensemble knows it.
    pub(super) expired: bool,
    /// As the session knows it.
    pub(super) ended: bool,
    pub(super) seen: Index,
    /// Requests without an answer, the oldest first.
    pub(super) asked: VecDeque<(u64, Wish)>,
    /// To how many of these an answer is on its way.
    pub(super) served: usize,
    pub(super) wire: VecDeque<Message>,
    pub(super) inbox: VecDeque<News>,
    pub(super) watches: Vec<SessionWatch>,
    pub(super) watches_of_server: BTreeSet<Target>,
}

impl Party {
    pub(super) fn new(borrower: usize, bounds: &Bounds, wants: u32) -> Self {
        let contest = Contest::new(
            DIRECTORY.to_string(),
            Scheme::CURATOR_MUTEX,
            guid(borrower),
            session(borrower),
        );
        let tries = bounds.trier && borrower + 1 == bounds.wants.len();
        let entry = if tries { Entry::OnlyIfFree } else { Entry::Queue };
        let contest = Contest { entry, ..contest };
        let maximum = Some(bounds.maximum.into());
        Self {
            machine: Rc::new(Borrower::new(Loan { contest, permits: wants, maximum })),
            fingerprint: 0,
            wants,
            partner: None,
            told: Told::Nothing,
            let_go: false,
            timer: false,
            creations: 0,
            token: 0,
            asked_for_leases: 0,
            connected: true,
            expired: false,
            ended: false,
            seen: 0,
            asked: VecDeque::new(),
            served: 0,
            wire: VecDeque::new(),
            inbox: VecDeque::new(),
            watches: Vec::new(),
            watches_of_server: BTreeSet::new(),
        }
    }

    pub(super) fn has_news(&self) -> bool {
        !self.inbox.is_empty() || !self.wire.is_empty()
    }

    pub(super) fn holds(&self) -> bool {
        matches!(self.told, Told::Held | Told::Suspended) && !self.let_go
    }
}

impl Hash for Party {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { fingerprint, told, let_go, timer, creations, token, partner, .. } = self;
        (fingerprint, told, let_go, timer, creations, token, partner).hash(state);
        (self.connected, self.expired, self.ended, self.seen, self.served).hash(state);
        (&self.asked, &self.wire, &self.inbox, &self.watches, &self.watches_of_server).hash(state);
        self.asked_for_leases.hash(state);
    }
}
