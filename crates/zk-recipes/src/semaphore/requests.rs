//! The machine's own requests: its steps, and the routing of replies.

use zk_session::Error;
use zk_session::proto::Zxid;
use zk_session::session::Reply;

use super::SemaphoreMachine;
use crate::attempt::creation::Creation;
use crate::attempt::{OpId, Turn};

/// The step of an attempt, with the requests that it waits for.
#[derive(Clone, Debug)]
pub(super) enum SemaphoreStep {
    /// Waits for the first state of the session.
    Beginning,
    /// Counts before it enters the queue ([`WaitPolicy::OnlyIfFree`](crate::machine::WaitPolicy)).
    Looking,
    /// Waits in the queue.
    Queueing,
    /// First in the queue. Reads the maximum, since the request is large.
    Asking,
    /// Creates the permit nodes.
    Creating(Creation),
    /// Counts, or waits for permits to be returned.
    Waiting,
    /// The permits are held.
    Held,
    /// Waits until all nodes are deleted.
    Leaving,
    Done,
}

/// A value that was read, valid as long as the watch on it is set.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched<T> {
    /// The request that read the value and set the watch.
    pub(super) op: Option<OpId>,
    pub(super) seen: Option<T>,
}

impl<T> Watched<T> {
    /// Forgets the value. Returns the request whose watch can be removed.
    pub(super) fn take(&mut self) -> Option<OpId> {
        self.seen = None;
        self.op.take()
    }

    pub(super) fn is(&self, op: OpId) -> bool {
        self.op == Some(op)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct RequestState {
    /// The number of permits taken, with ours.
    pub(super) taken: Watched<usize>,
    /// The number of permits that the semaphore has.
    pub(super) maximum: Watched<u32>,
    pub(super) create_maximum: Option<OpId>,
    /// The list of the lock path. Seen if it had no contender of another lock. It sets no watch.
    pub(super) others: Watched<()>,
    /// Whether the semaphore had the expected number of permits. It may be changed later.
    pub(super) agreed: bool,
    /// Whether the caller knows that permits are missing.
    pub(super) has_waited: bool,
    /// The transaction that created our permit nodes.
    pub(super) token: Zxid,
}

impl RequestState {
    /// Returns whether the maximum is neither known nor asked for.
    pub(super) const fn has_no_maximum(&self) -> bool {
        self.maximum.op.is_none() && self.create_maximum.is_none()
    }
}

impl SemaphoreMachine {
    pub(super) fn own_watch_fired(&mut self, op: OpId, turn: &mut Turn<'_>) {
        if self.own.taken.is(op) {
            self.own.taken.take();
            if matches!(self.step, SemaphoreStep::Looking | SemaphoreStep::Waiting) {
                self.list_permit_nodes(turn);
            }
        } else if self.own.maximum.is(op) {
            self.own.maximum.take();
            self.look_at_maximum(turn);
        }
    }

    pub(super) fn handle_own_reply(
        &mut self,
        op: OpId,
        result: Result<Reply, Error>,
        turn: &mut Turn<'_>,
    ) {
        if self.own.taken.is(op) {
            return self.listed(result, turn);
        }
        if self.own.maximum.is(op) {
            return self.looked(result, turn);
        }
        if self.own.others.is(op) {
            return self.others_listed(result, turn);
        }
        if self.own.create_maximum == Some(op) {
            self.own.create_maximum = None;
            return self.maximum_created(result, turn);
        }
        self.handle_creation(op, result, turn);
    }

    /// Repeats requests that were refused or whose values are outdated. Pending requests stay.
    pub(super) fn ask_for_what_is_missing(&mut self, turn: &mut Turn<'_>) {
        match &mut self.step {
            SemaphoreStep::Beginning
            | SemaphoreStep::Queueing
            | SemaphoreStep::Held
            | SemaphoreStep::Leaving
            | SemaphoreStep::Done => return,
            SemaphoreStep::Creating(creation) => {
                creation.handle_timer(&self.permit_config, turn);
            }
            SemaphoreStep::Looking | SemaphoreStep::Waiting if self.own.taken.op.is_none() => {
                self.list_permit_nodes(turn);
            }
            _ => {}
        }
        self.look_at_maximum_if_unknown(turn);
        if !self.has_path_alone() {
            self.go_on_if_there_is_room(turn);
        }
    }

    pub(super) fn look_at_maximum_if_unknown(&mut self, turn: &mut Turn<'_>) {
        if self.own.has_no_maximum() {
            self.look_at_maximum(turn);
        }
    }

    pub(super) fn unwatch_own(&mut self, turn: &mut Turn<'_>) {
        self.own.others.take();
        let watches = [self.own.taken.take(), self.own.maximum.take()];
        watches.into_iter().for_each(|watch| self.unwatch(watch, turn));
    }

    pub(super) fn unwatch(&mut self, watch: Option<OpId>, turn: &mut Turn<'_>) {
        watch.into_iter().for_each(|watch| turn.unwatch(watch));
    }
}
