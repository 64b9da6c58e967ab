//! Waiting in the queue: reading it, watching the predecessor, and taking over the lock.

#[cfg(all(feature = "full", feature = "blocking"))]
use alloc::boxed::Box;
use alloc::string::String;

use zk_session::Error;
use zk_session::proto::ErrorCode;
#[cfg(all(feature = "full", feature = "blocking"))]
use zk_session::proto::GetChildrenResponse;
use zk_session::session::Reply;

use super::Contender;
use crate::attempt::listing::{Listing, each};
use crate::attempt::phase::Phase;
use crate::attempt::queue::QueuePosition;
#[cfg(all(feature = "full", feature = "blocking"))]
use crate::attempt::queue::QueueReader;
#[cfg(all(feature = "full", feature = "blocking"))]
use crate::attempt::sorted_queue::SortedQueue;
use crate::attempt::{AttemptConfig, Event, OpId, Turn, UnknownNodePolicy};
use crate::error::LockError;

impl Contender {
    pub(super) fn decide(&mut self, turn: &mut Turn<'_>) {
        self.unwatch_predecessor(turn);
        let list = turn.list_queue(&self.config.lock_path);
        self.phase = Phase::Deciding { list, listing: None };
    }

    /// Lists the queue without waiting for shared lists, because this may be the next holder.
    #[cfg(all(feature = "full", feature = "blocking"))]
    fn decide_at_once(&mut self, turn: &mut Turn<'_>) {
        self.unwatch_predecessor(turn);
        let list = turn.list_in_pieces(&self.config.lock_path);
        self.phase = Phase::Deciding { list, listing: None };
    }

    #[cfg(not(all(feature = "full", feature = "blocking")))]
    #[inline(always)]
    fn decide_at_once(&mut self, turn: &mut Turn<'_>) {
        self.decide(turn);
    }

    pub(super) fn listed(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let reply = match result {
            Ok(reply) => reply,
            // The lock path is gone, and our node with it.
            Err(Error::Server(ErrorCode::NO_NODE)) => return self.vanished(turn),
            Err(error) => return self.retry_or_fail(error, turn),
        };
        let reader = self.queue_reader();
        #[cfg(all(feature = "full", feature = "blocking"))]
        if let Some(position) = self.find_in_order(&reader, &reply, turn) {
            return self.judge(position, true, turn);
        }
        let Phase::Deciding { listing, .. } = &mut self.phase else { return };
        let Some(node) = &self.node else { return self.vanished(turn) };
        let is_whole = listing.is_none() && !reply.has_more;
        let seen = Listing::read(listing, &reply, &mut |seen, names| {
            reader.observe(&node.name, each(names), seen);
        });
        let mut seen = match seen {
            Ok(Some(seen)) => seen,
            Ok(None) => return,
            Err(error) => return self.fail(error.into(), turn),
        };
        if let Some(error) = seen.refusal {
            return self.fail(error, turn);
        }
        if let Some(unknown_node) = seen.unknown_node.take()
            && !core::mem::replace(&mut self.warned, true)
        {
            turn.report(Event::UnknownNode(unknown_node));
        }
        let position = match (seen.position(), self.config.scheme.ranks()) {
            (QueuePosition::Exhausted, Some(full)) if is_whole => {
                return self.rank(full, &reply, turn);
            }
            (position, _) => position,
        };
        // Frees the memory of a long list before the next allocations.
        drop(reply);
        // The shortcut of `predecessor_watch_fired` is unsafe if the order comes from ranks.
        self.judge(position, true, turn);
    }

    /// Finds our place in a list that many attempts share. The first of them sorts it for all.
    #[cfg(all(feature = "full", feature = "blocking"))]
    fn find_in_order(
        &self,
        reader: &QueueReader,
        reply: &Reply,
        turn: &mut Turn<'_>,
    ) -> Option<QueuePosition> {
        if reply.has_more || !matches!(self.phase, Phase::Deciding { listing: None, .. }) {
            return None;
        }
        let memo = turn.memo()?;
        if memo.is_none() {
            let names = reply.decode::<GetChildrenResponse<'_>>().ok()?.children;
            *memo = Some(Box::new(SortedQueue::new(reader.scheme, each(names))));
        }
        let sorted = memo.as_ref()?.downcast_ref::<Option<SortedQueue>>()?;
        sorted.as_ref()?.position(reader, &self.node.as_ref()?.name)
    }

    pub(super) fn judge(&mut self, position: QueuePosition, by_number: bool, turn: &mut Turn<'_>) {
        match position {
            QueuePosition::Absent => self.vanished(turn),
            QueuePosition::Exhausted => self.fail(LockError::SequenceExhausted, turn),
            QueuePosition::First => self.acquired(turn),
            QueuePosition::Behind { predecessor, ahead } => {
                if let Some(error) = self.config.wait_policy.refusal() {
                    return self.fail(error, turn);
                }
                turn.report(Event::Waiting { behind: predecessor.clone(), ahead });
                let AttemptConfig { scheme, unknown_nodes, .. } = &self.config;
                // A downgrade creates a node with an old number, and unknown nodes have any number.
                let only_rising =
                    !scheme.has_readers() && *unknown_nodes != UnknownNodePolicy::Count;
                self.wait(predecessor, ahead == 1 && by_number && only_rising, turn);
            }
        }
    }

    // ---- Waiting -------------------------------------------------------------------------------

    fn wait(&mut self, predecessor: String, only: bool, turn: &mut Turn<'_>) {
        // Our own watch first: once the other one is set, no event of our node can be missed.
        if only && self.self_watch.is_none() {
            self.watch_self(turn);
        }
        let watch = turn.watch(self.path_of(&predecessor));
        self.phase = Phase::Waiting { predecessor, watch, only };
    }

    pub(super) fn watched(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        match result {
            Ok(_) => {}
            // The predecessor was deleted between the list and the watch, or the watch was lost.
            Err(Error::Server(ErrorCode::NO_NODE)) => self.decide_at_once(turn),
            Err(Error::Server(ErrorCode::NO_AUTH)) => {
                if let Phase::Waiting { predecessor, .. } = &mut self.phase {
                    let node = core::mem::take(predecessor);
                    self.fail(LockError::Unreadable { node }, turn);
                }
            }
            Err(error) => self.retry_or_fail(error, turn),
        }
    }

    pub(super) fn predecessor_watch_fired(&mut self, op: OpId, deleted: bool, turn: &mut Turn<'_>) {
        let Phase::Waiting { watch, only, predecessor } = &mut self.phase else {
            return;
        };
        if *watch != op {
            return;
        }
        // The shortcut: no other contender was ahead in the list, and none can have come before us
        // since. If our own node had been deleted earlier, its watch event would have arrived
        // first: events are sent in the order of transactions.
        if deleted && *only && self.self_watch.is_some_and(|watch| watch.armed) {
            self.phase = Phase::TakingOver;
            turn.settle();
        } else if deleted {
            self.decide_at_once(turn);
        } else {
            let (predecessor, only) = (core::mem::take(predecessor), *only);
            self.wait(predecessor, only, turn);
        }
    }

    /// Gives up the shortcut. After a reconnect, the server sends the events that were missed, but
    /// not in the order of transactions.
    pub(super) fn doubt(&mut self, turn: &mut Turn<'_>) {
        match &mut self.phase {
            Phase::Waiting { only, .. } => *only = false,
            Phase::TakingOver => self.decide(turn),
            _ => {}
        }
    }

    pub(super) fn unwatch_predecessor(&mut self, turn: &mut Turn<'_>) {
        if let Phase::Waiting { watch, .. } = self.phase {
            turn.unwatch(watch);
        }
    }
}
