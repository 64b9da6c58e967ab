//! Permits: a lock that a number of contenders can hold at once.
//!
//! Three nodes below the semaphore's: `locks`, the queue of a mutex; `leases`, with one node for
//! each permit that is taken; and `max`, which holds their number. Whoever is first in the queue
//! creates the leases that it wants, waits until there are few enough, and leaves the queue. So
//! only one watches the leases at any time, and nobody holds a permit while it waits for another.
//!
//! Nothing depends on the mutex for safety. Leases are created first and counted then: of all that
//! hold permits the one with the newest lease has seen the others' when it counted.

mod leases;
mod own;

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use zk_session::proto::Zxid;
use zk_session::session::State;
use zk_session::{End, Error};

use self::leases::Leases;
use self::own::{Own, Step};
use super::phase::Node;
use super::{Claim, Contender, Contest, Entry, Event, Input, Machine, OpId, Output, Scheme, Trust};
use crate::error::{LockError, Loss};

/// When to try again what the session or the server has refused for now.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Requests of the borrower itself.
const OWN: u32 = 0;
/// Requests of the contender in the queue. Those of leases have higher numbers.
const QUEUE: u32 = 1;

/// What an attempt to get permits is about.
#[derive(Clone, Debug)]
pub struct Loan {
    /// The path of the semaphore, and how to go about it. The claim does not matter.
    pub contest: Contest,
    /// How many permits are wanted, all at once.
    pub permits: u32,
    /// How many the semaphore has, if it does not exist yet; if it does, it must have so many.
    /// Nothing to take it as it is.
    pub maximum: Option<u32>,
}

impl Loan {
    /// The number of permits that a node holds: four bytes, as Curator's `SharedCount` has it.
    pub fn read_maximum(data: &[u8]) -> Option<u32> {
        u32::try_from(i32::from_be_bytes(data.try_into().ok()?)).ok()
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
    next_part: u32,
    /// The caller has lost interest, or was told that it did not work.
    letting_go: bool,
    connected: bool,
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
                None => self.pass_on(op, |op| Input::Reply { op, result }),
            },
            Input::Watch { op, event_type } => {
                self.pass_on(op, |op| Input::Watch { op, event_type });
            }
            Input::Session(State::Ended(end)) => self.session_ended(end),
            Input::Session(state) => self.session_changed(state),
            Input::LeaseEnded => self.tell_parts(|| Input::LeaseEnded),
            Input::Timer => {
                self.tell_parts(|| Input::Timer);
                self.repeat();
            }
            Input::Convert(_) => self.tell(Event::NotConverted(LockError::NoReaders)),
            Input::LetGo => self.leave(),
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
    /// An attempt that begins now, with a session that is connected.
    pub fn new(loan: Loan) -> Self {
        let entry = loan.contest.entry;
        let mut borrower = Self {
            loan,
            step: Step::Looking,
            own: Own::default(),
            queue: None,
            leases: Vec::new(),
            next_part: QUEUE + 1,
            letting_go: false,
            connected: true,
            suspended: false,
            revoked: false,
            concluded: false,
            outputs: VecDeque::new(),
        };
        match entry {
            Entry::Queue => borrower.enter(),
            Entry::OnlyIfFree => {
                borrower.look_at_maximum();
                borrower.list_leases();
            }
        }
        borrower.settle();
        borrower
    }

    fn enter(&mut self) {
        self.unwatch_own();
        self.own.taken = None;
        self.step = Step::Queueing;
        self.queue = Some(Contender::new(Contest {
            claim: Claim::Exclusive,
            directory: below(&self.loan.contest.directory, "locks"),
            revocable: false,
            trust: Trust::UntilTold,
            ..self.loan.contest.clone()
        }));
    }

    // ---- Parts ---------------------------------------------------------------------------------

    fn pass_on(&mut self, OpId(op): OpId, input: impl FnOnce(OpId) -> Input) {
        // The part in the upper half, its own number in the lower.
        let part = u32::try_from(op >> 32).unwrap_or(u32::MAX);
        let input = input(OpId(op & u64::from(u32::MAX)));
        match part {
            OWN => self.handle_own(input),
            QUEUE => {
                if let Some(queue) = &mut self.queue {
                    queue.handle(input);
                }
            }
            _ => {
                if let Some(lease) = self.leases.iter_mut().find(|lease| lease.part == part) {
                    lease.machine.handle(input);
                }
            }
        }
    }

    fn tell_parts(&mut self, input: impl Fn() -> Input) {
        if let Some(queue) = &mut self.queue {
            queue.handle(input());
        }
        for lease in &mut self.leases {
            lease.machine.handle(input());
        }
    }

    /// Takes what the parts want, until none wants anything.
    fn settle(&mut self) {
        loop {
            if let Some(output) = self.queue.as_mut().and_then(Contender::poll_output) {
                self.take(QUEUE, output);
                continue;
            }
            let of_lease = |lease: &mut Lease| Some((lease.part, lease.machine.poll_output()?));
            match self.leases.iter_mut().find_map(of_lease) {
                Some((part, output)) => self.take(part, output),
                None => break,
            }
        }
        self.leases.retain(|lease| !lease.machine.is_done());
        let is_clean = self.queue.as_ref().is_none_or(Contender::is_done) && self.leases.is_empty();
        if matches!(self.step, Step::Leaving) && is_clean {
            self.conclude(Event::Released);
            self.step = Step::Done;
        }
    }

    fn take(&mut self, part: u32, output: Output) {
        let numbered = |OpId(op)| OpId(u64::from(part) << 32 | op);
        let output = match output {
            Output::Submit { op, operation } => Output::Submit { op: numbered(op), operation },
            Output::Unwatch(op) => Output::Unwatch(numbered(op)),
            // One clock for all: each takes a call that was meant for another for its own.
            Output::SetTimer(after) => Output::SetTimer(after),
            Output::Event(event) if part == QUEUE => return self.queue_tells(event),
            Output::Event(event) => return self.lease_tells(part, event),
        };
        self.outputs.push_back(output);
    }

    fn queue_tells(&mut self, event: Event) {
        match event {
            // Nothing depends on our place in the queue any more.
            _ if matches!(self.step, Step::Held) => {}
            Event::Enqueued { .. } | Event::Waiting { .. } | Event::Foreign(_) => self.tell(event),
            Event::Acquired { .. } => self.borrow(),
            Event::Failed(error) => self.fail(error),
            // Somebody else may be first now, and count.
            Event::Lost(_) => self.fail(LockError::NodeVanished),
            _ => {}
        }
    }

    fn lease_tells(&mut self, part: u32, event: Event) {
        let Some(lease) = self.leases.iter_mut().find(|lease| lease.part == part) else {
            return;
        };
        match event {
            Event::Suspended => {
                lease.suspended = true;
                self.suspension_changed();
            }
            Event::Resumed => {
                lease.suspended = false;
                self.suspension_changed();
            }
            Event::Lost(loss) if matches!(self.step, Step::Held) => {
                self.conclude(Event::Lost(loss));
                self.leave();
            }
            // We are still first, and can have another.
            Event::Lost(_) if matches!(self.step, Step::Waiting) => self.borrow(),
            Event::Revoked => {
                let told = core::mem::replace(&mut self.revoked, true);
                if !told && matches!(self.step, Step::Held) {
                    self.tell(Event::Revoked);
                }
            }
            Event::Failed(error) => self.conclude(Event::Failed(error)),
            _ => {}
        }
    }

    fn suspension_changed(&mut self) {
        let suspended = self.leases.iter().any(|lease| lease.suspended);
        let changed = core::mem::replace(&mut self.suspended, suspended) != suspended;
        if changed && matches!(self.step, Step::Held) {
            self.tell(if suspended { Event::Suspended } else { Event::Resumed });
        }
    }

    // ---- The session ---------------------------------------------------------------------------

    fn session_changed(&mut self, state: State) {
        match state {
            State::Suspended => self.connected = false,
            State::Connected { .. } => self.connected = true,
            _ => {}
        }
        self.tell_parts(|| Input::Session(state));
        self.settle();
        // What was counted before the connection was lost is not to be trusted.
        if self.connected && matches!(self.step, Step::Looking | Step::Waiting) {
            self.list_leases();
        }
    }

    fn session_ended(&mut self, end: End) {
        let event = match self.step {
            Step::Held => Event::Lost(Loss::Ended(end)),
            // The nodes go with the session, which is all that was wanted.
            _ if self.letting_go => Event::Released,
            _ => Event::Failed(LockError::Ended(end)),
        };
        self.conclude(event);
        self.leases.clear();
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
            let node = Node { path: below(&contest.directory, name), czxid };
            self.leases.push(Lease {
                part: self.next_part,
                name: name.to_string(),
                suspended: false,
                machine: Contender::holding(contest, node, self.connected),
            });
            self.next_part += 1;
        }
        self.own.token = czxid;
    }

    fn give_leases_back(&mut self) {
        for lease in &mut self.leases {
            lease.machine.handle(Input::LetGo);
        }
    }

    /// Whether there is room is known when both the leases and their maximum are.
    fn go_on_if_there_is_room(&mut self) {
        let (Some(taken), Some(maximum)) = (self.own.taken, self.own.maximum) else {
            return;
        };
        if self.permits() > maximum as usize {
            return self.fail(LockError::TooManyPermits { maximum });
        }
        let is_looking = matches!(self.step, Step::Looking);
        // Ours are among those that are taken, once we have them.
        let wanted = if is_looking { self.permits() } else { 0 };
        match taken.saturating_add(wanted) <= maximum as usize {
            _ if !self.connected => {}
            true if is_looking => self.enter(),
            true => self.granted(),
            false if self.loan.contest.entry == Entry::OnlyIfFree => self.fail(LockError::Busy),
            false => {}
        }
    }

    fn granted(&mut self) {
        self.unwatch_own();
        if let Some(queue) = &mut self.queue {
            queue.handle(Input::LetGo);
        }
        for lease in &mut self.leases {
            lease.machine.trust(self.loan.contest.trust);
        }
        let node = self.leases.first().map(|lease| lease.name.clone()).unwrap_or_default();
        self.step = Step::Held;
        self.tell(Event::Acquired { node, token: self.own.token });
        if self.suspended {
            self.tell(Event::Suspended);
        }
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

    const fn permits(&self) -> usize {
        self.loan.permits as usize
    }

    fn lease_directory(&self) -> String {
        below(&self.loan.contest.directory, "leases")
    }

    fn leases(&self) -> Leases {
        Leases { guid: self.loan.contest.guid }
    }
}

fn below(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}
