//! Deleting the contender's nodes, with retries.

use zk_session::Error;
use zk_session::proto::{ErrorCode, path};
use zk_session::session::Reply;

use super::super::phase::Phase;
use super::super::retry_policy::{RETRY_AFTER, RetryPolicy};
use super::super::{Event, OpId};
use super::Contender;
use crate::error::LockError;
use zk_session::sync::Arc;

impl Contender {
    /// Stops watching others, deletes our node if there is one, and ends the attempt.
    pub(super) fn leave(&mut self) {
        self.unwatch_predecessor();
        self.phase = Phase::Leaving;
        self.delete_replaced();
        if let Some(path) = self.node.as_ref().map(|node| node.path.clone()) {
            self.delete(path);
        }
        self.finish_leaving();
    }

    pub(super) fn finish_leaving(&mut self) {
        let is_clean = self.deletions.is_empty() && self.conversion.is_none();
        if matches!(self.phase, Phase::Leaving) && is_clean {
            // Mostly it has fired with the deletion, which spares the server a request.
            self.unwatch_self();
            self.outputs.conclude(Event::Released);
            self.phase = Phase::Done;
        }
    }

    pub(super) fn handle_deletion(&mut self, op: OpId, result: &Result<Reply, Error>) -> bool {
        let of_op = |(deletion, _): &(Option<OpId>, Arc<str>)| *deletion == Some(op);
        let Some(place) = self.deletions.iter().position(of_op) else {
            return false;
        };
        let (_, path) = self.deletions.swap_remove(place);
        match result {
            Ok(_) | Err(Error::Server(ErrorCode::NO_NODE)) => {}
            // No name is used twice, so a repeated deletion cannot delete another contender's node.
            Err(error) => match RetryPolicy::of(error) {
                RetryPolicy::Now => self.delete(path),
                RetryPolicy::Later => {
                    self.deletions.push((None, path));
                    self.outputs.set_timer(RETRY_AFTER);
                }
                RetryPolicy::Never => self.abandon(&path, error),
            },
        }
        self.finish_leaving();
        true
    }

    /// Reports a node that cannot be deleted. It stays until the session ends, and blocks the
    /// contenders behind it.
    fn abandon(&mut self, path: &str, error: &Error) {
        let node = path::name(path).into();
        self.outputs.report(Event::Abandoned { node, error: error.clone() });
        self.leaves_hint = false;
        if matches!(self.phase, Phase::Leaving) {
            self.outputs.conclude(Event::Failed(error.clone().into()));
        }
    }

    /// Fails because this client could not delete the node before ours. That node stays as long as
    /// our own session, so waiting for it is useless.
    pub(super) fn behind_abandoned(&mut self) {
        if let Phase::Waiting { predecessor, .. } = &self.phase {
            let node = predecessor.clone();
            self.fail(LockError::Abandoned { node });
        }
    }
}
