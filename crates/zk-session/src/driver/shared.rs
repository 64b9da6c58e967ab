//! What the driver shares with the handles of its client.

use alloc::vec::Vec;
use core::fmt;
use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use tokio::sync::{oneshot, watch};

use super::trace;
use super::wire::Wire;
use crate::connect_string::Member;
use crate::error::Error;
use crate::face::{Channels, Failure, Hub, Notice};
use crate::session::{Reply, RequestId, Session, State, WatchedEvent};
use crate::time::Instant;

/// Whom to give an answer to.
pub(crate) struct Answers {
    caller: oneshot::Sender<Result<Reply, Error>>,
    asked: trace::Asked,
}

impl Answers {
    pub(crate) fn new(caller: oneshot::Sender<Result<Reply, Error>>) -> Self {
        Self { caller, asked: trace::Asked::now() }
    }

    fn give(self, answer: Result<Reply, Error>) {
        self.asked.answered(&answer);
        drop(self.caller.send(answer));
    }
}

/// Reaches those who wait as futures.
pub(crate) struct Tasks;

impl Channels for Tasks {
    type Caller = Answers;
    type Watcher = oneshot::Sender<WatchedEvent>;
    type Reader = Option<Waker>;

    fn answer(caller: Answers, answer: Result<Reply, Error>) {
        caller.give(answer);
    }

    fn fire(watcher: Self::Watcher, event: WatchedEvent) {
        drop(watcher.send(event));
    }

    fn wake(reader: &mut Option<Waker>) {
        if let Some(reader) = reader.take() {
            reader.wake();
        }
    }

    fn failed(failure: &Failure) {
        trace::failure(failure);
    }
}

/// What the driver shares with the handles of its client.
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    pub(crate) states: watch::Sender<State>,
}

/// Tells the time as the session counts it.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    start: tokio::time::Instant,
}

impl Clock {
    pub(crate) fn now(self) -> Instant {
        Instant::after_start(self.start.elapsed())
    }

    pub(crate) fn tokio_instant(self, instant: Instant) -> tokio::time::Instant {
        self.start + instant.since_start()
    }
}

pub(crate) struct Inner {
    pub(crate) hub: Hub<Tasks>,
    pub(crate) clock: Clock,
    /// The connection, while there is one.
    pub(super) wire: Option<Wire>,
    /// Wakes the driver.
    driver: Waker,
    /// Whether the driver will look at the session anyhow.
    is_driver_awake: bool,
    /// Whether no other request was under way when the latest was submitted.
    is_alone: bool,
    /// The thread that holds its requests back, to have them written together.
    cork: Option<ThreadId>,
    /// Whether some were held back, and if so whether the first of them is alone.
    corked: Option<bool>,
    /// When the driver wakes by itself.
    pub(super) alarm: Option<Instant>,
    waiting_for_room: Vec<Waker>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("state", &*self.states.borrow()).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(
        members: Vec<Member>,
        make: impl FnOnce(Instant) -> Session<Answers>,
    ) -> Self {
        let session = make(Instant::START);
        Self {
            states: watch::Sender::new(session.state()),
            inner: Mutex::new(Inner {
                hub: Hub::new(session, members),
                clock: Clock { start: tokio::time::Instant::now() },
                wire: None,
                driver: Waker::noop().clone(),
                is_driver_awake: true,
                is_alone: true,
                cork: None,
                corked: None,
                alarm: None,
                waiting_for_room: Vec::new(),
            }),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it holds the lock; if something did, the session is still whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the requests of this thread back, for as long as it lives; nothing if some are held
    /// back already.
    pub(crate) fn cork(&self) -> Option<Cork<'_>> {
        let mut inner = self.lock();
        let is_free = inner.cork.is_none();
        inner.cork.get_or_insert_with(|| thread::current().id());
        is_free.then(|| Cork(self))
    }

    /// The last member that failed, and why it did.
    pub(crate) fn last_failure(&self) -> Option<Failure> {
        self.lock().hub.last_failure.clone()
    }
}

/// Has what was submitted meanwhile written when it is dropped.
pub(crate) struct Cork<'a>(&'a Shared);

impl Drop for Cork<'_> {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.cork = None;
        if let Some(alone) = inner.corked.take() {
            inner.send(alone);
        }
    }
}

impl Inner {
    /// Has the driver look at the session again, after a command.
    pub(crate) fn wake_driver(&mut self) {
        if !self.is_driver_awake {
            self.is_driver_awake = true;
            self.driver.wake_by_ref();
        }
    }

    /// The driver is done, until `waker` wakes it.
    pub(super) fn driver_sleeps(&mut self, waker: &Waker) {
        self.is_driver_awake = false;
        self.driver.clone_from(waker);
    }

    /// Has the request sent that was just submitted; `alone` if no other is under way. The driver
    /// writes at once all that have come until its turn. One that is alone, as the one before was,
    /// most likely stays alone: it is written here and now, without a turn of the driver.
    pub(crate) fn send(&mut self, alone: bool) {
        if self.cork.is_some_and(|holds| holds == thread::current().id()) {
            self.corked.get_or_insert(alone);
            return;
        }
        let was_alone = core::mem::replace(&mut self.is_alone, alone);
        if !(alone && was_alone) || self.is_driver_awake || !self.write_all() {
            self.wake_driver();
        }
    }

    /// Writes in the driver's stead, and says whether that leaves nothing for it to do.
    fn write_all(&mut self) -> bool {
        let Some(wire) = &mut self.wire else {
            return false;
        };
        wire.write(&mut self.hub.session, self.clock, &mut Context::from_waker(&self.driver));
        self.hub.session.output().is_empty()
            && !wire.has_failed()
            && self.due_before_alarm().is_none()
    }

    /// When the session is to be told of the time, if the driver would sleep longer. Deadlines
    /// mostly move away, which is noticed when it wakes too early; so its timer is not touched for
    /// every frame.
    pub(super) fn due_before_alarm(&self) -> Option<Instant> {
        let due = self.hub.session.poll_timeout()?;
        self.alarm.is_none_or(|alarm| due < alarm).then_some(due)
    }

    pub(crate) fn wait_for_room(&mut self, waker: &Waker) {
        if !self.waiting_for_room.iter().any(|waiting| waiting.will_wake(waker)) {
            self.waiting_for_room.push(waker.clone());
        }
    }

    /// Wakes all who wait for room, if there is some, or never will be.
    pub(super) fn tell_of_room(&mut self) {
        if !self.waiting_for_room.is_empty()
            && (self.hub.session.has_room() || self.hub.ended().is_some())
        {
            self.waiting_for_room.drain(..).for_each(Waker::wake);
        }
    }

    pub(crate) fn poll_notice(
        &mut self,
        request: RequestId,
        cx: &Context<'_>,
    ) -> Poll<Result<Notice, Error>> {
        let Some(mailbox) = self.hub.mailbox(request) else {
            return Poll::Pending;
        };
        match mailbox.notices.next() {
            Some(notice) => Poll::Ready(notice),
            None => {
                mailbox.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
