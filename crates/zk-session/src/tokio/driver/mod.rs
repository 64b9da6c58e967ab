//! The driver: joins a [`Session`] with a socket, a clock and its callers. It makes no decisions.

mod connect;
mod connector;
mod probe;
mod shared;
mod task_connection;
#[cfg(feature = "tls")]
pub(crate) mod tls;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use std::io;

use tokio_util::io::poll_read_buf;

pub use self::connect::{Connect, TcpConnect, Transport};
use self::connector::Connector;
pub use self::shared::Tokio;
pub(crate) use self::shared::TokioState;
use self::task_connection::TaskConnection;
use crate::client::Driver as _;
use crate::connect_string::ServerAddress;
use crate::session::{Action, State};
use crate::time::Instant;
use crate::tokio::{Sleep, sleep};

/// The task behind a client. It ends when the session does.
pub(crate) struct DriverTask<C: Connect> {
    shared: Arc<Tokio>,
    connector: Connector<C>,
    sleep: Pin<Box<Sleep>>,
    /// The newest state, if it is not published yet.
    pending_state: Option<State>,
    /// Whether the driver has yielded to let the runtime look for received bytes.
    has_yielded: bool,
}

impl<C: Connect> DriverTask<C> {
    pub(crate) fn new(shared: Arc<Tokio>, connect: C) -> Self {
        let mechanism = shared.lock().router.mechanism().cloned();
        Self {
            shared,
            connector: Connector::new(connect, mechanism),
            sleep: Box::pin(sleep(core::time::Duration::ZERO)),
            pending_state: None,
            has_yielded: false,
        }
    }

    fn run_actions(&mut self, inner: &mut TokioState) {
        while let Some(action) = inner.router.session_mut().poll_action() {
            // The session identifies servers by their index in this list.
            let server = |server: usize| inner.router.servers.get(server).cloned();
            match action {
                Action::Connect(wanted) => {
                    let server = server(wanted);
                    inner.router.error = None;
                    self.replace_connection(inner, server);
                    let served = inner.router.served.take();
                    self.connector.set_servers(inner.router.servers.clone(), served);
                }
                Action::Disconnect => self.replace_connection(inner, None),
                Action::Probe(wanted) => self.connector.probe(server(wanted)),
            }
        }
    }

    fn replace_connection(&mut self, inner: &mut TokioState, server: Option<ServerAddress>) {
        self.connector.give_up(inner.connection.take());
        self.connector.connect_to(server);
        self.connector.probe(None);
    }

    fn connection_failed(&mut self, inner: &mut TokioState, error: Option<io::Error>) -> Instant {
        self.replace_connection(inner, None);
        inner.router.error = error;
        let now = inner.clock.now();
        inner.router.session_mut().handle_disconnected(now);
        now
    }

    fn finish_connecting(&mut self, inner: &mut TokioState) -> bool {
        if let Some(addresses) = self.connector.take_addresses(&inner.router.servers) {
            inner.router.session_mut().set_addresses(&addresses);
        }
        match self.connector.take_made() {
            None => return false,
            Some(Ok((transport, begun))) => {
                inner.connection = Some(TaskConnection::new(transport, inner.router.session()));
                let now = inner.clock.now();
                inner.router.handle_connected(now, begun);
            }
            Some(Err(error)) => {
                self.connection_failed(inner, Some(error));
            }
        }
        true
    }

    fn finish_probing(&mut self, inner: &mut TokioState) -> bool {
        let Some((server, read_write)) = self.connector.take_probed() else {
            return false;
        };
        // The list may have changed since it was asked.
        if let Some(server) = inner.router.servers.iter().position(|known| *known == server) {
            let now = inner.clock.now();
            inner.router.session_mut().handle_probed(now, server, read_write);
        }
        true
    }

    /// Reads once. Returns the time behind the read, if there was anything to read.
    fn read_frames(&mut self, inner: &mut TokioState, cx: &mut Context<'_>) -> Option<Instant> {
        let TaskConnection { transport, inbox, .. } = inner.connection.as_mut()?;
        let error = match poll_read_buf(Pin::new(&mut **transport), cx, inbox.buffer()) {
            Poll::Pending => return None,
            Poll::Ready(Ok(0)) => None,
            Poll::Ready(Ok(_)) => {
                let now = inner.clock.now();
                let session = inner.router.session_mut();
                session.handle_bytes(now, &mut inbox.frames, &mut inbox.bytes);
                return Some(now);
            }
            Poll::Ready(Err(error)) => Some(error),
        };
        Some(self.connection_failed(inner, error))
    }

    /// Writes the pending output. Returns the time if this or an earlier write of a caller has
    /// failed.
    fn write_frames(
        &mut self,
        inner: &mut TokioState,
        now: Option<Instant>,
        cx: &mut Context<'_>,
    ) -> Option<Instant> {
        let connection = inner.connection.as_mut()?;
        if connection.has_to_write(inner.router.session()) {
            let now = now.unwrap_or_else(|| inner.clock.now());
            connection.write(inner.router.session_mut(), now, cx);
        }
        let failure = connection.failure.take()?;
        Some(self.connection_failed(inner, Some(failure)))
    }

    fn fire_timers(&mut self, inner: &mut TokioState, cx: &mut Context<'_>) -> bool {
        if let Some(due) = inner.due_before_alarm() {
            let mut at = inner.clock.local_instant(due);
            inner.has_short_alarm = inner.has_lease();
            if inner.has_short_alarm {
                at = at.min(tokio::time::Instant::now().into_std() + inner.clock.max_sleep(true));
            }
            self.sleep.as_mut().reset(at.into());
            inner.alarm = Some(due);
        }
        if inner.alarm.is_none() {
            return false;
        }
        // A timer that has elapsed may still return pending to a task that has used up its budget.
        if !self.sleep.is_elapsed() && self.sleep.as_mut().poll(cx).is_pending() {
            return false;
        }
        inner.alarm = None;
        let now = inner.clock.now();
        inner.router.dispatcher.handle_timeout(now);
        true
    }

    /// Lets the machines settle, once the runtime has looked for received bytes. Returns whether it
    /// has.
    fn settle(&mut self, inner: &mut TokioState, cx: &mut Context<'_>) -> bool {
        if !inner.router.dispatcher.is_unsettled() {
            return false;
        }
        self.has_yielded = !self.has_yielded;
        if self.has_yielded {
            // After a short read, tokio assumes that nothing more has arrived. After a turn of its
            // own the runtime knows, and wakes this task.
            let _ = pin!(tokio::task::yield_now()).poll(cx);
        } else {
            inner.router.dispatcher.settle(inner.clock.now());
        }
        !self.has_yielded
    }

    /// Publishes the newest state, without the lock: that runs wakers.
    fn publish(&mut self) {
        if let Some(state) = self.pending_state.take() {
            self.shared.states.send_replace(state);
        }
    }
}

impl<C: Connect> Future for DriverTask<C> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let shared = this.shared.clone();
        // Once for each poll: a process is not forked in between.
        let session = shared.session();
        loop {
            this.connector.poll(cx);
            let mut guard = session.lock();
            let inner = &mut *guard;
            // Exchanges bytes between the session and the transport, as far as possible.
            let mut progress = true;
            while progress && this.pending_state.is_none() {
                progress = this.finish_probing(inner);
                // Before the connection is used again: the session may have abandoned it.
                this.run_actions(inner);
                progress |= this.finish_connecting(inner);
                // One reading of the clock is enough for what follows a read.
                let mut now = this.read_frames(inner, cx);
                now = this.write_frames(inner, now, cx).or(now);
                progress |= now.is_some();
                // After everything that may have moved the deadlines.
                progress = progress || this.fire_timers(inner, cx);
                let (delivered, state) =
                    inner.router.deliver(|| now.unwrap_or_else(|| inner.clock.now()));
                progress |= delivered;
                this.pending_state = state;
            }
            let mut has_work = this.pending_state.is_some() || this.connector.has_work();
            has_work = has_work || this.settle(inner, cx);
            let has_ended = matches!(inner.router.session().state(), State::Ended(_));
            if !has_work && !has_ended {
                inner.driver_sleeps(cx.waker());
            }
            drop(guard);
            this.publish();
            if !has_work {
                return if has_ended { Poll::Ready(()) } else { Poll::Pending };
            }
        }
    }
}

impl<C: Connect> Drop for DriverTask<C> {
    /// Ends all waiting calls after the session or the runtime has ended.
    fn drop(&mut self) {
        let shared = self.shared.clone();
        if shared.keep_if_forked() {
            return;
        }
        let mut inner = shared.lock();
        inner.router.session_mut().close();
        let now = inner.clock.now();
        inner.router.session_mut().handle_disconnected(now);
        inner.driver_sleeps(Waker::noop());
        let connection = inner.connection.take();
        drop(inner);
        drop(connection);
        loop {
            let mut inner = shared.lock();
            let (delivered, state) = inner.router.deliver(|| now);
            drop(inner);
            self.pending_state = state.or(self.pending_state);
            self.publish();
            if !delivered {
                break;
            }
        }
    }
}

/// A connection future or a transport is only ever polled in place behind its own pin.
impl<C: Connect> Unpin for DriverTask<C> {}
