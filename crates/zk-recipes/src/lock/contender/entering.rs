//! Enters the queue: creates the node.

use alloc::boxed::Box;
use alloc::string::ToString;

use zk_session::proto::{SequenceNumber, path};
use zk_session::session::Reply;
use zk_session::{Error, Outcome};

use super::Contender;
use crate::attempt::creation::{Creation, Owner, Progress};
use crate::attempt::phase::{Node, Phase};
use crate::attempt::queue::{is_safe, sequence_suffix};
use crate::attempt::{AttemptConfig, Event, OpId, Turn, UnknownNodePolicy};
use crate::lock::FastPathHint;

impl Contender {
    // ---- Creation ------------------------------------------------------------------------------

    pub(super) fn create(&mut self, turn: &mut Turn<'_>) {
        let config = &self.config;
        let creation = Box::new(Creation::start(config.mode, None, config, turn));
        let expects_nobody = self.config.hint.is_some_and(|it| it.expects_nobody());
        let list = (!expects_nobody).then(|| self.list(turn));
        self.phase = Phase::Creating { creation, list };
    }

    pub(super) fn handle_creation(
        &mut self,
        op: OpId,
        result: Result<Reply, Error>,
        turn: &mut Turn<'_>,
    ) {
        let Phase::Creating { creation, list } = &mut self.phase else { return };
        if creation.is_create(op)
            && let Err(error @ (Error::NoConnection | Error::DeadlinePassed { .. })) = &result
            && error.outcome() == Outcome::NotApplied
        {
            // The caller limits the time, and there is no node to keep.
            let error = error.clone();
            return self.fail(error.into(), turn);
        }
        let deletions = &self.deletions;
        let is_leaving = |name: &str| deletions.iter().any(|(_, path)| path::name(path) == name);
        let config = &self.config;
        let owner = Owner { config, is_leaving: &is_leaving };
        let progress = creation.handle_reply(op, result, owner, turn);
        let list = *list;
        creation.take_strays().into_iter().for_each(|stray| self.delete(stray, turn));
        match progress {
            Progress::Pending => {}
            Progress::Created(nodes) => {
                let before = self.config.hint.take();
                self.config.hint = self.own_hint(&nodes.first, before);
                self.enqueued(nodes.first, list, turn);
            }
            Progress::Found(nodes) => {
                self.config.hint = self.own_hint(&nodes.first, None);
                self.enqueued(nodes.first, None, turn);
            }
            Progress::NotCreated if self.is_releasing => self.withdraw(turn),
            Progress::NotCreated => self.create_again(turn),
            Progress::Failed(error) => self.fail(error, turn),
        }
    }

    fn create_again(&mut self, turn: &mut Turn<'_>) {
        // The hint is spent. If the lock path is new, sequence numbers begin again.
        self.config.hint = None;
        if let Phase::Creating { creation, list } = &mut self.phase {
            creation.repeat(&self.config, turn);
            *list = Some(turn.list_queue(&self.config.lock_path));
        }
    }

    fn enqueued(&mut self, node: Node, list: Option<OpId>, turn: &mut Turn<'_>) {
        if !self.is_concluded {
            turn.report(Event::Enqueued { node: node.name().to_string(), token: node.czxid });
        }
        self.node = Some(node);
        match list {
            _ if self.is_releasing => self.withdraw(turn),
            Some(list) => self.phase = Phase::Deciding { list, listing: None },
            None if self.config.hint.is_some_and(|own| own.followed > 0) => self.acquired(turn),
            None => self.decide(turn),
        }
    }

    /// Returns our hint for the next contender, which it may use if we acquire the lock. `before` is
    /// the hint of the previous one.
    fn own_hint(&self, node: &Node, before: Option<FastPathHint>) -> Option<FastPathHint> {
        let AttemptConfig { mode, unknown_nodes, .. } = self.config;
        // A negative number of eleven characters seems positive here, and the next one lower.
        let number = SequenceNumber::parse(sequence_suffix(node.name()))?;
        let (czxid, followed, is_deleted) = (node.czxid, 0, false);
        let own = FastPathHint { unknown_nodes, mode, number, czxid, followed, is_deleted };
        let before = before.filter(|before| self.follows(&own, before));
        let followed = before.map_or(0, |before| before.followed.saturating_add(1));
        Some(FastPathHint { followed, ..own })
    }

    /// Returns our hint for the next contender. It is there from the release on, and may change until
    /// the attempt is over. `None` if the attempt did not hold and release the lock.
    pub(crate) fn hint(&self) -> Option<FastPathHint> {
        let is_deleted = match self.phase {
            Phase::Leaving => false,
            Phase::Done => true,
            _ => return None,
        };
        let hint = self.config.hint.filter(|_| self.leaves_hint && self.node.is_some());
        hint.map(|hint| FastPathHint { is_deleted, ..hint })
    }

    /// Takes note that the contender that left our hint is gone, if our creation is still undecided.
    pub(crate) fn complete_hint(&mut self, later: FastPathHint) {
        if self.wants_hint() {
            self.config.hint = self.config.hint.map(|hint| hint.completed_by(later));
        }
    }

    /// Returns whether [`complete_hint`](Self::complete_hint) could change anything.
    pub(crate) fn wants_hint(&self) -> bool {
        let is_open = |hint: FastPathHint| !hint.is_deleted;
        matches!(self.phase, Phase::Creating { .. }) && self.config.hint.is_some_and(is_open)
    }

    fn follows(&self, own: &FastPathHint, before: &FastPathHint) -> bool {
        // An unknown node that counts may stand anywhere, however late it was created.
        is_safe(own.number)
            && before.unknown_nodes == own.unknown_nodes
            && own.unknown_nodes != UnknownNodePolicy::Count
            && before.is_followed_by(own.mode, own.number, own.czxid)
    }
}
