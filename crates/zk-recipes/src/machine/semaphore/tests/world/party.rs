//! A borrower, and the session that it has for itself.

use super::super::super::super::tests::line::{self, Line};
use super::*;

pub(super) type News = line::News<Wish, Answer>;

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
    pub(super) line: Line<Wish, Answer, Target>,
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
        let mut machine = Borrower::new(Loan { contest, permits: wants, maximum });
        if tries {
            let session = session(borrower);
            machine.handle(Input::Session(State::Connected { member: 0, session }));
        }
        Self {
            machine: Rc::new(machine),
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
            line: Line::new(),
        }
    }

    pub(super) fn holds(&self) -> bool {
        matches!(self.told, Told::Held | Told::Suspended) && !self.let_go
    }
}

impl Hash for Party {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { fingerprint, told, let_go, timer, creations, token, partner, .. } = self;
        (fingerprint, told, let_go, timer, creations, token, partner).hash(state);
        (self.connected, &self.line, self.asked_for_leases).hash(state);
    }
}
