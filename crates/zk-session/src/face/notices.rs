//! What a persistent watch has to tell, until it is asked.

use alloc::collections::VecDeque;

use crate::error::Error;
use crate::session::WatchedEvent;

/// What a persistent watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Something happened to a watched node.
    Event(WatchedEvent),
    /// Something may have happened here that is not told: the connection was lost and made again
    /// (servers do not tell persistent watches what they missed, ZOOKEEPER-4698), or more events
    /// came than there was room for. What is read from now on closes the gap.
    Gap,
}

/// The notices that were not asked for yet, in order. They never take more room than for so many
/// events and a gap.
#[derive(Debug)]
pub(crate) struct Notices {
    waiting: VecDeque<Notice>,
    capacity: usize,
    end: Option<Error>,
}

impl Notices {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { waiting: VecDeque::new(), capacity, end: None }
    }

    /// An event that finds no room leaves a gap.
    pub(crate) fn push_event(&mut self, event: WatchedEvent) {
        if self.waiting.len() < self.capacity {
            self.waiting.push_back(Notice::Event(event));
        } else {
            self.push_gap();
        }
    }

    /// One gap behind the other tells no more than the first.
    pub(crate) fn push_gap(&mut self) {
        if self.waiting.back() != Some(&Notice::Gap) {
            self.waiting.push_back(Notice::Gap);
        }
    }

    /// The watch is over; what is waiting is still told before that.
    pub(crate) fn end(&mut self, error: Error) {
        self.end.get_or_insert(error);
    }

    /// The next notice, or the end; `None` if there is nothing to tell yet.
    pub(crate) fn next(&mut self) -> Option<Result<Notice, Error>> {
        match self.waiting.pop_front() {
            Some(notice) => Some(Ok(notice)),
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
    fn what_does_not_fit_is_one_gap_in_its_place() {
        let mut notices = Notices::new(2);
        for path in ["/1", "/2", "/3", "/4"] {
            notices.push_event(event(path));
        }
        notices.push_gap();
        let told = |path| Some(Ok(Notice::Event(event(path))));
        assert_eq!(notices.next(), told("/1"));
        assert_eq!(notices.next(), told("/2"));
        notices.push_event(event("/5"));
        assert_eq!(notices.next(), Some(Ok(Notice::Gap)));
        assert_eq!(notices.next(), told("/5"));
        assert_eq!(notices.next(), None);
    }

    #[test]
    fn a_full_watch_that_is_never_asked_stays_within_its_bound() {
        let mut notices = Notices::new(3);
        for _ in 0..1000 {
            notices.push_event(event("/"));
            notices.push_gap();
        }
        assert!(notices.waiting.len() <= 4, "{}", notices.waiting.len());
    }

    #[test]
    fn the_end_comes_behind_what_happened_before_and_stays() {
        let mut notices = Notices::new(1);
        notices.push_event(event("/"));
        notices.end(Error::ConnectionLost);
        notices.end(Error::NoConnection);
        assert_eq!(notices.next(), Some(Ok(Notice::Event(event("/")))));
        assert_eq!(notices.next(), Some(Err(Error::ConnectionLost)));
        assert_eq!(notices.next(), Some(Err(Error::ConnectionLost)));
    }
}
