//! A thread that waits for room.

use alloc::sync::Arc;
use core::task::Poll;

use super::driver::{Shared, Wait};
use crate::client::RoomTicket;
use crate::error::Error;

/// A thread that waits for room. It keeps its place in the queue until this is dropped.
pub(crate) struct RoomWaiter {
    shared: Arc<Shared>,
    ticket: RoomTicket,
}

impl RoomWaiter {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, ticket: RoomTicket::default() }
    }

    pub(super) fn wait(&mut self) -> Result<(), Error> {
        let entered = self.shared.wait(Wait::Sleeping, None, |inner, waker| {
            if let Some(entered) = inner.router.try_enter(&mut self.ticket) {
                return Poll::Ready(entered);
            }
            inner.router.wait_for_room(&mut self.ticket, waker.clone());
            Poll::Pending
        });
        entered.unwrap_or(Ok(()))
    }
}

impl Drop for RoomWaiter {
    fn drop(&mut self) {
        if self.ticket.is_queued() {
            self.shared.lock().router.stop_waiting_for_room(&mut self.ticket);
        }
    }
}
