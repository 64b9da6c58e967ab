//! Watches for other contenders while a client keeps a lock.

use alloc::string::String;
use core::time::Duration;

use zk_session::proto::GetChildrenResponse;
use zk_session::session::{Reply, State};
use zk_session::sync::Arc;

use crate::attempt::{Event, Input, Machine, OpId, Turn};

/// Watches the queue of a lock that is held, and for how long it is idle. It creates nothing.
///
/// It reports [`Event::Revoked`], once, as soon as another contender may be in the queue: the list
/// shows one, changes, or cannot be read. After [`Input::Leave`], the lock is idle: it reports
/// [`Event::Released`] when it has been so for its time. A later `Leave` begins that time again.
///
/// Attach it when the lock is held, and [release](Input::Release) it with the lock.
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
    fn handle(&mut self, input: Input, turn: &mut Turn<'_>) {
        match input {
            _ if self.is_done => {}
            Input::Session(State::Ended(_) | State::Renewing) => self.is_done = true,
            Input::Session(_) if self.list.is_none() && !self.is_contended => {
                self.list = Some(turn.watch(self.lock_path.clone()));
            }
            Input::Reply { op, result: Ok(reply) }
                if self.list == Some(op) && self.is_alone(&reply) => {}
            Input::Reply { op, .. } | Input::Watch { op, .. } if self.list == Some(op) => {
                self.contended(turn);
            }
            Input::Leave => turn.set_timer(self.keep),
            Input::Timer => turn.report(Event::Released),
            Input::Release => {
                self.unwatch(turn);
                self.is_done = true;
            }
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}
