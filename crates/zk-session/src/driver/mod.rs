//! Joins a [`Session`] with a socket, a clock and its callers. Decides nothing.

mod connect;
mod probe;
mod shared;
mod trace;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::mem;
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
    /// What was given up, and is to be dropped without the lock.
    given_up: Vec<Box<dyn Send>>,
    /// The newest state, if it is still to be published.
    news: Option<State>,
}

/// A member that is to be asked, is being asked, or was asked whether it can write.
struct Probe {
    member: Member,
    state: Probing,
}

enum Probing {
    Wanted,
    Asking(Pin<Box<dyn Future<Output = bool> + Send>>),
    Answered(bool),
}

enum Link<T> {
    Down,
    Wanted(Member),
    Connecting(Pin<Box<dyn Future<Output = io::Result<T>> + Send>>),
    Made(io::Result<T>),
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
            given_up: Vec::new(),
            news: None,
        }
    }

    /// Makes connections, and drops what was given up. It is done without the lock, for a
    /// [`Connect`] may use the client.
    fn reach_members(&mut self, cx: &mut Context<'_>) {
        self.given_up.clear();
        if let Link::Wanted(member) = &self.link {
            self.link = Link::Connecting(self.connect.connect(member));
        }
        if let Link::Connecting(connecting) = &mut self.link
            && let Poll::Ready(made) = connecting.as_mut().poll(cx)
        {
            self.link = Link::Made(made);
        }
        let Some(Probe { member, state }) = &mut self.probe else {
            return;
        };
        if let Probing::Wanted = state {
            *state = Probing::Asking(probe::ask(self.connect.connect(member)));
        }
        if let Probing::Asking(answer) = state
            && let Poll::Ready(read_write) = answer.as_mut().poll(cx)
        {
            *state = Probing::Answered(read_write);
        }
    }

    fn has_members_to_reach(&self) -> bool {
        matches!(self.link, Link::Wanted(_))
            || matches!(self.probe, Some(Probe { state: Probing::Wanted, .. }))
            || !self.given_up.is_empty()
    }

    fn run_actions(&mut self, inner: &mut Inner) {
        while let Some(action) = inner.session.poll_action() {
            // The session knows members by their places in this list.
            let member = |member: usize| inner.members.get(member).cloned();
            match action {
                Action::Connect(wanted) => {
                    self.error = None;
                    self.replace_link(member(wanted).map_or(Link::Down, Link::Wanted));
                }
                Action::Disconnect => self.replace_link(Link::Down),
                Action::Probe(wanted) => {
                    let probe = |member| Probe { member, state: Probing::Wanted };
                    self.replace_probe(member(wanted).map(probe));
                }
            }
        }
    }

    fn replace_link(&mut self, link: Link<C::Transport>) {
        self.inbox.clear();
        self.replace_probe(None);
        let before = mem::replace(&mut self.link, link);
        if !matches!(before, Link::Down) {
            self.given_up.push(Box::new(before));
        }
    }

    fn replace_probe(&mut self, probe: Option<Probe>) {
        if let Some(before) = mem::replace(&mut self.probe, probe) {
            self.given_up.push(Box::new(before));
        }
    }

    fn finish_connecting(&mut self, inner: &mut Inner) -> bool {
        let Link::Made(made) = &mut self.link else {
            return false;
        };
        match mem::replace(made, Err(io::ErrorKind::NotConnected.into())) {
            Ok(transport) => {
                self.link = Link::Up { transport, unflushed: false };
                inner.session.handle_connected(self.shared.now());
            }
            Err(error) => self.link_failed(inner, Some(error)),
        }
        true
    }

    fn finish_probing(&mut self, inner: &mut Inner) -> bool {
        let Some(Probe { member, state: Probing::Answered(read_write) }) = &self.probe else {
            return false;
        };
        // The list may have changed since it was asked.
        if let Some(member) = inner.members.iter().position(|known| known == member) {
            inner.session.handle_probed(self.shared.now(), member, *read_write);
        }
        self.replace_probe(None);
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
            let output = inner.session.output();
            if output.is_empty() {
                break Ok(());
            }
            let now = self.shared.now();
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
        self.replace_link(Link::Down);
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
        loop {
            self.reach_members(cx);
            let mut inner = shared.lock();
            self.exchange(&mut inner, cx);
            if self.news.is_some() {
                return Poll::Pending;
            }
            if self.has_members_to_reach() {
                continue;
            }
            if matches!(inner.session.state(), State::Ended(_)) {
                return Poll::Ready(());
            }
            inner.driver = Some(cx.waker().clone());
            return Poll::Pending;
        }
    }

    /// Has the session and the transport exchange what they can.
    fn exchange(&mut self, inner: &mut Inner, cx: &mut Context<'_>) {
        let mut progress = true;
        while progress && self.news.is_none() {
            progress = self.finish_connecting(inner);
            progress |= self.finish_probing(inner);
            progress |= self.read_frames(inner, cx);
            progress |= self.fire_timers(inner, cx);
            // Before the link is used again: the session may have given it up.
            self.run_actions(inner);
            progress |= self.write_frames(inner, cx);
            progress |= self.deliver_events(inner);
        }
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
