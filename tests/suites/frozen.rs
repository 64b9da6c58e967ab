//! A stopped clock, for tests whose counts must not depend on the speed of the machine.

use std::sync::mpsc::{Sender, channel};

/// Stops tokio's clock. Sockets still work; timers fire only after [`tokio::time::advance`].
///
/// Needs a single-threaded runtime. Dropping it lets a paused clock advance whenever all tasks
/// wait.
#[derive(Debug)]
pub(crate) struct Frozen {
    _until_dropped: Sender<()>,
}

impl Frozen {
    pub(crate) fn start() -> Self {
        tokio::time::pause();
        // A paused clock advances by itself when all tasks wait, even for a socket, except while a
        // blocking task runs.
        let (_until_dropped, dropped) = channel();
        tokio::task::spawn_blocking(move || dropped.recv());
        Self { _until_dropped }
    }
}
