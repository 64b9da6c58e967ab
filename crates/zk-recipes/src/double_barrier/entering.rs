//! Enters: waits until all participants are present.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use zk_session::Error;
use zk_session::proto::{
    CreateMode, ErrorCode, ExistsResponse, GetChildrenResponse, List, Multi, MultiOp, Request,
    SetDataRequest, Zxid, path,
};
use zk_session::session::Reply;

use super::{Participant, ParticipantStep, Position, READY, ReadyNode, check_presence};
use crate::attempt::requests::create;
use crate::attempt::transaction::refusal;
use crate::attempt::{Event, OpId, Turn};
use crate::error::Loss;

impl Participant {
    pub(super) fn count(&mut self, turn: &mut Turn<'_>) {
        let look = turn.watch_presence(self.ready());
        // The old watch is dropped second. The server has one watch for both, and keeps it.
        self.unwatch_others(turn);
        let list = self.list(turn);
        self.step = ParticipantStep::Counting { look, list, ready: ReadyNode::Missing };
    }

    pub(super) fn looked(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let announced_at = match result.and_then(|reply| reply.decode::<ExistsResponse>()) {
            Ok(response) => Some(response.stat.mzxid),
            Err(Error::Server(ErrorCode::NO_NODE)) => None,
            Err(error) => return self.retry_or_fail(error, turn),
        };
        let ours = self.own_node.as_ref().map(|node| node.token);
        match &mut self.step {
            ParticipantStep::Counting { ready, .. } => {
                *ready = match announced_at {
                    None => ReadyNode::Missing,
                    Some(at) if Some(at) > ours => ReadyNode::New(at),
                    Some(at) => ReadyNode::Old(at),
                };
            }
            // The watch was renewed.
            ParticipantStep::Waiting { .. } | ParticipantStep::Joining { .. }
                if announced_at > ours =>
            {
                self.count(turn);
            }
            _ => {}
        }
    }

    pub(super) fn counted(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let ParticipantStep::Counting { look, ready, .. } = self.step else { return };
        let Some(own_node) = &self.own_node else { return };
        let reply = match result {
            Ok(reply) => Some(reply),
            Err(Error::Server(ErrorCode::NO_NODE)) => None,
            Err(error) => return self.retry_or_fail(error, turn),
        };
        let children = match reply.as_ref().map(|reply| reply.decode::<GetChildrenResponse<'_>>()) {
            None => List::NULL,
            Some(Ok(list)) => list.children,
            Some(Err(error)) => return self.fail(error.into(), turn),
        };
        let (mut others, mut is_present) = (Vec::new(), false);
        for name in children.iter().filter(|name| *name != READY) {
            match *name == *own_node.name {
                true => is_present = true,
                false => others.push(name),
            }
        }
        if let ReadyNode::New(announced_at) = ready {
            if !is_present {
                // It may have been missing at the announcement, too.
                return self.lose(Loss::NodeDeleted, turn);
            }
            self.unwatch_others(turn);
            return self.enter(announced_at, turn);
        }
        if others.len() + usize::from(is_present) < self.members {
            let ReadyNode::Old(announced_at) = ready else { return self.wait(look, turn) };
            let mut others: Vec<_> = others.into_iter().map(super::rank).collect();
            others.sort_unstable();
            // Of those with our names, the first is inside if any of them is.
            let foreign = others.partition_point(|(number, _)| number.is_none());
            others.truncate(foreign + 1);
            return self.join(look, others, announced_at, turn);
        }
        others.insert(0, &own_node.name);
        others.truncate(self.members.max(1));
        let present = others.iter().map(|name| path::child(&self.lock_path, name)).collect();
        self.announce(present, ready == ReadyNode::Missing, turn);
    }

    /// Waits for others, if the attempt does.
    fn wait(&mut self, look: OpId, turn: &mut Turn<'_>) {
        match self.config.wait_policy.refusal() {
            Some(error) => self.fail(error, turn),
            None => {
                self.step = ParticipantStep::Waiting { look };
                turn.report(Event::Waiting { behind: READY.into(), ahead: 1 });
            }
        }
    }

    /// Looks for a participant that is inside, since `ready` may be a leftover. If there is one, it
    /// or others may already have begun to leave, and wait for us.
    fn join(
        &mut self,
        look: OpId,
        candidates: Vec<Position>,
        announced_at: Zxid,
        turn: &mut Turn<'_>,
    ) {
        let Some((_, first)) = candidates.last() else { return self.wait(look, turn) };
        let stat = turn.stat(&path::child(&self.lock_path, first));
        self.step = ParticipantStep::Joining { look, stat, candidates, announced_at };
    }

    /// Handles the stat of a participant that may be inside.
    pub(super) fn found(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let ParticipantStep::Joining { look, candidates, announced_at, .. } = &mut self.step else {
            return;
        };
        let (look, announced_at) = (*look, *announced_at);
        let mut candidates = core::mem::take(candidates);
        let other = candidates.pop();
        let came_at = match result.and_then(|reply| reply.decode::<ExistsResponse>()) {
            Ok(ExistsResponse { stat }) => Some(stat.czxid),
            Err(Error::Server(ErrorCode::NO_NODE)) => None,
            Err(error) => return self.retry_or_fail(error, turn),
        };
        match (other, came_at, &self.own_node) {
            (Some((_, other)), Some(came_at), Some(own_node)) if came_at < announced_at => {
                let path_of = |name| path::child(&self.lock_path, name);
                self.announce(vec![path_of(&own_node.name), path_of(&other)], false, turn);
            }
            _ => self.join(look, candidates, announced_at, turn),
        }
    }

    /// Creates or writes `ready`, in one transaction that checks that all of `present` exist.
    fn announce(&mut self, present: Vec<String>, is_new: bool, turn: &mut Turn<'_>) {
        let operations = present.len() + 1;
        let acl = is_new.then_some(&self.config.parent_acl);
        let path = self.ready();
        let change = match acl {
            Some(acl) => MultiOp::Create(create(&path, &[], CreateMode::PERSISTENT, acl)),
            None => MultiOp::SetData(SetDataRequest { path: &path, data: Some(&[]), version: -1 }),
        };
        let mut all: Vec<_> = present.iter().map(|path| check_presence(path)).collect();
        all.push(change);
        let announcement = turn.submit(&Request::Multi(Multi::new(&all)));
        self.unwatch_others(turn);
        self.step = ParticipantStep::Announcing { announcement, operations };
    }

    pub(super) fn announced(
        &mut self,
        operations: usize,
        result: Result<Reply, Error>,
        turn: &mut Turn<'_>,
    ) {
        let answer = result.and_then(|reply| Ok((reply.zxid, refusal(&reply, operations)?)));
        let (announced_at, answer) = match answer {
            Ok((announced_at, answer)) => (announced_at, Ok(answer)),
            Err(error) => (Zxid::ZERO, Err(error)),
        };
        let error = match answer {
            Ok(None) => return self.enter(announced_at, turn),
            Ok(Some((0, ErrorCode::NO_NODE))) => return self.lose(Loss::NodeDeleted, turn),
            // Another participant has left, or was faster.
            Ok(Some((_, ErrorCode::NO_NODE | ErrorCode::NODE_EXISTS))) => return self.count(turn),
            Ok(Some((_, code))) => Error::Server(code),
            Err(error) => error,
        };
        self.retry_or_fail(error, turn);
    }

    fn enter(&mut self, announced_at: Zxid, turn: &mut Turn<'_>) {
        self.entered_at = announced_at;
        let Some(own_node) = &self.own_node else { return };
        let acquired = Event::Acquired { node: own_node.name.clone(), token: own_node.token };
        self.step = ParticipantStep::Inside;
        self.node.set_disconnect_policy(self.config.disconnect_policy);
        turn.report(acquired);
        if self.suspended {
            turn.report(Event::Suspended);
        }
    }
}
