//! Deleting the contender's nodes, with retries.

use zk_session::Error;
use zk_session::proto::{ErrorCode, path};
use zk_session::session::Reply;

use super::Contender;
use crate::attempt::phase::Phase;
use crate::attempt::retry_policy::{RETRY_AFTER, RetryPolicy};
use crate::attempt::{Event, OpId, Turn};
use zk_session::sync::Arc;

impl Contender {
    /// Stops watching others, deletes our node if there is one, and ends the attempt.
    pub(super) fn withdraw(&mut self, turn: &mut Turn<'_>) {
        self.unwatch_predecessor(turn);
        self.phase = Phase::Leaving;
        self.delete_replaced(turn);
        if let Some(path) = self.node.as_ref().map(|node| node.path().clone()) {
            self.delete(path, turn);
        }
        self.finish_leaving(turn);
    }

    pub(super) fn finish_leaving(&mut self, turn: &mut Turn<'_>) {
        let is_clean = self.deletions.is_empty() && self.conversion.is_none();
        if matches!(self.phase, Phase::Leaving) && is_clean {
            // Mostly it has fired with the deletion, which spares the server a request.
            self.unwatch_self(turn);
            turn.conclude(&mut self.is_concluded, Event::Released);
            self.phase = Phase::Done;
            self.hint.leave(true, &self.config, turn);
        }
    }

    pub(super) fn handle_deletion(
        &mut self,
        op: OpId,
        result: &Result<Reply, Error>,
        turn: &mut Turn<'_>,
    ) -> bool {
        let of_op = |(deletion, _): &(Option<OpId>, Arc<str>)| *deletion == Some(op);
        let Some(place) = self.deletions.iter().position(of_op) else {
            return false;
        };
        let (_, path) = self.deletions.swap_remove(place);
        match result {
            Ok(_) | Err(Error::Server(ErrorCode::NO_NODE)) => {}
            // No name is used twice, so a repeated deletion cannot delete another contender's node.
            Err(error) => match RetryPolicy::of(error) {
                RetryPolicy::Now => self.delete(path, turn),
                RetryPolicy::Later => {
                    self.deletions.push((None, path));
                    turn.set_timer(RETRY_AFTER);
                }
                RetryPolicy::Never => self.abandon(&path, error, turn),
            },
        }
        self.finish_leaving(turn);
        true
    }

    /// Reads the data of its node whenever it watches it, so that the replies have a stat.
    #[must_use]
    pub(crate) fn reading_its_data(self) -> Self {
        Self { reads_own_data: true, ..self }
    }

    /// Returns whether this is a pending request for a deletion.
    pub(crate) fn is_deletion(&self, op: OpId) -> bool {
        self.deletions.iter().any(|(deletion, _)| *deletion == Some(op))
    }

    /// Reports a node that cannot be deleted. It stays until the session ends, and blocks the
    /// contenders behind it.
    fn abandon(&mut self, path: &str, error: &Error, turn: &mut Turn<'_>) {
        let node = path::name(path).into();
        turn.report(Event::Abandoned { node, error: error.clone() });
        self.hint.set_valid(false);
        if matches!(self.phase, Phase::Leaving) {
            turn.conclude(&mut self.is_concluded, Event::Failed(error.clone().into()));
        }
    }
}
