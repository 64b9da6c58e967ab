//! Routing between the machine, its place in the queue, and its permit nodes.

use alloc::collections::VecDeque;

use super::requests::SemaphoreStep;
use super::{Heard, PermitNode, QUEUE, SemaphoreMachine};
use crate::attempt::{Event, Given, Machine as _, OpId, Turn};
use crate::error::LockError;
use crate::lock::Contender;

impl SemaphoreMachine {
    /// Passes an input or a command on to the sub-machine of this request.
    pub(super) fn tell_part(&mut self, op: OpId, given: Given, turn: &mut Turn<'_>) {
        if op.part() == QUEUE {
            return self.tell_queue(given, turn);
        }
        let mut permit_nodes = self.permit_nodes.iter_mut().chain(&mut self.returned);
        if let Some(permit_node) = permit_nodes.find(|permit_node| permit_node.part == op.part()) {
            permit_node.tell(given, &mut self.heard, turn);
        }
    }

    pub(super) fn tell_queue(&mut self, given: Given, turn: &mut Turn<'_>) {
        if let Some(queue) = &mut self.queue {
            let mut hear = |event| self.heard.hear(QUEUE, event);
            turn.filtered(QUEUE, &mut hear, |turn| given.to(queue, turn));
        }
    }

    pub(super) fn notify_parts(&mut self, given: &dyn Fn() -> Given, turn: &mut Turn<'_>) {
        for permit_node in self.permit_nodes.iter_mut().chain(&mut self.returned) {
            permit_node.tell(given(), &mut self.heard, turn);
        }
        self.tell_queue(given(), turn);
    }

    /// Handles the events of all sub-machines until there are none.
    pub(super) fn settle(&mut self, turn: &mut Turn<'_>) {
        while let Some((part, event)) = self.heard.events.pop_front() {
            match part {
                QUEUE => self.queue_reports(event, turn),
                part => self.permit_node_reports(part, event, turn),
            }
        }
        self.heard.events = VecDeque::new();
        self.returned.retain(|permit_node| !permit_node.machine.is_done());
        let has_left = self.queue.as_ref().is_none_or(Contender::is_done);
        let is_clean = has_left && self.permit_nodes.is_empty() && self.returned.is_empty();
        if matches!(self.step, SemaphoreStep::Leaving) && is_clean {
            turn.conclude(&mut self.heard.is_concluded, Event::Released);
            self.step = SemaphoreStep::Done;
        }
    }

    fn queue_reports(&mut self, event: Event, turn: &mut Turn<'_>) {
        match event {
            Event::Abandoned { .. } => turn.report(event),
            // The permits no longer depend on our place in the queue.
            _ if matches!(self.step, SemaphoreStep::Held) => {}
            Event::Enqueued { .. } | Event::Waiting { .. } | Event::UnknownNode(_)
                if !self.heard.is_concluded =>
            {
                turn.report(event);
            }
            Event::Acquired { .. } => self.borrow(turn),
            Event::Failed(error) => self.part_failed(error, turn),
            // Another contender may be first now, and count.
            Event::Lost(_) => self.fail(LockError::NodeVanished, turn),
            _ => {}
        }
    }

    fn permit_node_reports(&mut self, part: u32, event: Event, turn: &mut Turn<'_>) {
        match event {
            // Its deletion goes on.
            Event::Failed(LockError::NotConfirmed(_)) => return,
            Event::Failed(error) => return self.part_failed(error, turn),
            Event::Abandoned { .. } => return turn.report(event),
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
                self.suspension_changed(turn);
            }
            Event::Resumed => {
                permit_node.suspended = false;
                self.suspension_changed(turn);
            }
            Event::Lost(loss) if matches!(self.step, SemaphoreStep::Held) => {
                turn.conclude(&mut self.heard.is_concluded, Event::Lost(loss));
                self.release(turn);
            }
            // We are still first, and create another.
            Event::Lost(_) => self.borrow(turn),
            Event::Revoked => {
                let is_known = core::mem::replace(&mut self.revoked, true);
                if !is_known && matches!(self.step, SemaphoreStep::Held) {
                    turn.report(Event::Revoked);
                }
            }
            _ => {}
        }
    }

    /// Handles the failure of a sub-machine: a node cannot be deleted, or the queue not entered.
    fn part_failed(&mut self, error: LockError, turn: &mut Turn<'_>) {
        // If all permits are held, a node left in the queue does no harm.
        if !matches!(self.step, SemaphoreStep::Held) {
            turn.conclude(&mut self.heard.is_concluded, Event::Failed(error));
            self.release(turn);
        }
    }

    fn suspension_changed(&mut self, turn: &mut Turn<'_>) {
        if !matches!(self.step, SemaphoreStep::Held) {
            return self.go_on_if_there_is_room(turn);
        }
        let suspended = self.is_suspended();
        if core::mem::replace(&mut self.suspended, suspended) != suspended {
            turn.report(if suspended { Event::Suspended } else { Event::Resumed });
        }
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.permit_nodes.iter().any(|permit_node| permit_node.suspended)
    }
}

impl Heard {
    /// Keeps an event of a sub-machine. Returns it if it ends what is held: the owner learns of the
    /// loss of a permit node before the request that deletes another.
    pub(super) fn hear(&mut self, part: u32, event: Event) -> Option<Event> {
        let is_of_permit = part != QUEUE;
        // Every permit node reports these.
        if is_of_permit && matches!(event, Event::Acquired { .. } | Event::Released) {
            return None;
        }
        let is_loss = is_of_permit && self.is_held && matches!(event, Event::Lost(_));
        let is_new = is_loss && !core::mem::replace(&mut self.is_concluded, true);
        self.events.push_back((part, event.clone()));
        is_new.then_some(event)
    }
}

impl PermitNode {
    pub(super) fn tell(&mut self, given: Given, heard: &mut Heard, turn: &mut Turn<'_>) {
        let Self { part, machine, .. } = self;
        let mut hear = |event| heard.hear(*part, event);
        turn.filtered(*part, &mut hear, |turn| given.to(machine, turn));
    }
}
