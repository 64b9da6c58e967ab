//! The updates of a persistent watch, until they are read.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::task::Waker;
use std::sync::PoisonError;

use zk_proto::OpCode;

use crate::dispatch::Input;
use crate::dispatch::watchers::Watcher;
use crate::error::{Error, Outcome};
use crate::session::{State, WatchedEvent};
use crate::threads::Mutex;

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

/// The unread updates, in order: at most its capacity and a gap.
#[derive(Debug)]
pub(crate) struct WatchQueue {
    updates: VecDeque<WatchUpdate>,
    capacity: usize,
    end: Option<Error>,
    /// Wakes the reader, if it waits.
    pub(crate) reader: Option<Waker>,
}

impl WatchQueue {
    /// Adds an event, or a gap if the queue is full.
    pub(crate) fn push_event(&mut self, event: WatchedEvent) {
        if self.updates.len() < self.capacity {
            self.updates.push_back(WatchUpdate::Event(event));
        } else {
            self.push_gap();
        }
    }

    /// Adds a gap, unless the last update is one.
    pub(crate) fn push_gap(&mut self) {
        if self.updates.back() != Some(&WatchUpdate::Gap) {
            self.updates.push_back(WatchUpdate::Gap);
        }
    }

    /// Ends the watch, after the queued updates.
    pub(crate) fn end(&mut self, error: Error) {
        self.end.get_or_insert(error);
    }
}

impl Watcher for Mutex<WatchQueue> {
    fn handle(self: Arc<Self>, input: Input) -> Option<Waker> {
        let mut queue = self.lock().unwrap_or_else(PoisonError::into_inner);
        match input {
            Input::Watch { event, .. } => queue.push_event(event),
            Input::Gap { .. } => queue.push_gap(),
            Input::WatchLost { code, .. } => queue.end(Error::refused(OpCode::ADD_WATCH, code)),
            Input::State(State::Ended(end)) => {
                queue.end(Error::Ended { end, outcome: Outcome::NotApplied });
            }
            _ => {}
        }
        queue.reader.take()
    }
}

#[cfg(feature = "full")]
impl WatchQueue {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { updates: VecDeque::new(), capacity, end: None, reader: None }
    }

    /// Takes the next update, or the end of the watch; `None` if the queue is empty.
    pub(crate) fn next(&mut self) -> Option<Result<WatchUpdate, Error>> {
        match self.updates.pop_front() {
            Some(update) => Some(Ok(update)),
            None => self.end.clone().map(Err),
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_proto::{EventType, Zxid};

    use super::*;

    fn event(path: &str) -> WatchedEvent {
        let event_type = EventType::NODE_CREATED;
        WatchedEvent { event_type, path: path.into(), zxid: Zxid(1) }
    }

    #[test]
    fn events_that_do_not_fit_become_one_gap() {
        let mut queue = WatchQueue::new(2);
        for path in ["/1", "/2", "/3", "/4"] {
            queue.push_event(event(path));
        }
        queue.push_gap();
        let reported = |path| Some(Ok(WatchUpdate::Event(event(path))));
        assert_eq!(queue.next(), reported("/1"));
        assert_eq!(queue.next(), reported("/2"));
        queue.push_event(event("/5"));
        assert_eq!(queue.next(), Some(Ok(WatchUpdate::Gap)));
        assert_eq!(queue.next(), reported("/5"));
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn a_full_queue_that_is_never_read_stays_within_its_bound() {
        let mut queue = WatchQueue::new(3);
        for _ in 0..1000 {
            queue.push_event(event("/"));
            queue.push_gap();
        }
        assert!(queue.updates.len() <= 4, "{}", queue.updates.len());
    }

    #[test]
    fn the_end_comes_after_all_updates_and_stays() {
        let mut queue = WatchQueue::new(1);
        queue.push_event(event("/"));
        queue.end(Error::ConnectionLost);
        queue.end(Error::NoConnection);
        assert_eq!(queue.next(), Some(Ok(WatchUpdate::Event(event("/")))));
        assert_eq!(queue.next(), Some(Err(Error::ConnectionLost)));
        assert_eq!(queue.next(), Some(Err(Error::ConnectionLost)));
    }
}
