//! Enters: waits until all participants are present.

use alloc::vec::Vec;

use zk_session::Error;
use zk_session::proto::{ErrorCode, ExistsResponse, GetChildrenResponse, path};
use zk_session::session::Reply;

use super::super::transaction::refusal;
use super::super::{Event, Operation};
use super::{Participant, READY, Step};
use crate::error::Loss;

impl Participant {
    pub(super) fn count(&mut self) {
        let look = self.outputs.submit(Operation::watch_presence(self.ready()));
        // The old watch is dropped second. The server has one watch for both, and keeps it.
        self.unwatch_others();
        let list = self.list();
        self.step = Step::Counting { look, list, is_stale: false };
    }

    pub(super) fn looked(&mut self, result: Result<Reply, Error>) {
        let announced_at = match result.and_then(|reply| reply.decode::<ExistsResponse>()) {
            Ok(response) => Some(response.stat.mzxid),
            Err(Error::Server(ErrorCode::NO_NODE)) => None,
            Err(error) => return self.retry_or_fail(error),
        };
        let ours = self.own_node.as_ref().map(|node| node.token);
        if announced_at > ours {
            self.unwatch_others();
            return self.enter();
        }
        // A node that is older than ours is left over from an earlier meeting.
        if let Step::Counting { is_stale, .. } = &mut self.step {
            *is_stale = announced_at.is_some();
        }
    }

    pub(super) fn counted(&mut self, result: Result<Reply, Error>) {
        let Some(own_node) = &self.own_node else { return };
        let (members, others) = match result {
            Ok(reply) => match reply.decode::<GetChildrenResponse<'_>>() {
                Ok(response) => {
                    let members = || response.children.iter().filter(|child| *child != READY);
                    let others = members().filter(|child| *child != own_node.name);
                    let others = others.take(self.members.saturating_sub(1));
                    let others: Vec<_> =
                        others.map(|child| path::child(&self.lock_path, child)).collect();
                    (members().count(), others)
                }
                Err(error) => return self.fail(error.into()),
            },
            Err(Error::Server(ErrorCode::NO_NODE)) => (0, Vec::new()),
            Err(error) => return self.retry_or_fail(error),
        };
        let Step::Counting { look, is_stale, .. } = self.step else { return };
        if members < self.members {
            match self.config.wait_policy.refusal() {
                Some(error) => self.fail(error),
                None => self.step = Step::Waiting { look },
            }
            return;
        }
        let own_node = path::child(&self.lock_path, &own_node.name);
        let present: Vec<_> = [own_node].into_iter().chain(others).collect();
        let operations = present.len() + 1;
        let acl = (!is_stale).then(|| self.config.parent_acl.clone());
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
