//! The queue of what a machine wants to be done.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use core::time::Duration;

use super::{Event, OpId, Operation, Output};

/// The outputs of a machine that its driver has not taken yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Outputs {
    last_op: u64,
    queue: VecDeque<Output>,
    /// Whether the owner knows how the attempt ended.
    is_concluded: bool,
}

impl Outputs {
    /// Submits a request, and returns its id. Ids rise by one with each request.
    pub(super) fn submit(&mut self, operation: Operation) -> OpId {
        self.last_op += 1;
        let op = OpId(self.last_op);
        self.push(Output::Submit { op, operation });
        op
    }

    /// Submits requests, the last one first, and returns the range of their ids.
    pub(super) fn submit_all(&mut self, operations: Vec<Operation>) -> RangeInclusive<OpId> {
        let first = OpId(self.last_op + 1);
        for operation in operations.into_iter().rev() {
            self.submit(operation);
        }
        first..=OpId(self.last_op)
    }

    pub(super) fn unwatch(&mut self, watch: OpId) {
        self.push(Output::Unwatch(watch));
    }

    pub(super) fn set_timer(&mut self, after: Duration) {
        self.push(Output::SetTimer(after));
    }

    pub(super) fn report(&mut self, event: Event) {
        self.push(Output::Event(event));
    }

    /// Reports how the attempt ended, once.
    pub(super) fn conclude(&mut self, event: Event) {
        if !core::mem::replace(&mut self.is_concluded, true) {
            self.report(event);
        }
    }

    pub(super) const fn is_concluded(&self) -> bool {
        self.is_concluded
    }

    pub(super) fn push(&mut self, output: Output) {
        self.queue.push_back(output);
    }

    pub(super) fn pop(&mut self) -> Option<Output> {
        self.queue.pop_front()
    }

    /// Frees the memory of an empty queue.
    pub(super) fn free(&mut self) {
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
    }
}
