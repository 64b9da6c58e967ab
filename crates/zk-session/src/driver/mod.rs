//! Joins a [`Session`] with a socket, a clock and its callers. Decides nothing.

mod connect;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use tokio::io::AsyncWrite as _;
use tokio::sync::{oneshot, watch};
use tokio::time::Sleep;
use zk_proto::frame;

pub use self::connect::{Connect, TcpConnect, Transport};
use crate::connect_string::Member;
use crate::error::Error;
use crate::session::{Action, Cause, Event, Reply, RequestId, Session, State, WatchedEvent};
use crate::time::Instant;

/// Room made for each read. Frames that are longer grow the buffer as they arrive.
const READ: usize = 8 * 1024;

pub(crate) type Answers = oneshot::Sender<Result<Reply, Error>>;

/// What the driver shares with the handles of its client.
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    pub(crate) members: Vec<Member>,
    pub(crate) states: watch::Sender<State>,
    start: tokio::time::Instant,
}

pub(crate) struct Inner {
    pub(crate) session: Session<Answers>,
    pub(crate) watches: HashMap<RequestId, oneshot::Sender<WatchedEvent>>,
    pub(crate) last_failure: Option<Failure>,
    driver: Option<Waker>,
}

/// Why a member could not be used.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) member: usize,
    cause: Cause,
    error: Option<io::Error>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.error, self.cause) {
            (Some(error), Cause::Transport) => write!(f, "{error}"),
            (_, cause) => write!(f, "{cause}"),
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("members", &self.members).finish_non_exhaustive()
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
                session,
                watches: HashMap::new(),
                last_failure: None,
                driver: None,
            }),
            members,
            start: tokio::time::Instant::now(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it holds the lock; if something did, the session is still whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        Instant::after_start(self.start.elapsed())
    }

    pub(crate) fn std_instant(&self, instant: Instant) -> tokio::time::Instant {
        self.start + instant.since_start()
    }
}

impl Inner {
    /// Has the driver look at the session again, after a command.
    pub(crate) fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}

/// The task behind a client. It ends when the session does.
pub(crate) struct Driver<C: Connect> {
    shared: Arc<Shared>,
    connect: C,
    link: Link<C::Transport>,
    inbox: BytesMut,
    max_reply: usize,
    sleep: Pin<Box<Sleep>>,
    /// When `sleep` ends, if it was not found to have ended.
    alarm: Option<Instant>,
    /// What the transport itself said when it failed.
    error: Option<io::Error>,
    /// The newest state, if it is still to be published.
    news: Option<State>,
}

enum Link<T> {
    Down,
    Connecting(Pin<Box<dyn Future<Output = io::Result<T>> + Send>>),
    Up { transport: T, unflushed: bool },
}

impl<C: Connect> Driver<C> {
    pub(crate) fn new(shared: Arc<Shared>, connect: C, max_reply: usize) -> Self {
        Self {
            shared,
            connect,
            link: Link::Down,
            inbox: BytesMut::new(),
            max_reply,
            sleep: Box::pin(tokio::time::sleep(core::time::Duration::ZERO)),
            alarm: None,
            error: None,
            news: None,
        }
    }

    fn run_actions(&mut self, inner: &mut Inner) -> bool {
        let mut progress = false;
        while let Some(action) = inner.session.poll_action() {
            progress = true;
            match action {
                Action::Connect(member) => {
                    self.error = None;
                    self.inbox.clear();
                    let attempt = self.connect.connect(&self.shared.members[member]);
                    self.link = Link::Connecting(attempt);
                }
                Action::Disconnect => {
                    self.inbox.clear();
                    self.link = Link::Down;
                }
                // Clients do not ask for read-only members yet.
                Action::Probe(_) => {}
            }
        }
        progress
    }

    fn finish_connecting(&mut self, inner: &mut Inner, cx: &mut Context<'_>) -> bool {
        let Link::Connecting(future) = &mut self.link else {
            return false;
        };
        match future.as_mut().poll(cx) {
            Poll::Pending => return false,
            Poll::Ready(Ok(transport)) => {
                self.link = Link::Up { transport, unflushed: false };
                inner.session.handle_connected(self.shared.now());
            }
            Poll::Ready(Err(error)) => self.link_failed(inner, Some(error)),
        }
        true
    }

    fn read_frames(&mut self, inner: &mut Inner, cx: &mut Context<'_>) -> bool {
        let Link::Up { transport, .. } = &mut self.link else {
            return false;
        };
        self.inbox.reserve(READ);
        match tokio_util::io::poll_read_buf(Pin::new(transport), cx, &mut self.inbox) {
            Poll::Pending => return false,
            Poll::Ready(Ok(0)) => self.link_failed(inner, None),
            Poll::Ready(Err(error)) => self.link_failed(inner, Some(error)),
            Poll::Ready(Ok(_)) => {
                let now = self.shared.now();
                loop {
                    match frame::split_bytes(&mut self.inbox, self.max_reply) {
                        Ok(Some(payload)) => inner.session.handle_frame(now, payload),
                        Ok(None) => break,
                        Err(error) => {
                            inner.session.handle_bad_frame(now, error);
                            break;
                        }
                    }
                }
            }
        }
        true
    }

    fn fire_timers(&mut self, inner: &mut Inner, cx: &mut Context<'_>) -> bool {
        let Some(due) = inner.session.poll_timeout() else {
            return false;
        };
        // Deadlines mostly move away, which is noticed when the alarm goes off too early; so the
        // timer is not touched for every frame.
        if self.alarm.is_none_or(|alarm| due < alarm) {
            self.sleep.as_mut().reset(self.shared.std_instant(due));
            self.alarm = Some(due);
        }
        if self.sleep.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.alarm = None;
        inner.session.handle_timeout(self.shared.now());
        true
    }

    fn write_frames(&mut self, inner: &mut Inner, cx: &mut Context<'_>) -> bool {
        let Link::Up { transport, unflushed } = &mut self.link else {
            return false;
        };
        let mut progress = false;
        let result = loop {
            let (now, output) = (self.shared.now(), inner.session.output());
            if output.is_empty() {
                break Ok(());
            }
            match Pin::new(&mut *transport).poll_write(cx, output) {
                Poll::Pending => break Ok(()),
                Poll::Ready(Ok(0)) => break Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Err(error)) => break Err(error),
                Poll::Ready(Ok(count)) => {
                    inner.session.handle_sent(now, count);
                    *unflushed = true;
                    progress = true;
                }
            }
        };
        let result = match result {
            Ok(()) if *unflushed => match Pin::new(transport).poll_flush(cx) {
                Poll::Pending => Ok(()),
                Poll::Ready(flushed) => {
                    *unflushed = false;
                    flushed
                }
            },
            result => result,
        };
        if let Err(error) = result {
            self.link_failed(inner, Some(error));
            return true;
        }
        progress
    }

    fn link_failed(&mut self, inner: &mut Inner, error: Option<io::Error>) {
        self.link = Link::Down;
        self.error = error;
        inner.session.handle_disconnected(self.shared.now());
    }

    /// Stops at a new state: it must be published before what comes behind it.
    fn deliver_events(&mut self, inner: &mut Inner) -> bool {
        let mut progress = false;
        while self.news.is_none()
            && let Some(event) = inner.session.poll_event()
        {
            progress = true;
            match event {
                Event::State(state) => {
                    if matches!(state, State::Ended(_)) {
                        inner.watches.clear();
                    }
                    self.news = Some(state);
                }
                Event::Disconnected { member, cause } => {
                    let error = self.error.take();
                    inner.last_failure = Some(Failure { member, cause, error });
                }
                // A caller who has gone away does not want the answer.
                Event::Reply { token, result } => drop(token.send(result)),
                Event::Watch { requests, event, .. } => {
                    for request in requests {
                        if let Some(watch) = inner.watches.remove(&request) {
                            drop(watch.send(event.clone()));
                        }
                    }
                }
                // Of what clients do not ask for yet.
                Event::Gap { .. } | Event::WatchLost { .. } | Event::Room => {}
            }
        }
        progress
    }

    /// Does all that can be done now, or before a new state is published.
    fn run(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let shared = self.shared.clone();
        let mut inner = shared.lock();
        let inner = &mut *inner;
        loop {
            let mut progress = false;
            progress |= self.finish_connecting(inner, cx);
            progress |= self.read_frames(inner, cx);
            progress |= self.fire_timers(inner, cx);
            // Before the link is used again: the session may have given it up.
            progress |= self.run_actions(inner);
            progress |= self.write_frames(inner, cx);
            progress |= self.deliver_events(inner);
            if self.news.is_some() {
                return Poll::Pending;
            }
            if !progress {
                break;
            }
        }
        if matches!(inner.session.state(), State::Ended(_)) {
            return Poll::Ready(());
        }
        inner.driver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Tells the newest state, without the lock: whoever looks at a state may wait for that one.
    /// Says whether there was one.
    fn publish_state(&mut self) -> bool {
        let news = self.news.take();
        news.map(|state| self.shared.states.send_replace(state)).is_some()
    }
}

impl<C: Connect> Future for Driver<C> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        loop {
            let polled = this.run(cx);
            if !this.publish_state() {
                return polled;
            }
        }
    }
}

impl<C: Connect> Drop for Driver<C> {
    /// The session is over, or the runtime is: whoever still waits must be told.
    fn drop(&mut self) {
        let shared = self.shared.clone();
        let mut inner = shared.lock();
        inner.session.close();
        inner.session.handle_disconnected(shared.now());
        drop(inner);
        while self.deliver_events(&mut shared.lock()) {
            self.publish_state();
        }
    }
}

/// A connection future or a transport is only ever polled in place behind its own pin.
impl<C: Connect> Unpin for Driver<C> {}
