//! The queue of scheduled occurrences.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use core::time::Duration;

/// Events by time. Those of one instant come in the order in which they were scheduled.
#[derive(Debug)]
pub(super) struct Queue<E: Ord> {
    events: BinaryHeap<Reverse<(Duration, u64, E)>>,
    scheduled: u64,
}

impl<E: Ord> Queue<E> {
    pub(super) fn new() -> Self {
        Self { events: BinaryHeap::new(), scheduled: 0 }
    }

    pub(super) fn schedule(&mut self, at: Duration, event: E) {
        self.events.push(Reverse((at, self.scheduled, event)));
        self.scheduled += 1;
    }

    pub(super) fn next_at(&self) -> Option<Duration> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn pop(&mut self) -> Option<E> {
        self.events.pop().map(|Reverse((.., event))| event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_in_the_order_of_scheduling() {
        let mut queue = Queue::new();
        for (at, event) in [(2, 'c'), (1, 'a'), (2, 'd'), (1, 'b')] {
            queue.schedule(Duration::from_secs(at), event);
        }
        assert_eq!(queue.next_at(), Some(Duration::from_secs(1)));
        assert_eq!(core::iter::from_fn(|| queue.pop()).collect::<String>(), "abcd");
    }
}
