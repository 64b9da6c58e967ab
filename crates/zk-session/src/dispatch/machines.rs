//! The attached machines of a session.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::any::Any;
use core::cmp::Reverse;
use core::fmt;
use core::time::Duration;

use zk_proto::recording::Kind;

use super::any_session::AnySession;
use super::attached::{Attached, Input};
use super::effects::{Deferred, Effects};
use super::port::Port;
use super::seat::{Refusal, Seat, Waiting, drop_watches};
use super::shared_lists::{Lists, SHARED, SharedList};
use super::token::Key;
use super::watchers::Watchers;
use crate::end::End;
use crate::error::Error;
use crate::session::event::{Reply, RequestId, State};
use crate::session::growth::{reserve, room_for_growth};
use crate::time::Instant;

#[derive(Default)]
struct Slot {
    generation: u32,
    machine: Option<Box<dyn Attached>>,
    deadline: Option<Instant>,
    /// The watches of the machine, by tag.
    watches: Vec<(u64, RequestId)>,
}

/// A call of a machine.
enum MachineCall<'a> {
    Handle(Input),
    Command(&'a mut dyn Any),
    /// Its timer, in the drain of what was due at this time.
    Timer {
        due: Instant,
    },
}

/// All machines of a session.
pub(crate) struct Machines {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The deadlines of machines, and earlier deadlines that were changed. The first one is valid.
    timers: BinaryHeap<Reverse<(Instant, Key)>>,
    waiting: Waiting,
    lists: Lists,
    pub(crate) watchers: Watchers,
    /// The state that was delivered last.
    state: State,
    /// The time of the last `handle_timeout` whose due timers are not all delivered.
    due: Option<Instant>,
    closes_when_done: bool,
    pub(super) effects: Effects,
}

impl fmt::Debug for Machines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machines").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl Machines {
    pub(super) fn new(state: State) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            timers: BinaryHeap::new(),
            waiting: Waiting::default(),
            lists: Lists::default(),
            watchers: Watchers::new(),
            state,
            due: None,
            closes_when_done: false,
            effects: Effects::default(),
        }
    }

    pub(super) fn get(&self, key: Key) -> Option<&dyn Attached> {
        let slot = self.slots.get(key.place as usize);
        slot.filter(|slot| slot.generation == key.generation)?.machine.as_deref()
    }

    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn attach(
        &mut self,
        session: &mut dyn AnySession,
        now: Instant,
        machine: Box<dyn Attached>,
    ) -> Key {
        let place = self.free.pop().unwrap_or_else(|| {
            reserve(&mut self.slots, 1);
            self.slots.push(Slot::default());
            // A machine takes far more than one byte.
            u32::try_from(self.slots.len() - 1).expect("fewer machines than bytes of memory")
        });
        let mut key = Key { place, generation: 0 };
        if let Some(slot) = self.slots.get_mut(place as usize) {
            slot.machine = Some(machine);
            key.generation = slot.generation;
        }
        self.call(session, now, key, MachineCall::Handle(Input::State(self.state)));
        self.deliver_late_end_of_lease(session, now, key);
        if let State::Ended(_) = self.state {
            self.detach(session, key);
        }
        key
    }

    pub(super) fn command(
        &mut self,
        session: &mut dyn AnySession,
        now: Instant,
        key: Key,
        message: &mut dyn Any,
    ) -> bool {
        // Ahead of the command: what was held may be lost already. Behind it: the answer to a release
        // may be due already.
        self.deliver_late_end_of_lease(session, now, key);
        let attached = self.call(session, now, key, MachineCall::Command(message));
        self.deliver_late_end_of_lease(session, now, key);
        attached
    }

    /// Calls a machine, and detaches it if it is finished then. Returns whether it was attached.
    fn call(
        &mut self,
        session: &mut dyn AnySession,
        now: Instant,
        key: Key,
        call: MachineCall<'_>,
    ) -> bool {
        let Some(slot) = self.slots.get_mut(key.place as usize) else { return false };
        let Slot { generation, machine: Some(machine), deadline, watches } = slot else {
            return false;
        };
        if *generation != key.generation {
            return false;
        }
        let before = *deadline;
        let is_recorded = session.is_recorded();
        if is_recorded {
            session.record(|it| match &call {
                MachineCall::Handle(input) => it.called(key, Some(input)),
                MachineCall::Command(_) => it.called(key, None),
                MachineCall::Timer { .. } => it.called(key, Some(&Input::Timer)),
            });
        }
        let mut seat = Seat {
            session: &mut *session,
            now,
            key,
            deadline,
            own: watches,
            waiting: &mut self.waiting,
            lists: &mut self.lists,
            effects: &mut self.effects,
            has_submitted: false,
            is_recorded,
        };
        let port = &mut Port::new(&mut seat, now);
        match call {
            MachineCall::Handle(input) => machine.handle(input, port),
            MachineCall::Command(message) => machine.command(message, port),
            MachineCall::Timer { due } => {
                machine.handle(Input::Timer, port);
                // A timer set for the past waits for the next drain, or this drain would never end.
                let next = now.max(due) + Duration::from_nanos(1);
                *deadline = deadline.map(|at| at.max(next));
            }
        }
        // Sums saturate there, so such a timer would be due for ever once the clock stands there.
        *deadline = deadline.filter(|at| *at < Instant::END);
        let after = *deadline;
        let is_done = machine.is_done();
        if is_recorded {
            let outlives_session = machine.outlives_session();
            session
                .record(|it| it.output(Kind::RETURN, &[is_done.into(), outlives_session.into()]));
        }
        if before != after {
            if self.timers.len() == self.timers.capacity() {
                self.timers.reserve_exact(room_for_growth(self.timers.len()));
            }
            if let Some(at) = after {
                self.timers.push(Reverse((at, key)));
            }
            self.forget_changed_timers();
        }
        if is_done {
            self.detach(session, key);
        }
        true
    }

    fn detach(&mut self, session: &mut dyn AnySession, key: Key) {
        let slot = self.slots.get_mut(key.place as usize);
        let Some(slot) = slot.filter(|slot| slot.generation == key.generation) else { return };
        let Some(machine) = slot.machine.take() else { return };
        self.effects.others.deferred.push(Deferred::Drop(machine));
        slot.generation = slot.generation.wrapping_add(1);
        let had_timer = slot.deadline.take().is_some();
        drop_watches(session, &mut slot.watches);
        if had_timer {
            self.forget_changed_timers();
        }
        self.free.push(key.place);
        self.close_if_done(session);
    }

    /// Drops deadlines that were changed: the first ones, or all if most were.
    fn forget_changed_timers(&mut self) {
        let Self { slots, timers, .. } = self;
        let is_valid = |Reverse((at, key)): &Reverse<(Instant, Key)>| {
            let slot = slots.get(key.place as usize);
            slot.is_some_and(|slot| slot.generation == key.generation && slot.deadline == Some(*at))
        };
        while timers.peek().is_some_and(|timer| !is_valid(timer)) {
            timers.pop();
        }
        if timers.len() > 2 * slots.len() + 8 {
            // Not `retain`: a deadline that was switched off and on again is there twice.
            timers.clear();
            for (place, slot) in (0..).zip(slots.iter()) {
                if let Some(at) = slot.deadline {
                    timers.push(Reverse((at, Key { place, generation: slot.generation })));
                }
            }
        }
    }

    pub(super) fn close_when_done(&mut self, session: &mut dyn AnySession) {
        self.closes_when_done = true;
        self.close_if_done(session);
    }

    fn close_if_done(&self, session: &mut dyn AnySession) {
        if self.closes_when_done && self.count() == 0 {
            session.close();
        }
    }

    /// Delivers a reply. A machine that outlives its session learns of the expiry by the state.
    pub(super) fn deliver_reply(
        &mut self,
        session: &mut dyn AnySession,
        now: Instant,
        key: Key,
        tag: u64,
        result: Result<Reply, Error>,
    ) {
        if key == SHARED
            && let Some(lists) = self.lists.first_mut()
            && let Some(list) = lists.answered(tag)
        {
            return self.deliver_list(session, now, list, &result);
        }
        if let Err(Error::Ended { end: End::Expired, .. }) = result
            && session.renews()
            && self.outlives_session(key)
        {
            return;
        }
        self.call(session, now, key, MachineCall::Handle(Input::Reply { tag, result }));
    }

    /// Delivers a list, or a piece of it, to the machines that share it.
    fn deliver_list(
        &mut self,
        session: &mut dyn AnySession,
        now: Instant,
        list: SharedList,
        result: &Result<Reply, Error>,
    ) {
        let has_more = result.as_ref().is_ok_and(|reply| reply.has_more);
        if !has_more
            && let Some(lists) = self.lists.first_mut()
            && let Err((next, error)) = lists.submit_next(session, &list)
        {
            self.deliver_to_all(session, now, &next, &Err(error));
        }
        self.deliver_to_all(session, now, &list, result);
        if has_more && let Some(lists) = self.lists.first_mut() {
            lists.put_back(list);
        }
    }

    fn deliver_to_all(
        &mut self,
        session: &mut dyn AnySession,
        now: Instant,
        list: &SharedList,
        result: &Result<Reply, Error>,
    ) {
        self.lists.iter_mut().for_each(|lists| lists.allow_memo(list.is_shared()));
        for (key, tag) in list.receivers() {
            self.deliver_reply(session, now, key, tag, result.clone());
        }
        self.lists.iter_mut().for_each(|lists| lists.allow_memo(false));
    }

    fn outlives_session(&self, key: Key) -> bool {
        self.get(key).is_some_and(|machine| machine.outlives_session())
    }

    fn deliver_late_end_of_lease(&mut self, session: &mut dyn AnySession, now: Instant, key: Key) {
        if session.lease_has_ended(now) {
            self.call(session, now, key, MachineCall::Handle(Input::LeaseEnded));
        }
    }

    /// Delivers an input about watches to their machines, with the tag of each, and to the callers'
    /// watchers. Removes the requests of machines from the list.
    pub(super) fn deliver_to_watchers(
        &mut self,
        session: &mut dyn AnySession,
        now: Instant,
        requests: &mut Vec<RequestId>,
        is_over: bool,
        input: impl Fn(u64) -> Input,
    ) {
        requests.retain(|request| {
            if request.is_callers() {
                self.watchers.deliver(*request, is_over, &input, &mut self.effects.wakers);
                return true;
            }
            // The machine may have dropped it.
            if let Some((key, tag)) = self.watch_of(request, is_over) {
                self.call(session, now, key, MachineCall::Handle(input(tag)));
            }
            false
        });
    }

    /// Returns the machine whose request has set a watch, and the tag. Forgets the watch if it is over.
    fn watch_of(&mut self, request: &RequestId, is_over: bool) -> Option<(Key, u64)> {
        let slot = self.slots.get_mut(request.receiver as usize)?;
        let at = slot.watches.iter().position(|(_, id)| id.number == request.number)?;
        let (tag, _) = match is_over {
            true => slot.watches.remove(at),
            false => *slot.watches.get(at)?,
        };
        Some((Key { place: request.receiver, generation: slot.generation }, tag))
    }

    fn for_each<R>(&mut self, mut act: impl FnMut(&mut Self, Key) -> R) {
        for place in 0..self.slots.len() {
            let slot = self.slots.get(place);
            let Some(&Slot { generation, machine: Some(_), .. }) = slot else { continue };
            // Places are counted by this type.
            act(self, Key { place: place as u32, generation });
        }
    }

    pub(super) fn deliver_state(
        &mut self,
        session: &mut dyn AnySession,
        now: Instant,
        state: State,
    ) {
        let before = core::mem::replace(&mut self.state, state);
        if state.is_renumbered(before) {
            return;
        }
        self.for_each(|all, key| {
            all.call(session, now, key, MachineCall::Handle(Input::State(state)));
            all.deliver_late_end_of_lease(session, now, key);
        });
        if let State::Ended(_) = state {
            self.watchers.end(state, &mut self.effects.wakers);
        }
    }

    /// Delivers the end of the expired session, before the new one begins. Detaches all machines
    /// except those that outlive it.
    pub(super) fn renew(&mut self, session: &mut dyn AnySession, now: Instant) {
        self.state = State::Renewing;
        self.watchers.end(State::Renewing, &mut self.effects.wakers);
        self.for_each(|all, key| {
            let Some(slot) = all.slots.get_mut(key.place as usize) else { return };
            drop_watches(session, &mut slot.watches);
            if all.outlives_session(key) {
                all.call(session, now, key, MachineCall::Handle(Input::State(State::Renewing)));
            } else {
                all.call(
                    session,
                    now,
                    key,
                    MachineCall::Handle(Input::State(State::Ended(End::Expired))),
                );
                // Most machines are done then, and detached.
                all.detach(session, key);
            }
        });
    }

    pub(super) fn deliver_end_of_lease(&mut self, session: &mut dyn AnySession, now: Instant) {
        self.for_each(|all, key| {
            all.call(session, now, key, MachineCall::Handle(Input::LeaseEnded))
        });
    }

    pub(super) fn deliver_closing(&mut self, session: &mut dyn AnySession, now: Instant) {
        self.for_each(|all, key| all.call(session, now, key, MachineCall::Handle(Input::Closing)));
    }

    pub(super) fn is_unsettled(&self) -> bool {
        !self.waiting.refused.is_empty() || !self.waiting.unsettled.is_empty()
    }

    pub(super) fn settle(&mut self, session: &mut dyn AnySession, now: Instant) {
        let Waiting { refused, unsettled } = core::mem::take(&mut self.waiting);
        for Refusal { key, tag, error } in refused {
            self.deliver_reply(session, now, key, tag, Err(error));
        }
        for key in unsettled {
            // The process may have been stopped since the last events arrived.
            self.deliver_late_end_of_lease(session, now, key);
            self.call(session, now, key, MachineCall::Handle(Input::Settled));
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|at| at <= now) {
            self.due = Some(now);
        }
    }

    /// Returns whether a due timer must be delivered, or a machine detached.
    pub(super) fn has_events(&self) -> bool {
        let has_ended = matches!(self.state, State::Ended(_)) && self.count() > 0;
        has_ended || self.due.is_some_and(|due| self.poll_timeout().is_some_and(|at| at <= due))
    }

    /// Returns whether [`deliver_timer`](Self::deliver_timer) changes anything.
    pub(super) fn is_due(&self) -> bool {
        self.has_events() || self.due.is_some()
    }

    /// Delivers one due timer. Returns whether there was one. If the session has ended, detaches
    /// all machines.
    pub(super) fn deliver_timer(&mut self, session: &mut dyn AnySession, now: Instant) -> bool {
        if let State::Ended(_) = self.state {
            self.for_each(|all, key| all.detach(session, key));
        }
        let Some(due) = self.due else { return false };
        let first = self.timers.peek().filter(|Reverse((at, _))| *at <= due);
        let Some(&Reverse((_, key))) = first else {
            self.due = None;
            return false;
        };
        if let Some(slot) = self.slots.get_mut(key.place as usize) {
            slot.deadline = None;
        }
        self.forget_changed_timers();
        self.call(session, now, key, MachineCall::Timer { due });
        true
    }
}

#[cfg(test)]
impl Machines {
    pub(super) fn kept_timers(&self) -> usize {
        self.timers.len()
    }

    pub(super) fn kept_watches(&self, key: Key) -> usize {
        self.slots[key.place as usize].watches.len()
    }
}
