//! The session's own thread, the keeper. It reads from the connection and handles deadlines while
//! no caller does. It makes no decisions.
//!
//! A thread that makes a request writes it, under the lock. If the transport has no room, the write
//! returns at once, and a temporary thread sends the rest. Other temporary threads connect, because
//! the lookup of a name has no timeout, and another one runs callbacks, which may wait for any thread.
//! If the system has no thread, the keeper connects.

mod connect;
mod probe;
mod readers;
mod reading;
mod shared;
mod thread_connection;
#[cfg(feature = "tls")]
pub(super) mod tls;

use alloc::boxed::Box;
use alloc::sync::Arc;
use std::io;

pub use self::connect::{Connect, TcpConnect, TcpTransport, Transport};
pub(super) use self::reading::Wait;
#[cfg(test)]
pub(super) use self::shared::MOST_ATTEMPTS;
pub use self::shared::Threads;
pub(super) use self::shared::ThreadsState;
use crate::client::Driver as _;
use crate::threads::spawn;

/// Starts the thread of a session. It ends when the session does.
pub(in crate::blocking) fn start(shared: Arc<Threads>) -> io::Result<()> {
    let keeper = KeeperThread { shared };
    spawn("zookeeper", Box::new(move || keeper.shared.keep()))
}

/// The session's own thread.
struct KeeperThread {
    shared: Arc<Threads>,
}

impl Drop for KeeperThread {
    /// Ends all waiting calls after the session has ended or this thread has panicked.
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        inner.router.session_mut().close();
        inner.cut_connection();
        inner.router.session_mut().handle_disconnected(self.shared.now());
        inner.settle(&self.shared);
    }
}
