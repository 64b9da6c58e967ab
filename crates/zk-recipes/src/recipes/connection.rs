//! Waiting for the connection to be lost.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::PoisonError;

use zk_session::dispatch::{Attached, Attachment, Input, Port};
use zk_session::threads::{Mutex, MutexGuard};
use zk_session::{AnyClient, State};

/// Waits until there is no connection to a quorum. The end of the session is not reported, since
/// any request reports that.
pub(crate) struct Disconnected {
    shared: Arc<Mutex<Shared>>,
    attachment: Attachment,
}

#[derive(Default)]
struct Shared {
    /// Whether the connection was lost, or the wait is over.
    is_over: bool,
    waker: Option<Waker>,
}

impl Disconnected {
    pub(crate) fn new(client: &impl AnyClient) -> Self {
        let shared = Arc::<Mutex<Shared>>::default();
        let attachment = client.attach(Box::new(Lookout(shared.clone())));
        Self { shared, attachment }
    }
}

impl Future for Disconnected {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut waker = Some(cx.waker().clone());
        let mut shared = lock(&self.shared);
        if shared.is_over {
            return Poll::Ready(());
        }
        core::mem::swap(&mut shared.waker, &mut waker);
        // The old waker runs user code when dropped, so drop it after unlocking.
        drop(shared);
        Poll::Pending
    }
}

impl Drop for Disconnected {
    fn drop(&mut self) {
        let mut shared = lock(&self.shared);
        let unused = shared.waker.take();
        let was_over = core::mem::replace(&mut shared.is_over, true);
        drop(shared);
        drop(unused);
        if !was_over {
            // Any command detaches the machine.
            self.attachment.command(&mut ());
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Observes the states of the session.
struct Lookout(Arc<Mutex<Shared>>);

impl Attached for Lookout {
    fn handle(&mut self, input: Input, port: &mut Port<'_>) {
        if let Input::State(state) = input
            && !matches!(state, State::Connected { .. } | State::Ended(_))
        {
            let mut shared = lock(&self.0);
            shared.is_over = true;
            if let Some(waker) = shared.waker.take() {
                port.wake(waker);
            }
        }
    }

    fn is_done(&self) -> bool {
        lock(&self.0).is_over
    }
}
