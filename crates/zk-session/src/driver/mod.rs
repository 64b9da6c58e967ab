//! Joins a [`Session`] with a socket, a clock and its callers. Decides nothing.

mod connect;
mod probe;
mod shared;
mod trace;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;

use bytes::BytesMut;
use tokio::io::AsyncWrite as _;
use tokio::time::Sleep;
use zk_proto::frame;

pub use self::connect::{Connect, TcpConnect, Transport};
use self::shared::failure;
pub(crate) use self::shared::{Answers, Inner, Shared};
use crate::connect_string::Member;
use crate::error::Error;
use crate::face::Notices;
use crate::session::{Action, Event, State};
use crate::time::Instant;

/// Room made for each read. Frames that are longer grow the buffer as they arrive.
const READ: usize = 8 * 1024;

/// The task behind a client. It ends when the session does.
pub(crate) struct Driver<C: Connect> {
    shared: Arc<Shared>,
    connect: C,
    link: Link<C::Transport>,
    probe: Option<Probe>,
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

/// A member that is being asked whether it can write.
struct Probe {
    member: Member,
    answer: Pin<Box<dyn Future<Output = bool> + Send>>,
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
            probe: None,
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
                    self.probe = None;
                    // The session knows members by their places in this list.
                    if let Some(member) = inner.members.get(member) {
                        self.link = Link::Connecting(self.connect.connect(member));
                    }
                }
                Action::Disconnect => {
                    self.inbox.clear();
                    self.link = Link::Down;
                    self.probe = None;
                }
                Action::Probe(member) => {
                    if let Some(asked) = inner.members.get(member) {
                        let answer = probe::ask(self.connect.connect(asked));
                        self.probe = Some(Probe { member: asked.clone(), answer });
                    }
                }
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

    fn finish_probing(&mut self, inner: &mut Inner, cx: &mut Context<'_>) -> bool {
        let Some(Probe { member, answer }) = &mut self.probe else {
            return false;
        };
        let Poll::Ready(read_write) = answer.as_mut().poll(cx) else {
            return false;
        };
        // The list may have changed since it was asked.
        if let Some(member) = inner.members.iter().position(|known| known == member) {
            inner.session.handle_probed(self.shared.now(), member, read_write);
        }
        self.probe = None;
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
                    if let Some(ended) = inner.ended() {
                        inner.end_watches(&ended);
                    }
                    trace::state(state);
                    self.news = Some(state);
                }
                Event::Disconnected { member, cause } => {
                    let error = self.error.take();
                    if let Some(member) = inner.members.get(member) {
                        let failure = failure(member, cause, error);
                        trace::failure(&failure);
                        inner.last_failure = Some(failure);
                    }
                }
                Event::Reply { token, result } => token.give(result),
                Event::Watch { requests, persistent, event } => {
                    inner.tell(&persistent, |notices| notices.push_event(event.clone()));
                    for request in requests {
                        if let Some(watch) = inner.watches.remove(&request) {
                            drop(watch.send(event.clone()));
                        }
                    }
                }
                Event::Gap { requests } => inner.tell(&requests, Notices::push_gap),
                Event::WatchLost { requests, code } => {
                    inner.tell(&requests, |notices| notices.end(Error::Server(code)));
                }
                // Those who wait for room have not tried before; no exchange is asked for.
                Event::Room | Event::Authenticate { .. } => {}
            }
        }
        inner.tell_of_room();
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
            progress |= self.finish_probing(inner, cx);
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
