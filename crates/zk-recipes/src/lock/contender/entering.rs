//! Enters the queue: creates the node.

use alloc::boxed::Box;

use zk_session::proto::path;
use zk_session::session::Reply;
use zk_session::{Error, Outcome};

use super::Contender;
use crate::attempt::creation::{Creation, Owner, Progress};
use crate::attempt::phase::{Node, Phase};
use crate::attempt::{Event, OpId, Turn};

impl Contender {
    // ---- Creation ------------------------------------------------------------------------------

    pub(super) fn create(&mut self, turn: &mut Turn<'_>) {
        let config = &self.config;
        let creation = Box::new(Creation::start(config.mode, None, config, turn));
        self.hint.take(config, turn);
        let list = (!self.hint.expects_nobody()).then(|| turn.list_queue(&self.config.lock_path));
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
            Progress::Created(nodes) => self.enqueued(nodes.first, list, turn),
            Progress::Found(nodes) => {
                self.hint.forget();
                self.enqueued(nodes.first, None, turn);
            }
            Progress::NotCreated if self.is_releasing => self.withdraw(turn),
            Progress::NotCreated => self.create_again(turn),
            Progress::Failed(error) => self.fail(error, turn),
        }
    }

    fn create_again(&mut self, turn: &mut Turn<'_>) {
        // The hint is spent. If the lock path is new, sequence numbers begin again.
        self.hint.forget();
        if let Phase::Creating { creation, list } = &mut self.phase {
            creation.repeat(&self.config, turn);
            *list = Some(turn.list_queue(&self.config.lock_path));
        }
    }

    fn enqueued(&mut self, node: Node, list: Option<OpId>, turn: &mut Turn<'_>) {
        self.hint.created(&node, &self.config, turn);
        if !self.is_concluded {
            turn.report(Event::Enqueued { node: node.name.clone(), token: node.czxid });
        }
        self.node = Some(node);
        match list {
            _ if self.is_releasing => self.withdraw(turn),
            Some(list) => self.phase = Phase::Deciding { list, listing: None },
            None if self.hint.is_next() => self.acquired(turn),
            None => self.decide(turn),
        }
    }
}
