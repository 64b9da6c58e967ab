//! The handles of one-shot watches, and the updates of persistent ones.

use alloc::sync::Arc;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::driver::{Driven, Driver};
use super::{Receiver, seen_from};
use crate::chroot::Chroot;
use crate::error::Error;
use crate::session::{RequestId, WatchedEvent};

/// A one-shot watch. `.await` it in a task or `.wait()` for it in a thread to receive the event; drop
/// it to remove the watch.
///
/// It survives the loss of a connection. The server reports a missed change after the reconnect,
/// but only the last state: a node that was deleted and created again has changed.
///
/// # Errors
///
/// [`Error::Ended`] when the session ends before the watch fires.
///
/// # Cancellation
///
/// It can be awaited by reference, repeatedly, until it has fired.
///
/// ```no_run
/// # async fn example(client: &zk_session::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let (data, _, changed) = client.get_data_and_watch("/config").await?;
/// println!("{data:?}");
/// let event = changed.await?;
/// println!("{:?} {}", event.event_type, event.path);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a watch that is dropped is removed"]
pub struct Watch<D: Driver> {
    request: RequestId,
    pub(crate) event: Receiver<WatchedEvent>,
    pub(crate) driven: Driven<D>,
    chroot: Chroot,
    is_over: bool,
}

impl<D: Driver> Watch<D> {
    pub(super) fn new(
        request: RequestId,
        event: Receiver<WatchedEvent>,
        driver: &Arc<D>,
        chroot: Chroot,
    ) -> Self {
        Self { request, event, driven: Driven::new(driver), chroot, is_over: false }
    }

    /// Returns what was received.
    pub(crate) fn receive(&mut self, event: Option<WatchedEvent>) -> Result<WatchedEvent, Error> {
        self.is_over = true;
        self.driven.ends();
        match event {
            Some(event) => Ok(seen_from(&self.chroot, event)),
            None => Err(self.driven.driver.locked(|router| router.end_of_watch())),
        }
    }
}

impl<D: Driver> Future for Watch<D> {
    type Output = Result<WatchedEvent, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(event) = self.event.poll(cx.waker()) else {
            self.driven.waits();
            return Poll::Pending;
        };
        Poll::Ready(self.receive(event))
    }
}

impl<D: Driver> Drop for Watch<D> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.event.close();
        self.driven.driver.unwatch(self.request);
    }
}

/// An update of a persistent watch.
///
/// ```no_run
/// # fn example(client: &zk_session::blocking::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_session::WatchUpdate;
///
/// for update in client.watch_recursively("/config").wait()? {
///     match update? {
///         WatchUpdate::Event(event) => println!("{:?} {}", event.event_type, event.path),
///         WatchUpdate::Gap => println!("read everything again"),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchUpdate {
    /// A watched node has changed.
    Event(WatchedEvent),
    /// Events may be missing here. Read the nodes again to close the gap.
    ///
    /// There are two reasons:
    ///
    /// * The connection was lost and made again. Servers do not report what happened in between to
    ///   persistent watches (ZOOKEEPER-4698).
    /// * The queue was full.
    Gap,
}
