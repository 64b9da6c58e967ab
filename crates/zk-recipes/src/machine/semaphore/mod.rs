//! Permits: a lock that a number of contenders can hold at once.
//!
//! Three nodes below the semaphore's: `locks`, the queue of a mutex; `leases`, with one node for
//! each permit that is taken; and `max`, which holds their number. Whoever is first in the queue
//! creates the leases that it wants, waits until there are few enough, and leaves the queue. So
//! only one watches the leases at any time, and nobody holds a permit while it waits for another.
//!
//! Nothing depends on the mutex for safety. Leases are created first and counted then: of all that
//! hold permits the one with the newest lease has seen the others' when it counted.

mod counting;
mod creating;
mod leases;
mod own;
mod parts;

#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use zk_session::proto::{Zxid, path};
use zk_session::session::State;
use zk_session::{End, Error};

use self::leases::Leases;
use self::own::{Own, Step};
use super::connection::Connection;
use super::phase::Node;
use super::view::Eyes;
use super::{Claim, Contender, Contest, Entry, Event, Input, Machine, Output, Scheme, Trust};
use crate::error::{LockError, Loss};

/// Requests of the borrower itself.
const OWN: u32 = 0;
/// Requests of the contender in the queue. Those of leases have higher numbers.
const QUEUE: u32 = 1;

/// What an attempt to get permits is about.
#[derive(Clone, Debug)]
pub struct Loan {
    /// The path of the semaphore, and how to go about it. The claim does not matter, nor do the
    /// names.
    pub contest: Contest,
    /// How many permits are wanted, all at once; at least one, and [`MOST_AT_ONCE`](Self::MOST_AT_ONCE) at most.
    pub permits: u32,
    /// How many the semaphore has, if it does not exist yet; if it does, it must have so many.
    /// Nothing to take it as it is. At most 2147483647.
    pub maximum: Option<u32>,
}

impl Loan {
    /// The most permits that one attempt can get. One transaction creates a node for each, so the limit
    /// of the servers (`jute.maxbuffer`, 1 MiB by default) is mostly lower: near 9,000 permits.
    pub const MOST_AT_ONCE: u32 = 1 << 16;

    /// The number of permits that a node holds: four bytes, as Curator's `SharedCount` has it.
    pub fn read_maximum(data: &[u8]) -> Option<u32> {
        u32::try_from(i32::from_be_bytes(data.try_into().ok()?)).ok()
    }

    fn check(&self) -> Result<(), LockError> {
        const MOST: u32 = i32::MAX.cast_unsigned();
        match (self.permits, self.maximum) {
            (0, _) => Err(LockError::NoPermits),
            (_, Some(maximum)) if maximum > MOST => {
                Err(LockError::TooManyPermits { maximum: MOST })
            }
            (_, Some(maximum)) => self.check_count(maximum),
            (_, None) => Ok(()),
        }
    }

    /// Whether so many permits can be had at once, where there are `maximum`.
    fn check_count(&self, maximum: u32) -> Result<(), LockError> {
        let maximum = maximum.min(Self::MOST_AT_ONCE);
        if self.permits > maximum { Err(LockError::TooManyPermits { maximum }) } else { Ok(()) }
    }

    /// Whether so many are wanted that their number is compared with the semaphore's before they are
    /// created: the creation may be longer than a request may be, which would say nothing of that.
    const fn asks_first(&self) -> bool {
        const FEW: u32 = 100;
        self.permits > FEW
    }
}

/// One attempt to get permits.
#[derive(Clone, Debug)]
pub struct Borrower {
    loan: Loan,
    step: Step,
    own: Own,
    /// Nothing before we have entered it.
    queue: Option<Contender>,
    leases: Vec<Lease>,
    /// Leases that are being given back.
    returned: Vec<Lease>,
    next_part: u32,
    /// The caller has lost interest, or was told that it did not work.
    letting_go: bool,
    connection: Connection,
    suspended: bool,
    revoked: bool,
    concluded: bool,
    outputs: VecDeque<Output>,
}

/// A lease of ours, which looks after itself.
#[derive(Clone, Debug)]
struct Lease {
    part: u32,
    name: String,
    suspended: bool,
    machine: Contender,
}

impl Machine for Borrower {
    fn handle(&mut self, input: Input) {
        if self.is_done() {
            return;
        }
        match input {
            Input::Reply { op, result } => match result.as_ref().err().and_then(Error::end) {
                Some(end) => self.session_ended(end),
                None => {
                    if let Err(Error::ConnectionLost) = result {
                        self.not_connected();
                    }
                    let result = self.connection.hear(result);
                    self.pass_on(op, |op| Input::Reply { op, result });
                }
            },
            Input::Watch { op, event_type } => {
                self.pass_on(op, |op| Input::Watch { op, event_type });
            }
            Input::Session(State::Ended(end)) => self.session_ended(end),
            Input::Session(state) => self.session_changed(state),
            Input::Settled => self.tell_parts(|| Input::Settled),
            Input::BehindAbandoned => self.tell_parts(|| Input::BehindAbandoned),
            Input::LeaseEnded => {
                self.tell_parts(|| Input::LeaseEnded);
                if self.letting_go {
                    self.conclude(Event::NOT_CONFIRMED);
                }
            }
            Input::Timer => {
                self.tell_parts(|| Input::Timer);
                self.ask_for_what_is_missing();
            }
            Input::Convert(_) => self.tell(Event::NotConverted(LockError::NoReaders)),
            Input::Leave | Input::LetGo => self.leave(),
        }
        self.settle();
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }
}

impl Borrower {
    /// An attempt. By [`Entry::Queue`] it begins now, and otherwise with the first
    /// [`Input::Session`], if that is a connection.
    pub fn new(loan: Loan) -> Self {
        let mut borrower = Self {
            loan,
            step: Step::Beginning,
            own: Own::default(),
            queue: None,
            leases: Vec::new(),
            returned: Vec::new(),
            next_part: QUEUE + 1,
            letting_go: false,
            connection: Connection::Up,
            suspended: false,
            revoked: false,
            concluded: false,
            outputs: VecDeque::new(),
        };
        match borrower.loan.check() {
            Err(error) => borrower.fail(error),
            Ok(()) if borrower.loan.contest.entry.waits_for_connection() => borrower.begin(),
            Ok(()) => {}
        }
        borrower.settle();
        borrower
    }

    fn begin(&mut self) {
        match self.loan.contest.entry {
            Entry::Queue | Entry::OnlyIfFirst => self.enter(),
            Entry::OnlyIfFree => {
                self.step = Step::Looking;
                self.ask_for_what_is_missing();
            }
        }
    }

    fn enter(&mut self) {
        self.unwatch_own();
        self.step = Step::Queueing;
        self.queue = Some(Contender::begun(Contest {
            claim: Claim::Exclusive,
            directory: path::child(&self.loan.contest.directory, "locks"),
            revocable: false,
            trust: Trust::UntilTold,
            // It is one of another directory.
            precedent: None,
            ..self.loan.contest.clone()
        }));
    }

    // ---- The session ---------------------------------------------------------------------------

    fn session_changed(&mut self, state: State) {
        self.connection.change(state);
        self.loan.contest.follow(state);
        if !matches!(state, State::Connected { .. }) {
            self.not_connected();
        } else if matches!(self.step, Step::Beginning) {
            self.begin();
        }
        self.tell_parts(|| Input::Session(state));
    }

    /// Ends an attempt that does not wait for a connection.
    fn not_connected(&mut self) {
        let is_over = self.letting_go || matches!(self.step, Step::Held);
        if !self.loan.contest.entry.waits_for_connection() && !is_over {
            self.fail(LockError::NoConnection);
        }
    }

    fn session_ended(&mut self, end: End) {
        let event = match self.step {
            Step::Held => Event::Lost(Loss::Ended(end)),
            // The nodes go with the session, which is all that was wanted.
            _ if self.letting_go => Event::gone_with(end),
            _ => Event::Failed(LockError::Ended(end)),
        };
        self.conclude(event);
        self.step = Step::Done;
    }

    // ---- Leases --------------------------------------------------------------------------------

    /// Takes over nodes that exist.
    fn own_leases(&mut self, names: &[String], czxid: Zxid) {
        for name in names {
            let contest = Contest {
                directory: self.lease_directory(),
                scheme: Scheme::CURATOR_LEASE,
                trust: Trust::UntilTold,
                ..self.loan.contest.clone()
            };
            let node = Node::new(path::child(&contest.directory, name), czxid);
            self.leases.push(Lease {
                part: self.next_part,
                name: name.to_string(),
                suspended: false,
                machine: Contender::holding(contest, node, self.connection),
            });
            self.next_part += 1;
        }
        self.own.token = czxid;
    }

    fn give_leases_back(&mut self) {
        for lease in &mut self.leases {
            lease.machine.handle(Input::LetGo);
        }
        self.returned.append(&mut self.leases);
        // Whoever asked for one of these has got it.
        self.revoked = false;
    }

    fn granted(&mut self) {
        self.unwatch_own();
        if let Some(queue) = &mut self.queue {
            queue.handle(Input::LetGo);
        }
        for lease in &mut self.leases {
            lease.machine.trust(self.loan.contest.trust);
        }
        let nodes: Vec<_> = self.leases.iter().map(|lease| lease.name.clone()).collect();
        let node = nodes.first().cloned().unwrap_or_default();
        self.step = Step::Held;
        if nodes.len() > 1 {
            self.tell(Event::Leased(nodes));
        }
        self.tell(Event::Acquired { node, token: self.own.token });
        if self.revoked {
            self.tell(Event::Revoked);
        }
    }

    // ---- The end -------------------------------------------------------------------------------

    fn fail(&mut self, error: LockError) {
        if !self.letting_go {
            self.conclude(Event::Failed(error));
        }
        self.leave();
    }

    fn leave(&mut self) {
        self.letting_go = true;
        self.unwatch_own();
        self.give_leases_back();
        if let Some(queue) = &mut self.queue {
            queue.handle(Input::LetGo);
        }
        // Whether there are leases to delete may still have to turn out.
        if !self.step.is_creating() {
            self.step = Step::Leaving;
        }
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    /// Tells how it ended, once.
    fn conclude(&mut self, event: Event) {
        if !core::mem::replace(&mut self.concluded, true) {
            self.tell(event);
        }
    }

    #[cfg(test)]
    fn step_name(&self) -> String {
        let step = alloc::format!("{:?}", self.step);
        step.split(' ').next().unwrap_or_default().to_string()
    }

    const fn permits(&self) -> usize {
        self.loan.permits as usize
    }

    fn lease_directory(&self) -> String {
        path::child(&self.loan.contest.directory, "leases")
    }

    fn maximum_path(&self) -> String {
        path::child(&self.loan.contest.directory, "max")
    }

    fn eyes_on_leases(&self) -> Eyes {
        let Contest { guid, foreign, .. } = self.loan.contest;
        Eyes { scheme: Scheme::CURATOR_LEASE, foreign, claim: Claim::Exclusive, guid }
    }

    fn leases(&self) -> Leases {
        Leases { guid: self.loan.contest.guid }
    }
}
