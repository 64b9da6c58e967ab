//! The state that all threads of a session share.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::sync::PoisonError;

use zk_proto::Request;

use super::connect::{Connect, MAX_WAIT, MIN_WAIT, Transport, is_timeout};
use super::probe::{self, PROBE_TIMEOUT};
use super::readers::Readers;
use super::thread_connection::ThreadConnection;
use crate::blocking::block_on::is_in_block_on;
use crate::client::{
    ClientProcess, Clock, Driver, EffectsGuard, EffectsMutex, HasEffects, Receiver, Router,
};
use crate::connect_string::ServerAddress;
use crate::dispatch::attachment::{Attachment, Commands};
use crate::dispatch::watchers::Watcher;
use crate::dispatch::{Attached, Effects, Key};
use crate::error::Error;
use crate::sasl::BegunExchange;
use crate::session::{AUTHENTICATION, Action, Reply, RequestId};
use crate::threads::thread::{self, Thread};
use crate::threads::{Mutex, spawn};
use crate::time::{Instant, earlier};

/// The pause before writing the rest of what a connection had no room for.
const PUSH_INTERVAL: Duration = Duration::from_millis(2);

/// How long the thread for callbacks waits for more of them. To start one takes longer than most
/// callbacks.
const CALLBACK_IDLE: Duration = Duration::from_millis(100);

/// How long to write at once. Other threads wait meanwhile.
const MAX_WRITE: Duration = Duration::from_millis(5);

/// The maximum number of simultaneous attempts to connect to one server.
///
/// One of them is current. The others were abandoned but cannot be stopped, for example in the
/// lookup of a name.
pub(in crate::blocking) const MOST_ATTEMPTS: usize = 4;

/// An attempt to connect, with its time limit.
pub(super) type ThreadAttempt = Box<dyn FnOnce(Duration) + Send>;

/// What follows an attempt to connect to a server.
type AttemptEnd =
    Box<dyn FnOnce(&Arc<Threads>, &ServerAddress, io::Result<Arc<dyn Transport>>) + Send>;

/// Connects to servers, independent of the type of transport.
trait AnyConnect: Send + Sync {
    fn make(&self, server: &ServerAddress, timeout: Duration) -> io::Result<Arc<dyn Transport>>;
    fn count_addresses(&self, servers: &[ServerAddress]) -> Vec<usize>;
    fn note_served(&self, server: &ServerAddress);
}

impl<C: Connect> AnyConnect for C {
    fn make(&self, server: &ServerAddress, timeout: Duration) -> io::Result<Arc<dyn Transport>> {
        Ok(Arc::new(self.connect(server, timeout)?))
    }

    fn count_addresses(&self, servers: &[ServerAddress]) -> Vec<usize> {
        self.addresses(servers)
    }

    fn note_served(&self, server: &ServerAddress) {
        self.served(server);
    }
}

/// The driver on threads of the standard library: the session's own, and those that wait.
pub struct Threads {
    inner: EffectsMutex<ThreadsState>,
    process: ClientProcess<EffectsMutex<ThreadsState>>,
    /// The futures that wait in tasks, on any runtime.
    futures: Arc<AtomicUsize>,
    connect: Box<dyn AnyConnect>,
    pub(in crate::blocking) clock: Clock,
}

pub(in crate::blocking) struct ThreadsState {
    pub(in crate::blocking) router: Router,
    /// The connection, once the session may use it.
    pub(super) connection: Option<ThreadConnection>,
    /// The threads that read from it or could.
    pub(super) readers: Readers,
    /// When the timer thread is due, if there is one.
    pub(in crate::blocking) timer_thread_due: Option<Instant>,
    /// The thread that ran the last callbacks, if it waits for more.
    idle_callback_thread: Option<Thread>,
    /// Wakes the threads that wait for another state.
    pub(in crate::blocking) observers: Vec<Waker>,
    /// Counts the requested and abandoned connections: results of older attempts are discarded.
    attempt: u64,
    /// An attempt for which there was no thread, and which the keeper makes instead.
    pub(super) keepers_attempt: Option<ThreadAttempt>,
    /// Servers that threads are connecting to. Each thread has the other handle.
    connecting: Vec<Arc<ServerAddress>>,
    /// Whether a thread writes what the connection had no room for.
    is_pushing: bool,
}

impl Effects {
    /// Returns whether the next thread that unlocks the session runs deferred code.
    pub(crate) fn has_deferred(&self) -> bool {
        self.callbacks.is_ready() || self.others.is_ready()
    }

    /// Returns whether the next thread that unlocks the session runs wakers.
    pub(crate) fn has_wakers(&self) -> bool {
        !self.wakers.is_empty()
    }
}

impl HasEffects for ThreadsState {
    fn effects(&mut self) -> &mut Effects {
        self.router.dispatcher.effects()
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").finish_non_exhaustive()
    }
}

impl Threads {
    pub(in crate::blocking) fn new(connect: impl Connect, clock: Clock, router: Router) -> Self {
        let futures = Arc::new(AtomicUsize::new(0));
        Self {
            inner: ThreadsState::new(router, futures.clone()),
            process: ClientProcess::new(),
            futures,
            connect: Box::new(connect),
            clock,
        }
    }

    /// Locks the session, or in a forked process one that has ended.
    pub(in crate::blocking) fn lock(&self) -> EffectsGuard<'_, ThreadsState> {
        self.process
            .state(&self.inner, |ended| ThreadsState::new(ended, self.futures.clone()))
            .lock()
    }

    /// Locks the session in a thread that was in its process before: one of the session, or one that
    /// has called [`lock`](Self::lock) in the same call. It saves a system call.
    pub(in crate::blocking) fn relock(&self) -> EffectsGuard<'_, ThreadsState> {
        self.inner.lock()
    }

    /// Returns a number that changes whenever wakers are about to run.
    pub(in crate::blocking) fn wakes(&self) -> usize {
        self.inner.wakes()
    }

    /// Calls `submit`, and sends the request that it submits, unless it fails.
    fn send_submitted<R>(
        self: &Arc<Self>,
        submit: impl FnOnce(&mut Router) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut inner = self.lock();
        let alone = inner.router.session().pending() == 0;
        let submitted = submit(&mut inner.router)?;
        inner.send(self, alone);
        Ok(submitted)
    }

    /// Calls `act` with the attached machines, and sends the requests that they submit.
    pub(in crate::blocking) fn with_machines<R>(
        self: &Arc<Self>,
        act: impl FnOnce(&mut ThreadsState, Instant) -> R,
    ) -> R {
        let mut inner = self.lock();
        let acted = act(&mut inner, self.now());
        inner.settle(self);
        acted
    }
}

impl Driver for Threads {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn look(&self, look: &mut dyn FnMut(&mut Router)) {
        look(&mut self.lock().router);
    }

    fn act(self: &Arc<Self>, act: &mut dyn FnMut(&mut Router, Instant)) {
        self.with_machines(|inner, now| act(&mut inner.router, now));
    }

    fn submit(
        self: &Arc<Self>,
        request: &Request<'_>,
        reply: &Receiver<Result<Reply, Error>>,
        end: Option<Instant>,
        watcher: Option<Arc<dyn Watcher>>,
    ) -> Result<(RequestId, bool), Error> {
        let submitted = self.send_submitted(|router| router.submit(request, reply, end, watcher));
        submitted.map(|id| (id, true))
    }

    fn unwatch(self: &Arc<Self>, request: RequestId) -> Option<Arc<dyn Watcher>> {
        self.send_submitted(|router| router.dispatcher.unwatch(request)).ok()
    }

    fn attach(self: &Arc<Self>, machine: Box<dyn Attached>) -> Attachment {
        let key = self.with_machines(|inner, now| inner.router.dispatcher.attach(now, machine));
        Attachment::new(self.clone(), key)
    }

    /// The session's own thread reads for it, unless the future is polled by a thread that reads.
    fn future_waits(self: &Arc<Self>) -> bool {
        if is_in_block_on(self) {
            return false;
        }
        self.futures.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.lock();
        inner.write_soon(self);
        inner.ensure_reader();
        true
    }

    fn future_ends(&self) {
        self.futures.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Commands for Threads {
    fn command(self: Arc<Self>, key: Key, message: &mut dyn Any) -> bool {
        self.with_machines(|inner, now| inner.router.dispatcher.command(now, key, message))
    }

    fn is_forked(&self) -> bool {
        self.process.is_forked()
    }
}

impl ThreadsState {
    fn new(router: Router, futures: Arc<AtomicUsize>) -> EffectsMutex<Self> {
        EffectsMutex::new(Self {
            router,
            connection: None,
            readers: Readers::new(futures),
            timer_thread_due: None,
            idle_callback_thread: None,
            observers: Vec::new(),
            attempt: 0,
            keepers_attempt: None,
            connecting: Vec::new(),
            is_pushing: false,
        })
    }

    /// Carries out the session's outputs after an input or a command.
    pub(in crate::blocking) fn settle(&mut self, shared: &Arc<Threads>) {
        self.exchange(shared);
        self.ensure_reader();
        self.start_timer_thread(shared);
    }

    /// Carries out the session's outputs, on a thread that then reads if no other thread does.
    pub(in crate::blocking) fn exchange(&mut self, shared: &Arc<Threads>) {
        let mut is_settled = false;
        loop {
            self.take_actions(shared);
            self.write_frames(shared);
            self.take_actions(shared);
            // A new state comes alone, and others may follow.
            let (progress, news) = self.router.deliver(|| shared.now());
            if news.is_some() {
                self.router.dispatcher.effects().wakers.extend(self.observers.drain(..));
            }
            if progress {
                continue;
            }
            let has_more = self.connection.as_ref().is_some_and(|connection| connection.has_more);
            if is_settled || has_more || !self.router.dispatcher.is_unsettled() {
                break;
            }
            is_settled = true;
            self.router.dispatcher.settle(shared.now());
        }
        self.start_callbacks(shared);
    }

    /// Runs the callbacks that wait for the unlocked session, in a thread of their own. They may wait
    /// for what this thread does: for its reading, its timers, or the end of its call.
    fn start_callbacks(&mut self, shared: &Arc<Threads>) {
        if !self.effects().callbacks.claim() {
            return;
        }
        if let Some(idle) = self.idle_callback_thread.take() {
            return idle.unpark();
        }
        let theirs = shared.clone();
        let run = move || {
            loop {
                theirs.inner.run_callbacks();
                let mut inner = theirs.lock();
                // Another thread was started meanwhile.
                if inner.idle_callback_thread.is_some() || inner.effects().callbacks.is_running {
                    return;
                }
                inner.idle_callback_thread = Some(thread::current());
                drop(inner);
                thread::park_timeout(CALLBACK_IDLE);
                // If it was taken, callbacks are claimed for this thread.
                if theirs.lock().idle_callback_thread.take().is_some() {
                    return;
                }
            }
        };
        // If that fails, this thread runs them.
        let started = spawn("zookeeper-callbacks", Box::new(run));
        self.effects().callbacks.is_running = started.is_ok();
    }

    /// Sends a request that was just submitted. `alone` means that no other request is pending.
    ///
    /// Otherwise the next thread that waits, or else the keeper, writes several requests together.
    pub(in crate::blocking) fn send(&mut self, shared: &Arc<Threads>, alone: bool) {
        if alone {
            self.settle(shared);
        } else if !self.readers.is_keeper_near() {
            self.write_soon(shared);
        }
    }

    /// Makes the keeper write all pending requests together, if it can.
    pub(in crate::blocking) fn write_soon(&mut self, shared: &Arc<Threads>) {
        self.readers.expect_wait();
        let session = self.router.session();
        if self.connection.as_ref().is_some_and(|connection| connection.has_to_write(session))
            && !self.readers.call_keeper(&mut self.router.dispatcher.effects().wakers)
        {
            self.settle(shared);
        }
    }

    fn take_actions(&mut self, shared: &Arc<Threads>) {
        while let Some(action) = self.router.session_mut().poll_action() {
            match action {
                Action::Disconnect => self.cut_connection(),
                Action::Connect(server) => self.connect(shared, server),
                Action::Probe(server) => self.probe(shared, server),
            }
        }
    }

    /// Connects to a server, in a temporary thread. If the system has none, the keeper connects, except
    /// with a SASL mechanism: that has no time limit.
    pub(in crate::blocking) fn connect(&mut self, shared: &Arc<Threads>, server: usize) {
        self.cut_connection();
        let Some(server) = self.router.servers.get(server).cloned() else {
            return self.connection_failed(shared, Some(io::ErrorKind::NotFound.into()));
        };
        let due = self.router.session().connect_deadline().unwrap_or(Instant::END);
        let connect_timeout = (due - shared.now()).clamp(MIN_WAIT, MAX_WAIT);
        let mechanism = self.router.mechanism().cloned().filter(|_| AUTHENTICATION);
        let is_limited = mechanism.is_none();
        let (attempt, servers) = (self.attempt, self.router.servers.clone());
        let then: AttemptEnd = Box::new(move |shared, server, made| {
            let made = made.and_then(|connection| {
                let begun = mechanism.map(|mechanism| mechanism.begin(server)).transpose();
                Ok((connection, begun.map_err(io::Error::other)?))
            });
            let addresses = shared.connect.count_addresses(&servers);
            let mut inner = shared.lock();
            if Arc::ptr_eq(&servers, &inner.router.servers) {
                inner.router.session_mut().set_addresses(&addresses);
            }
            if inner.attempt == attempt {
                // The attempt may have failed because its time has passed.
                inner.router.dispatcher.handle_timeout(shared.now());
                inner.take_actions(shared);
                if inner.attempt == attempt {
                    inner.connected(shared, made);
                }
                inner.settle(shared);
            }
        });
        let prepared = self.prepare_attempt(shared, server, then);
        let started = prepared.and_then(|attempt| match start(attempt, connect_timeout) {
            Err((_, Some(attempt))) if is_limited => {
                self.keepers_attempt = Some(attempt);
                self.readers.call_keeper(&mut self.router.dispatcher.effects().wakers);
                Ok(())
            }
            started => started.map_err(|(error, _)| error),
        });
        if let Err(error) = started {
            self.connection_failed(shared, Some(error));
        }
    }

    /// Takes the attempt for which there was no thread, with its time limit. The keeper handles nothing
    /// else meanwhile, so it ends by the end of the lease.
    pub(super) fn take_keepers_attempt(
        &mut self,
        now: Instant,
    ) -> Option<(ThreadAttempt, Duration)> {
        let attempt = self.keepers_attempt.take()?;
        let session = self.router.session();
        let lease = session.lease().filter(|lease| *lease > now);
        let due = earlier(session.connect_deadline(), lease).unwrap_or(Instant::END);
        Some((attempt, (due - now).clamp(MIN_WAIT, MAX_WAIT)))
    }

    fn connected(
        &mut self,
        shared: &Threads,
        made: io::Result<(Arc<dyn Transport>, Option<BegunExchange>)>,
    ) {
        match made {
            Ok((connection, begun)) => {
                self.router.error = None;
                self.connection = Some(ThreadConnection::new(connection, self.router.session()));
                self.router.handle_connected(shared.now(), begun);
            }
            Err(error) => self.connection_failed(shared, Some(error)),
        }
    }

    /// Asks a server whether it can write, in a temporary thread.
    pub(in crate::blocking) fn probe(&mut self, shared: &Arc<Threads>, server: usize) {
        let Some(server) = self.router.servers.get(server).cloned() else {
            return;
        };
        let then: AttemptEnd = Box::new(|shared, server, made| {
            let asked = made.and_then(|connection| probe::ask(&*connection, PROBE_TIMEOUT));
            let read_write = asked.unwrap_or(false);
            let mut inner = shared.lock();
            // The list may have changed since it was asked.
            if let Some(server) = inner.router.servers.iter().position(|known| known == server) {
                inner.router.session_mut().handle_probed(shared.now(), server, read_write);
                inner.settle(shared);
            }
        });
        let prepared = self.prepare_attempt(shared, server, then);
        // A server that cannot be asked is asked again later.
        let _ = prepared.map(|attempt| start(attempt, PROBE_TIMEOUT));
    }

    /// Prepares an attempt to connect to a server, which then calls `then`.
    fn prepare_attempt(
        &mut self,
        shared: &Arc<Threads>,
        server: ServerAddress,
        then: AttemptEnd,
    ) -> io::Result<ThreadAttempt> {
        self.connecting.retain(|server| Arc::strong_count(server) > 1);
        if self.connecting.iter().filter(|known| ***known == server).count() >= MOST_ATTEMPTS {
            let error = "earlier attempts to connect to the server have not ended";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, error));
        }
        let (server, theirs) = (Arc::new(server), shared.clone());
        self.connecting.push(server.clone());
        let (servers, served) = (self.router.servers.clone(), self.router.served.take());
        Ok(Box::new(move |connect_timeout| {
            if let Some(served) = served {
                theirs.connect.note_served(&served);
            }
            // Begins to look up the names of the other servers.
            theirs.connect.count_addresses(&servers);
            then(&theirs, &server, theirs.connect.make(&server, connect_timeout));
        }))
    }

    /// Cuts the connection, if any, which wakes the thread that reads from it.
    pub(in crate::blocking) fn cut_connection(&mut self) {
        self.attempt += 1;
        self.keepers_attempt = None;
        if let Some(connection) = self.connection.take() {
            connection.transport.shutdown();
        }
    }

    fn write_frames(&mut self, shared: &Arc<Threads>) {
        let mut begun = None;
        while let Some(connection) = &mut self.connection
            && connection.has_to_write(self.router.dispatcher.session())
        {
            let (now, output) = (shared.now(), self.router.dispatcher.session().output());
            let begun = *begun.get_or_insert(now);
            let written = if connection.is_unflushed {
                connection.transport.flush().map(|()| None)
            } else {
                connection.transport.write(output).map(Some)
            };
            match written {
                Ok(None) => connection.is_unflushed = false,
                Ok(Some(0)) => {
                    self.connection_failed(shared, Some(io::ErrorKind::WriteZero.into()));
                }
                Ok(Some(count)) => {
                    self.router.session_mut().handle_sent(now, count);
                    connection.is_unflushed = true;
                    // The peer may drain the transport as fast as this fills it.
                    if now > begun + MAX_WRITE {
                        self.push_later(shared);
                        if self.is_pushing {
                            return;
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return self.push_later(shared),
                Err(error) => self.connection_failed(shared, Some(error)),
            }
        }
    }

    fn push_later(&mut self, shared: &Arc<Threads>) {
        if self.is_pushing {
            return;
        }
        let theirs = shared.clone();
        let push = move || {
            loop {
                thread::sleep(PUSH_INTERVAL);
                let mut inner = theirs.lock();
                inner.settle(&theirs);
                let session = inner.router.session();
                if !inner
                    .connection
                    .as_ref()
                    .is_some_and(|connection| connection.has_to_write(session))
                {
                    inner.is_pushing = false;
                    return;
                }
            }
        };
        // If that fails, the rest is sent with the next write.
        let started = spawn("zookeeper-push", Box::new(push));
        self.is_pushing = started.is_ok();
    }

    pub(in crate::blocking) fn connection_failed(
        &mut self,
        shared: &Threads,
        error: Option<io::Error>,
    ) {
        self.cut_connection();
        self.router.error = error;
        self.router.session_mut().handle_disconnected(shared.now());
    }
}

/// Makes an attempt in a temporary thread. Returns it if the system has none.
fn start(
    attempt: ThreadAttempt,
    timeout: Duration,
) -> Result<(), (io::Error, Option<ThreadAttempt>)> {
    // A thread that is not started drops what it would run.
    let attempt = Arc::new(Mutex::new(Some(attempt)));
    let take = |attempt: &Mutex<Option<ThreadAttempt>>| {
        attempt.lock().unwrap_or_else(PoisonError::into_inner).take()
    };
    let theirs = attempt.clone();
    let run = move || take(&theirs).into_iter().for_each(|attempt| attempt(timeout));
    spawn("zookeeper-connect", Box::new(run)).map_err(|error| (error, take(&attempt)))
}
