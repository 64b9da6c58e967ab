//! Which process a client belongs to.
//!
//! A fork copies the memory of a client and shares its socket, but not its threads. The child must
//! leave both alone: what it wrote would come from the parent, what it read would be missing there,
//! and another thread may have held any lock at the time of the fork.

use alloc::boxed::Box;
use std::sync::OnceLock;

use super::Router;
use crate::end::End;
use crate::session::{Config, Session};
use crate::time::Instant;

/// The process that has made a client, and what the client is in another one.
pub(crate) struct ClientProcess<T> {
    id: u32,
    /// Stands in for the state of the client in a child: an ended session, without a connection.
    in_child: OnceLock<Box<T>>,
}

impl<T> ClientProcess<T> {
    pub(crate) fn new() -> Self {
        Self { id: std::process::id(), in_child: OnceLock::new() }
    }

    /// Returns whether this is another process. Costs a system call.
    pub(crate) fn is_forked(&self) -> bool {
        self.id != std::process::id()
    }

    /// Returns the state of the client: its own, or in another process one whose session has ended.
    pub(crate) fn state<'a>(&'a self, own: &'a T, ended: impl FnOnce(Router) -> T) -> &'a T {
        match self.is_forked() {
            true => self.in_child.get_or_init(|| Box::new(ended(ended_router()))),
            false => own,
        }
    }
}

fn ended_router() -> Router {
    let mut session = Session::new(Instant::START, Config::new(1, 0));
    session.give_up(End::Forked);
    Router::new(session, alloc::vec::Vec::new(), None)
}
