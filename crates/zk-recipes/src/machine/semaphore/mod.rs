//! Permits: a lock that a number of contenders can hold at once.
//!
//! Three nodes below the semaphore's: `locks`, the queue of a mutex; `permit nodes`, with one node for
//! each permit that is taken; and `max`, which holds their number. Whoever is first in the queue
//! creates the permit nodes that it wants, waits until there are few enough, and leaves the queue. So
//! only one watches the permit nodes at any time, and nobody holds a permit while it waits for another.
//!
//! Nothing depends on the mutex for safety. PermitNodes are created first and counted then: of all that
//! hold permits the one with the newest permit node has seen the others' when it counted.

mod counting;
mod creating;
mod parts;
mod permit_nodes;
mod requests;

#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use zk_session::proto::{Zxid, path};
use zk_session::session::State;
use zk_session::{End, Error};

use self::permit_nodes::PermitNodes;
use self::requests::{RequestState, Step};
use super::connection::Connection;
use super::phase::Node;
use super::queue::QueueReader;
use super::{
    AttemptConfig, Contender, DisconnectPolicy, Event, Input, LockMode, Machine, Output, Scheme,
    WaitPolicy,
};
use crate::error::{LockError, Loss};

/// Requests of the contender itself.
const OWN: u32 = 0;
/// Requests of the contender in the queue. Those of permit nodes have higher numbers.
const QUEUE: u32 = 1;

/// What an attempt to get permits is about.
#[derive(Clone, Debug)]
pub struct PermitRequest {
    /// The path of the semaphore, and how to go about it. The mode does not matter, nor do the
    /// names.
    pub config: AttemptConfig,
    /// How many permits are wanted, all at once; at least one, and [`MOST_AT_ONCE`](Self::MOST_AT_ONCE) at most.
    pub permits: u32,
    /// How many the semaphore has, if it does not exist yet; if it does, it must have so many.
    /// Nothing to take it as it is. At most 2147483647.
    pub maximum: Option<u32>,
}

impl PermitRequest {
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
pub struct SemaphoreMachine {
    request: PermitRequest,
    step: Step,
    own: RequestState,
    /// Nothing before we have entered it.
    queue: Option<Contender>,
    permit_nodes: Vec<PermitNode>,
    /// PermitNodes that are being given back.
    returned: Vec<PermitNode>,
    next_part: u32,
    /// The caller has lost interest, or was told that it did not work.
    is_releasing: bool,
    connection: Connection,
    suspended: bool,
    revoked: bool,
    concluded: bool,
    outputs: VecDeque<Output>,
}

/// A permit node of ours, which looks after itself.
#[derive(Clone, Debug)]
struct PermitNode {
    part: u32,
    name: String,
    suspended: bool,
    machine: Contender,
}

impl Machine for SemaphoreMachine {
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
                if self.is_releasing {
                    self.conclude(Event::NOT_CONFIRMED);
                }
            }
            Input::Timer => {
                self.tell_parts(|| Input::Timer);
                self.ask_for_what_is_missing();
            }
            Input::Convert(_) => self.tell(Event::NotConverted(LockError::NoReaders)),
            Input::Leave | Input::Release => self.leave(),
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

impl SemaphoreMachine {
    /// An attempt. By [`WaitPolicy::Queue`] it begins now, and otherwise with the first
    /// [`Input::Session`], if that is a connection.
    pub fn new(request: PermitRequest) -> Self {
        let mut machine = Self {
            request,
            step: Step::Beginning,
            own: RequestState::default(),
            queue: None,
            permit_nodes: Vec::new(),
            returned: Vec::new(),
            next_part: QUEUE + 1,
            is_releasing: false,
            connection: Connection::Up,
            suspended: false,
            revoked: false,
            concluded: false,
            outputs: VecDeque::new(),
        };
        match machine.request.check() {
            Err(error) => machine.fail(error),
            Ok(()) if machine.request.config.wait_policy.waits_for_connection() => machine.begin(),
            Ok(()) => {}
        }
        machine.settle();
        machine
    }

    fn begin(&mut self) {
        match self.request.config.wait_policy {
            WaitPolicy::Queue | WaitPolicy::OnlyIfFirst => self.enter(),
            WaitPolicy::OnlyIfFree => {
                self.step = Step::Looking;
                self.ask_for_what_is_missing();
            }
        }
    }

    fn enter(&mut self) {
        self.unwatch_own();
        self.step = Step::Queueing;
        self.queue = Some(Contender::begun(AttemptConfig {
            mode: LockMode::Exclusive,
            lock_path: path::child(&self.request.config.lock_path, "locks"),
            revocable: false,
            disconnect_policy: DisconnectPolicy::UntilServerReports,
            // It is one of another directory.
            hint: None,
            ..self.request.config.clone()
        }));
    }

    // ---- The session ---------------------------------------------------------------------------

    fn session_changed(&mut self, state: State) {
        self.connection.change(state);
        self.request.config.follow(state);
        if !matches!(state, State::Connected { .. }) {
            self.not_connected();
        } else if matches!(self.step, Step::Beginning) {
            self.begin();
        }
        self.tell_parts(|| Input::Session(state));
    }

    /// Ends an attempt that does not wait for a connection.
    fn not_connected(&mut self) {
        let is_over = self.is_releasing || matches!(self.step, Step::Held);
        if !self.request.config.wait_policy.waits_for_connection() && !is_over {
            self.fail(LockError::NoConnection);
        }
    }

    fn session_ended(&mut self, end: End) {
        let event = match self.step {
            Step::Held => Event::Lost(Loss::Ended(end)),
            // The nodes go with the session, which is all that was wanted.
            _ if self.is_releasing => Event::gone_with(end),
            _ => Event::Failed(LockError::Ended(end)),
        };
        self.conclude(event);
        self.step = Step::Done;
    }

    // ---- PermitNodes --------------------------------------------------------------------------------

    /// Takes over nodes that exist.
    fn adopt_permit_nodes(&mut self, names: &[String], czxid: Zxid) {
        for name in names {
            let config = AttemptConfig {
                lock_path: self.permits_path(),
                scheme: Scheme::CURATOR_LEASE,
                disconnect_policy: DisconnectPolicy::UntilServerReports,
                ..self.request.config.clone()
            };
            let node = Node::new(path::child(&config.lock_path, name), czxid);
            self.permit_nodes.push(PermitNode {
                part: self.next_part,
                name: name.to_string(),
                suspended: false,
                machine: Contender::holding(config, node, self.connection),
            });
            self.next_part += 1;
        }
        self.own.token = czxid;
    }

    fn return_permit_nodes(&mut self) {
        for permit_node in &mut self.permit_nodes {
            permit_node.machine.handle(Input::Release);
        }
        self.returned.append(&mut self.permit_nodes);
        // Whoever asked for one of these has got it.
        self.revoked = false;
    }

    fn granted(&mut self) {
        self.unwatch_own();
        if let Some(queue) = &mut self.queue {
            queue.handle(Input::Release);
        }
        for permit_node in &mut self.permit_nodes {
            permit_node.machine.disconnect_policy(self.request.config.disconnect_policy);
        }
        let nodes: Vec<_> =
            self.permit_nodes.iter().map(|permit_node| permit_node.name.clone()).collect();
        let node = nodes.first().cloned().unwrap_or_default();
        self.step = Step::Held;
        if nodes.len() > 1 {
            self.tell(Event::Permits(nodes));
        }
        self.tell(Event::Acquired { node, token: self.own.token });
        if self.revoked {
            self.tell(Event::Revoked);
        }
    }

    // ---- The end -------------------------------------------------------------------------------

    fn fail(&mut self, error: LockError) {
        if !self.is_releasing {
            self.conclude(Event::Failed(error));
        }
        self.leave();
    }

    fn leave(&mut self) {
        self.is_releasing = true;
        self.unwatch_own();
        self.return_permit_nodes();
        if let Some(queue) = &mut self.queue {
            queue.handle(Input::Release);
        }
        // Whether there are permit nodes to delete may still have to turn out.
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
        self.request.permits as usize
    }

    fn permits_path(&self) -> String {
        path::child(&self.request.config.lock_path, "leases")
    }

    fn maximum_path(&self) -> String {
        path::child(&self.request.config.lock_path, "max")
    }

    fn permit_reader(&self) -> QueueReader {
        let AttemptConfig { guid, unknown_nodes, .. } = self.request.config;
        QueueReader {
            scheme: Scheme::CURATOR_LEASE,
            unknown_nodes,
            mode: LockMode::Exclusive,
            guid,
        }
    }

    fn permit_nodes(&self) -> PermitNodes {
        PermitNodes { guid: self.request.config.guid }
    }
}
