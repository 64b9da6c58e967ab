//! An attached machine, for its owner.

use alloc::sync::Arc;
use core::any::Any;
use core::fmt;

use super::Key;

/// A client that owns a dispatcher.
pub(crate) trait Commands: Send + Sync {
    /// Gives a message to a machine, and returns whether it is still attached.
    fn command(self: Arc<Self>, key: Key, message: &mut dyn Any) -> bool;
}

/// A machine that is attached to the session of a client, for its owner. Dropping this detaches
/// nothing.
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

    /// Gives a [message](super::Attached::command) to the machine, which takes it before this returns.
    /// Returns whether the machine is still attached.
    pub fn command(&self, message: &mut dyn Any) -> bool {
        self.client.clone().command(self.key, message)
    }
}
