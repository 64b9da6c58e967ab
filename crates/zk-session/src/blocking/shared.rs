//! What a session's thread shares with the handles of its client.

use alloc::boxed::Box;
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

use super::connect::{Connect, LEAST_PATIENCE, MOST_PATIENCE, Transport, is_timeout};
use super::probe;
use crate::connect_string::Member;
use crate::error::Error;
use crate::face::{Channels, Failure, Hub, Notice};
use crate::session::{Action, Reply, RequestId, Session, WatchedEvent};
use crate::time::Instant;

/// How long to wait before the rest of what a connection had no room for is tried again.
const PUSH_INTERVAL: Duration = Duration::from_millis(2);

/// How many attempts to reach one member may be under way: one that is waited for, and others that
/// were given up and cannot be ended, such as the lookup of a name.
pub(super) const MOST_ATTEMPTS: usize = 4;

/// A way to connect to members, whatever it connects them by.
type Reach = dyn Fn(&Member, Duration) -> io::Result<Arc<dyn Transport>> + Send + Sync;

pub(super) type Answers = Sender<Result<Reply, Error>>;

/// Reaches those who wait as threads.
pub(super) struct Threads;

impl Channels for Threads {
    type Caller = Answers;
    type Watcher = Sender<WatchedEvent>;
    type Reader = Arc<Condvar>;

    fn answer(caller: Answers, answer: Result<Reply, Error>) {
        drop(caller.send(answer));
    }

    fn fire(watcher: Sender<WatchedEvent>, event: WatchedEvent) {
        drop(watcher.send(event));
    }

    fn wake(reader: &mut Arc<Condvar>) {
        reader.notify_all();
    }
}

/// What a session's thread shares with the handles of its client.
pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// Something has changed that somebody may wait for: the state, room, what is to be done.
    pub(super) changed: Condvar,
    reach: Box<Reach>,
    start: std::time::Instant,
}

pub(super) struct Inner {
    pub(super) hub: Hub<Threads>,
    /// The connection, as soon as the session may use it.
    pub(super) link: Option<Arc<dyn Transport>>,
    /// Whether the connection may hold back some of what it took.
    is_unflushed: bool,
    /// Counts the connections that were asked for or given up: what an older attempt makes is not
    /// wanted.
    attempt: u64,
    /// The members that threads are reaching, each of which has the other handle.
    reaching: Vec<Arc<Member>>,
    /// Whether a thread pushes what a connection had no room for.
    is_pushing: bool,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(
        members: Vec<Member>,
        connect: impl Connect,
        make: impl FnOnce(Instant) -> Session<Answers>,
    ) -> Self {
        Self {
            inner: Mutex::new(Inner {
                hub: Hub::new(make(Instant::START), members),
                link: None,
                is_unflushed: false,
                attempt: 0,
                reaching: Vec::new(),
                is_pushing: false,
            }),
            changed: Condvar::new(),
            reach: Box::new(move |member, patience| {
                Ok(Arc::new(connect.connect(member, patience)?))
            }),
            start: std::time::Instant::now(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it holds the lock; if something did, the session is still whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Instant {
        Instant::after_start(self.start.elapsed())
    }

    pub(super) fn std_instant(&self, instant: Instant) -> Option<std::time::Instant> {
        self.start.checked_add(instant.since_start())
    }

    /// The last member that failed, and why it did.
    pub(super) fn last_failure(&self) -> Option<Failure> {
        self.lock().hub.last_failure.clone()
    }

    /// Tells the session something, and does what follows from it.
    pub(super) fn command(self: &Arc<Self>, command: impl FnOnce(&mut Session<Answers>, Instant)) {
        let mut inner = self.lock();
        command(&mut inner.hub.session, self.now());
        inner.settle(self);
    }

    /// Replaces the list of members.
    pub(super) fn set_members(self: &Arc<Self>, members: Vec<Member>) {
        let mut inner = self.lock();
        inner.hub.set_members(self.now(), members);
        inner.settle(self);
    }

    /// Waits until `condition` holds; whether it does.
    pub(super) fn wait_until(
        &self,
        deadline: Option<std::time::Instant>,
        condition: impl Fn(&Inner) -> bool,
    ) -> bool {
        let mut inner = self.lock();
        while !condition(&inner) {
            let Some(guard) = wait(inner, &self.changed, deadline) else {
                return false;
            };
            inner = guard;
        }
        true
    }

    /// The next notice of a persistent watch; `None` if there is none in time.
    pub(super) fn wait_for_notice(
        &self,
        request: RequestId,
        deadline: Option<std::time::Instant>,
    ) -> Option<Result<Notice, Error>> {
        let mut inner = self.lock();
        loop {
            let mailbox = inner.hub.mailbox(request)?;
            if let Some(notice) = mailbox.notices.next() {
                return Some(notice);
            }
            let told = mailbox.reader.clone();
            inner = wait(inner, &told, deadline)?;
        }
    }
}

/// Waits for a change; `None` if the deadline has passed.
fn wait<'g>(
    inner: MutexGuard<'g, Inner>,
    changed: &Condvar,
    deadline: Option<std::time::Instant>,
) -> Option<MutexGuard<'g, Inner>> {
    let Some(deadline) = deadline else {
        return Some(changed.wait(inner).unwrap_or_else(PoisonError::into_inner));
    };
    let left = deadline.checked_duration_since(std::time::Instant::now())?;
    let (inner, _) = changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner);
    Some(inner)
}

impl Inner {
    /// Does what is to be done after anything was told to the session.
    pub(super) fn settle(&mut self, shared: &Arc<Shared>) {
        self.take_actions(shared);
        self.write_frames(shared);
        self.take_actions(shared);
        while self.hub.tell_next().is_some() {}
        shared.changed.notify_all();
    }

    fn take_actions(&mut self, shared: &Arc<Shared>) {
        while let Some(action) = self.hub.session.poll_action() {
            match action {
                Action::Disconnect => self.cut_link(),
                Action::Connect(member) => self.connect(shared, member),
                Action::Probe(member) => self.probe(shared, member),
            }
        }
    }

    /// Connects to a member, in a thread that lives no longer than that.
    pub(super) fn connect(&mut self, shared: &Arc<Shared>, member: usize) {
        self.cut_link();
        let Some(member) = self.hub.members.get(member).cloned() else {
            return self.link_failed(shared, Some(io::ErrorKind::NotFound.into()));
        };
        let due = self.hub.session.connect_deadline().unwrap_or(Instant::END);
        let patience = (due - shared.now()).clamp(LEAST_PATIENCE, MOST_PATIENCE);
        let attempt = self.attempt;
        let started = self.reach(shared, member, patience, move |shared, _, made| {
            let mut inner = shared.lock();
            if inner.attempt == attempt {
                inner.connected(shared, made);
                inner.settle(shared);
            }
        });
        if let Err(error) = started {
            self.link_failed(shared, Some(error));
        }
    }

    fn connected(&mut self, shared: &Shared, made: io::Result<Arc<dyn Transport>>) {
        match made {
            Ok(link) => {
                self.hub.error = None;
                self.link = Some(link);
                self.hub.session.handle_connected(shared.now());
            }
            Err(error) => self.link_failed(shared, Some(error)),
        }
    }

    /// Asks a member whether it can write, in a thread that lives no longer than that.
    pub(super) fn probe(&mut self, shared: &Arc<Shared>, member: usize) {
        let Some(member) = self.hub.members.get(member).cloned() else {
            return;
        };
        // A member that cannot be asked is asked again later.
        let _ = self.reach(shared, member, probe::PATIENCE, |shared, member, made| {
            let read_write = made.and_then(|link| probe::ask(&*link)).unwrap_or(false);
            let mut inner = shared.lock();
            // The list may have changed since it was asked.
            if let Some(member) = inner.hub.members.iter().position(|known| known == member) {
                inner.hub.session.handle_probed(shared.now(), member, read_write);
                inner.settle(shared);
            }
        });
    }

    /// Reaches a member in a thread, which goes on with `then`.
    fn reach(
        &mut self,
        shared: &Arc<Shared>,
        member: Member,
        patience: Duration,
        then: impl FnOnce(&Arc<Shared>, &Member, io::Result<Arc<dyn Transport>>) + Send + 'static,
    ) -> io::Result<()> {
        self.reaching.retain(|member| Arc::strong_count(member) > 1);
        if self.reaching.iter().filter(|known| ***known == member).count() >= MOST_ATTEMPTS {
            let error = "earlier attempts to reach the member have not come to an end";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, error));
        }
        let (member, theirs) = (Arc::new(member), shared.clone());
        self.reaching.push(member.clone());
        let reach = move || then(&theirs, &member, (theirs.reach)(&member, patience));
        thread::Builder::new().name("zookeeper-connect".to_string()).spawn(reach).map(drop)
    }

    /// A link that is given up is cut at once, which has the session's thread look up from it.
    pub(super) fn cut_link(&mut self) {
        self.attempt += 1;
        self.is_unflushed = false;
        if let Some(link) = self.link.take() {
            link.shutdown();
        }
    }

    fn write_frames(&mut self, shared: &Arc<Shared>) {
        while let Some(link) = &self.link
            && self.has_to_write()
        {
            let (now, output) = (shared.now(), self.hub.session.output());
            let written = if self.is_unflushed {
                link.flush().map(|()| None)
            } else {
                link.write(output).map(Some)
            };
            match written {
                Ok(None) => self.is_unflushed = false,
                Ok(Some(0)) => self.link_failed(shared, Some(io::ErrorKind::WriteZero.into())),
                Ok(Some(count)) => {
                    self.hub.session.handle_sent(now, count);
                    self.is_unflushed = true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return self.push_later(shared),
                Err(error) => self.link_failed(shared, Some(error)),
            }
        }
    }

    fn has_to_write(&self) -> bool {
        self.is_unflushed || !self.hub.session.output().is_empty()
    }

    fn push_later(&mut self, shared: &Arc<Shared>) {
        if self.is_pushing {
            return;
        }
        let theirs = shared.clone();
        let push = move || {
            loop {
                thread::sleep(PUSH_INTERVAL);
                let mut inner = theirs.lock();
                inner.settle(&theirs);
                if inner.link.is_none() || !inner.has_to_write() {
                    inner.is_pushing = false;
                    return;
                }
            }
        };
        // Without it, the rest is sent along with whatever is next.
        let started = thread::Builder::new().name("zookeeper-push".to_string()).spawn(push);
        self.is_pushing = started.is_ok();
    }

    pub(super) fn link_failed(&mut self, shared: &Shared, error: Option<io::Error>) {
        self.cut_link();
        self.hub.error = error;
        self.hub.session.handle_disconnected(shared.now());
    }
}
