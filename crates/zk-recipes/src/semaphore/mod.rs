//! Permits: a lock that a number of contenders hold at once.
//!
//! A semaphore has three nodes below its path:
//!
//! * `locks` is the queue of a mutex.
//! * `leases` has one permit node for each permit that is taken.
//! * `max` holds the number of permits.
//!
//! The first contender in the queue creates its permit nodes, waits until there are few enough, and
//! leaves the queue. So only one contender watches the permit nodes at a time, and none holds a
//! permit while it waits for another.
//!
//! Safety does not depend on the mutex. Each contender creates its permit nodes before it counts.
//! So the holder of the newest permit node has counted the nodes of all other holders.

#[cfg(feature = "blocking")]
pub(crate) mod recipe;

mod counting;
mod creating;
mod parts;
mod requests;

#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use zk_session::sync::Arc;

use zk_session::dispatch::Input;
use zk_session::proto::recording::Description;
use zk_session::proto::{EventType, path};
use zk_session::session::{Reply, State};
use zk_session::{End, Error};

use self::requests::{RequestState, SemaphoreStep};
use crate::attempt::node::Node;
use crate::attempt::queue::QueueReader;
use crate::attempt::{
    AttemptConfig, Command, DisconnectPolicy, Event, Given, LockMode, Machine, NodeName, OpId,
    Restart, Scheme, Turn, WaitPolicy,
};
use crate::error::{LockError, Loss, SemaphoreError};
use crate::lock::Contender;

/// The sub-machine number of the machine's own requests.
const OWN: u32 = 0;
/// The sub-machine number of the contender in the queue. Permit nodes have higher numbers.
const QUEUE: u32 = 1;

/// The configuration of an attempt to acquire permits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PermitRequest {
    /// The path of the semaphore, and the options of the attempt. `mode` and `scheme` are ignored.
    pub config: AttemptConfig,
    /// The number of permits to acquire at once: from 1 to [`MOST_AT_ONCE`](Self::MOST_AT_ONCE).
    pub permits: u32,
    /// The number of permits that the semaphore has, at most 2147483647.
    ///
    /// If the semaphore does not exist, it is created with this number. If it exists, the number
    /// must match. `None` accepts any existing semaphore, and fails if there is none.
    pub maximum: Option<u32>,
    /// Whether to list the lock path itself: before the semaphore is created, or else before its
    /// permits are granted. A contender of another kind of lock there fails the attempt with
    /// [`LockError::OtherLock`].
    pub refuses_other_locks: bool,
}

impl PermitRequest {
    /// Makes a request for this number of permits, of a semaphore with `maximum`.
    pub const fn new(config: AttemptConfig, permits: u32, maximum: Option<u32>) -> Self {
        Self { config, permits, maximum, refuses_other_locks: false }
    }

    /// The most permits that one attempt can acquire.
    ///
    /// One transaction creates a node for each permit. So the request limit of the servers
    /// (`jute.maxbuffer`, 1 MiB by default) is reached earlier, near 9,000 permits.
    pub const MOST_AT_ONCE: u32 = 1 << 16;

    /// Reads the number of permits from the data of `max`: four bytes, as Curator's `SharedCount`
    /// stores it. Returns `None` if the data is malformed.
    pub fn read_maximum(data: &[u8]) -> Option<u32> {
        u32::try_from(i32::from_be_bytes(data.try_into().ok()?)).ok()
    }

    fn check(&self) -> Result<(), SemaphoreError> {
        const MOST: u32 = i32::MAX.cast_unsigned();
        path::validate(&self.config.lock_path).map_err(LockError::from)?;
        match (self.permits, self.maximum) {
            (0, _) => Err(SemaphoreError::NoPermits),
            (_, Some(maximum)) if maximum > MOST => {
                Err(SemaphoreError::TooManyPermits { maximum: MOST })
            }
            (_, Some(maximum)) => self.check_count(maximum),
            (_, None) => Ok(()),
        }
    }

    /// Checks that a semaphore with `maximum` permits can grant the request.
    fn check_count(&self, maximum: u32) -> Result<(), SemaphoreError> {
        let maximum = maximum.min(Self::MOST_AT_ONCE);
        if self.permits > maximum {
            Err(SemaphoreError::TooManyPermits { maximum })
        } else {
            Ok(())
        }
    }

    /// Returns whether to read the maximum before creating the permit nodes.
    ///
    /// For a large request, the transaction may exceed the size limit of requests. Its failure
    /// would not say that the semaphore has too few permits. A request that refuses other locks
    /// must not create anything that stays before it has looked for them.
    const fn asks_first(&self) -> bool {
        const FEW: u32 = 100;
        self.permits > FEW || self.refuses_other_locks
    }
}

/// A state machine that acquires permits once, holds them, and releases them.
#[derive(Clone, Debug)]
pub struct SemaphoreMachine {
    request: PermitRequest,
    /// The configuration of the permit nodes.
    permit_config: AttemptConfig,
    step: SemaphoreStep,
    own: RequestState,
    /// The contender in the queue. `None` before it enters.
    queue: Option<Contender>,
    permit_nodes: Vec<PermitNode>,
    /// Permit nodes that are being deleted.
    returned: Vec<PermitNode>,
    next_part: u32,
    heard: Heard,
    /// Whether the caller has released the permits, or the attempt has failed.
    is_releasing: bool,
    suspended: bool,
    revoked: bool,
}

/// The events of the sub-machines.
#[derive(Clone, Debug, Default)]
struct Heard {
    /// Those that are not handled yet, each with the number of its sub-machine.
    events: VecDeque<(u32, Event)>,
    /// Whether the owner relies on our permits.
    is_held: bool,
    /// Whether the owner knows how the attempt ended.
    is_concluded: bool,
}

/// One of our permit nodes, with the contender that watches and deletes it.
#[derive(Clone, Debug)]
struct PermitNode {
    part: u32,
    name: String,
    suspended: bool,
    machine: Contender,
}

impl Machine for SemaphoreMachine {
    fn is_done(&self) -> bool {
        matches!(self.step, SemaphoreStep::Done)
    }

    fn describe(&self, description: &mut Description<'_>) {
        let PermitRequest { config, permits, maximum, refuses_other_locks } = &self.request;
        config.describe("semaphore", description);
        description.number((*permits).into());
        description.number(maximum.map_or(0, |maximum| u64::from(maximum) + 1));
        description.number((*refuses_other_locks).into());
    }

    fn before_input(&mut self, turn: &mut Turn<'_>) {
        if matches!(self.step, SemaphoreStep::Beginning) {
            match self.request.check() {
                Err(error) => {
                    self.refuse(error, turn);
                    self.settle(turn);
                }
                Ok(()) if self.request.config.begins_at_once() => self.begin(turn),
                Ok(()) => {}
            }
        }
    }

    fn after_input(&mut self, turn: &mut Turn<'_>) {
        self.settle(turn);
    }

    fn handle_reply(&mut self, op: OpId, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        match op.part() {
            OWN => self.handle_own_reply(op, result, turn),
            _ => {
                let reply = Input::Reply { tag: op.tag(), result };
                self.tell_part(op, reply.into(), turn);
            }
        }
    }

    fn watch_fired(&mut self, op: OpId, event_type: EventType, turn: &mut Turn<'_>) {
        match op.part() {
            OWN => self.own_watch_fired(op, turn),
            _ => self.tell_part(op, Given::Watch(op, event_type), turn),
        }
    }

    fn session_changed(&mut self, state: State, turn: &mut Turn<'_>) {
        self.request.config.follow(state);
        self.permit_config.follow(state);
        if !matches!(state, State::Connected { .. }) {
            self.not_connected(turn);
        } else if matches!(self.step, SemaphoreStep::Beginning) {
            self.begin(turn);
        }
        self.notify_parts(&|| Input::State(state).into(), turn);
    }

    /// Fails if the attempt does not wait for a connection.
    fn not_connected(&mut self, turn: &mut Turn<'_>) {
        let is_over = self.is_releasing || matches!(self.step, SemaphoreStep::Held);
        if !self.request.config.wait_policy.waits_for_connection() && !is_over {
            self.fail(LockError::NoConnection, turn);
        }
    }

    fn session_ended(&mut self, end: End, turn: &mut Turn<'_>) {
        let event = match self.step {
            SemaphoreStep::Held => Event::Lost(Loss::Ended(end)),
            // The session's end deletes the nodes, so the release is complete.
            _ if self.is_releasing => Event::gone_with(end),
            _ => Event::Failed(LockError::Ended(end)),
        };
        turn.conclude(&mut self.heard.is_concluded, event);
        self.step = SemaphoreStep::Done;
    }

    fn lease_ended(&mut self, turn: &mut Turn<'_>) {
        self.notify_parts(&|| Input::LeaseEnded.into(), turn);
        if self.is_releasing {
            turn.conclude(&mut self.heard.is_concluded, Event::NOT_CONFIRMED);
        }
    }

    fn timer_fired(&mut self, turn: &mut Turn<'_>) {
        self.notify_parts(&|| Input::Timer.into(), turn);
        self.ask_for_what_is_missing(turn);
    }

    fn settled(&mut self, turn: &mut Turn<'_>) {
        self.notify_parts(&|| Input::Settled.into(), turn);
    }

    fn release(&mut self, turn: &mut Turn<'_>) {
        (self.is_releasing, self.heard.is_held) = (true, false);
        self.unwatch_own(turn);
        self.return_permit_nodes(turn);
        self.tell_queue(Command::Release.into(), turn);
        match &mut self.step {
            // The reply to a pending creation will show whether there are more permit nodes to
            // delete.
            SemaphoreStep::Creating(creation) => creation.cancel(),
            step => *step = SemaphoreStep::Leaving,
        }
    }

    fn behind_abandoned(&mut self, turn: &mut Turn<'_>) {
        self.notify_parts(&|| Command::BehindAbandoned.into(), turn);
    }
}

impl Restart for SemaphoreMachine {
    fn restart(&self, state: Option<State>) -> Self {
        let config = self.request.config.restart(state);
        Self::new(PermitRequest { config, ..self.request.clone() })
    }
}

impl SemaphoreMachine {
    /// Creates an attempt.
    ///
    /// With [`WaitPolicy::Queue`] it begins with the first [`State::Connected`]. Otherwise it begins
    /// with the first state and fails if that is no connection to a quorum.
    pub fn new(request: PermitRequest) -> Self {
        let permit_config = AttemptConfig {
            lock_path: path::child(&request.config.lock_path, "leases").into(),
            scheme: Scheme::CURATOR_LEASE,
            mode: LockMode::Exclusive,
            disconnect_policy: DisconnectPolicy::UntilServerReports,
            hint_cell: None,
            ..request.config.clone()
        };
        Self {
            request,
            permit_config,
            step: SemaphoreStep::Beginning,
            own: RequestState::default(),
            queue: None,
            permit_nodes: Vec::new(),
            returned: Vec::new(),
            next_part: QUEUE + 1,
            heard: Heard::default(),
            is_releasing: false,
            suspended: false,
            revoked: false,
        }
    }

    fn begin(&mut self, turn: &mut Turn<'_>) {
        match self.request.config.wait_policy {
            WaitPolicy::Queue | WaitPolicy::OnlyIfFirst => self.enter(turn),
            WaitPolicy::OnlyIfFree => {
                self.step = SemaphoreStep::Looking;
                self.ask_for_what_is_missing(turn);
            }
        }
    }

    fn enter(&mut self, turn: &mut Turn<'_>) {
        self.unwatch_own(turn);
        self.step = SemaphoreStep::Queueing;
        let queue = Contender::new(AttemptConfig {
            scheme: Scheme::CURATOR_MUTEX,
            lock_path: path::child(&self.request.config.lock_path, "locks").into(),
            revocable: false,
            disconnect_policy: DisconnectPolicy::UntilServerReports,
            // The hint is for another lock path.
            hint_cell: None,
            ..self.request.config.clone()
        });
        let mut hear = |event| self.heard.hear(QUEUE, event);
        self.queue = Some(turn.filtered(QUEUE, &mut hear, |turn| queue.begun(turn)));
    }

    // ---- Permit nodes --------------------------------------------------------------------------

    /// Takes over a node that exists.
    fn hold(&mut self, node: Node, turn: &mut Turn<'_>) {
        let (part, name, suspended) = (self.next_part, String::from(&*node.name), false);
        let config = self.permit_config.clone();
        let mut hear = |event| self.heard.hear(part, event);
        let machine = turn.filtered(part, &mut hear, |turn| Contender::holding(config, node, turn));
        self.permit_nodes.push(PermitNode { part, name, suspended, machine });
        self.next_part += 1;
    }

    fn return_permit_nodes(&mut self, turn: &mut Turn<'_>) {
        for permit_node in &mut self.permit_nodes {
            permit_node.tell(Command::Release.into(), &mut self.heard, turn);
        }
        self.returned.append(&mut self.permit_nodes);
        // The request to release concerned these nodes.
        self.revoked = false;
    }

    fn granted(&mut self, turn: &mut Turn<'_>) {
        self.unwatch_own(turn);
        for permit_node in &mut self.permit_nodes {
            permit_node.machine.set_disconnect_policy(self.request.config.disconnect_policy);
        }
        let nodes: Vec<_> =
            self.permit_nodes.iter().map(|permit_node| permit_node.name.clone()).collect();
        let node = NodeName::from(nodes.first().map_or("", |name| name));
        self.step = SemaphoreStep::Held;
        self.heard.is_held = true;
        if nodes.len() > 1 {
            turn.report(Event::Permits(nodes));
        }
        turn.report(Event::Acquired { node, token: self.own.token });
        if self.revoked {
            turn.report(Event::Revoked);
        }
        self.tell_queue(Command::Release.into(), turn);
    }

    // ---- The end -------------------------------------------------------------------------------

    fn fail(&mut self, error: LockError, turn: &mut Turn<'_>) {
        self.refuse(error.into(), turn);
    }

    fn refuse(&mut self, error: SemaphoreError, turn: &mut Turn<'_>) {
        if !self.is_releasing {
            turn.conclude(
                &mut self.heard.is_concluded,
                match error {
                    SemaphoreError::Lock(error) => Event::Failed(error),
                    error => Event::Refused(error),
                },
            );
        }
        self.release(turn);
    }

    const fn permits(&self) -> usize {
        self.request.permits as usize
    }

    fn permits_path(&self) -> Arc<str> {
        self.permit_config.lock_path.clone()
    }

    fn maximum_path(&self) -> String {
        path::child(&self.request.config.lock_path, "max")
    }

    fn permit_reader(&self) -> QueueReader {
        QueueReader::new(&self.permit_config)
    }
}

zk_session::proto::formatted_by_debug! {
    [] PermitRequest;
    [] SemaphoreMachine;
}
