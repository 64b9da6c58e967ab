//! A participant of a double barrier: it enters, waits for all others, and leaves with them.
//!
//! Each participant is a contender for a lock in shared mode, so all hold it at once. The node
//! `ready` beside theirs announces that all have entered.

#[cfg(feature = "blocking")]
pub(crate) mod recipe;

mod entering;
mod leaving;

#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use zk_session::sync::Arc;

use zk_session::dispatch::Input;
use zk_session::proto::recording::Description;
use zk_session::proto::{CheckVersionRequest, EventType, MultiOp, Zxid, path};
use zk_session::session::{Reply, State};
use zk_session::{End, Error};

use self::leaving::Leave;
use crate::attempt::retry_policy::RetryPolicy;
use crate::attempt::{
    AttemptConfig, Command, DisconnectPolicy, Event, Given, LockMode, Machine, NodeName, OpId,
    Scheme, Turn, UnknownNodePolicy,
};
use crate::error::{LockError, Loss};
use crate::lock::Contender;

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
/// * [`Command::Leave`] makes it leave and wait until all others have left.
/// * [`Event::Released`] reports that all have left.
/// * [`Command::Release`] makes it leave without waiting.
///
/// It ignores `scheme`, `mode` and `unknown_nodes` of its [`AttemptConfig`]: participants with any
/// name count. `wait_policy` decides whether it waits for missing participants.
#[derive(Clone, Debug)]
pub struct Participant {
    lock_path: Arc<str>,
    config: AttemptConfig,
    members: usize,
    step: ParticipantStep,
    node: Contender,
    /// Our node, once it exists.
    own_node: Option<OwnNode>,
    /// The transaction that let us in, or a later one that let others in.
    entered_at: Zxid,
    suspended: bool,
    /// Whether the current step was refused for now, and will be repeated.
    stalled: bool,
    is_concluded: bool,
    /// Events of the contender that are not handled yet.
    heard: VecDeque<Event>,
}

#[derive(Clone, Debug)]
struct OwnNode {
    name: NodeName,
    token: Zxid,
}

/// The node `ready`, as a participant has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadyNode {
    Missing,
    /// Last changed before our node existed: in an earlier meeting, or before we came to this one.
    Old(Zxid),
    /// Changed after our node was created: all have entered, if our node still exists.
    New(Zxid),
}

/// The step of a participant, with the requests that it waits for.
#[derive(Clone, Debug)]
enum ParticipantStep {
    /// Creates its node.
    Coming,
    /// Reads `ready` with a watch, then the list of participants. This order misses nothing: a
    /// participant that enters after the list creates `ready`, so the watch fires.
    Counting {
        look: OpId,
        list: OpId,
        ready: ReadyNode,
    },
    /// Waits for `ready`: some are missing.
    Waiting {
        look: OpId,
    },
    /// Some are missing, and others may be inside. Reads the node of one that may, to join it.
    Joining {
        look: OpId,
        stat: OpId,
        /// Those that may be inside. `stat` reads the last, then the others are read from the end.
        candidates: Vec<Position>,
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
    fn is_done(&self) -> bool {
        matches!(self.step, ParticipantStep::Done)
    }

    fn describe(&self, description: &mut Description<'_>) {
        self.config.describe("participant", description);
        description.number(self.members as u64);
    }

    fn after_input(&mut self, turn: &mut Turn<'_>) {
        self.settle(turn);
    }

    fn handle_reply(&mut self, op: OpId, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        match &self.step {
            _ if op.part() != OWN => {
                let reply = Input::Reply { tag: op.tag(), result };
                self.tell_node(reply.into(), turn);
            }
            ParticipantStep::Counting { look, .. }
            | ParticipantStep::Waiting { look }
            | ParticipantStep::Joining { look, .. }
                if *look == op =>
            {
                self.looked(result, turn);
            }
            ParticipantStep::Joining { stat, .. } if *stat == op => self.found(result, turn),
            ParticipantStep::Counting { list, .. } if *list == op => self.counted(result, turn),
            ParticipantStep::Announcing { announcement, operations } if *announcement == op => {
                self.announced(*operations, result, turn);
            }
            ParticipantStep::Leaving(_) => self.handle_leave(op, result, turn),
            _ => {}
        }
    }

    fn watch_fired(&mut self, op: OpId, event_type: EventType, turn: &mut Turn<'_>) {
        match self.step {
            _ if op.part() != OWN => {
                self.tell_node(Given::Watch(op, event_type), turn);
            }
            ParticipantStep::Counting { look, .. }
            | ParticipantStep::Waiting { look }
            | ParticipantStep::Joining { look, .. }
                if look == op =>
            {
                self.count(turn);
            }
            ParticipantStep::Leaving(_) => self.other_is_gone(op, turn),
            _ => {}
        }
    }

    fn session_changed(&mut self, state: State, turn: &mut Turn<'_>) {
        self.config.follow(state);
        if !turn.connection().is_up() {
            self.not_connected(turn);
        }
        self.tell_node(Input::State(state).into(), turn);
    }

    fn session_ended(&mut self, end: End, turn: &mut Turn<'_>) {
        let loss = Loss::Ended(end);
        turn.conclude(
            &mut self.is_concluded,
            match &self.step {
                ParticipantStep::Inside => Event::Lost(loss),
                ParticipantStep::Leaving(leave) if leave.is_in() => Event::Lost(loss),
                // The session's end deletes our node, so the release is complete.
                ParticipantStep::Quitting => Event::gone_with(end),
                _ => Event::Failed(LockError::Ended(end)),
            },
        );
        self.step = ParticipantStep::Done;
    }

    /// Fails if the attempt does not wait for a connection.
    fn not_connected(&mut self, turn: &mut Turn<'_>) {
        // Before there is a node, its contender reports the failure.
        let is_entering = matches!(
            self.step,
            ParticipantStep::Counting { .. }
                | ParticipantStep::Waiting { .. }
                | ParticipantStep::Joining { .. }
                | ParticipantStep::Announcing { .. }
        );
        if !self.config.wait_policy.waits_for_connection() && is_entering {
            self.fail(LockError::NoConnection, turn);
        }
    }

    /// Stops waiting for others to leave and for the deletion of our node.
    fn lease_ended(&mut self, turn: &mut Turn<'_>) {
        self.tell_node(Input::LeaseEnded.into(), turn);
        self.settle(turn);
        if matches!(self.step, ParticipantStep::Leaving(_)) {
            turn.conclude(&mut self.is_concluded, Event::NOT_CONFIRMED);
            self.quit(turn);
        }
    }

    fn timer_fired(&mut self, turn: &mut Turn<'_>) {
        self.tell_node(Input::Timer.into(), turn);
        if core::mem::take(&mut self.stalled) {
            self.repeat(turn);
        }
    }

    fn settled(&mut self, turn: &mut Turn<'_>) {
        self.tell_node(Input::Settled.into(), turn);
    }

    fn leave(&mut self, turn: &mut Turn<'_>) {
        match self.step {
            ParticipantStep::Inside => self.begin_to_leave(turn),
            ParticipantStep::Leaving(_) => {}
            _ => self.quit(turn),
        }
    }

    fn release(&mut self, turn: &mut Turn<'_>) {
        self.quit(turn);
    }
}

impl Participant {
    pub(crate) const SCHEME: Scheme = Scheme::private("alone-", Some("member-"));

    /// Creates a participant of a barrier with this many members.
    ///
    /// With [`WaitPolicy::Queue`](crate::attempt::WaitPolicy::Queue) it enters now. Otherwise it enters with
    /// the first state and fails if that is no connection to a quorum.
    pub fn new(config: AttemptConfig, members: usize) -> Self {
        let config = AttemptConfig {
            scheme: Self::SCHEME,
            mode: LockMode::Shared,
            unknown_nodes: UnknownNodePolicy::Ignore,
            hint_cell: None,
            ..config
        };
        Self {
            lock_path: config.lock_path.clone(),
            members,
            step: ParticipantStep::Coming,
            // Before all have entered, there is nothing to lose. So it waits as long as its session
            // lives, as in a queue.
            node: Contender::new(AttemptConfig {
                disconnect_policy: DisconnectPolicy::UntilServerReports,
                ..config.clone()
            }),
            config,
            own_node: None,
            entered_at: Zxid::ZERO,
            suspended: false,
            stalled: false,
            is_concluded: false,
            heard: VecDeque::new(),
        }
    }

    /// Passes an input or a command on to the contender that owns our node.
    fn tell_node(&mut self, given: Given, turn: &mut Turn<'_>) {
        let is_through = matches!(self.step, ParticipantStep::Inside | ParticipantStep::Leaving(_));
        let mut hear = |event: Event| {
            // Our owner learns of a loss before the request that deletes our node.
            let is_loss = is_through && matches!(event, Event::Lost(_));
            let is_new = is_loss && !core::mem::replace(&mut self.is_concluded, true);
            self.heard.push_back(event.clone());
            is_new.then_some(event)
        };
        turn.filtered(NODE, &mut hear, |turn| given.to(&mut self.node, turn));
    }

    /// Handles the events of that contender until there are none.
    fn settle(&mut self, turn: &mut Turn<'_>) {
        while let Some(event) = self.heard.pop_front() {
            self.node_tells(event, turn);
        }
        if matches!(self.step, ParticipantStep::Quitting) && self.node.is_done() {
            turn.conclude(&mut self.is_concluded, Event::Released);
            self.step = ParticipantStep::Done;
        }
    }

    fn node_tells(&mut self, event: Event, turn: &mut Turn<'_>) {
        let is_through = matches!(self.step, ParticipantStep::Inside | ParticipantStep::Leaving(_));
        match event {
            Event::Acquired { node: name, token } => {
                self.own_node = Some(OwnNode { name, token });
                self.count(turn);
            }
            Event::Suspended | Event::Resumed => {
                self.suspended = event == Event::Suspended;
                if is_through {
                    turn.report(event);
                }
            }
            Event::Lost(loss) => self.lose(loss, turn),
            Event::Failed(error) => self.fail(error, turn),
            Event::Released => self.node_is_gone(turn),
            Event::UnknownNode(_) => {}
            event => turn.report(event),
        }
    }

    // ---- The end -------------------------------------------------------------------------------

    fn lose(&mut self, loss: Loss, turn: &mut Turn<'_>) {
        turn.conclude(
            &mut self.is_concluded,
            match self.step {
                ParticipantStep::Inside | ParticipantStep::Leaving(_) => Event::Lost(loss),
                _ => Event::Failed(LockError::Lost(loss)),
            },
        );
        self.quit(turn);
    }

    fn fail(&mut self, error: LockError, turn: &mut Turn<'_>) {
        turn.conclude(&mut self.is_concluded, Event::Failed(error));
        self.quit(turn);
    }

    /// Leaves without waiting for others.
    fn quit(&mut self, turn: &mut Turn<'_>) {
        self.unwatch_others(turn);
        self.tell_node(Command::Release.into(), turn);
        self.step = ParticipantStep::Quitting;
    }

    fn unwatch_others(&mut self, turn: &mut Turn<'_>) {
        let watch = match &self.step {
            ParticipantStep::Counting { look, .. }
            | ParticipantStep::Waiting { look }
            | ParticipantStep::Joining { look, .. } => Some(*look),
            ParticipantStep::Leaving(leave) => leave.watch(),
            _ => None,
        };
        watch.into_iter().for_each(|watch| turn.unwatch(watch));
    }

    // ---- Failures ------------------------------------------------------------------------------

    fn retry_or_fail(&mut self, error: Error, turn: &mut Turn<'_>) {
        match turn.retry(&error) {
            RetryPolicy::Now => self.repeat(turn),
            RetryPolicy::Later => self.stalled = true,
            RetryPolicy::Never => self.fail(error.into(), turn),
        }
    }

    /// Repeats the current step, or an earlier one. That is always safe.
    fn repeat(&mut self, turn: &mut Turn<'_>) {
        match self.step {
            ParticipantStep::Counting { .. }
            | ParticipantStep::Waiting { .. }
            | ParticipantStep::Joining { .. }
            | ParticipantStep::Announcing { .. } => self.count(turn),
            ParticipantStep::Leaving(_) => self.look_around(turn),
            ParticipantStep::Coming
            | ParticipantStep::Inside
            | ParticipantStep::Quitting
            | ParticipantStep::Done => {}
        }
    }

    // ---- Outputs -------------------------------------------------------------------------------

    fn list(&mut self, turn: &mut Turn<'_>) -> OpId {
        turn.list(&self.lock_path)
    }

    fn ready(&self) -> String {
        path::child(&self.lock_path, READY)
    }
}

/// The position of a participant: first those with foreign names, then ours as they have come.
type Position = (Option<i32>, String);

/// Returns an operation that fails its transaction unless `path` exists.
fn check_presence(path: &str) -> MultiOp<'_> {
    MultiOp::Check(CheckVersionRequest { path, version: -1 })
}

fn rank(name: &str) -> Position {
    (Participant::SCHEME.parse(name).map(|name| name.sequence.0), name.into())
}

zk_session::proto::formatted_by_debug! {
    [] Participant;
}
