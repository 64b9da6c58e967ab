//! One attempt to get a lock: the queue machine.
//!
//! The queue is a directory. A contender creates an ephemeral sequential node in it and lists the
//! directory; whoever has the lowest number holds the lock, everybody else watches the one
//! immediately before. All of this survives lost connections, since every step can be repeated:
//! the one that cannot, the creation, carries a guid by which its result is found again.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use zk_session::proto::{
    Create2Response, ErrorCode, EventType, ExistsResponse, GetChildrenResponse,
};
use zk_session::session::{Reply, State};
use zk_session::{End, Error, Outcome};

use super::parents::{Parents, Verdict};
use super::phase::{Node, Phase, SelfWatch};
use super::remedy::Remedy;
use super::view::{self, View};
use super::{Contest, Event, Input, OpId, Operation, Output};
use crate::error::{LockError, Loss};

/// A lock that is held longer than this watches its own node, to notice if it is deleted. One
/// that is held for a moment saves the request.
const WATCH_SELF_AFTER: Duration = Duration::from_millis(20);
/// When to try again what the session or the server has refused for now.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// One attempt to get one lock. See the [module](super) for how to drive it.
#[derive(Clone, Debug)]
pub struct Contender {
    contest: Contest,
    phase: Phase,
    /// Our node, once we know that it exists.
    node: Option<Node>,
    /// The caller has lost interest while it could not be told yet what there is to clean up.
    letting_go: bool,
    /// Whether the session is connected, as far as we were told.
    connected: bool,
    self_watch: Option<SelfWatch>,
    /// Nodes that must go, with the request that is to delete each, unless it was refused for now.
    deletions: Vec<(Option<OpId>, String)>,
    parents: Parents,
    /// Whether the caller was told how it ended.
    concluded: bool,
    last_op: OpId,
    outputs: VecDeque<Output>,
}

impl Contender {
    /// An attempt that begins now, with a session that is connected.
    pub fn new(contest: Contest) -> Self {
        let nothing = OpId(0);
        let mut contender = Self {
            contest,
            phase: Phase::Creating { create: nothing, list: None },
            node: None,
            letting_go: false,
            connected: true,
            self_watch: None,
            deletions: Vec::new(),
            parents: Parents::new(),
            concluded: false,
            last_op: nothing,
            outputs: VecDeque::new(),
        };
        contender.create();
        contender
    }

    /// The next thing that is wanted.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether it is all over: nothing is wanted any more, and nothing is left on the server.
    pub fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    /// Takes note of what has happened.
    pub fn handle(&mut self, input: Input) {
        match input {
            _ if self.is_done() => {}
            Input::Reply { op, result } => match result.as_ref().err().and_then(Error::end) {
                Some(end) => self.session_ended(end),
                None => self.handle_reply(op, result),
            },
            Input::Watch { op, event_type } => self.handle_watch(op, event_type),
            Input::Session(state) => self.handle_session(state),
            Input::Timer => self.handle_timer(),
            Input::LetGo => match self.phase {
                Phase::Deciding { .. } | Phase::Waiting { .. } | Phase::Held { .. } => self.leave(),
                Phase::Leaving | Phase::Done => {}
                // Whether there is a node to delete will turn out.
                _ => self.letting_go = true,
            },
        }
    }

    // ---- Answers -------------------------------------------------------------------------------

    /// Answers to requests that a later step has made pointless are ignored.
    fn handle_reply(&mut self, op: OpId, result: Result<Reply, Error>) {
        if self.handle_deletion(op, &result) || self.handle_self_watch(op, &result) {
            return;
        }
        match &mut self.phase {
            Phase::Creating { create, list } if *create == op => {
                let list = *list;
                self.created(list, result);
            }
            // Told before the creation is, so it was refused before it was sent.
            Phase::Creating { list, .. } if *list == Some(op) => *list = None,
            Phase::MakingParents { first, last } if (*first..=*last).contains(&op) => {
                match self.parents.answered(op == *last, result) {
                    Verdict::Wait => {}
                    Verdict::Made => self.create(),
                    Verdict::Again => self.make_parents(),
                    Verdict::Failed(error) => self.fail(error.into()),
                }
            }
            Phase::Resolving { sync, synced, .. } if *sync == op => match result {
                Ok(_) => *synced = true,
                Err(error) => self.retry_or_fail(error),
            },
            Phase::Resolving { list, synced: true, .. } if *list == op => self.resolved(result),
            // Told before the sync is, so it was refused before it was sent.
            Phase::Resolving { list, .. } if *list == op => self.set_timer(RETRY_AFTER),
            Phase::Adopting { stat, path } if *stat == op => {
                let path = core::mem::take(path);
                self.adopted(path, result);
            }
            Phase::Deciding { list } if *list == op => self.listed(result),
            Phase::Waiting { watch, .. } if *watch == op => self.watched(result),
            _ => {}
        }
    }

    fn created(&mut self, list: Option<OpId>, result: Result<Reply, Error>) {
        let response = result.as_ref().map(Reply::decode::<Create2Response<'_>>);
        let error = match response {
            Ok(Ok(Create2Response { path, stat })) => {
                return self.enqueued(Node { path: path.to_string(), czxid: stat.czxid }, list);
            }
            // An answer that cannot be read leaves it open what was created.
            Ok(Err(error)) => error,
            Err(error) => error.clone(),
        };
        match error {
            Error::Server(ErrorCode::NO_NODE) => self.make_parents(),
            error if error.outcome() == Outcome::NotApplied => self.fail(error.into()),
            error => self.retry_or_fail(error),
        }
    }

    fn enqueued(&mut self, node: Node, list: Option<OpId>) {
        self.tell(Event::Enqueued { node: node.name().to_string(), token: node.czxid });
        self.node = Some(node);
        match list {
            _ if self.letting_go => self.leave(),
            Some(list) => self.phase = Phase::Deciding { list },
            None => self.decide(),
        }
    }

    fn resolved(&mut self, result: Result<Reply, Error>) {
        let reply = match result {
            Ok(reply) => reply,
            Err(Error::Server(ErrorCode::NO_NODE)) => return self.create(),
            Err(error) => return self.retry_or_fail(error),
        };
        let children = match reply.decode::<GetChildrenResponse<'_>>() {
            Ok(response) => response.children,
            Err(error) => return self.fail(error.into()),
        };
        let found = view::nodes_of(self.contest.scheme, self.contest.guid, children.iter());
        let mut found = found.into_iter().map(|name| self.path_of(name)).collect::<VecDeque<_>>();
        // The server has created none, or one; more if somebody plays tricks. The lowest counts.
        match found.pop_front() {
            Some(path) => {
                let stat = self.submit(Operation::stat(path.clone()));
                self.phase = Phase::Adopting { stat, path };
                found.into_iter().for_each(|stray| self.delete(stray));
            }
            None => self.create(),
        }
    }

    fn adopted(&mut self, path: String, result: Result<Reply, Error>) {
        let stat = match result.and_then(|reply| reply.decode::<ExistsResponse>()) {
            Ok(response) => response.stat,
            Err(Error::Server(ErrorCode::NO_NODE)) => return self.create(),
            Err(error) => {
                if Remedy::of(&error) == Remedy::None {
                    self.delete(path);
                }
                return self.retry_or_fail(error);
            }
        };
        if stat.ephemeral_owner == self.contest.session {
            self.enqueued(Node { path, czxid: stat.czxid }, None);
        } else {
            // Of another session, which will take it along when it ends. It is not the lock.
            self.delete(path);
            self.create();
        }
    }

    fn listed(&mut self, result: Result<Reply, Error>) {
        let reply = match result {
            Ok(reply) => reply,
            // The directory is gone, and our node was in it.
            Err(Error::Server(ErrorCode::NO_NODE)) => return self.vanished(),
            Err(error) => return self.retry_or_fail(error),
        };
        let view = match (reply.decode::<GetChildrenResponse<'_>>(), &self.node) {
            (Ok(response), Some(node)) => {
                View::of(self.contest.scheme, node.name(), response.children.iter())
            }
            (Ok(_), None) => View::Absent,
            (Err(error), _) => return self.fail(error.into()),
        };
        match view {
            View::Absent => self.vanished(),
            View::Exhausted => self.fail(LockError::SequenceExhausted),
            View::First => self.acquired(),
            View::Behind { predecessor, ahead } => {
                self.tell(Event::Waiting { behind: predecessor.clone(), ahead });
                self.wait(predecessor, ahead == 1);
            }
        }
    }

    fn watched(&mut self, result: Result<Reply, Error>) {
        match result {
            Ok(_) => {}
            // It went between the list and the watch, or the watch was lost.
            Err(Error::Server(ErrorCode::NO_NODE)) => self.decide(),
            Err(Error::Server(ErrorCode::NO_AUTH)) => {
                if let Phase::Waiting { predecessor, .. } = &mut self.phase {
                    let node = core::mem::take(predecessor);
                    self.fail(LockError::Unreadable { node });
                }
            }
            Err(error) => self.retry_or_fail(error),
        }
    }

    fn handle_deletion(&mut self, op: OpId, result: &Result<Reply, Error>) -> bool {
        let of_op = |(deletion, _): &(Option<OpId>, String)| *deletion == Some(op);
        let Some(place) = self.deletions.iter().position(of_op) else {
            return false;
        };
        let (_, path) = self.deletions.swap_remove(place);
        match result {
            Ok(_) | Err(Error::Server(ErrorCode::NO_NODE)) => {}
            // No name is used twice, so a repeated deletion can only hit our own node.
            Err(error) => match Remedy::of(error) {
                Remedy::Now => self.delete(path),
                Remedy::Later => {
                    self.deletions.push((None, path));
                    self.set_timer(RETRY_AFTER);
                }
                Remedy::None if matches!(self.phase, Phase::Leaving) => {
                    self.conclude(Event::Failed(error.clone().into()));
                }
                // A stray that stays is behind us, or is waited for like any other.
                Remedy::None => {}
            },
        }
        self.finish_leaving();
        true
    }

    fn handle_self_watch(&mut self, op: OpId, result: &Result<Reply, Error>) -> bool {
        let Some(watch) = self.self_watch.as_mut().filter(|watch| watch.op == op) else {
            return false;
        };
        match result {
            Ok(_) => {
                watch.armed = true;
                self.verified();
                return true;
            }
            Err(_) => self.unwatch_self(),
        }
        match result {
            Err(Error::Server(ErrorCode::NO_NODE)) => self.self_deleted(),
            // It cannot be watched, but it is there.
            Err(Error::Server(ErrorCode::NO_AUTH)) => self.verified(),
            // The reconnect will see to it.
            Ok(_) | Err(Error::ConnectionLost) => {}
            Err(_) if matches!(self.phase, Phase::Held { .. }) => {
                self.set_timer(RETRY_AFTER);
            }
            Err(_) => {}
        }
        true
    }

    // ---- Events --------------------------------------------------------------------------------

    fn handle_watch(&mut self, op: OpId, event_type: EventType) {
        let deleted = event_type == EventType::NODE_DELETED;
        if self.self_watch.is_some_and(|watch| watch.op == op) {
            self.self_watch = None;
            match &self.phase {
                _ if deleted => self.self_deleted(),
                Phase::Held { .. } => self.watch_self(),
                // The shortcut needs the watch; the long way does not.
                _ => self.doubt(),
            }
            return;
        }
        if let Phase::Waiting { watch, only, predecessor } = &mut self.phase
            && *watch == op
        {
            // The shortcut: nobody else was before us when we looked, and nobody can have come
            // in before us since. Had our own node been deleted first, its watch would have told
            // us first, since events come in the order of transactions.
            if deleted && *only && self.self_watch.is_some_and(|watch| watch.armed) {
                self.acquired();
            } else if deleted {
                self.decide();
            } else {
                let (predecessor, only) = (core::mem::take(predecessor), *only);
                self.wait(predecessor, only);
            }
        }
    }

    fn handle_timer(&mut self) {
        let refused = self.deletions.extract_if(.., |(op, _)| op.is_none());
        for (_, path) in refused.collect::<Vec<_>>() {
            self.delete(path);
        }
        self.repeat();
    }

    fn handle_session(&mut self, state: State) {
        match state {
            State::Suspended => {
                self.connected = false;
                self.doubt();
                if let Phase::Held { suspended: suspended @ false } = &mut self.phase {
                    *suspended = true;
                    self.tell(Event::Suspended);
                }
            }
            State::Connected { .. } => {
                self.connected = true;
                self.doubt();
                if matches!(self.phase, Phase::Held { .. }) {
                    self.watch_self();
                }
            }
            State::Ended(end) => self.session_ended(end),
            _ => {}
        }
    }

    /// Events that were missed are told after a reconnect, but not in the order of transactions.
    fn doubt(&mut self) {
        if let Phase::Waiting { only, .. } = &mut self.phase {
            *only = false;
        }
    }

    fn session_ended(&mut self, end: End) {
        let event = match self.phase {
            Phase::Held { .. } => Event::Lost(Loss::Ended(end)),
            // The node goes with the session, which is all that was wanted.
            Phase::Leaving => Event::Released,
            _ if self.letting_go => Event::Released,
            _ => Event::Failed(LockError::Ended(end)),
        };
        self.conclude(event);
        self.phase = Phase::Done;
    }

    fn self_deleted(&mut self) {
        match self.phase {
            Phase::Held { .. } => {
                self.conclude(Event::Lost(Loss::NodeDeleted));
                self.node = None;
                self.leave();
            }
            Phase::Deciding { .. } | Phase::Waiting { .. } => self.vanished(),
            _ => {}
        }
    }

    fn vanished(&mut self) {
        self.node = None;
        self.fail(LockError::NodeVanished);
    }

    // ---- Steps ---------------------------------------------------------------------------------

    fn create(&mut self) {
        if self.letting_go {
            return self.leave();
        }
        let prefix = self.path_of(&self.contest.scheme.prefix(self.contest.guid));
        let create = self.submit(Operation::create_node(prefix, self.contest.data.clone()));
        let list = Some(self.list());
        self.phase = Phase::Creating { create, list };
    }

    fn make_parents(&mut self) {
        if self.letting_go {
            return self.leave();
        }
        let first = OpId(self.last_op.0 + 1);
        for operation in self.parents.attempt(&self.contest.directory) {
            self.submit(operation);
        }
        if first > self.last_op {
            return self.fail(Error::Server(ErrorCode::NO_NODE).into());
        }
        self.phase = Phase::MakingParents { first, last: self.last_op };
    }

    fn resolve(&mut self) {
        let sync = self.submit(Operation::sync(self.contest.directory.clone()));
        let list = self.list();
        self.phase = Phase::Resolving { sync, list, synced: false };
    }

    fn decide(&mut self) {
        self.unwatch_predecessor();
        let list = self.list();
        self.phase = Phase::Deciding { list };
    }

    fn wait(&mut self, predecessor: String, only: bool) {
        // Our own watch first: then nothing can happen to our node unnoticed once the other is set.
        if only && self.self_watch.is_none() {
            self.watch_self();
        }
        let watch = self.submit(Operation::watch(self.path_of(&predecessor)));
        self.phase = Phase::Waiting { predecessor, watch, only };
    }

    fn acquired(&mut self) {
        let Some(ours) = &self.node else {
            return self.vanished();
        };
        let (node, token) = (ours.name().to_string(), ours.czxid);
        self.phase = Phase::Held { suspended: !self.connected };
        self.tell(Event::Acquired { node, token });
        if !self.connected {
            self.tell(Event::Suspended);
        }
        if self.self_watch.is_none() {
            self.set_timer(WATCH_SELF_AFTER);
        }
    }

    fn verified(&mut self) {
        // An answer from before the connection was lost says nothing.
        if let Phase::Held { suspended: suspended @ true } = &mut self.phase
            && self.connected
        {
            *suspended = false;
            self.tell(Event::Resumed);
        }
    }

    /// Watches our own node, which tells as well whether it is still there.
    fn watch_self(&mut self) {
        if let Some(path) = self.node.as_ref().map(|node| node.path.clone()) {
            let op = self.submit(Operation::watch(path));
            // The old one second, so that the server, which knows only one, need not be told.
            self.unwatch_self();
            self.self_watch = Some(SelfWatch { op, armed: false });
        }
    }

    /// Deletes our node, if there is one, and ends.
    fn leave(&mut self) {
        // Before the deletion, so that it wakes nobody but the next in line.
        self.unwatch_self();
        self.unwatch_predecessor();
        if let Some(node) = self.node.take() {
            self.delete(node.path);
        }
        self.phase = Phase::Leaving;
        self.finish_leaving();
    }

    fn finish_leaving(&mut self) {
        if matches!(self.phase, Phase::Leaving) && self.deletions.is_empty() {
            self.conclude(Event::Released);
            self.phase = Phase::Done;
        }
    }

    fn fail(&mut self, error: LockError) {
        if !self.letting_go {
            self.conclude(Event::Failed(error));
        }
        self.leave();
    }

    fn retry_or_fail(&mut self, error: Error) {
        match Remedy::of(&error) {
            Remedy::Now => self.repeat(),
            Remedy::Later => self.set_timer(RETRY_AFTER),
            Remedy::None => self.fail(error.into()),
        }
    }

    /// Takes the present step again. That is never wrong, so a timer that was set for a step
    /// before this one does no harm.
    fn repeat(&mut self) {
        match self.phase {
            Phase::Creating { .. } | Phase::Resolving { .. } | Phase::Adopting { .. } => {
                self.resolve();
            }
            Phase::Deciding { .. } | Phase::Waiting { .. } => self.decide(),
            Phase::Held { .. } if self.connected && self.self_watch.is_none() => self.watch_self(),
            _ => {}
        }
    }

    // ---- Outputs -------------------------------------------------------------------------------

    fn submit(&mut self, operation: Operation) -> OpId {
        self.last_op.0 += 1;
        self.outputs.push_back(Output::Submit { op: self.last_op, operation });
        self.last_op
    }

    fn list(&mut self) -> OpId {
        self.submit(Operation::list(self.contest.directory.clone()))
    }

    fn delete(&mut self, path: String) {
        let op = self.submit(Operation::delete(path.clone()));
        self.deletions.push((Some(op), path));
    }

    fn unwatch_self(&mut self) {
        if let Some(watch) = self.self_watch.take() {
            self.outputs.push_back(Output::Unwatch(watch.op));
        }
    }

    fn unwatch_predecessor(&mut self) {
        if let Phase::Waiting { watch, .. } = self.phase {
            self.outputs.push_back(Output::Unwatch(watch));
        }
    }

    fn set_timer(&mut self, after: Duration) {
        self.outputs.push_back(Output::SetTimer(after));
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

    fn path_of(&self, name: &str) -> String {
        match self.contest.directory.as_str() {
            "/" => format!("/{name}"),
            directory => format!("{directory}/{name}"),
        }
    }
}
