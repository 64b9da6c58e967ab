//! A connection that is up, and what has arrived on it.

use alloc::sync::Arc;

use super::connect::Transport;
use crate::client::{Inbox, Sender};
use crate::dispatch::Token;
use crate::error::Error;
use crate::session::{Reply, Session};
use crate::time::Instant;

/// Sends a reply to the thread that waits for it.
pub(super) type ReplySender = Sender<Result<Reply, Error>>;

pub(super) struct Connection {
    pub(super) transport: Arc<dyn Transport>,
    /// Whether it may hold back some of what it took.
    pub(super) is_unflushed: bool,
    /// Whether more may have arrived than was read last.
    pub(super) has_more: bool,
    /// What has arrived. The thread that reads takes it.
    pub(super) inbox: Option<Inbox>,
    /// When the thread that reads looks at the session again.
    pub(super) reads_until: Instant,
}

impl Connection {
    pub(super) fn new(transport: Arc<dyn Transport>, max_reply: usize) -> Self {
        let inbox = Some(Inbox::new(max_reply));
        let reads_until = Instant::START;
        Self { transport, is_unflushed: false, has_more: false, inbox, reads_until }
    }

    pub(super) fn has_to_write(&self, session: &Session<Token<ReplySender>>) -> bool {
        self.is_unflushed || !session.output().is_empty()
    }
}
