//! Who reads from the connection.
//!
//! A thread that waits for something reads by itself if nobody else does: its request takes two
//! system calls, and no other thread has to run. When it has what it waited for, the next thread
//! that waits goes on. While no thread waits, the session's own does: the keeper. It leaves the
//! reading to others for as long as they come back and do read, and looks now and then whether they
//! do, since to be woken by each of them would cost them a system call.
//!
//! What is read is delivered by whoever reads it, under the lock; so its order is kept.

use alloc::collections::BTreeMap;
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::cell::OnceCell;
use core::panic::AssertUnwindSafe;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::panic::catch_unwind;
use std::thread::{self, Thread};
use std::time::Instant as StdInstant;
use std::{io, thread_local};

use super::connect::{LEAST_PATIENCE, MOST_PATIENCE, Transport, is_timeout};
use super::shared::{Answers, Inner, Shared};
use crate::dispatch::{Token, Wakers};
use crate::face::{Guard, HasEffects as _, Inbox};
use crate::session::Session;
use crate::time::Instant;

/// How long the keeper leaves the reading to others before it looks whether they still come.
const DOZE: Duration = Duration::from_millis(5);

/// A connection that is up.
pub(super) struct Link {
    pub(super) transport: Arc<dyn Transport>,
    /// Whether it may hold back some of what it took.
    pub(super) is_unflushed: bool,
    /// Whether more may have arrived than was read last.
    pub(super) has_more: bool,
    /// What it has brought. Whoever reads has it.
    inbox: Option<Inbox>,
    /// When the thread that reads looks at the session again.
    reads_until: Instant,
}

impl Link {
    pub(super) fn new(transport: Arc<dyn Transport>, max_reply: usize) -> Self {
        let inbox = Some(Inbox::new(max_reply));
        let reads_until = Instant::START;
        Self { transport, is_unflushed: false, has_more: false, inbox, reads_until }
    }

    pub(super) fn has_to_write(&self, session: &Session<Token<Answers>>) -> bool {
        self.is_unflushed || !session.output().is_empty()
    }
}

/// Those who may read.
#[derive(Default)]
pub(super) struct Readers {
    /// Those who sleep until they have what they wait for, and could read meanwhile.
    sleepers: BTreeMap<u64, Waker>,
    last: u64,
    /// Counts those who came to wait. While it grows, the keeper does not read, unless nobody does.
    waits: u64,
    /// Counts the reads.
    reads: u64,
    /// How many sleep who must not read, as what they wait for need not come from the connection.
    others: usize,
    keeper: Keeper,
}

/// What the session's own thread does.
#[derive(Default)]
enum Keeper {
    /// It looks at the session before it sleeps again.
    #[default]
    Awake,
    /// It waits for what the connection brings, and cannot be woken.
    Reading,
    /// It looks at the session by itself soon.
    Dozing(Waker),
    /// It sleeps until it is woken, or the session's next deadline.
    Asleep(Waker),
}

impl Readers {
    /// Sees to it that somebody reads: one of those who wait, or else the keeper.
    pub(super) fn appoint(&mut self, link: Option<&Link>, wakers: &mut Wakers) {
        if link.is_some_and(|link| link.inbox.is_none()) {
            return;
        }
        if link.is_some()
            && let Some((_, sleeper)) = self.sleepers.pop_first()
        {
            wakers.push(sleeper);
        } else if !self.is_keeper_near() || self.others > 0 {
            self.call_keeper(wakers);
        }
    }

    /// Notes that somebody is there who will wait.
    pub(super) fn expect_wait(&mut self) {
        self.waits += 1;
    }

    /// Whether the keeper looks at the session soon without being called.
    pub(super) fn is_keeper_near(&self) -> bool {
        matches!(self.keeper, Keeper::Awake | Keeper::Dozing(_))
    }

    /// Has the keeper look at the session, and says whether it can.
    pub(super) fn call_keeper(&mut self, wakers: &mut Wakers) -> bool {
        match core::mem::take(&mut self.keeper) {
            Keeper::Awake => {}
            Keeper::Reading => {
                self.keeper = Keeper::Reading;
                return false;
            }
            Keeper::Dozing(keeper) | Keeper::Asleep(keeper) => wakers.push(keeper),
        }
        true
    }
}

/// How a thread waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// For what the connection brings: the thread may read itself.
    Reading,
    /// For what others do.
    Sleeping,
}

impl Shared {
    /// Waits until `poll` is ready; `None` if it is not by `end`. Whatever `poll` waits for must
    /// run the waker that it is given.
    pub(super) fn wait<R>(
        self: &Arc<Self>,
        how: Wait,
        end: Option<StdInstant>,
        mut poll: impl FnMut(&mut Inner, &Waker) -> Poll<R>,
    ) -> Option<R> {
        let mut inner = self.lock();
        let mut waits = false;
        loop {
            inner.hub.dispatcher.handle_timeout(self.now());
            inner.exchange(self);
            if inner.effects().has_deferred() {
                // It runs now, and may wait for what this thread would read.
                if inner.effects().has_callbacks() {
                    inner.appoint();
                }
                drop(inner);
                inner = self.lock();
                continue;
            }
            let reads = how == Wait::Reading && inner.can_read();
            // Who reads is not woken.
            let waker = if reads { Waker::noop().clone() } else { current_waker() };
            if let Poll::Ready(ready) = poll(&mut inner, &waker) {
                inner.appoint();
                return Some(ready);
            }
            let left = end.map(|end| end.saturating_duration_since(StdInstant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                inner.appoint();
                return None;
            }
            if !waits && how == Wait::Reading {
                inner.readers.expect_wait();
                waits = true;
            }
            let patience = inner.patience(self).min(left.unwrap_or(MOST_PATIENCE));
            inner = match how {
                Wait::Reading if reads => self.read(inner, patience),
                Wait::Reading => self.sleep(inner, waker, patience),
                Wait::Sleeping => self.sleep_as_other(inner, patience),
            };
        }
    }

    /// Waits until `condition` holds; whether it does.
    pub(super) fn wait_until(
        self: &Arc<Self>,
        end: Option<StdInstant>,
        condition: impl Fn(&Inner) -> bool,
    ) -> bool {
        let holds = self.wait(Wait::Sleeping, end, |inner, waker| {
            if condition(inner) {
                return Poll::Ready(());
            }
            if !inner.observers.iter().any(|observer| observer.will_wake(waker)) {
                inner.observers.push(waker.clone());
            }
            Poll::Pending
        });
        if holds.is_none() {
            let waker = current_waker();
            self.lock().observers.retain(|observer| !observer.will_wake(&waker));
        }
        holds.is_some()
    }

    /// Does the work of the session's own thread, until the session has ended.
    pub(super) fn keep(self: &Arc<Self>) {
        let waker = current_waker();
        let (mut waits, mut reads) = (0, 0);
        let mut read_at = StdInstant::now();
        let mut inner = self.lock();
        loop {
            inner.hub.dispatcher.handle_timeout(self.now());
            inner.exchange(self);
            if inner.hub.ended().is_some() {
                return;
            }
            self.hand_over_callbacks(&mut inner);
            if inner.effects().has_deferred() {
                // It runs now, while the keeper does not read.
                drop(inner);
                inner = self.lock();
                continue;
            }
            let patience = inner.patience(self);
            let others_come = core::mem::replace(&mut waits, inner.readers.waits) != waits;
            if core::mem::replace(&mut reads, inner.readers.reads) != reads {
                read_at = StdInstant::now();
            }
            // Those who come need not wait: they may only make requests.
            let others_read = others_come && read_at.elapsed() < DOZE;
            if inner.can_read() && (!others_read || inner.readers.others > 0) {
                inner.readers.keeper = Keeper::Reading;
                inner = self.read(inner, patience);
                inner.readers.keeper = Keeper::Awake;
                continue;
            }
            inner.appoint();
            let patience = if others_come && inner.link.is_some() {
                inner.readers.keeper = Keeper::Dozing(waker.clone());
                patience.min(DOZE)
            } else {
                inner.readers.keeper = Keeper::Asleep(waker.clone());
                patience
            };
            drop(inner);
            thread::park_timeout(patience);
            inner = self.lock();
            inner.readers.keeper = Keeper::Awake;
        }
    }

    /// Reads once.
    fn read<'a>(
        self: &'a Arc<Self>,
        mut inner: Guard<'a, Inner>,
        patience: Duration,
    ) -> Guard<'a, Inner> {
        let Some(link) = &mut inner.link else { return inner };
        let Some(mut inbox) = link.inbox.take() else { return inner };
        link.reads_until = self.now() + patience;
        let transport = link.transport.clone();
        inner.readers.reads += 1;
        drop(inner);
        let received = receive(&*transport, &mut inbox, patience);
        let mut inner = self.lock();
        let Some(link) =
            inner.link.as_mut().filter(|link| Arc::ptr_eq(&link.transport, &transport))
        else {
            // It was cut, and another one may be there by now.
            return inner;
        };
        match received {
            Ok(Received { count: 0, .. }) => inner.link_failed(self, None),
            Ok(Received { has_more, .. }) => {
                link.has_more = has_more;
                inbox.hand_on(inner.hub.session_mut(), self.now());
                if let Some(link) = &mut inner.link {
                    link.inbox = Some(inbox);
                }
            }
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {
                link.has_more = false;
                link.inbox = Some(inbox);
            }
            Err(error) => inner.link_failed(self, Some(error)),
        }
        inner
    }

    /// Sleeps until woken, ready to read.
    fn sleep<'a>(
        self: &'a Arc<Self>,
        mut inner: Guard<'a, Inner>,
        waker: Waker,
        patience: Duration,
    ) -> Guard<'a, Inner> {
        inner.readers.last += 1;
        let number = inner.readers.last;
        inner.readers.sleepers.insert(number, waker);
        drop(inner);
        thread::park_timeout(patience);
        let mut inner = self.lock();
        inner.readers.sleepers.remove(&number);
        inner
    }

    /// Sleeps until woken, while others read.
    fn sleep_as_other<'a>(
        self: &'a Arc<Self>,
        mut inner: Guard<'a, Inner>,
        patience: Duration,
    ) -> Guard<'a, Inner> {
        inner.readers.others += 1;
        inner.appoint();
        drop(inner);
        thread::park_timeout(patience);
        let mut inner = self.lock();
        inner.readers.others -= 1;
        inner
    }
}

impl Inner {
    fn can_read(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.inbox.is_some())
    }

    /// Sees to it that somebody reads, by a thread that does not.
    pub(super) fn appoint(&mut self) {
        self.readers.appoint(self.link.as_ref(), &mut self.hub.dispatcher.effects().wakers);
    }

    /// Has a thread wait for a machine's timer that is due before the thread that reads looks at the
    /// session, since that one cannot be woken. It lives no longer than there is such a timer.
    pub(super) fn mind_timers(&mut self, shared: &Arc<Shared>) {
        let Some(mut due) = self.due_before_reader() else { return };
        let theirs = shared.clone();
        let mind = move || {
            loop {
                thread::sleep((due - theirs.now()).max(LEAST_PATIENCE));
                let mut inner = theirs.lock();
                inner.minded.take_if(|minded| *minded == due);
                inner.hub.dispatcher.handle_timeout(theirs.now());
                inner.exchange(&theirs);
                inner.appoint();
                let Some(next) = inner.due_before_reader() else { return };
                due = next;
            }
        };
        // Without it, the timer is late.
        let started = thread::Builder::new().name("zookeeper-timer".to_string()).spawn(mind);
        self.minded = self.minded.filter(|_| started.is_ok());
    }

    /// The next timer, unless a thread looks at the session by then.
    fn due_before_reader(&mut self) -> Option<Instant> {
        let due = self.hub.dispatcher.next_timer()?;
        let link = self.link.as_ref().filter(|link| link.inbox.is_none())?;
        let looks_at = self.minded.map_or(link.reads_until, |minded| minded.min(link.reads_until));
        (due < looks_at).then(|| *self.minded.insert(due))
    }

    /// How long to wait at most, for the session's deadlines.
    fn patience(&self, shared: &Shared) -> Duration {
        let has_more = self.link.as_ref().is_some_and(|link| link.has_more);
        if has_more || self.hub.dispatcher.is_unsettled() {
            return LEAST_PATIENCE;
        }
        let due = self.hub.dispatcher.poll_timeout().unwrap_or(Instant::END);
        (due - shared.now()).clamp(LEAST_PATIENCE, MOST_PATIENCE)
    }
}

/// What one read has brought.
struct Received {
    count: usize,
    /// Whether there was no room for more, so that more may have arrived.
    has_more: bool,
}

/// Waits for something to arrive.
fn receive(
    transport: &dyn Transport,
    inbox: &mut Inbox,
    patience: Duration,
) -> io::Result<Received> {
    let buffer = inbox.buffer();
    let before = buffer.len();
    buffer.resize(buffer.capacity().min(before + Inbox::READ), 0);
    let room = buffer.len() - before;
    // Others would wait for ever for somebody to read.
    let received = catch_unwind(AssertUnwindSafe(|| {
        transport.read(buffer.get_mut(before..).unwrap_or_default(), patience)
    }));
    let received = received.unwrap_or_else(|_| Err(io::Error::other("the transport panicked")));
    buffer.truncate(before + *received.as_ref().unwrap_or(&0));
    received.map(|count| Received { count, has_more: count == room })
}

/// Wakes a thread that parks.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Wakes the current thread.
fn current_waker() -> Waker {
    thread_local! {
        static WAKER: OnceCell<Waker> = const { OnceCell::new() };
    }
    let new = || Waker::from(Arc::new(Unpark(thread::current())));
    // While a thread ends it has none to share.
    WAKER.try_with(|waker| waker.get_or_init(new).clone()).unwrap_or_else(|_| new())
}
