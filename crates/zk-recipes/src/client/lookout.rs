//! Waiting for the connection to be lost, or for a time, by the timer of the session.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use zk_session::dispatch::{Attached, Attachment, Input, Port};
use zk_session::proto::recording::Description;
use zk_session::threads::Mutex;
use zk_session::{AnyClient, State};

use crate::client::known::lock;

/// Why a [`Lookout`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// There is no connection to a quorum.
    Disconnected,
    /// The time has passed, or the session has ended.
    Late,
}

/// Waits until the connection to a quorum is lost, or for a time. The end of the session counts as
/// [`Seen::Late`], since every request reports it.
pub(crate) struct Lookout {
    shared: Arc<Mutex<Sighting>>,
    attachment: Attachment,
}

#[derive(Default)]
pub(crate) struct Sighting {
    seen: Option<Seen>,
    waker: Option<Waker>,
}

impl Lookout {
    /// Waits for the loss of the connection, and for `timeout` at most.
    pub(crate) fn new(client: &impl AnyClient, timeout: Option<Duration>) -> Self {
        Self::attach(client, timeout, true)
    }

    /// Waits for `timeout`, with or without a connection.
    pub(crate) fn timer(client: &impl AnyClient, timeout: Duration) -> Self {
        Self::attach(client, Some(timeout), false)
    }

    fn attach(client: &impl AnyClient, timeout: Option<Duration>, minds_loss: bool) -> Self {
        let shared = Arc::<Mutex<Sighting>>::default();
        let watcher = Watcher::new(shared.clone(), timeout, minds_loss);
        Self { shared, attachment: client.attach(Box::new(watcher)) }
    }
}

impl Future for Lookout {
    type Output = Seen;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Seen> {
        let mut waker = Some(cx.waker().clone());
        let mut shared = lock(&self.shared);
        if let Some(seen) = shared.seen {
            return Poll::Ready(seen);
        }
        core::mem::swap(&mut shared.waker, &mut waker);
        // The old waker runs user code when dropped, so drop it after unlocking.
        drop(shared);
        Poll::Pending
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        let mut shared = lock(&self.shared);
        let unused = shared.waker.take();
        let was_over = shared.seen.replace(Seen::Late).is_some();
        drop(shared);
        drop(unused);
        if !was_over {
            // Any command ends the machine.
            self.attachment.command(&mut ());
        }
    }
}

/// Observes the states of the session, and its timer.
pub(crate) struct Watcher {
    shared: Arc<Mutex<Sighting>>,
    /// Until the timer is set.
    timeout: Option<Duration>,
    minds_loss: bool,
    is_done: bool,
}

impl Watcher {
    pub(crate) const fn new(
        shared: Arc<Mutex<Sighting>>,
        timeout: Option<Duration>,
        minds_loss: bool,
    ) -> Self {
        Self { shared, timeout, minds_loss, is_done: false }
    }

    fn end(&mut self, seen: Seen) -> Option<Waker> {
        self.is_done = true;
        let mut shared = lock(&self.shared);
        shared.seen.get_or_insert(seen);
        shared.waker.take()
    }
}

impl Attached for Watcher {
    fn handle(&mut self, input: Input, port: &mut Port<'_>) {
        if let Some(timeout) = self.timeout.take() {
            port.set_timer(Some(port.now() + timeout));
        }
        let waker = match input {
            Input::State(State::Connected { .. } | State::Ended(_)) => None,
            Input::State(_) if self.minds_loss => self.end(Seen::Disconnected),
            Input::Timer => self.end(Seen::Late),
            _ => None,
        };
        waker.into_iter().for_each(|waker| port.wake(waker));
    }

    fn command(&mut self, _: &mut dyn Any, _: &mut Port<'_>) {
        self.is_done = true;
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn describe(&self, description: &mut Description<'_>) {
        description.machine("lookout", "");
        description.number(self.timeout.is_some().into());
        self.timeout.iter().for_each(|timeout| description.duration(*timeout));
        description.number(self.minds_loss.into());
    }

    fn outlives_session(&self) -> bool {
        !self.minds_loss
    }
}

impl Drop for Watcher {
    /// The session has ended, unless something was seen before.
    fn drop(&mut self) {
        if let Some(waker) = self.end(Seen::Late) {
            waker.wake();
        }
    }
}
