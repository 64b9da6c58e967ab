//! An open connection, and its received bytes.

use alloc::sync::Arc;

use super::connect::Transport;
use crate::client::ReplySender;
use crate::client::inbox::Inbox;
use crate::dispatch::Token;
use crate::session::Session;
use crate::time::Instant;

pub(super) struct ThreadConnection {
    pub(super) transport: Arc<dyn Transport>,
    /// Whether the transport may buffer accepted bytes.
    pub(super) is_unflushed: bool,
    /// Whether more bytes may have arrived than the last read returned.
    pub(super) has_more: bool,
    /// The received bytes. The reading thread takes them out.
    pub(super) inbox: Option<Inbox>,
    /// When the reading thread next looks at the session.
    pub(super) reads_until: Instant,
}

impl ThreadConnection {
    pub(super) fn new(
        transport: Arc<dyn Transport>,
        session: &Session<Token<ReplySender>>,
    ) -> Self {
        let inbox = Some(Inbox::new(session));
        let reads_until = Instant::START;
        Self { transport, is_unflushed: false, has_more: false, inbox, reads_until }
    }

    pub(super) fn has_to_write(&self, session: &Session<Token<ReplySender>>) -> bool {
        self.is_unflushed || !session.output().is_empty()
    }
}
