//! What the threads that use a session share.

use alloc::boxed::Box;
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::{io, thread};

use super::connect::{Connect, LEAST_PATIENCE, MOST_PATIENCE, Transport, is_timeout};
use super::probe;
use super::reading::{Link, Readers};
use crate::connect_string::Member;
use crate::dispatch::{Commands, Effects, Key, Token};
use crate::error::Error;
use crate::face::{Channels, Clock, EffectsMutex, Failure, Guard, HasEffects, Hub, Sender};
use crate::session::{Action, Reply, Session, WatchedEvent};
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
    type Reader = Option<Waker>;
    type Report = ();

    fn answer(caller: Answers, answer: Result<Reply, Error>, _: &mut Vec<()>) -> Option<Waker> {
        caller.send(answer)
    }

    fn fire(watcher: Self::Watcher, event: WatchedEvent) -> Option<Waker> {
        watcher.send(event)
    }

    fn end(watcher: Self::Watcher) -> Option<Waker> {
        watcher.close()
    }

    fn wake(reader: &mut Option<Waker>) -> Option<Waker> {
        reader.take()
    }

    fn failed(_: &Failure) {}
}

/// What the threads that use a session share.
pub(super) struct Shared {
    inner: EffectsMutex<Inner>,
    reach: Box<Reach>,
    pub(super) clock: Clock,
}

pub(super) struct Inner {
    pub(super) hub: Hub<Threads>,
    /// The connection, as soon as the session may use it.
    pub(super) link: Option<Link>,
    /// Who reads from it, and who could.
    pub(super) readers: Readers,
    /// The next timer that a thread of its own waits for.
    pub(super) minded: Option<Instant>,
    /// Those who wait for another state.
    pub(super) observers: Vec<Waker>,
    max_reply: usize,
    /// Counts the connections that were asked for or given up: what an older attempt makes is not
    /// wanted.
    attempt: u64,
    /// The members that threads are reaching, each of which has the other handle.
    reaching: Vec<Arc<Member>>,
    /// Whether a thread pushes what a connection had no room for.
    is_pushing: bool,
}

impl HasEffects for Inner {
    fn effects(&mut self) -> &mut Effects {
        self.hub.dispatcher.effects()
    }
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
        clock: Clock,
        max_reply: usize,
        make: impl FnOnce(Instant) -> Session<Token<Answers>>,
    ) -> Self {
        Self {
            inner: EffectsMutex::new(Inner {
                hub: Hub::new(make(clock.now()), members),
                link: None,
                readers: Readers::default(),
                minded: None,
                observers: Vec::new(),
                max_reply,
                attempt: 0,
                reaching: Vec::new(),
                is_pushing: false,
            }),
            reach: Box::new(move |member, patience| {
                Ok(Arc::new(connect.connect(member, patience)?))
            }),
            clock,
        }
    }

    pub(super) fn lock(&self) -> Guard<'_, Inner> {
        self.inner.lock()
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The last server that failed, and why it did; or the one that has not answered yet.
    pub(super) fn last_failure(&self) -> Option<Failure> {
        self.lock().hub.last_failure()
    }

    /// Tells the session something, and does what follows from it.
    pub(super) fn command(
        self: &Arc<Self>,
        command: impl FnOnce(&mut Session<Token<Answers>>, Instant),
    ) {
        let mut inner = self.lock();
        command(inner.hub.session_mut(), self.now());
        inner.settle(self);
    }

    /// Does something to the machines that are attached, and has sent what they submit.
    pub(super) fn with_machines<R>(
        self: &Arc<Self>,
        act: impl FnOnce(&mut Inner, Instant) -> R,
    ) -> R {
        let mut inner = self.lock();
        let acted = act(&mut inner, self.now());
        inner.settle(self);
        acted
    }

    /// Has a thread of their own run the callbacks that wait for the session to be unlocked. The
    /// keeper must not run them: it could not read what they wait for.
    pub(super) fn hand_over_callbacks(self: &Arc<Self>, inner: &mut Inner) {
        if !inner.effects().has_callbacks() {
            return;
        }
        let theirs = self.clone();
        let run = move || theirs.inner.run_deferred();
        // Without it, the keeper runs them after all.
        let started = thread::Builder::new().name("zookeeper-callbacks".to_string()).spawn(run);
        inner.effects().is_running = started.is_ok();
    }

    /// Replaces the list of members.
    pub(super) fn set_members(self: &Arc<Self>, members: Vec<Member>) {
        let mut inner = self.lock();
        inner.hub.set_members(self.now(), members);
        inner.settle(self);
    }
}

impl Commands for Shared {
    fn command(self: Arc<Self>, key: Key, message: &mut dyn Any) -> bool {
        self.with_machines(|inner, now| inner.hub.dispatcher.command(now, key, message))
    }
}

impl Inner {
    /// Does what is to be done after anything was told to the session.
    pub(super) fn settle(&mut self, shared: &Arc<Shared>) {
        self.exchange(shared);
        self.appoint();
        self.mind_timers(shared);
    }

    /// Does what is to be done, by a thread that then reads from the connection if nobody does.
    pub(super) fn exchange(&mut self, shared: &Arc<Shared>) {
        let mut is_settled = false;
        loop {
            self.take_actions(shared);
            self.write_frames(shared);
            self.take_actions(shared);
            if self.deliver_events(shared) {
                continue;
            }
            let has_more = self.link.as_ref().is_some_and(|link| link.has_more);
            if is_settled || has_more || !self.hub.dispatcher.is_unsettled() {
                break;
            }
            is_settled = true;
            self.hub.dispatcher.settle(shared.now());
        }
        self.hub.tell_of_room();
        self.hub.reports.clear();
    }

    /// Whether there was something; a machine that received it may have made requests.
    fn deliver_events(&mut self, shared: &Shared) -> bool {
        let mut progress = false;
        let unsent = self.hub.session().output().len();
        let now = shared.now();
        while let Some(news) = self.hub.tell_next(now) {
            progress = true;
            if news.is_some() {
                self.hub.dispatcher.effects().wakers.extend(self.observers.drain(..));
            }
        }
        progress || self.hub.session().output().len() > unsent
    }

    /// Has a request sent that was just submitted; `alone` if no other is under way. Those that
    /// are not are written together, by whoever waits next, or else by the keeper.
    pub(super) fn send(&mut self, shared: &Arc<Shared>, alone: bool, waits: bool) {
        if alone {
            self.settle(shared);
        } else if !waits || !self.readers.is_keeper_near() {
            self.write_soon(shared);
        }
    }

    /// Has the keeper write what there is, together with what comes until then, if it can.
    pub(super) fn write_soon(&mut self, shared: &Arc<Shared>) {
        self.readers.expect_wait();
        let session = self.hub.session();
        if self.link.as_ref().is_some_and(|link| link.has_to_write(session))
            && !self.readers.call_keeper(&mut self.hub.dispatcher.effects().wakers)
        {
            self.settle(shared);
        }
    }

    fn take_actions(&mut self, shared: &Arc<Shared>) {
        while let Some(action) = self.hub.session_mut().poll_action() {
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
        let due = self.hub.session().connect_deadline().unwrap_or(Instant::END);
        let patience = (due - shared.now()).clamp(LEAST_PATIENCE, MOST_PATIENCE);
        let attempt = self.attempt;
        let started = self.reach(shared, member, patience, move |shared, _, made| {
            let mut inner = shared.lock();
            if inner.attempt == attempt {
                // The time for it may be over, which is the reason then.
                inner.hub.dispatcher.handle_timeout(shared.now());
                inner.take_actions(shared);
                if inner.attempt == attempt {
                    inner.connected(shared, made);
                }
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
                self.link = Some(Link::new(link, self.max_reply));
                self.hub.session_mut().handle_connected(shared.now());
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
                inner.hub.session_mut().handle_probed(shared.now(), member, read_write);
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

    /// A link that is given up is cut at once, which has whoever reads look up from it.
    pub(super) fn cut_link(&mut self) {
        self.attempt += 1;
        if let Some(link) = self.link.take() {
            link.transport.shutdown();
        }
    }

    fn write_frames(&mut self, shared: &Arc<Shared>) {
        while let Some(link) = &mut self.link
            && link.has_to_write(self.hub.dispatcher.session())
        {
            let (now, output) = (shared.now(), self.hub.dispatcher.session().output());
            let written = if link.is_unflushed {
                link.transport.flush().map(|()| None)
            } else {
                link.transport.write(output).map(Some)
            };
            match written {
                Ok(None) => link.is_unflushed = false,
                Ok(Some(0)) => self.link_failed(shared, Some(io::ErrorKind::WriteZero.into())),
                Ok(Some(count)) => {
                    self.hub.session_mut().handle_sent(now, count);
                    link.is_unflushed = true;
                }
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
                let session = inner.hub.session();
                if !inner.link.as_ref().is_some_and(|link| link.has_to_write(session)) {
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
        self.hub.session_mut().handle_disconnected(shared.now());
    }
}
