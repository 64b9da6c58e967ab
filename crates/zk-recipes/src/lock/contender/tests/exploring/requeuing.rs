//! Queueing again, after a deletion of the node or a renewal of the session.

use super::*;

impl From<Contender> for Requeuing<Contender> {
    fn from(contender: Contender) -> Self {
        Self::new(contender, true)
    }
}

pub(super) const AGAIN: [&str; 8] = [
    ONE,
    "queues again",
    "resumes",
    "loses its node",
    "loses its session",
    "adopts",
    "creates again",
    "gives up",
];

#[track_caller]
pub(super) fn proves(scenario: Scenario, states: usize, milestones: &[&'static str]) {
    search::prove(scenario.world_of::<Requeuing<Contender>>(), states, milestones);
}

#[test]
fn one_queues_again() {
    proves(Scenario::of(&[WRITER]).renewing(3).with_early_release(), 2_150, &AGAIN);
}

#[test]
fn one_queues_again_on_servers_that_lag() {
    let scenario = Scenario::of(&[WRITER]).renewing(2).late().lagging().with_early_release();
    proves(scenario, 2_419, &AGAIN);
}

#[test]
fn one_queues_again_twice_on_servers_that_lag() {
    let scenario = Scenario::of(&[WRITER]).renewing(3).late().lagging().with_early_release();
    proves(scenario, 10_960, &AGAIN);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn two_queue_again() {
    let scenario = Scenario::of(&[WRITER; 2]).renewing(2).with_early_release();
    proves(scenario, 104_246, &[&AGAIN[..], &[TWO, "takes over"]].concat());
}

/// An injected bug: it takes a renewal of its session for a lost connection, either while it holds
/// the lock or while it does not.
#[derive(Clone, Debug)]
struct Unaware<const AS_HOLDER: bool> {
    contender: Contender,
    is_holder: bool,
}

impl<const AS_HOLDER: bool> From<Contender> for Unaware<AS_HOLDER> {
    fn from(contender: Contender) -> Self {
        Self { contender, is_holder: false }
    }
}

impl<const AS_HOLDER: bool> Unaware<AS_HOLDER> {
    fn act(&mut self, given: Given, turn: &mut Turn<'_>) {
        let mut note = |event| {
            self.is_holder |= matches!(event, Event::Acquired { .. });
            Some(event)
        };
        turn.filtered(0, &mut note, |turn| given.to(&mut self.contender, turn));
    }
}

impl<const AS_HOLDER: bool> Machine for Unaware<AS_HOLDER> {
    fn handle(&mut self, input: Input, turn: &mut Turn<'_>) {
        let is_unaware = self.is_holder == AS_HOLDER;
        let input = match input {
            Input::State(State::Renewing) if is_unaware => Input::State(State::Suspended),
            Input::State(State::Renewing) => Input::State(State::Ended(End::Expired)),
            input => input,
        };
        self.act(input.into(), turn);
    }

    fn command(&mut self, command: Command, turn: &mut Turn<'_>) {
        self.act(command.into(), turn);
    }

    fn is_done(&self) -> bool {
        self.contender.is_done()
    }
}

#[test]
fn a_holder_that_does_not_notice_a_renewal_holds_across_sessions() {
    let world = Scenario::of(&[WRITER]).renewing(2).world_of::<Unaware<true>>();
    search::refute(world, "0 holds a lock across sessions", 5);
}

#[test]
fn a_waiter_that_does_not_notice_a_renewal_waits_for_ever() {
    let world = Scenario::of(&[WRITER; 2]).renewing(2).world_of::<Unaware<false>>();
    search::refute(world, "1 waits for ever", 8);
}
