//! Creating the permit nodes.

use zk_session::Error;
use zk_session::proto::Zxid;
use zk_session::session::Reply;

use super::super::creation::{Creation, Nodes, Owner, Progress};
use super::super::phase::Node;
use super::super::{LockMode, OpId};
use super::SemaphoreMachine;
use super::requests::Step;

impl SemaphoreMachine {
    /// Asks for the permit nodes and, in the same round trip, how many there are and may be.
    pub(super) fn borrow(&mut self) {
        self.return_permit_nodes();
        if self.is_releasing {
            self.step = Step::Leaving;
            return;
        }
        // First, since a semaphore without a maximum needs no parents, and servers do not delete a
        // container that was never used.
        self.look_at_maximum_if_unknown();
        if self.own.maximum.seen.is_none() && self.request.asks_first() {
            self.step = Step::Asking;
            return;
        }
        let (config, outputs) = (&self.permit_config, &mut self.outputs);
        match &mut self.step {
            Step::Creating(creation) => creation.repeat(config, outputs),
            step => {
                let batch = Some(self.request.permits);
                let creation = Creation::start(LockMode::Exclusive, batch, config, outputs);
                *step = Step::Creating(creation);
            }
        }
        self.list_permit_nodes();
    }

    pub(super) fn handle_creation(&mut self, op: OpId, result: Result<Reply, Error>) {
        let Step::Creating(creation) = &mut self.step else { return };
        let is_leaving = |name: &str| self.returned.iter().any(|it| it.name == name);
        let (config, outputs) = (&self.permit_config, &mut self.outputs);
        let owner = Owner { config, is_leaving: &is_leaving, outputs };
        let progress = creation.handle_reply(op, result, owner);
        for stray in creation.take_strays() {
            self.hold(Node::new(stray, Zxid::ZERO));
        }
        self.return_permit_nodes();
        match progress {
            Progress::Pending => {}
            Progress::Created(nodes) => self.created(nodes),
            Progress::Found(nodes) => {
                // The list that was sent with the create may be older than the nodes.
                self.list_permit_nodes();
                self.created(nodes);
            }
            Progress::NotCreated => self.borrow(),
            Progress::Failed(error) => {
                self.step = Step::Leaving;
                self.fail(error);
            }
        }
    }

    fn created(&mut self, Nodes { first, others }: Nodes) {
        self.own.token = first.czxid;
        self.hold(first);
        others.into_iter().for_each(|node| self.hold(node));
        if self.is_releasing {
            self.return_permit_nodes();
            self.step = Step::Leaving;
            return;
        }
        self.step = Step::Waiting;
        // The list that was sent with the create is under way, unless it was refused.
        self.ask_for_what_is_missing();
    }
}
