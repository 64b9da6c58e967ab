//! Waiting for room.

use alloc::sync::Arc;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::RoomTicket;
use super::driver::{Driven, Driver};
use crate::error::Error;

/// A caller that waits for room, made by [`Client::ready`](super::Client::ready). It gets its place
/// in the queue when it is first polled, and keeps it until this is dropped.
#[derive(Debug)]
#[must_use = "it waits only while it is awaited"]
pub struct Ready<D: Driver> {
    pub(crate) driven: Driven<D>,
    ticket: RoomTicket,
}

impl<D: Driver> Ready<D> {
    pub(super) fn new(driver: &Arc<D>) -> Self {
        Self { driven: Driven::new(driver), ticket: RoomTicket::default() }
    }
}

impl<D: Driver> Future for Ready<D> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { driven, ticket } = &mut *self;
        // Cloned and dropped without the lock. A waiter that was woken may look only once.
        let mut waker = ticket.is_queued().then(|| cx.waker().clone());
        loop {
            let entered = driven.driver.locked(|router| {
                let entered = router.try_enter(ticket);
                if entered.is_none()
                    && let Some(mine) = waker.take()
                {
                    waker = router.wait_for_room(ticket, mine);
                    return Some(Poll::Pending);
                }
                entered.map(Poll::Ready)
            });
            match entered {
                None => waker = Some(cx.waker().clone()),
                Some(Poll::Pending) => {
                    driven.waits();
                    return Poll::Pending;
                }
                Some(ready) => {
                    driven.ends();
                    return ready;
                }
            }
        }
    }
}

impl<D: Driver> Drop for Ready<D> {
    fn drop(&mut self) {
        if self.ticket.is_queued() {
            let Self { driven, ticket } = self;
            // The waker that this returns is dropped without the lock.
            let _ = driven.driver.locked(|router| router.stop_waiting_for_room(ticket));
        }
    }
}
