//! Watches for other contenders while a client keeps a lock.

use alloc::string::String;
use core::time::Duration;

use zk_session::proto::recording::Description;
use zk_session::proto::{EventType, GetChildrenResponse};
use zk_session::session::{Reply, State};
use zk_session::sync::Arc;
use zk_session::{End, Error};

#[cfg(doc)]
use crate::attempt::Command;
use crate::attempt::{Event, Machine, OpId, Turn};

/// Watches the queue of a lock that is held, and for how long it is idle. It creates nothing.
///
/// It reports [`Event::Revoked`], once, as soon as another contender may be in the queue: the list
/// shows one, changes, or cannot be read. After [`Command::Leave`], the lock is idle: it reports
/// [`Event::Released`] when it has been so for its time. A later `Leave` begins that time again.
///
/// Attach it when the lock is held, and [release](Command::Release) it with the lock.
#[derive(Clone, Debug)]
pub struct IdleWatch {
    lock_path: Arc<str>,
    /// The name of the node that the lock is held with.
    node: String,
    keep: Duration,
    /// The list that sets the watch.
    list: Option<OpId>,
    is_contended: bool,
    is_done: bool,
}

impl IdleWatch {
    /// Watches `lock_path`, a path of the server, whose contender `node` holds the lock. An idle lock
    /// is kept for the time `keep`.
    pub const fn new(lock_path: Arc<str>, node: String, keep: Duration) -> Self {
        Self { lock_path, node, keep, list: None, is_contended: false, is_done: false }
    }

    /// Returns whether a list has no other contender.
    fn is_alone(&self, reply: &Reply) -> bool {
        let names = reply.decode::<GetChildrenResponse<'_>>().map(|list| list.children);
        names.is_ok_and(|names| names.iter().all(|name| name == self.node))
    }

    fn contended(&mut self, turn: &mut Turn<'_>) {
        if !core::mem::replace(&mut self.is_contended, true) {
            self.unwatch(turn);
            turn.report(Event::Revoked);
        }
    }

    fn unwatch(&mut self, turn: &mut Turn<'_>) {
        if let Some(list) = self.list.take() {
            turn.unwatch(list);
        }
    }
}

impl Machine for IdleWatch {
    fn is_done(&self) -> bool {
        self.is_done
    }

    fn describe(&self, description: &mut Description<'_>) {
        description.machine("idle watch", &self.lock_path);
        description.bytes(self.node.as_bytes());
        description.duration(self.keep);
    }

    fn session_changed(&mut self, state: State, turn: &mut Turn<'_>) {
        if state == State::Renewing {
            self.is_done = true;
        } else if self.list.is_none() && !self.is_contended {
            self.list = Some(turn.watch(self.lock_path.clone()));
        }
    }

    fn session_ended(&mut self, _: End, _: &mut Turn<'_>) {
        self.is_done = true;
    }

    fn handle_reply(&mut self, op: OpId, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        if self.list == Some(op) && !result.is_ok_and(|reply| self.is_alone(&reply)) {
            self.contended(turn);
        }
    }

    fn watch_fired(&mut self, op: OpId, _: EventType, turn: &mut Turn<'_>) {
        if self.list == Some(op) {
            self.contended(turn);
        }
    }

    fn timer_fired(&mut self, turn: &mut Turn<'_>) {
        turn.report(Event::Released);
    }

    fn leave(&mut self, turn: &mut Turn<'_>) {
        turn.set_timer(self.keep);
    }

    fn release(&mut self, turn: &mut Turn<'_>) {
        self.unwatch(turn);
        self.is_done = true;
    }
}

#[cfg(test)]
mod tests;
