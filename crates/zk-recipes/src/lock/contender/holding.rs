//! Holding the lock: noticing its loss, and requests of other clients to release it.

use core::time::Duration;

use zk_session::Error;
use zk_session::proto::{ErrorCode, GetDataResponse};
use zk_session::session::{Reply, State};

use super::Contender;
use crate::attempt::phase::{Phase, SelfWatch};
use crate::attempt::retry_policy::RETRY_AFTER;
use crate::attempt::turn::Sight;
use crate::attempt::{AttemptConfig, DisconnectPolicy, Event, Machine as _, OpId, Turn};
use crate::error::Loss;

/// The time after which a held lock watches its own node, to notice its deletion. A lock that is
/// held briefly saves the request.
const WATCH_SELF_AFTER: Duration = Duration::from_millis(20);

impl Contender {
    pub(super) fn acquired(&mut self, turn: &mut Turn<'_>) {
        let Some(ours) = &self.node else {
            return self.vanished(turn);
        };
        let (node, token) = (ours.name.clone(), ours.czxid);
        self.hint.set_valid(true);
        self.phase = Phase::Held { suspended: false };
        turn.report(Event::Acquired { node, token });
        if self.revoked {
            turn.report(Event::Revoked);
        }
        if turn.connection().is_up() {
            self.watch_self_in_time(turn);
        } else {
            self.suspend(turn);
        }
    }

    /// A revocable contender watches its node at once, to notice a request to release the lock.
    pub(super) fn watch_self_in_time(&mut self, turn: &mut Turn<'_>) {
        match self.self_watch {
            Some(_) => {}
            None if self.config.revocable && self.reads_own_data => self.watch_self(turn),
            None => turn.set_timer(WATCH_SELF_AFTER),
        }
    }

    // ---- The watch on our own node -------------------------------------------------------------

    /// Watches our own node. The reply also shows whether the node still exists.
    pub(super) fn watch_self(&mut self, turn: &mut Turn<'_>) {
        if let Some(path) = self.node.as_ref().map(|node| node.path().clone()) {
            let op = match self.reads_own_data {
                true => turn.watch_data(path),
                false => turn.watch(path),
            };
            // The old watch is removed after the new one is set. So the server, which knows only
            // one watch of the node, needs no message.
            self.unwatch_self(turn);
            self.self_watch = Some(SelfWatch { op, look: op, refused: false, armed: false });
        }
    }

    /// Checks whether our node still exists, if nothing watches it or the latest look was refused.
    pub(super) fn verify_if_needed(&mut self, turn: &mut Turn<'_>) {
        if turn.connection().is_up() && self.self_watch.is_none_or(|watch| watch.refused) {
            self.verify(turn);
        }
    }

    /// Checks whether our node still exists, behind the watches that the session sets again.
    ///
    /// An armed watch stays: a new one would miss a deletion that the server reports before it is
    /// set.
    fn verify(&mut self, turn: &mut Turn<'_>) {
        // The transaction decides. A server that lags might still show the node.
        if self.is_gone() {
            return;
        }
        let path = self.node.as_ref().map(|node| node.path().clone());
        if let (Some(path), Some(SelfWatch { op, armed: true, .. })) = (path, self.self_watch) {
            let look = turn.stat(&path);
            self.self_watch = Some(SelfWatch { op, look, refused: false, armed: true });
        } else {
            self.watch_self(turn);
        }
    }

    pub(super) fn handle_self_watch(
        &mut self,
        op: OpId,
        result: &Result<Reply, Error>,
        turn: &mut Turn<'_>,
    ) -> bool {
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
                    self.verified(turn);
                }
                self.look_for_revocation(reply, turn);
                return true;
            }
            // The session sets the watch again, and the reconnect looks again.
            Err(Error::ConnectionLost) if watch.armed => return true,
            Err(Error::Server(ErrorCode::NO_NODE)) => self.unwatch_self(turn),
            // The node exists. The watch reports a deletion once it may be read again.
            Err(Error::Server(ErrorCode::NO_AUTH)) if watch.armed => {}
            // Only the look was refused. The timer repeats it.
            Err(_) if watch.op != op => watch.refused = true,
            Err(_) => self.unwatch_self(turn),
        }
        match result {
            Err(Error::Server(ErrorCode::NO_NODE)) => self.self_deleted(turn),
            Err(Error::Server(ErrorCode::NO_AUTH)) if is_look => self.verified(turn),
            // Data this long is no request to release the lock. From now on, only the node counts.
            Err(Error::ReplyTooLarge { .. }) if self.reads_own_data => {
                self.reads_own_data = false;
                self.watch_self(turn);
            }
            Ok(_) | Err(Error::Server(ErrorCode::NO_AUTH)) => {}
            // The reconnect verifies the node.
            Err(Error::ConnectionLost) => {}
            Err(_) if matches!(self.phase, Phase::Held { .. }) => {
                turn.set_timer(RETRY_AFTER);
            }
            Err(_) => {}
        }
        true
    }

    /// Returns whether our node is gone, and it is open whether another one has replaced it.
    pub(super) fn is_gone(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.is_gone)
    }

    pub(super) fn self_watch_fired(&mut self, deleted: bool, turn: &mut Turn<'_>) {
        self.self_watch = None;
        match &self.phase {
            _ if deleted => self.self_deleted(turn),
            Phase::Held { .. } => self.watch_self(turn),
            // A takeover needs this watch; a new list does not.
            _ => self.doubt(turn),
        }
    }

    fn self_deleted(&mut self, turn: &mut Turn<'_>) {
        match self.phase {
            // Our own transaction may have deleted the node. The outcome of that transaction decides.
            Phase::Held { .. } if self.is_replacing_node() => {
                if let Some(node) = &mut self.node {
                    node.is_gone = true;
                }
            }
            Phase::Held { .. } => {
                self.node = None;
                self.lose(Loss::NodeDeleted, turn);
            }
            Phase::Deciding { .. }
            | Phase::Ranking(_)
            | Phase::Waiting { .. }
            | Phase::TakingOver => self.vanished(turn),
            _ => {}
        }
    }

    pub(super) fn unwatch_self(&mut self, turn: &mut Turn<'_>) {
        if let Some(watch) = self.self_watch.take() {
            turn.unwatch(watch.op);
        }
    }

    fn look_for_revocation(&mut self, reply: &Reply, turn: &mut Turn<'_>) {
        let asks = |reply: &Reply| {
            let read = reply.decode::<GetDataResponse<'_>>();
            read.is_ok_and(|response| response.data == Some(AttemptConfig::REVOKE))
        };
        let asked = self.config.revocable
            && self.reads_own_data
            && turn.sees(Sight::Revocation, asks(reply));
        if asked && !core::mem::replace(&mut self.revoked, true) && self.is_held() {
            turn.report(Event::Revoked);
        }
    }

    // ---- The session ---------------------------------------------------------------------------

    pub(super) fn follow(&mut self, state: State, turn: &mut Turn<'_>) {
        self.config.follow(state);
        match state {
            State::Suspended | State::ReadOnly { .. } => {
                self.doubt(turn);
                self.suspend(turn);
                self.not_connected(turn);
            }
            State::Connecting | State::Renewing => self.not_connected(turn),
            State::Connected { .. } => {
                self.lease_ended = false;
                self.doubt(turn);
                if self.is_held() {
                    self.verify(turn);
                }
                if matches!(self.phase, Phase::Beginning) {
                    self.begin(turn);
                }
            }
            _ => {}
        }
    }

    fn suspend(&mut self, turn: &mut Turn<'_>) {
        if let Phase::Held { suspended: suspended @ false } = &mut self.phase {
            *suspended = true;
            match self.config.disconnect_policy {
                DisconnectPolicy::WhileConnected => self.lose(Loss::Disconnected, turn),
                DisconnectPolicy::UntilLeaseEnds if self.lease_ended => {
                    self.lose(Loss::LeaseEnded, turn);
                }
                DisconnectPolicy::UntilLeaseEnds | DisconnectPolicy::UntilServerReports => {
                    turn.report(Event::Suspended);
                }
            }
        }
    }

    pub(super) fn end_lease(&mut self, turn: &mut Turn<'_>) {
        self.lease_ended = !turn.connection().is_up();
        match (&mut self.phase, self.config.disconnect_policy.loss_after_lease()) {
            (Phase::Held { .. }, Some(loss)) => self.lose(loss, turn),
            (Phase::Held { suspended: suspended @ false }, None) => {
                *suspended = true;
                turn.report(Event::Suspended);
                if turn.connection().is_up() {
                    self.verify(turn);
                }
            }
            // Nobody waits any longer for what is left to be done.
            (Phase::Leaving, _) => turn.conclude(&mut self.is_concluded, Event::NOT_CONFIRMED),
            _ if self.is_releasing => turn.conclude(&mut self.is_concluded, Event::NOT_CONFIRMED),
            // Our own node may be gone, and events still arrive where no request does.
            _ => self.doubt(turn),
        }
    }

    fn verified(&mut self, turn: &mut Turn<'_>) {
        // A reply from before the disconnect proves nothing.
        if let Phase::Held { suspended: suspended @ true } = &mut self.phase
            && turn.connection().is_up()
        {
            *suspended = false;
            turn.report(Event::Resumed);
        }
    }

    pub(super) fn lose(&mut self, loss: Loss, turn: &mut Turn<'_>) {
        self.hint.set_valid(false);
        turn.conclude(&mut self.is_concluded, Event::Lost(loss));
        self.withdraw(turn);
    }

    pub(super) const fn is_held(&self) -> bool {
        matches!(self.phase, Phase::Held { .. })
    }
}
