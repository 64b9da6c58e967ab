//! Enters: waits until all participants are present.

use zk_session::Error;
use zk_session::proto::{ErrorCode, ExistsResponse, GetChildrenResponse};
use zk_session::session::Reply;

use super::super::{Event, Operation};
use super::{Participant, READY, Step};

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
        let members = match result {
            Ok(reply) => match reply.decode::<GetChildrenResponse<'_>>() {
                Ok(response) => response.children.iter().filter(|child| *child != READY).count(),
                Err(error) => return self.fail(error.into()),
            },
            Err(Error::Server(ErrorCode::NO_NODE)) => 0,
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
        let announcement = match is_stale {
            true => Operation::touch(self.ready()),
            false => Operation::create_mark(self.ready(), self.config.parent_acl.clone()),
        };
        let announcement = self.outputs.submit(announcement);
        self.unwatch_others();
        self.step = Step::Announcing { announcement };
    }

    pub(super) fn announced(&mut self, result: Result<Reply, Error>) {
        match result {
            Ok(_) => self.enter(),
            // Another participant was faster.
            Err(Error::Server(ErrorCode::NODE_EXISTS | ErrorCode::NO_NODE)) => self.count(),
            Err(error) => self.retry_or_fail(error),
        }
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
