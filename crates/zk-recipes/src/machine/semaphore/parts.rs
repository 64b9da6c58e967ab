//! Routing of inputs and outputs between the machine, its place in the queue, and its permit nodes.

use super::super::{Contender, Event, Input, Machine, OpId, Output};
use super::requests::Step;
use super::{OWN, QUEUE, SemaphoreMachine};
use crate::error::LockError;

impl SemaphoreMachine {
    pub(super) fn pass_on(&mut self, op: OpId, input: impl FnOnce(OpId) -> Input) {
        let (part, op) = op.split();
        let input = input(op);
        match part {
            OWN => self.handle_own(input),
            QUEUE => {
                if let Some(queue) = &mut self.queue {
                    queue.handle(input);
                }
            }
            _ => {
                let mut permit_nodes = self.permit_nodes.iter_mut().chain(&mut self.returned);
                if let Some(permit_node) = permit_nodes.find(|permit_node| permit_node.part == part)
                {
                    permit_node.machine.handle(input);
                }
            }
        }
    }

    pub(super) fn notify_parts(&mut self, input: impl Fn() -> Input) {
        if let Some(queue) = &mut self.queue {
            queue.handle(input());
        }
        for permit_node in self.permit_nodes.iter_mut().chain(&mut self.returned) {
            permit_node.machine.handle(input());
        }
    }

    /// Handles the outputs of all sub-machines until there are none.
    pub(super) fn settle(&mut self) {
        // Permit nodes first: they are deleted before the next contender in the queue counts.
        loop {
            if self.settle_permit_nodes() {
                continue;
            }
            match self.queue.as_mut().and_then(Contender::poll_output) {
                Some(output) => self.take(QUEUE, output),
                None => break,
            }
        }
        self.returned.retain(|permit_node| !permit_node.machine.is_done());
        let has_left = self.queue.as_ref().is_none_or(Contender::is_done);
        let is_clean = has_left && self.permit_nodes.is_empty() && self.returned.is_empty();
        if matches!(self.step, Step::Leaving) && is_clean {
            self.outputs.conclude(Event::Released);
            self.step = Step::Done;
        }
    }

    /// Handles the outputs of the permit nodes, in time in proportion to their number. Returns whether
    /// they may have led to others.
    fn settle_permit_nodes(&mut self) -> bool {
        let (mut has_event, mut place) = (false, 0);
        while let Some(permit_node) =
            self.permit_nodes.iter_mut().chain(&mut self.returned).nth(place)
        {
            let part = permit_node.part;
            match permit_node.machine.poll_output() {
                Some(output) => {
                    // The end of a permit node concerns no other.
                    has_event |=
                        matches!(&output, Output::Event(event) if *event != Event::Released);
                    self.take(part, output);
                }
                None => place += 1,
            }
        }
        has_event
    }

    fn take(&mut self, part: u32, output: Output) {
        match output {
            Output::Event(event) if part == QUEUE => self.queue_reports(event),
            Output::Event(event) => self.permit_node_reports(part, event),
            output => self.outputs.push(output.of_part(part)),
        }
    }

    fn queue_reports(&mut self, event: Event) {
        match event {
            Event::Abandoned { .. } => self.outputs.report(event),
            // The permits no longer depend on our place in the queue.
            _ if matches!(self.step, Step::Held) => {}
            Event::Enqueued { .. } | Event::Waiting { .. } | Event::UnknownNode(_)
                if !self.outputs.is_concluded() =>
            {
                self.outputs.report(event);
            }
            Event::Acquired { .. } => self.borrow(),
            Event::Failed(error) => self.part_failed(error),
            // Another contender may be first now, and count.
            Event::Lost(_) => self.fail(LockError::NodeVanished),
            _ => {}
        }
    }

    fn permit_node_reports(&mut self, part: u32, event: Event) {
        match event {
            // Its deletion goes on.
            Event::Failed(LockError::NotConfirmed(_)) => return,
            Event::Failed(error) => return self.part_failed(error),
            Event::Abandoned { .. } => return self.outputs.report(event),
            _ => {}
        }
        // Nothing else matters for permit nodes that are being deleted.
        let Some(permit_node) =
            self.permit_nodes.iter_mut().find(|permit_node| permit_node.part == part)
        else {
            return;
        };
        match event {
            Event::Suspended => {
                permit_node.suspended = true;
                self.suspension_changed();
            }
            Event::Resumed => {
                permit_node.suspended = false;
                self.suspension_changed();
            }
            Event::Lost(loss) if matches!(self.step, Step::Held) => {
                self.outputs.conclude(Event::Lost(loss));
                self.leave();
            }
            // We are still first, and create another.
            Event::Lost(_) => self.borrow(),
            Event::Revoked => {
                let is_known = core::mem::replace(&mut self.revoked, true);
                if !is_known && matches!(self.step, Step::Held) {
                    self.outputs.report(Event::Revoked);
                }
            }
            _ => {}
        }
    }

    /// Handles the failure of a sub-machine: a node cannot be deleted, or the queue not entered.
    fn part_failed(&mut self, error: LockError) {
        // If all permits are held, a node left in the queue does no harm.
        if !matches!(self.step, Step::Held) {
            self.outputs.conclude(Event::Failed(error));
            self.leave();
        }
    }

    fn suspension_changed(&mut self) {
        if !matches!(self.step, Step::Held) {
            return self.go_on_if_there_is_room();
        }
        let suspended = self.is_suspended();
        if core::mem::replace(&mut self.suspended, suspended) != suspended {
            self.outputs.report(if suspended { Event::Suspended } else { Event::Resumed });
        }
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.permit_nodes.iter().any(|permit_node| permit_node.suspended)
    }
}
