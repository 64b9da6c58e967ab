//! Handles to machines that are attached to a client's session.

use alloc::sync::Arc;
use core::any::Any;
use core::fmt;

use super::token::Key;

/// A client that owns a dispatcher.
pub trait Commands: Send + Sync {
    /// Delivers a message to a machine. Returns whether the machine is attached.
    fn command(self: Arc<Self>, key: Key, message: &mut dyn Any) -> bool;

    /// Returns whether this process is a fork of that of the client.
    fn is_forked(&self) -> bool;
}

/// A handle to a machine that is attached to the session of a client. Dropping it detaches nothing.
#[derive(Clone)]
pub struct Attachment {
    client: Arc<dyn Commands>,
    key: Key,
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Attachment {
    pub(crate) fn new(client: Arc<dyn Commands>, key: Key) -> Self {
        Self { client, key }
    }

    /// Delivers a [message](super::Attached::command) to the machine, which handles it before this
    /// returns. Returns whether the machine is attached.
    pub fn command(&self, message: &mut dyn Any) -> bool {
        self.client.clone().command(self.key, message)
    }

    /// Returns whether this process is a fork of the one that has attached the machine, where the
    /// machine goes on. Here, no [command](Self::command) reaches it. Costs a system call.
    pub fn is_forked(&self) -> bool {
        self.client.is_forked()
    }
}
