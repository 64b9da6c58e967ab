//! Joins a [`Session`] with a socket, a clock and its callers. Decides nothing.
//!
//! A thread waits for what the member sends, and for the deadlines of the session. What is to be
//! sent is written by whoever wants it sent, while it has the lock: the socket gives up at once
//! when it has no room, and then a thread that lives only as long as that pushes the rest.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use bytes::BytesMut;
use zk_proto::frame;

use crate::connect_string::Member;
use crate::error::{Error, Outcome};
use crate::face::{Notice, Notices};
use crate::session::{Action, Cause, Event, Reply, RequestId, Session, State, WatchedEvent};
use crate::time::Instant;

/// How much is read at a time.
const READ: usize = 8 * 1024;
/// How long a write may find no room before the rest is left for later. It is as good as none.
const WRITE_PATIENCE: Duration = Duration::from_millis(1);
/// How long to wait before the rest is tried again.
const PUSH_INTERVAL: Duration = Duration::from_millis(2);
/// The shortest and the longest time that a socket is asked to wait.
const LEAST_PATIENCE: Duration = Duration::from_millis(1);
const MOST_PATIENCE: Duration = Duration::from_secs(3600);
/// How long a member may take to say whether it can write.
const PROBE_PATIENCE: Duration = Duration::from_secs(1);

pub(super) type Answers = Sender<Result<Reply, Error>>;

/// What a session's thread shares with the handles of its client.
pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// Something has changed that somebody may wait for: the state, room, what is to be done.
    changed: Condvar,
    start: std::time::Instant,
}

pub(super) struct Inner {
    pub(super) session: Session<Answers>,
    pub(super) members: Arc<[Member]>,
    pub(super) watches: HashMap<RequestId, Sender<WatchedEvent>>,
    persistent_watches: HashMap<RequestId, Mailbox>,
    last_failure: Option<(String, String)>,
    /// The connection, as soon as the session may use it.
    link: Option<Arc<TcpStream>>,
    /// What the session's thread is to do.
    actions: VecDeque<Action>,
    /// What the transport itself said when it failed.
    error: Option<io::Error>,
    /// Whether a thread pushes what a socket had no room for.
    is_pushing: bool,
}

/// What a persistent watch has to tell, and who waits for it.
struct Mailbox {
    notices: Notices,
    told: Arc<Condvar>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(
        members: Vec<Member>,
        make: impl FnOnce(Instant) -> Session<Answers>,
    ) -> Self {
        Self {
            inner: Mutex::new(Inner {
                session: make(Instant::START),
                members: members.into(),
                watches: HashMap::new(),
                persistent_watches: HashMap::new(),
                last_failure: None,
                link: None,
                actions: VecDeque::new(),
                error: None,
                is_pushing: false,
            }),
            changed: Condvar::new(),
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
    pub(super) fn last_failure(&self) -> Option<(String, String)> {
        self.lock().last_failure.clone()
    }

    /// Tells the session something, and does what follows from it.
    pub(super) fn command(self: &Arc<Self>, command: impl FnOnce(&mut Session<Answers>, Instant)) {
        let mut inner = self.lock();
        command(&mut inner.session, self.now());
        inner.settle(self);
    }

    /// Replaces the list of members. The session is told which of them it knows.
    pub(super) fn set_members(self: &Arc<Self>, members: Vec<Member>) {
        let mut inner = self.lock();
        let place = |member| members.iter().position(|new| new == member);
        let kept: Vec<_> = inner.members.iter().map(place).collect();
        let count = members.len();
        inner.members = members.into();
        inner.session.update_members(self.now(), &kept, count);
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
            let mailbox = inner.persistent_watches.get_mut(&request)?;
            if let Some(notice) = mailbox.notices.next() {
                return Some(notice);
            }
            let told = mailbox.told.clone();
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
    /// How requests fail from now on, if the session has ended.
    pub(super) fn ended(&self) -> Option<Error> {
        match self.session.state() {
            State::Ended(end) => Some(Error::Ended { end, outcome: Outcome::NotApplied }),
            _ => None,
        }
    }

    pub(super) fn keep_watching(&mut self, request: RequestId, buffer: usize) {
        let mailbox = Mailbox { notices: Notices::new(buffer), told: Arc::default() };
        self.persistent_watches.insert(request, mailbox);
    }

    pub(super) fn stop_watching(&mut self, request: RequestId) {
        if self.persistent_watches.remove(&request).is_some() {
            self.session.unwatch(request);
        }
    }

    /// Does what is to be done after anything was told to the session.
    pub(super) fn settle(&mut self, shared: &Arc<Shared>) {
        self.take_actions();
        self.write_frames(shared);
        self.take_actions();
        self.deliver_events();
        shared.changed.notify_all();
    }

    /// A link that is given up is cut at once, which has the session's thread look up from it.
    fn take_actions(&mut self) {
        while let Some(action) = self.session.poll_action() {
            if !matches!(action, Action::Probe(_)) {
                self.cut_link();
            }
            self.actions.push_back(action);
        }
    }

    fn cut_link(&mut self) {
        if let Some(link) = self.link.take() {
            // It may be cut already, from the other side.
            let _ = link.shutdown(Shutdown::Both);
        }
    }

    fn write_frames(&mut self, shared: &Arc<Shared>) {
        while let Some(link) = &self.link {
            let (now, output) = (shared.now(), self.session.output());
            if output.is_empty() {
                return;
            }
            match (&**link).write(output) {
                Ok(0) => self.link_failed(shared, Some(io::ErrorKind::WriteZero.into())),
                Ok(count) => self.session.handle_sent(now, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return self.push_later(shared),
                Err(error) => self.link_failed(shared, Some(error)),
            }
        }
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
                if inner.link.is_none() || inner.session.output().is_empty() {
                    inner.is_pushing = false;
                    return;
                }
            }
        };
        // Without it, the rest is sent along with whatever is next.
        let started = thread::Builder::new().name("zookeeper-push".to_string()).spawn(push);
        self.is_pushing = started.is_ok();
    }

    fn link_failed(&mut self, shared: &Shared, error: Option<io::Error>) {
        self.cut_link();
        self.error = error;
        self.session.handle_disconnected(shared.now());
    }

    fn deliver_events(&mut self) {
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::State(_) => {
                    if let Some(ended) = self.ended() {
                        self.watches.clear();
                        let all: Vec<_> = self.persistent_watches.keys().copied().collect();
                        self.tell(&all, |notices| notices.end(ended.clone()));
                    }
                }
                Event::Disconnected { member, cause } => {
                    let reason = match (self.error.take(), cause) {
                        (Some(error), Cause::Transport) => error.to_string(),
                        _ => cause.to_string(),
                    };
                    if let Some(member) = self.members.get(member) {
                        self.last_failure = Some((member.to_string(), reason));
                    }
                }
                // A caller who has gone away does not want the answer.
                Event::Reply { token, result } => drop(token.send(result)),
                Event::Watch { requests, persistent, event } => {
                    self.tell(&persistent, |notices| notices.push_event(event.clone()));
                    for request in requests {
                        if let Some(watch) = self.watches.remove(&request) {
                            drop(watch.send(event.clone()));
                        }
                    }
                }
                Event::Gap { requests } => self.tell(&requests, Notices::push_gap),
                Event::WatchLost { requests, code } => {
                    self.tell(&requests, |notices| notices.end(Error::Server(code)));
                }
                // Whoever waits for room looks by himself; no exchange is asked for.
                Event::Room | Event::Authenticate { .. } => {}
            }
        }
    }

    fn tell(&mut self, watches: &[RequestId], tell: impl Fn(&mut Notices)) {
        for request in watches {
            if let Some(Mailbox { notices, told }) = self.persistent_watches.get_mut(request) {
                tell(notices);
                told.notify_all();
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

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

/// Connects to whichever address of a member answers first, one after the other.
fn connect(member: &Member, patience: Duration) -> io::Result<TcpStream> {
    let start = std::time::Instant::now();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (member.host.as_str(), member.port).to_socket_addrs()? {
        let left = patience.saturating_sub(start.elapsed()).max(LEAST_PATIENCE);
        match TcpStream::connect_timeout(&address, left) {
            Ok(link) => {
                link.set_nodelay(true)?;
                link.set_write_timeout(Some(WRITE_PATIENCE))?;
                return Ok(link);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn can_write(member: &Member) -> io::Result<bool> {
    let mut link = connect(member, PROBE_PATIENCE)?;
    link.set_read_timeout(Some(PROBE_PATIENCE))?;
    link.write_all(b"isro")?;
    // One byte more than the answer, to know it from a longer one.
    let mut answer = Vec::new();
    link.take(3).read_to_end(&mut answer)?;
    Ok(answer == b"rw")
}
