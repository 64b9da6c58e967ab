//! Creating the permit nodes.

use zk_session::Error;
use zk_session::proto::Zxid;
use zk_session::session::Reply;

use super::SemaphoreMachine;
use super::requests::SemaphoreStep;
use crate::attempt::Turn;
use crate::attempt::creation::{Creation, Nodes, Owner, Progress};
use crate::attempt::node::Node;
use crate::attempt::{Full, LockMode, OpId};

impl SemaphoreMachine {
    /// Asks for the permit nodes and, in the same round trip, how many there are and may be.
    pub(super) fn borrow(&mut self, turn: &mut Turn<'_>) {
        self.return_permit_nodes(turn);
        if self.is_releasing {
            self.step = SemaphoreStep::Leaving;
            return;
        }
        // First, since a semaphore without a maximum needs no parents, and servers do not delete a
        // container that was never used.
        self.look_at_maximum_if_unknown(turn);
        if self.own.maximum.seen.is_none() && self.request.asks_first() {
            self.step = SemaphoreStep::Asking;
            return;
        }
        let config = &self.permit_config;
        match &mut self.step {
            SemaphoreStep::Creating(creation) => creation.repeat(config, turn),
            step => {
                let batch = Some((self.request.permits, Full::On));
                let creation = Creation::start(LockMode::Exclusive, batch, config, turn);
                *step = SemaphoreStep::Creating(creation);
            }
        }
        self.list_permit_nodes(turn);
    }

    pub(super) fn handle_creation(
        &mut self,
        op: OpId,
        result: Result<Reply, Error>,
        turn: &mut Turn<'_>,
    ) {
        let SemaphoreStep::Creating(creation) = &mut self.step else { return };
        let is_leaving = |name: &str| self.returned.iter().any(|it| it.name == name);
        let config = &self.permit_config;
        let owner = Owner { config, is_leaving: &is_leaving };
        let progress = creation.handle_reply(op, result, owner, turn);
        for stray in creation.take_strays() {
            self.hold(Node::new(stray, Zxid::ZERO), turn);
        }
        self.return_permit_nodes(turn);
        match progress {
            Progress::Pending => {}
            Progress::Created(nodes) => self.created(nodes, turn),
            Progress::Found(nodes) => {
                // The list that was sent with the create may be older than the nodes.
                self.list_permit_nodes(turn);
                self.created(nodes, turn);
            }
            Progress::NotCreated => self.borrow(turn),
            Progress::Failed(error) => {
                self.step = SemaphoreStep::Leaving;
                self.fail(error, turn);
            }
        }
    }

    fn created(&mut self, Nodes { first, others }: Nodes, turn: &mut Turn<'_>) {
        self.own.token = first.czxid;
        self.hold(first, turn);
        others.into_iter().for_each(|node| self.hold(node, turn));
        if self.is_releasing {
            self.return_permit_nodes(turn);
            self.step = SemaphoreStep::Leaving;
            return;
        }
        self.step = SemaphoreStep::Waiting;
        // The list that was sent with the create is under way, unless it was refused.
        self.ask_for_what_is_missing(turn);
    }
}
