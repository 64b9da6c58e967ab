//! Joins a [`Session`] with a socket, a clock and its callers. Decides nothing.

mod connect;
mod probe;
mod reach;
mod shared;
mod trace;
mod wire;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use std::io;

use tokio::time::Sleep;

pub use self::connect::{Connect, TcpConnect, Transport};
use self::reach::Reach;
pub(crate) use self::shared::{Answers, Inner, Line, Shared};
use self::wire::Wire;
use crate::connect_string::Member;
use crate::session::{Action, State};

/// The task behind a client. It ends when the session does.
pub(crate) struct Driver<C: Connect> {
    shared: Arc<Shared>,
    reach: Reach<C>,
    max_reply: usize,
    sleep: Pin<Box<Sleep>>,
    /// The newest state, if it is still to be published.
    news: Option<State>,
    /// What is still to be reported.
    reports: Vec<trace::Report>,
    /// Whether the runtime was given a turn to find what has arrived.
    has_yielded: bool,
}

impl<C: Connect> Driver<C> {
    pub(crate) fn new(shared: Arc<Shared>, connect: C, max_reply: usize) -> Self {
        Self {
            shared,
            reach: Reach::new(connect),
            max_reply,
            sleep: Box::pin(tokio::time::sleep(core::time::Duration::ZERO)),
            news: None,
            reports: Vec::new(),
            has_yielded: false,
        }
    }

    fn run_actions(&mut self, inner: &mut Inner) {
        while let Some(action) = inner.hub.session_mut().poll_action() {
            // The session knows members by their places in this list.
            let member = |member: usize| inner.hub.members.get(member).cloned();
            match action {
                Action::Connect(wanted) => {
                    let member = member(wanted);
                    inner.hub.error = None;
                    self.replace_link(inner, member);
                }
                Action::Disconnect => self.replace_link(inner, None),
                Action::Probe(wanted) => self.reach.probe(member(wanted)),
            }
        }
    }

    fn replace_link(&mut self, inner: &mut Inner, member: Option<Member>) {
        self.reach.give_up(inner.wire.take());
        self.reach.connect_to(member);
        self.reach.probe(None);
    }

    fn link_failed(&mut self, inner: &mut Inner, error: Option<io::Error>) {
        self.replace_link(inner, None);
        inner.hub.error = error;
        let now = inner.clock.now();
        inner.hub.session_mut().handle_disconnected(now);
    }

    fn finish_connecting(&mut self, inner: &mut Inner) -> bool {
        match self.reach.take_made() {
            None => return false,
            Some(Ok(transport)) => {
                inner.wire = Some(Wire::new(transport, self.max_reply));
                let now = inner.clock.now();
                inner.hub.session_mut().handle_connected(now);
            }
            Some(Err(error)) => self.link_failed(inner, Some(error)),
        }
        true
    }

    fn finish_probing(&mut self, inner: &mut Inner) -> bool {
        let Some((member, read_write)) = self.reach.take_probed() else {
            return false;
        };
        // The list may have changed since it was asked.
        if let Some(member) = inner.hub.members.iter().position(|known| *known == member) {
            let now = inner.clock.now();
            inner.hub.session_mut().handle_probed(now, member, read_write);
        }
        true
    }

    fn read_frames(&mut self, inner: &mut Inner, cx: &mut Context<'_>) -> bool {
        let Some(wire) = &mut inner.wire else {
            return false;
        };
        match wire.read(inner.hub.session_mut(), &inner.clock, cx) {
            Poll::Pending => return false,
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => self.link_failed(inner, error),
        }
        true
    }

    /// Says whether writing has failed, be it here or when a caller did it.
    fn write_frames(&mut self, inner: &mut Inner, cx: &mut Context<'_>) -> bool {
        let Some(wire) = &mut inner.wire else {
            return false;
        };
        if wire.has_to_write(inner.hub.session()) {
            wire.write(inner.hub.session_mut(), &inner.clock, cx);
        }
        let failure = wire.take_failure();
        let failed = failure.is_some();
        if failed {
            self.link_failed(inner, failure);
        }
        failed
    }

    fn fire_timers(&mut self, inner: &mut Inner, cx: &mut Context<'_>) -> bool {
        if let Some(due) = inner.due_before_alarm() {
            self.sleep.as_mut().reset(inner.clock.local_instant(due).into());
            inner.alarm = Some(due);
        }
        if inner.alarm.is_none() {
            return false;
        }
        // It may have ended, and yet say that it has not, to a task that has had its turn.
        if !self.sleep.is_elapsed() && self.sleep.as_mut().poll(cx).is_pending() {
            return false;
        }
        inner.alarm = None;
        let now = inner.clock.now();
        inner.hub.dispatcher.handle_timeout(now);
        true
    }

    /// Stops at a new state: it must be published before what comes behind it.
    fn deliver_events(&mut self, inner: &mut Inner) -> bool {
        let mut progress = false;
        let unsent = inner.hub.session().output().len();
        let now = inner.now_for_machines();
        while self.news.is_none()
            && let Some(news) = inner.hub.tell_next(now)
        {
            progress = true;
            self.news = news;
        }
        inner.hub.tell_of_room();
        if !inner.hub.reports.is_empty() {
            self.reports.append(&mut inner.hub.reports);
        }
        // Delivering to a machine is seen by what it has submitted.
        progress || inner.hub.session().output().len() > unsent
    }

    /// Has the session and the transport exchange what they can.
    fn exchange(&mut self, inner: &mut Inner, cx: &mut Context<'_>) {
        let mut progress = true;
        while progress && self.news.is_none() {
            // Before the link is used again: the session may have given it up.
            self.run_actions(inner);
            progress = self.finish_connecting(inner);
            progress |= self.finish_probing(inner);
            progress |= self.read_frames(inner, cx);
            progress |= self.write_frames(inner, cx);
            // Behind what may have moved the deadlines.
            progress = progress || self.fire_timers(inner, cx);
            progress |= self.deliver_events(inner);
        }
    }

    /// Does, without the lock, what runs the user's code: tells the newest state, since whoever
    /// looks at a state may wait for that one, and then reports.
    fn publish(&mut self) {
        if let Some(state) = self.news.take() {
            // It is told anew when it is worth something else, which is no news to observers.
            if self.shared.states.send_replace(state) != state {
                self.reports.push(trace::Report::state(state));
            }
        }
        if !self.reports.is_empty() {
            self.reports.drain(..).for_each(trace::Report::emit);
        }
    }
}

impl<C: Connect> Future for Driver<C> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let shared = this.shared.clone();
        loop {
            this.reach.poll(cx);
            let mut inner = shared.lock();
            this.exchange(&mut inner, cx);
            let mut has_work = this.news.is_some() || this.reach.has_work();
            if !has_work && inner.hub.dispatcher.is_unsettled() {
                if core::mem::replace(&mut this.has_yielded, true) {
                    this.has_yielded = false;
                    let now = inner.clock.now();
                    inner.hub.dispatcher.settle(now);
                    has_work = true;
                } else {
                    // A short read makes tokio think that nothing more is there. The runtime finds out
                    // by a turn of its own, and wakes this task behind it.
                    let _ = pin!(tokio::task::yield_now()).poll(cx);
                }
            }
            let has_ended = matches!(inner.hub.session().state(), State::Ended(_));
            if !has_work && !has_ended {
                inner.driver_sleeps(cx.waker());
            }
            drop(inner);
            this.publish();
            if !has_work {
                return if has_ended { Poll::Ready(()) } else { Poll::Pending };
            }
        }
    }
}

impl<C: Connect> Drop for Driver<C> {
    /// The session is over, or the runtime is: whoever still waits must be told.
    fn drop(&mut self) {
        let shared = self.shared.clone();
        let mut inner = shared.lock();
        inner.hub.session_mut().close();
        let now = inner.clock.now();
        inner.hub.session_mut().handle_disconnected(now);
        inner.driver_sleeps(Waker::noop());
        let wire = inner.wire.take();
        drop(inner);
        drop(wire);
        while self.deliver_events(&mut shared.lock()) {
            self.publish();
        }
    }
}

/// A connection future or a transport is only ever polled in place behind its own pin.
impl<C: Connect> Unpin for Driver<C> {}
