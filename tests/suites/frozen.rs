//! A clock that stands still: what a test counts must not depend on how fast the machine is.

use std::sync::mpsc::{Sender, channel};

/// Stops tokio's clock. Sockets go on working; nothing that waits for a time to come goes on
/// before [`tokio::time::advance`].
///
/// Needs a runtime of one thread. Dropping it lets a paused clock run ahead whenever all tasks wait.
#[derive(Debug)]
pub(crate) struct Frozen {
    _until_dropped: Sender<()>,
}

impl Frozen {
    pub(crate) fn start() -> Self {
        tokio::time::pause();
        // A paused clock advances by itself when all tasks wait, even if they wait for a socket;
        // but not while a blocking task runs.
        let (_until_dropped, dropped) = channel();
        tokio::task::spawn_blocking(move || dropped.recv());
        Self { _until_dropped }
    }
}
