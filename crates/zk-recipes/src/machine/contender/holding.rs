//! Holding the lock: noticing its loss, and requests of other clients to release it.

use alloc::string::ToString;
use core::time::Duration;

use zk_session::Error;
use zk_session::proto::{ErrorCode, GetDataResponse};
use zk_session::session::{Reply, State};

use super::super::phase::{Phase, SelfWatch};
use super::super::retry_policy::RETRY_AFTER;
use super::super::{AttemptConfig, DisconnectPolicy, Event, OpId, Operation};
use super::Contender;
use crate::error::{LockError, Loss};

/// The time after which a held lock watches its own node, to notice its deletion. A lock that is
/// held briefly saves the request.
const WATCH_SELF_AFTER: Duration = Duration::from_millis(20);

impl Contender {
    pub(super) fn acquired(&mut self) {
        let Some(ours) = &self.node else {
            return self.vanished();
        };
        let (node, token) = (ours.name().to_string(), ours.czxid);
        self.leaves_hint = true;
        self.phase = Phase::Held { suspended: false };
        self.outputs.report(Event::Acquired { node, token });
        if self.revoked {
            self.outputs.report(Event::Revoked);
        }
        if self.connection.is_up() {
            self.watch_self_in_time();
        } else {
            self.suspend();
        }
    }

    /// A revocable contender watches its node at once, to notice a request to release the lock.
    pub(super) fn watch_self_in_time(&mut self) {
        match self.self_watch {
            Some(_) => {}
            None if self.reads_own_data => self.watch_self(),
            None => self.outputs.set_timer(WATCH_SELF_AFTER),
        }
    }

    // ---- The watch on our own node -------------------------------------------------------------

    /// Watches our own node. The reply also shows whether the node still exists.
    pub(super) fn watch_self(&mut self) {
        if let Some(path) = self.node.as_ref().map(|node| node.path.clone()) {
            let op = self.outputs.submit(match self.reads_own_data {
                true => Operation::watch_data(path),
                false => Operation::watch(path),
            });
            // The old watch is removed after the new one is set. So the server, which knows only
            // one watch of the node, needs no message.
            self.unwatch_self();
            self.self_watch = Some(SelfWatch { op, look: op, refused: false, armed: false });
        }
    }

    /// Checks whether our node still exists, if nothing watches it or the latest look was refused.
    pub(super) fn verify_if_needed(&mut self) {
        if self.connection.is_up() && self.self_watch.is_none_or(|watch| watch.refused) {
            self.verify();
        }
    }

    /// Checks whether our node still exists, behind the watches that the session sets again.
    ///
    /// An armed watch stays: a new one would miss a deletion that the server reports before it is
    /// set.
    fn verify(&mut self) {
        // The transaction decides. A server that lags might still show the node.
        if self.is_gone() {
            return;
        }
        let path = self.node.as_ref().map(|node| node.path.clone());
        if let (Some(path), Some(SelfWatch { op, armed: true, .. })) = (path, self.self_watch) {
            let look = self.outputs.submit(Operation::stat(path));
            self.self_watch = Some(SelfWatch { op, look, refused: false, armed: true });
        } else {
            self.watch_self();
        }
    }

    pub(super) fn handle_self_watch(&mut self, op: OpId, result: &Result<Reply, Error>) -> bool {
        let is_ours = |watch: &&mut SelfWatch| [watch.op, watch.look].contains(&op);
        let Some(watch) = self.self_watch.as_mut().filter(is_ours) else {
            return false;
        };
        // The reply to a renewal of the watch may be older than the latest look.
        let is_look = watch.look == op;
        match result {
            Ok(reply) => {
                watch.armed = true;
                if is_look {
                    self.verified();
                }
                self.look_for_revocation(reply);
                return true;
            }
            // The session sets the watch again, and the reconnect looks again.
            Err(Error::ConnectionLost) if watch.armed => return true,
            Err(Error::Server(ErrorCode::NO_NODE)) => self.unwatch_self(),
            // The node exists. The watch reports a deletion once it may be read again.
            Err(Error::Server(ErrorCode::NO_AUTH)) if watch.armed => {}
            // Only the look was refused. The timer repeats it.
            Err(_) if watch.op != op => watch.refused = true,
            Err(_) => self.unwatch_self(),
        }
        match result {
            Err(Error::Server(ErrorCode::NO_NODE)) => self.self_deleted(),
            Err(Error::Server(ErrorCode::NO_AUTH)) if is_look => self.verified(),
            // Data this long is no request to release the lock. From now on, only the node counts.
            Err(Error::ReplyTooLarge { .. }) if self.reads_own_data => {
                self.reads_own_data = false;
                self.watch_self();
            }
            Ok(_) | Err(Error::Server(ErrorCode::NO_AUTH)) => {}
            // The reconnect verifies the node.
            Err(Error::ConnectionLost) => {}
            Err(_) if matches!(self.phase, Phase::Held { .. }) => {
                self.outputs.set_timer(RETRY_AFTER);
            }
            Err(_) => {}
        }
        true
    }

    /// Returns whether our node is gone, and it is open whether another one has replaced it.
    pub(super) fn is_gone(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.is_gone)
    }

    pub(super) fn self_watch_fired(&mut self, deleted: bool) {
        self.self_watch = None;
        match &self.phase {
            _ if deleted => self.self_deleted(),
            Phase::Held { .. } => self.watch_self(),
            // A takeover needs this watch; a new list does not.
            _ => self.doubt(),
        }
    }

    fn self_deleted(&mut self) {
        match self.phase {
            // Our own transaction may have deleted the node. The outcome of that transaction decides.
            Phase::Held { .. } if self.is_replacing_node() => {
                if let Some(node) = &mut self.node {
                    node.is_gone = true;
                }
            }
            Phase::Held { .. } => {
                self.node = None;
                self.lose(Loss::NodeDeleted);
            }
            Phase::Deciding { .. }
            | Phase::Ranking { .. }
            | Phase::Waiting { .. }
            | Phase::TakingOver => self.vanished(),
            _ => {}
        }
    }

    pub(super) fn unwatch_self(&mut self) {
        if let Some(watch) = self.self_watch.take() {
            self.outputs.unwatch(watch.op);
        }
    }

    fn look_for_revocation(&mut self, reply: &Reply) {
        let asked = self.reads_own_data
            && reply
                .decode::<GetDataResponse<'_>>()
                .is_ok_and(|response| response.data == Some(AttemptConfig::REVOKE));
        if asked && !core::mem::replace(&mut self.revoked, true) && self.is_held() {
            self.outputs.report(Event::Revoked);
        }
    }

    // ---- The session ---------------------------------------------------------------------------

    pub(super) fn handle_session(&mut self, state: State) {
        self.connection.change(state);
        self.config.follow(state);
        match state {
            State::Suspended | State::ReadOnly { .. } => {
                self.doubt();
                self.suspend();
                self.not_connected();
            }
            State::Connecting | State::Renewing => self.not_connected(),
            State::Connected { .. } => {
                self.lease_ended = false;
                self.doubt();
                if self.is_held() {
                    self.verify();
                }
                if matches!(self.phase, Phase::Beginning) {
                    self.begin();
                }
            }
            State::Ended(end) => self.session_ended(end),
            _ => {}
        }
    }

    /// Fails if the attempt does not wait for a connection.
    pub(super) fn not_connected(&mut self) {
        let is_over = self.is_releasing || self.is_held() || matches!(self.phase, Phase::Leaving);
        if !self.config.wait_policy.waits_for_connection() && !is_over {
            self.outputs.conclude(Event::Failed(LockError::NoConnection));
            self.release();
        }
    }

    fn suspend(&mut self) {
        if let Phase::Held { suspended: suspended @ false } = &mut self.phase {
            *suspended = true;
            match self.config.disconnect_policy {
                DisconnectPolicy::WhileConnected => self.lose(Loss::Disconnected),
                DisconnectPolicy::UntilLeaseEnds if self.lease_ended => self.lose(Loss::LeaseEnded),
                DisconnectPolicy::UntilLeaseEnds | DisconnectPolicy::UntilServerReports => {
                    self.outputs.report(Event::Suspended);
                }
            }
        }
    }

    pub(super) fn handle_end_of_lease(&mut self) {
        self.lease_ended = !self.connection.is_up();
        match (&mut self.phase, self.config.disconnect_policy.loss_after_lease()) {
            (Phase::Held { .. }, Some(loss)) => self.lose(loss),
            (Phase::Held { suspended: suspended @ false }, None) => {
                *suspended = true;
                self.outputs.report(Event::Suspended);
                if self.connection.is_up() {
                    self.verify();
                }
            }
            // Nobody waits any longer for what is left to be done.
            (Phase::Leaving, _) => self.outputs.conclude(Event::NOT_CONFIRMED),
            _ if self.is_releasing => self.outputs.conclude(Event::NOT_CONFIRMED),
            // Our own node may be gone, and events still arrive where no request does.
            _ => self.doubt(),
        }
    }

    fn verified(&mut self) {
        // A reply from before the disconnect proves nothing.
        if let Phase::Held { suspended: suspended @ true } = &mut self.phase
            && self.connection.is_up()
        {
            *suspended = false;
            self.outputs.report(Event::Resumed);
        }
    }

    pub(super) fn lose(&mut self, loss: Loss) {
        self.leaves_hint = false;
        self.outputs.conclude(Event::Lost(loss));
        self.leave();
    }

    pub(super) const fn is_held(&self) -> bool {
        matches!(self.phase, Phase::Held { .. })
    }
}
