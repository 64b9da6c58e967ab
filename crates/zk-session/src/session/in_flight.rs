//! Requests in flight: sent completely, so a server may have seen them, and not answered yet.

use alloc::vec::Vec;

use zk_proto::Xid;

use super::pending::{Late, PendingRequest};
use super::queue::ShortQueue;
use crate::time::{Instant, Span, earlier};

#[derive(Clone, Debug)]
pub(super) struct Sent<T> {
    pub(super) sent_at: Instant,
    pub(super) pending: PendingRequest<T>,
}

/// The requests in flight on one connection, in the order in which they were sent.
#[derive(Clone, Debug)]
pub(super) struct InFlight<T> {
    sent: ShortQueue<Sent<T>>,
    /// How many of `sent` are requests of callers.
    pub(super) callers: usize,
    /// How many bytes the queue keeps when it is empty.
    max_kept: usize,
}

impl<T> InFlight<T> {
    pub(super) fn new(max_kept: usize) -> Self {
        Self { sent: ShortQueue::new(), callers: 0, max_kept }
    }

    pub(super) fn push(&mut self, sent: Sent<T>) {
        self.callers += usize::from(sent.pending.is_callers());
        self.sent.push_back(sent);
    }

    /// Takes the oldest ping. The reply to a ping does not identify it, so its order among other
    /// replies does not matter.
    pub(super) fn take_ping(&mut self) -> Option<Sent<T>> {
        let is_ping = |sent: &Sent<T>| sent.pending.xid == Xid::PING;
        let place = self.sent.iter().position(is_ping)?;
        let ping = self.sent.remove(place);
        self.sent.shrink(self.max_kept);
        ping
    }

    /// Returns the oldest request that is no ping.
    pub(super) fn oldest(&self) -> Option<&PendingRequest<T>> {
        self.sent.iter().map(|sent| &sent.pending).find(|pending| pending.xid != Xid::PING)
    }

    /// Returns the requests that were sent in the last `time`, and are no pings, oldest first.
    pub(super) fn sent_within(
        &self,
        now: Instant,
        time: Span,
    ) -> impl Iterator<Item = &PendingRequest<T>> {
        let is_recent =
            move |sent: &&Sent<T>| sent.pending.xid != Xid::PING && now.since(sent.sent_at) <= time;
        self.sent.iter().filter(is_recent).map(|sent| &sent.pending)
    }

    /// Returns when the oldest request was sent.
    pub(super) fn oldest_sent_at(&self) -> Option<Instant> {
        self.sent.front().map(|sent| sent.sent_at)
    }

    /// Returns how many pings are not answered yet.
    pub(super) fn pings(&self) -> usize {
        self.sent.iter().filter(|sent| sent.pending.xid == Xid::PING).count()
    }

    /// Takes the request that a reply answers: the oldest one, unless this reply may have overtaken
    /// others. Returns `None` if the reply answers none, or another one.
    pub(super) fn take_answered(&mut self, xid: Xid, may_overtake: bool) -> Option<Sent<T>> {
        // Usually it is the first one. The rest handles pings and replies that overtake.
        let answered = if self.sent.front().is_some_and(|sent| sent.pending.xid == xid) {
            self.sent.pop_front()?
        } else {
            let place = self.sent.iter().position(|Sent { pending, .. }| {
                pending.xid != Xid::PING && (!may_overtake || pending.xid == xid)
            })?;
            if self.sent.get(place)?.pending.xid != xid {
                return None;
            }
            self.sent.remove(place)?
        };
        self.sent.shrink(self.max_kept);
        self.callers -= usize::from(answered.pending.is_callers());
        Some(answered)
    }

    /// Takes the callers of requests whose deadline has passed. The replies are still expected.
    pub(super) fn take_late(&mut self, now: Instant) -> Vec<Late<T>> {
        self.sent.iter_mut().filter_map(|sent| sent.pending.take_late(now)).collect()
    }

    /// Returns the earliest deadline of all requests.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.sent.iter().fold(None, |due, sent| earlier(due, sent.pending.deadline))
    }

    /// Returns the requests, after the connection was lost. None of them will be answered.
    pub(super) fn into_lost(self) -> impl Iterator<Item = PendingRequest<T>> + use<T> {
        self.sent.into_iter().map(|sent| sent.pending)
    }
}

#[cfg(test)]
impl<T> InFlight<T> {
    pub(super) fn capacity(&self) -> usize {
        self.sent.capacity()
    }
}
