//! Joins a [`Session`](crate::session::Session) with a socket, a clock and its callers. Decides
//! nothing.
//!
//! A thread waits for what the member sends, and for the deadlines of the session. What is to be
//! sent is written by whoever wants it sent, while it has the lock: the socket gives up at once
//! when it has no room, and then a thread that lives only as long as that pushes the rest.

use alloc::string::ToString as _;
use alloc::sync::Arc;
use core::time::Duration;
use std::io::{self, Read as _};
use std::net::TcpStream;
use std::thread;

use bytes::BytesMut;
use zk_proto::frame;

use super::link::{LEAST_PATIENCE, can_write, connect, is_timeout};
use super::shared::{Inner, Shared};
use crate::session::Action;
use crate::time::Instant;

/// How much is read at a time.
const READ: usize = 8 * 1024;
/// The longest time that a socket is asked to wait.
const MOST_PATIENCE: Duration = Duration::from_secs(3600);

/// Starts the thread of a session. It ends when the session does.
pub(super) fn start(shared: Arc<Shared>, max_reply: usize) -> io::Result<()> {
    let mut driver = Driver { shared, max_reply, inbox: BytesMut::new(), patience: None };
    let run = move || driver.run();
    thread::Builder::new().name("zookeeper".to_string()).spawn(run).map(drop)
}

struct Driver {
    shared: Arc<Shared>,
    max_reply: usize,
    inbox: BytesMut,
    /// How long the socket waits for something to arrive.
    patience: Option<Duration>,
}

impl Driver {
    fn run(&mut self) {
        loop {
            let mut inner = self.shared.lock();
            inner.session.handle_timeout(self.shared.now());
            inner.settle(&self.shared);
            if let Some(action) = inner.actions.pop_front() {
                drop(inner);
                self.act(action);
            } else if inner.ended().is_some() {
                return;
            } else {
                let due = inner.session.poll_timeout().unwrap_or(Instant::END);
                let patience = (due - self.shared.now()).clamp(LEAST_PATIENCE, MOST_PATIENCE);
                match inner.link.clone() {
                    Some(link) => {
                        drop(inner);
                        self.read(&link, patience);
                    }
                    // Whoever changes something for this thread tells of it.
                    None => drop(self.shared.changed.wait_timeout(inner, patience)),
                }
            }
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Disconnect => {}
            Action::Connect(member) => self.connect(member),
            Action::Probe(member) => self.probe(member),
        }
    }

    fn connect(&mut self, member: usize) {
        self.inbox.clear();
        self.patience = None;
        let mut inner = self.shared.lock();
        inner.error = None;
        let due = inner.session.poll_timeout().unwrap_or(Instant::END);
        let Some(member) = inner.members.get(member).cloned() else {
            return;
        };
        drop(inner);
        let patience = (due - self.shared.now()).clamp(LEAST_PATIENCE, MOST_PATIENCE);
        let link = connect(&member, patience);

        let mut inner = self.shared.lock();
        let now = self.shared.now();
        inner.session.handle_timeout(now);
        inner.take_actions();
        if inner.actions.iter().any(|action| !matches!(action, Action::Probe(_))) {
            // The session has given this attempt up meanwhile.
            return;
        }
        match link {
            Ok(link) => {
                inner.link = Some(Arc::new(link));
                inner.session.handle_connected(now);
            }
            Err(error) => inner.link_failed(&self.shared, Some(error)),
        }
    }

    /// Waits for something to arrive.
    fn read(&mut self, link: &Arc<TcpStream>, patience: Duration) {
        // The deadline moves with every request; the socket's patience need not, if it is less.
        let is_fit = |set: Duration| set <= patience && set >= patience / 2;
        let result = if self.patience.is_some_and(is_fit) {
            Ok(())
        } else {
            self.patience = Some(patience);
            link.set_read_timeout(self.patience)
        };
        let received = result.and_then(|()| {
            let before = self.inbox.len();
            self.inbox.resize(before + READ, 0);
            let received = (&**link).read(&mut self.inbox[before..]);
            self.inbox.truncate(before + *received.as_ref().unwrap_or(&0));
            received
        });

        let shared = self.shared.clone();
        let mut inner = shared.lock();
        if !inner.link.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            // It was cut, and another one may be there by now.
            self.inbox.clear();
            return;
        }
        match received {
            Ok(0) => inner.link_failed(&shared, None),
            Ok(_) => self.take_frames(&mut inner),
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => inner.link_failed(&shared, Some(error)),
        }
    }

    fn take_frames(&mut self, inner: &mut Inner) {
        let now = self.shared.now();
        loop {
            match frame::split_bytes(&mut self.inbox, self.max_reply) {
                Ok(Some(payload)) => inner.session.handle_frame(now, payload),
                Ok(None) => return,
                Err(error) => return inner.session.handle_bad_frame(now, error),
            }
        }
    }

    /// Asks a member whether it can write, in a thread that lives no longer than that.
    fn probe(&self, member: usize) {
        let Some(member) = self.shared.lock().members.get(member).cloned() else {
            return;
        };
        let shared = self.shared.clone();
        let ask = move || {
            let read_write = can_write(&member).unwrap_or(false);
            let mut inner = shared.lock();
            // The list may have changed since it was asked.
            if let Some(member) = inner.members.iter().position(|known| *known == member) {
                inner.session.handle_probed(shared.now(), member, read_write);
                inner.settle(&shared);
            }
        };
        // A member that cannot be asked is asked again later.
        let _ = thread::Builder::new().name("zookeeper-probe".to_string()).spawn(ask);
    }
}

impl Drop for Driver {
    /// The session is over; or this thread is, by a panic, and whoever waits must be told.
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        inner.session.close();
        inner.cut_link();
        inner.session.handle_disconnected(self.shared.now());
        inner.settle(&self.shared);
    }
}
