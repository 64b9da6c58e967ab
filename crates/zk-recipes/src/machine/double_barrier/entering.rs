//! Enters: waits until all participants are present.

use alloc::vec::Vec;

use zk_session::Error;
use zk_session::proto::{ErrorCode, ExistsResponse, GetChildrenResponse, path};
use zk_session::session::Reply;

use super::super::transaction::refusal;
use super::super::{Event, Operation};
use super::{Participant, READY, Ready, Step};
use crate::error::Loss;

impl Participant {
    pub(super) fn count(&mut self) {
        let look = self.outputs.submit(Operation::watch_presence(self.ready()));
        // The old watch is dropped second. The server has one watch for both, and keeps it.
        self.unwatch_others();
        let list = self.list();
        self.step = Step::Counting { look, list, ready: Ready::Missing };
    }

    pub(super) fn looked(&mut self, result: Result<Reply, Error>) {
        let announced_at = match result.and_then(|reply| reply.decode::<ExistsResponse>()) {
            Ok(response) => Some(response.stat.mzxid),
            Err(Error::Server(ErrorCode::NO_NODE)) => None,
            Err(error) => return self.retry_or_fail(error),
        };
        let ours = self.own_node.as_ref().map(|node| node.token);
        match &mut self.step {
            Step::Counting { ready, .. } => {
                *ready = match announced_at {
                    None => Ready::Missing,
                    at if at > ours => Ready::New,
                    Some(_) => Ready::Old,
                };
            }
            // The watch was renewed.
            Step::Waiting { .. } if announced_at > ours => self.count(),
            _ => {}
        }
    }

    pub(super) fn counted(&mut self, result: Result<Reply, Error>) {
        let Step::Counting { look, ready, .. } = self.step else { return };
        let Some(own_node) = &self.own_node else { return };
        let reply = match result {
            Ok(reply) => Some(reply),
            Err(Error::Server(ErrorCode::NO_NODE)) => None,
            Err(error) => return self.retry_or_fail(error),
        };
        let list = reply.as_ref().map(|reply| reply.decode::<GetChildrenResponse<'_>>());
        let list = match list.transpose() {
            Ok(list) => list,
            Err(error) => return self.fail(error.into()),
        };
        let members =
            || list.iter().flat_map(|list| list.children.iter()).filter(|name| *name != READY);
        if ready == Ready::New {
            if !members().any(|name| name == own_node.name) {
                // It may have been missing at the announcement, too.
                return self.lose(Loss::NodeDeleted);
            }
            self.unwatch_others();
            return self.enter();
        }
        if members().count() < self.members {
            match self.config.wait_policy.refusal() {
                Some(error) => self.fail(error),
                None => self.step = Step::Waiting { look },
            }
            return;
        }
        let others = members().filter(|name| *name != own_node.name);
        let others = others.take(self.members.saturating_sub(1));
        let others = others.map(|name| path::child(&self.lock_path, name));
        let own_node = path::child(&self.lock_path, &own_node.name);
        let present: Vec<_> = [own_node].into_iter().chain(others).collect();
        let operations = present.len() + 1;
        let acl = (ready == Ready::Missing).then(|| self.config.parent_acl.clone());
        let announcement = Operation::announce(self.ready(), present, acl);
        let announcement = self.outputs.submit(announcement);
        self.unwatch_others();
        self.step = Step::Announcing { announcement, operations };
    }

    pub(super) fn announced(&mut self, operations: usize, result: Result<Reply, Error>) {
        let error = match result.and_then(|reply| refusal(&reply, operations)) {
            Ok(None) => return self.enter(),
            Ok(Some((0, ErrorCode::NO_NODE))) => return self.lose(Loss::NodeDeleted),
            // Another participant has left, or was faster.
            Ok(Some((_, ErrorCode::NO_NODE | ErrorCode::NODE_EXISTS))) => return self.count(),
            Ok(Some((_, code))) => Error::Server(code),
            Err(error) => error,
        };
        self.retry_or_fail(error);
    }

    fn enter(&mut self) {
        let Some(own_node) = &self.own_node else { return };
        let acquired = Event::Acquired { node: own_node.name.clone(), token: own_node.token };
        self.step = Step::Inside;
        self.node.set_disconnect_policy(self.config.disconnect_policy);
        self.outputs.report(acquired);
        if self.suspended {
            self.outputs.report(Event::Suspended);
        }
    }
}
