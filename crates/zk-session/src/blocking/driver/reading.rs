//! Reads from the connection, by the threads that wait and by the keeper.
//!
//! The thread that reads also delivers, under the lock, which keeps the order.
//! [`Readers`](super::readers) decides which thread reads.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::cell::OnceCell;
use core::panic::AssertUnwindSafe;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::io;
use std::panic::catch_unwind;
use std::time::Instant as StdInstant;

use super::connect::{MAX_WAIT, MIN_WAIT, Transport, is_timeout};
use super::readers::Keeper;
use super::shared::{Threads, ThreadsState};
use crate::client::inbox::Inbox;
use crate::client::{Driver as _, EffectsGuard, HasEffects as _, room};
use crate::dispatch::attachment::Commands as _;
use crate::threads::thread::{self, Thread};
use crate::threads::{spawn, thread_local};
use crate::time::Instant;

/// How long the keeper leaves the reading to others before it checks on them.
const DOZE: Duration = Duration::from_millis(5);

/// Returns whether less time than this has passed since then.
#[cfg(not(shuttle))]
fn is_within(since: StdInstant, time: Duration) -> bool {
    since.elapsed() < time
}

/// Returns either, as if any time could have passed.
#[cfg(shuttle)]
fn is_within(_: StdInstant, _: Duration) -> bool {
    use shuttle::rand::Rng as _;
    shuttle::rand::thread_rng().r#gen()
}

/// How a thread waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::blocking) enum Wait {
    /// For something that the connection delivers: the thread may read itself.
    Reading,
    /// For something that other threads do.
    Sleeping,
}

impl Threads {
    /// Waits until `poll` is ready. Returns `None` if it is not ready by `end`. `poll` must arrange
    /// for its waker to run.
    pub(in crate::blocking) fn wait<R>(
        self: &Arc<Self>,
        how: Wait,
        end: Option<StdInstant>,
        mut poll: impl FnMut(&mut ThreadsState, &Waker) -> Poll<R>,
    ) -> Option<R> {
        let mut output = None;
        self.wait_for_ready(how, end, &mut |inner, waker| {
            let polled = poll(inner, waker);
            polled.map(|ready| output = Some(ready))
        });
        output
    }

    /// Compiled here, with the session, and not once for each result that a thread waits for.
    fn wait_for_ready(
        self: &Arc<Self>,
        how: Wait,
        end: Option<StdInstant>,
        poll: &mut dyn FnMut(&mut ThreadsState, &Waker) -> Poll<()>,
    ) {
        let mut inner = self.lock();
        let mut waits = false;
        loop {
            inner.router.dispatcher.handle_timeout(self.now());
            inner.exchange(self);
            if inner.effects().has_deferred() {
                drop(inner);
                inner = self.relock();
                continue;
            }
            if inner.router.ended().is_some() && self.is_forked() {
                // Nothing will ever come. What waits for it finds out why.
                let _ = poll(&mut inner, Waker::noop());
                return;
            }
            let reads = how == Wait::Reading && inner.can_read();
            // A reading thread is not woken.
            let waker = if reads { Waker::noop().clone() } else { current_waker() };
            let is_ready = poll(&mut inner, &waker).is_ready();
            let left = end.filter(|_| !is_ready);
            let left = left.map(|end| end.saturating_duration_since(StdInstant::now()));
            if is_ready || left.is_some_and(|left| left.is_zero()) {
                return inner.ensure_reader();
            }
            if !waits && how == Wait::Reading {
                inner.readers.expect_wait();
                waits = true;
            }
            let now = self.now();
            let timeout = inner.max_wait(self, now).min(left.unwrap_or(MAX_WAIT));
            inner = match how {
                Wait::Reading if reads => self.read(inner, now + timeout, timeout),
                Wait::Reading => self.sleep(inner, waker, timeout),
                Wait::Sleeping => self.sleep_as_other(inner, timeout),
            };
        }
    }

    /// Waits until `condition` holds or the deadline has passed. Returns whether it holds.
    pub(in crate::blocking) fn wait_until(
        self: &Arc<Self>,
        end: Option<StdInstant>,
        condition: impl Fn(&ThreadsState) -> bool,
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

    /// Runs the session's own thread, until the session has ended.
    pub(in crate::blocking) fn keep(self: &Arc<Self>) {
        let waker = current_waker();
        let (mut waits, mut reads) = (0, 0);
        let mut read_at = StdInstant::now();
        let mut inner = self.relock();
        loop {
            inner.router.dispatcher.handle_timeout(self.now());
            inner.exchange(self);
            if inner.router.ended().is_some() {
                return;
            }
            if inner.effects().has_deferred() {
                drop(inner);
                inner = self.relock();
                continue;
            }
            if let Some((attempt, timeout)) = inner.take_keepers_attempt(self.now()) {
                drop(inner);
                attempt(timeout);
                inner = self.relock();
                continue;
            }
            let now = self.now();
            let timeout = inner.max_wait(self, now);
            let others_come = core::mem::replace(&mut waits, inner.readers.waits) != waits;
            if core::mem::replace(&mut reads, inner.readers.reads) != reads {
                read_at = StdInstant::now();
            }
            // Threads that arrive need not wait: they may only make requests.
            let others_read = others_come && is_within(read_at, DOZE);
            if inner.can_read() && (!others_read || inner.readers.has_others()) {
                inner.readers.keeper = Keeper::Reading;
                inner = self.read(inner, now + timeout, timeout);
                inner.readers.keeper = Keeper::Awake;
                continue;
            }
            inner.ensure_reader();
            let timeout = if others_come && inner.connection.is_some() {
                inner.readers.keeper = Keeper::Dozing(waker.clone());
                timeout.min(DOZE)
            } else {
                inner.readers.keeper = Keeper::Asleep(waker.clone());
                timeout
            };
            drop(inner);
            thread::park_timeout(timeout);
            inner = self.relock();
            inner.readers.keeper = Keeper::Awake;
        }
    }

    /// Reads once. The caller has read the clock: `until` is the end of the `timeout`.
    fn read<'a>(
        self: &'a Arc<Self>,
        mut inner: EffectsGuard<'a, ThreadsState>,
        until: Instant,
        timeout: Duration,
    ) -> EffectsGuard<'a, ThreadsState> {
        let Some(connection) = &mut inner.connection else { return inner };
        let Some(mut inbox) = connection.inbox.take() else { return inner };
        connection.reads_until = until;
        let transport = connection.transport.clone();
        inner.readers.reads += 1;
        drop(inner);
        let received = receive(&*transport, &mut inbox, timeout);
        let mut inner = self.relock();
        let Some(connection) = inner
            .connection
            .as_mut()
            .filter(|connection| Arc::ptr_eq(&connection.transport, &transport))
        else {
            // It was cut, and there may be a new one by now.
            return inner;
        };
        match received {
            Ok(Received { count: 0, .. }) => inner.connection_failed(self, None),
            Ok(Received { has_more, .. }) => {
                connection.has_more = has_more;
                let session = inner.router.session_mut();
                session.handle_bytes(self.now(), &mut inbox.frames, &mut inbox.bytes);
                if let Some(connection) = &mut inner.connection {
                    connection.inbox = Some(inbox);
                }
            }
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {
                connection.has_more = false;
                connection.inbox = Some(inbox);
            }
            Err(error) => inner.connection_failed(self, Some(error)),
        }
        inner
    }

    /// Sleeps until woken, ready to read.
    fn sleep<'a>(
        self: &'a Arc<Self>,
        mut inner: EffectsGuard<'a, ThreadsState>,
        waker: Waker,
        timeout: Duration,
    ) -> EffectsGuard<'a, ThreadsState> {
        inner.readers.last += 1;
        let number = inner.readers.last;
        inner.readers.sleepers.push_back((number, waker));
        drop(inner);
        thread::park_timeout(timeout);
        let mut inner = self.relock();
        let sleepers = &mut inner.readers.sleepers;
        if let Ok(place) = room::place(sleepers, number) {
            sleepers.remove(place);
        }
        inner
    }

    /// Sleeps until woken, while others read.
    fn sleep_as_other<'a>(
        self: &'a Arc<Self>,
        mut inner: EffectsGuard<'a, ThreadsState>,
        timeout: Duration,
    ) -> EffectsGuard<'a, ThreadsState> {
        inner.readers.others += 1;
        inner.ensure_reader();
        drop(inner);
        thread::park_timeout(timeout);
        let mut inner = self.relock();
        inner.readers.others -= 1;
        inner
    }
}

impl ThreadsState {
    fn can_read(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.inbox.is_some())
    }

    /// Makes another thread read. Called by a thread that does not.
    pub(in crate::blocking) fn ensure_reader(&mut self) {
        self.readers
            .ensure_reader(self.connection.as_ref(), &mut self.router.dispatcher.effects().wakers);
    }

    /// Starts a thread for a machine's timer that is due before the reading thread looks at the
    /// session, since that thread cannot be woken. It ends when there is no such timer.
    pub(in crate::blocking) fn start_timer_thread(&mut self, shared: &Arc<Threads>) {
        let Some(mut due) = self.due_before_reader() else { return };
        let theirs = shared.clone();
        let run = move || {
            loop {
                thread::sleep((due - theirs.now()).max(MIN_WAIT));
                let mut inner = theirs.lock();
                inner.timer_thread_due.take_if(|planned| *planned == due);
                inner.router.dispatcher.handle_timeout(theirs.now());
                inner.exchange(&theirs);
                inner.ensure_reader();
                let Some(next) = inner.due_before_reader() else { return };
                due = next;
            }
        };
        // Without it, the timer is late.
        let started = spawn("zookeeper-timer", Box::new(run));
        self.timer_thread_due = self.timer_thread_due.filter(|_| started.is_ok());
    }

    /// Returns the next timer, unless a thread looks at the session by then.
    fn due_before_reader(&mut self) -> Option<Instant> {
        let due = self.router.dispatcher.next_timer()?;
        let connection =
            self.connection.as_ref().filter(|connection| connection.inbox.is_none())?;
        let looks_at = self
            .timer_thread_due
            .map_or(connection.reads_until, |planned| planned.min(connection.reads_until));
        (due < looks_at).then(|| *self.timer_thread_due.insert(due))
    }

    /// Returns the time until the session's next deadline, as a read timeout.
    fn max_wait(&self, shared: &Threads, now: Instant) -> Duration {
        let has_more = self.connection.as_ref().is_some_and(|connection| connection.has_more);
        if has_more || self.router.dispatcher.is_unsettled() {
            return MIN_WAIT;
        }
        let due = self.router.dispatcher.poll_timeout().unwrap_or(Instant::END);
        let has_lease = self.router.session().lease().is_some();
        let max_wait = shared.clock.max_sleep(has_lease).min(MAX_WAIT);
        (due - now).clamp(MIN_WAIT, max_wait)
    }
}

/// The result of one read.
struct Received {
    count: usize,
    /// Whether the buffer was filled, so that more may have arrived.
    has_more: bool,
}

/// Waits for bytes.
fn receive(
    transport: &dyn Transport,
    inbox: &mut Inbox,
    timeout: Duration,
) -> io::Result<Received> {
    let buffer = inbox.buffer();
    let before = buffer.len();
    buffer.resize(buffer.capacity().min(before + Inbox::READ), 0);
    let room = buffer.len() - before;
    // A panic must not leave the connection without a reader.
    let received = catch_unwind(AssertUnwindSafe(|| {
        transport.read(buffer.get_mut(before..).unwrap_or_default(), timeout)
    }));
    let received = received.unwrap_or_else(|_| Err(io::Error::other("the transport panicked")));
    buffer.truncate(before + *received.as_ref().unwrap_or(&0));
    received.map(|count| Received { count, has_more: count == room })
}

/// Wakes a parked thread.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns the waker of the current thread.
fn current_waker() -> Waker {
    thread_local! {
        static WAKER: OnceCell<Waker> = const { OnceCell::new() };
    }
    let new = || Waker::from(Arc::new(ThreadWaker(thread::current())));
    // A thread that is ending has no cached waker.
    WAKER.try_with(|waker| waker.get_or_init(new).clone()).unwrap_or_else(|_| new())
}
