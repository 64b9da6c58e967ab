//! A participant of a double barrier: it enters, waits for all others, and leaves with them.
//!
//! Each participant is a contender for a lock in shared mode, so all hold it at once. The node
//! `ready` beside theirs announces that all have entered.

mod entering;
mod leaving;

use alloc::string::String;
use alloc::vec::Vec;
use zk_session::sync::Arc;

use zk_session::proto::{Zxid, path};
use zk_session::session::{Reply, State};
use zk_session::{End, Error};

use self::leaving::Leave;
use super::connection::Connection;
use super::outputs::Outputs;
use super::retry_policy::{RETRY_AFTER, RetryPolicy};
use super::{
    AttemptConfig, Contender, DisconnectPolicy, Event, Input, LockMode, Machine, OpId, Operation,
    Output, Scheme, UnknownNodePolicy,
};
use crate::error::{LockError, Loss};

/// The node that announces that all have entered.
const READY: &str = "ready";

/// The sub-machine number of our own requests. That of the contender is the next one.
const OWN: u32 = 0;
const NODE: u32 = 1;

/// A state machine that enters a double barrier once, and leaves it.
///
/// Drive it like a [`Contender`]:
///
/// * [`Event::Acquired`] reports that all have entered.
/// * [`Input::Leave`] makes it leave and wait until all others have left.
/// * [`Event::Released`] reports that all have left.
/// * [`Input::Release`] makes it leave without waiting.
///
/// It ignores `scheme`, `mode` and `unknown_nodes` of its [`AttemptConfig`]: participants with any
/// name count. `wait_policy` decides whether it waits for missing participants.
#[derive(Clone, Debug)]
pub struct Participant {
    lock_path: Arc<str>,
    config: AttemptConfig,
    members: usize,
    step: Step,
    node: Contender,
    /// Our node, once it exists.
    own_node: Option<OwnNode>,
    connection: Connection,
    /// The transaction that let us in, or a later one that let others in.
    entered_at: Zxid,
    suspended: bool,
    /// Whether the current step was refused for now, and will be repeated.
    stalled: bool,
    outputs: Outputs,
}

#[derive(Clone, Debug)]
struct OwnNode {
    name: String,
    token: Zxid,
}

/// The node `ready`, as a participant has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    Missing,
    /// Last changed before our node existed: in an earlier meeting, or before we came to this one.
    Old(Zxid),
    /// Changed after our node was created: all have entered, if our node still exists.
    New(Zxid),
}

/// The step of a participant, with the requests that it waits for.
#[derive(Clone, Debug)]
enum Step {
    /// Creates its node.
    Coming,
    /// Reads `ready` with a watch, then the list of participants. This order misses nothing: a
    /// participant that enters after the list creates `ready`, so the watch fires.
    Counting {
        look: OpId,
        list: OpId,
        ready: Ready,
    },
    /// Waits for `ready`: some are missing.
    Waiting {
        look: OpId,
    },
    /// Some are missing, and others may be inside. Reads the node of one that may, to join it.
    Joining {
        look: OpId,
        stat: OpId,
        /// Its name, behind those to be read if it is not inside.
        candidates: Vec<String>,
        announced_at: Zxid,
    },
    /// Creates or changes `ready`, if enough of the counted participants, including us, still exist.
    /// Otherwise a delayed announcement could let in participants of a later meeting.
    Announcing {
        announcement: OpId,
        /// The number of operations of this transaction.
        operations: usize,
    },
    Inside,
    Leaving(Leave),
    /// Waits until our node is deleted.
    Quitting,
    Done,
}

impl Machine for Participant {
    fn handle(&mut self, input: Input) {
        match input {
            _ if self.is_done() => {}
            Input::Reply { op, result } => match result.as_ref().err().and_then(Error::end) {
                Some(end) => self.session_ended(end),
                None => {
                    if let Err(Error::ConnectionLost) = result {
                        self.not_connected();
                    }
                    match op.split() {
                        (OWN, op) => self.handle_reply(op, self.connection.check_reply(result)),
                        (_, op) => self.node.handle(Input::Reply { op, result }),
                    }
                }
            },
            Input::Watch { op, event_type } => match op.split() {
                (OWN, op) => self.watch_fired(op),
                (_, op) => self.node.handle(Input::Watch { op, event_type }),
            },
            Input::Session(State::Ended(end)) => self.session_ended(end),
            Input::Session(state) => {
                self.connection.change(state);
                self.config.follow(state);
                if !self.connection.is_up() {
                    self.not_connected();
                }
                self.node.handle(input);
            }
            Input::LeaseEnded => self.lease_ended(),
            Input::Settled | Input::BehindAbandoned => self.node.handle(input),
            Input::Timer => {
                self.node.handle(input);
                if core::mem::take(&mut self.stalled) {
                    self.repeat();
                }
            }
            #[cfg(feature = "full")]
            Input::Convert(_) => self.outputs.report(Event::NO_READERS),
            Input::Leave if matches!(self.step, Step::Inside) => self.leave(),
            Input::Leave if matches!(self.step, Step::Leaving(_)) => {}
            Input::Leave | Input::Release => self.quit(),
        }
        self.settle();
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop()
    }

    fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }
}

impl Participant {
    pub(crate) const SCHEME: Scheme = Scheme::private("alone-", Some("member-"));

    /// Creates a participant of a barrier with this many members.
    ///
    /// With [`WaitPolicy::Queue`](super::WaitPolicy::Queue) it enters now. Otherwise it enters with
    /// the first [`Input::Session`] and fails if that is no connection to a quorum.
    pub fn new(config: AttemptConfig, members: usize) -> Self {
        let config = AttemptConfig {
            scheme: Self::SCHEME,
            mode: LockMode::Shared,
            unknown_nodes: UnknownNodePolicy::Ignore,
            ..config
        };
        let mut participant = Self {
            lock_path: config.lock_path.clone(),
            members,
            step: Step::Coming,
            // Before all have entered, there is nothing to lose. So it waits as long as its session
            // lives, as in a queue.
            node: Contender::new(AttemptConfig {
                disconnect_policy: DisconnectPolicy::UntilServerReports,
                ..config.clone()
            }),
            config,
            own_node: None,
            connection: Connection::Up,
            entered_at: Zxid::ZERO,
            suspended: false,
            stalled: false,
            outputs: Outputs::default(),
        };
        participant.settle();
        participant
    }

    fn handle_reply(&mut self, op: OpId, result: Result<Reply, Error>) {
        match &self.step {
            Step::Counting { look, .. } | Step::Waiting { look } | Step::Joining { look, .. }
                if *look == op =>
            {
                self.looked(result);
            }
            Step::Joining { stat, .. } if *stat == op => self.found(result),
            Step::Counting { list, .. } if *list == op => self.counted(result),
            Step::Announcing { announcement, operations } if *announcement == op => {
                self.announced(*operations, result);
            }
            Step::Leaving(_) => self.handle_leave(op, result),
            _ => {}
        }
    }

    fn watch_fired(&mut self, op: OpId) {
        match self.step {
            Step::Counting { look, .. } | Step::Waiting { look } | Step::Joining { look, .. }
                if look == op =>
            {
                self.count();
            }
            Step::Leaving(_) => self.other_is_gone(op),
            _ => {}
        }
    }

    /// Handles the outputs of the contender that owns our node.
    fn settle(&mut self) {
        while let Some(output) = self.node.poll_output() {
            match output {
                Output::Event(event) => self.node_tells(event),
                output => self.outputs.push(output.of_part(NODE)),
            }
        }
        if matches!(self.step, Step::Quitting) && self.node.is_done() {
            self.outputs.conclude(Event::Released);
            self.step = Step::Done;
        }
    }

    fn node_tells(&mut self, event: Event) {
        let is_through = matches!(self.step, Step::Inside | Step::Leaving(_));
        match event {
            Event::Acquired { node: name, token } => {
                self.own_node = Some(OwnNode { name, token });
                self.count();
            }
            Event::Suspended | Event::Resumed => {
                self.suspended = event == Event::Suspended;
                if is_through {
                    self.outputs.report(event);
                }
            }
            Event::Lost(loss) => self.lose(loss),
            Event::Failed(error) => self.fail(error),
            Event::Released => self.node_is_gone(),
            Event::UnknownNode(_) => {}
            event => self.outputs.report(event),
        }
    }

    // ---- The end -------------------------------------------------------------------------------

    fn session_ended(&mut self, end: End) {
        let loss = Loss::Ended(end);
        self.outputs.conclude(match &self.step {
            Step::Inside => Event::Lost(loss),
            Step::Leaving(leave) if leave.is_in() => Event::Lost(loss),
            // The session's end deletes our node, so the release is complete.
            Step::Quitting => Event::gone_with(end),
            _ => Event::Failed(LockError::Ended(end)),
        });
        self.step = Step::Done;
    }

    /// Stops waiting for others to leave and for the deletion of our node.
    fn lease_ended(&mut self) {
        self.node.handle(Input::LeaseEnded);
        self.settle();
        if matches!(self.step, Step::Leaving(_)) {
            self.outputs.conclude(Event::NOT_CONFIRMED);
            self.quit();
        }
    }

    fn lose(&mut self, loss: Loss) {
        self.outputs.conclude(match self.step {
            Step::Inside | Step::Leaving(_) => Event::Lost(loss),
            _ => Event::Failed(LockError::Lost(loss)),
        });
        self.quit();
    }

    fn fail(&mut self, error: LockError) {
        self.outputs.conclude(Event::Failed(error));
        self.quit();
    }

    /// Fails if the attempt does not wait for a connection.
    fn not_connected(&mut self) {
        // Before there is a node, its contender reports the failure.
        let is_entering = matches!(
            self.step,
            Step::Counting { .. }
                | Step::Waiting { .. }
                | Step::Joining { .. }
                | Step::Announcing { .. }
        );
        if !self.config.wait_policy.waits_for_connection() && is_entering {
            self.fail(LockError::NoConnection);
        }
    }

    /// Leaves without waiting for others.
    fn quit(&mut self) {
        self.unwatch_others();
        self.node.handle(Input::Release);
        self.step = Step::Quitting;
    }

    fn unwatch_others(&mut self) {
        let watch = match &self.step {
            Step::Counting { look, .. } | Step::Waiting { look } | Step::Joining { look, .. } => {
                Some(*look)
            }
            Step::Leaving(leave) => leave.watch(),
            _ => None,
        };
        watch.into_iter().for_each(|watch| self.outputs.unwatch(watch));
    }

    // ---- Failures ------------------------------------------------------------------------------

    fn retry_or_fail(&mut self, error: Error) {
        match RetryPolicy::of(&error) {
            RetryPolicy::Now => self.repeat(),
            RetryPolicy::Later => {
                self.stalled = true;
                self.outputs.set_timer(RETRY_AFTER);
            }
            RetryPolicy::Never => self.fail(error.into()),
        }
    }

    /// Repeats the current step, or an earlier one. That is always safe.
    fn repeat(&mut self) {
        match self.step {
            Step::Counting { .. }
            | Step::Waiting { .. }
            | Step::Joining { .. }
            | Step::Announcing { .. } => self.count(),
            Step::Leaving(_) => self.look_around(),
            Step::Coming | Step::Inside | Step::Quitting | Step::Done => {}
        }
    }

    // ---- Outputs -------------------------------------------------------------------------------

    fn list(&mut self) -> OpId {
        self.outputs.submit(Operation::list(self.lock_path.clone()))
    }

    fn ready(&self) -> String {
        path::child(&self.lock_path, READY)
    }
}

/// The position of a participant: first those with foreign names, then ours as they have come.
type Rank = (Option<i32>, String);

fn rank(name: &str) -> Rank {
    (Participant::SCHEME.parse(name).map(|name| name.sequence.0), name.into())
}
