//! The session's own thread, the keeper: it reads from the connection and minds the session's
//! deadlines while no caller does. Decides nothing.
//!
//! What is to be sent is written by whoever wants it sent, while it has the lock: the transport
//! gives up at once when it has no room, and then a thread that lives only as long as that pushes
//! the rest. Members are reached in threads that live only as long as that, too, for no timeout
//! counts where a name is looked up. So are callbacks run that would otherwise keep it from reading.

use alloc::string::ToString as _;
use alloc::sync::Arc;
use std::{io, thread};

use super::shared::Shared;

/// Starts the thread of a session. It ends when the session does.
pub(super) fn start(shared: Arc<Shared>) -> io::Result<()> {
    let driver = Driver { shared };
    let run = move || driver.run();
    thread::Builder::new().name("zookeeper".to_string()).spawn(run).map(drop)
}

struct Driver {
    shared: Arc<Shared>,
}

impl Driver {
    fn run(&self) {
        self.shared.keep();
    }
}

impl Drop for Driver {
    /// The session is over; or this thread is, by a panic, and whoever waits must be told.
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        inner.hub.session_mut().close();
        inner.cut_link();
        inner.hub.session_mut().handle_disconnected(self.shared.now());
        inner.settle(&self.shared);
    }
}
