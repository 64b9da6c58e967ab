//! Joins a [`Session`](crate::session::Session) with a transport, a clock and its callers. Decides
//! nothing.
//!
//! A thread waits for what the member sends, and for the deadlines of the session. What is to be
//! sent is written by whoever wants it sent, while it has the lock: the transport gives up at once
//! when it has no room, and then a thread that lives only as long as that pushes the rest. Members
//! are reached in threads that live only as long as that, too, for no timeout counts where a name
//! is looked up.

use alloc::string::ToString as _;
use alloc::sync::Arc;
use core::time::Duration;
use std::{io, thread};

use super::connect::{LEAST_PATIENCE, MOST_PATIENCE, Transport, is_timeout};
use super::shared::Shared;
use crate::face::Inbox;
use crate::time::Instant;

/// Starts the thread of a session. It ends when the session does.
pub(super) fn start(shared: Arc<Shared>, max_reply: usize) -> io::Result<()> {
    let driver = Driver { shared, max_reply };
    let run = move || driver.run();
    thread::Builder::new().name("zookeeper".to_string()).spawn(run).map(drop)
}

struct Driver {
    shared: Arc<Shared>,
    max_reply: usize,
}

/// A connection that is read from.
struct Wire {
    link: Arc<dyn Transport>,
    inbox: Inbox,
}

impl Driver {
    fn run(&self) {
        let mut wire = None;
        loop {
            let mut inner = self.shared.lock();
            inner.hub.session.handle_timeout(self.shared.now());
            inner.settle(&self.shared);
            if inner.hub.ended().is_some() {
                return;
            }
            let due = inner.hub.session.poll_timeout().unwrap_or(Instant::END);
            let patience = (due - self.shared.now()).clamp(LEAST_PATIENCE, MOST_PATIENCE);
            wire = inner.link.clone().map(|link| Wire::new(link, wire, self.max_reply));
            match &mut wire {
                Some(wire) => {
                    drop(inner);
                    self.read(wire, patience);
                }
                // Whoever changes something for this thread tells of it.
                None => drop(self.shared.changed.wait_timeout(inner, patience)),
            }
        }
    }

    /// Waits for something to arrive.
    fn read(&self, wire: &mut Wire, patience: Duration) {
        let received = wire.receive(patience);
        let mut inner = self.shared.lock();
        if !inner.link.as_ref().is_some_and(|link| wire.is(link)) {
            // It was cut, and another one may be there by now.
            return;
        }
        match received {
            Ok(0) => inner.link_failed(&self.shared, None),
            Ok(_) => wire.inbox.hand_on(&mut inner.hub.session, self.shared.now()),
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => inner.link_failed(&self.shared, Some(error)),
        }
    }
}

impl Wire {
    /// The wire before, if the connection is the same.
    fn new(link: Arc<dyn Transport>, before: Option<Self>, max_reply: usize) -> Self {
        let same = before.filter(|wire| wire.is(&link));
        same.unwrap_or_else(|| Self { link, inbox: Inbox::new(max_reply) })
    }

    fn is(&self, link: &Arc<dyn Transport>) -> bool {
        Arc::ptr_eq(&self.link, link)
    }

    /// Waits for something to arrive, and says how much has.
    fn receive(&mut self, patience: Duration) -> io::Result<usize> {
        let inbox = self.inbox.buffer();
        let before = inbox.len();
        inbox.resize(inbox.capacity().min(before + Inbox::READ), 0);
        let received = self.link.read(&mut inbox[before..], patience);
        inbox.truncate(before + *received.as_ref().unwrap_or(&0));
        received
    }
}

impl Drop for Driver {
    /// The session is over; or this thread is, by a panic, and whoever waits must be told.
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        inner.hub.session.close();
        inner.cut_link();
        inner.hub.session.handle_disconnected(self.shared.now());
        inner.settle(&self.shared);
    }
}
