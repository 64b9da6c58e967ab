//! A thread that waits for room.

use alloc::sync::Arc;
use core::task::Poll;

use super::reading::Wait;
use super::shared::Shared;
use crate::error::Error;
use crate::face::Place;

/// A thread that waits for room. It keeps its place in the queue until this is dropped.
pub(crate) struct Line {
    shared: Arc<Shared>,
    place: Place,
}

impl Line {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, place: Place::default() }
    }

    pub(super) fn enter(&mut self) -> Result<(), Error> {
        let entered = self.shared.wait(Wait::Sleeping, None, |inner, waker| {
            if let Some(entered) = inner.hub.try_enter(&mut self.place) {
                return Poll::Ready(entered);
            }
            inner.hub.wait_for_room(&mut self.place, waker.clone());
            Poll::Pending
        });
        entered.unwrap_or(Ok(()))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.place.is_queued() {
            self.shared.lock().hub.stop_waiting_for_room(&mut self.place);
        }
    }
}
