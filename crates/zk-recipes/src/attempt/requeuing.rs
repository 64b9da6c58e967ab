//! Queueing again after the place in the queue was lost.

use uuid::Uuid;
use zk_session::dispatch::Input;
use zk_session::proto::SessionId;
use zk_session::proto::recording::Description;
use zk_session::session::State;
use zk_session::{End, Error};

use super::command::Command;
use super::config::AttemptConfig;
use super::event::Event;
use super::machine::{Given, Machine};
use super::retry_policy::RETRY_AFTER;
use super::turn::Turn;
use crate::error::{LockError, Loss};

/// A machine whose attempt can begin anew.
pub trait Restart: Machine {
    /// Returns a machine for another attempt at the same lock, with another GUID, on the session of
    /// `state`.
    #[must_use]
    fn restart(&self, state: Option<State>) -> Self;
}

impl AttemptConfig {
    /// Returns the configuration of the next attempt.
    pub(crate) fn restart(&self, state: Option<State>) -> Self {
        // The upper half: the owner may count its attempts in the lower one.
        let guid = Uuid::from_u128(self.guid.as_u128().wrapping_add(1 << 64));
        let mut next = Self { guid, ..self.clone() };
        match state {
            // It begins once the new session is connected.
            Some(State::Renewing) => next.session = SessionId::NONE,
            Some(state) => next.follow(state),
            None => {}
        }
        next
    }
}

/// A machine that queues again when its attempt has lost its place in the queue. Drive it as a
/// [`Contender`](crate::machine::Contender).
///
/// The place is lost when the session is [renewed](State::Renewing) or the node is deleted. The
/// next attempt enters the queue at its end, with a node of its own, and reports a second
/// [`Event::Enqueued`]. It begins as soon as the new session is connected, or 100 ms after the
/// deletion.
///
/// A lock that is held is lost with its session or its node. That ends this machine, as it ends
/// the attempt.
#[derive(Clone, Debug)]
pub struct Requeuing<M> {
    machine: M,
    until: Until,
    step: RequeueStep,
    /// The last state of the session.
    session: Option<State>,
}

/// How long to queue again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Never.
    Begun,
    Acquired,
    /// Also after the loss of the lock.
    Released,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequeueStep {
    /// The attempt goes on, or is the last one.
    Contending,
    /// The attempt has lost its place, and deletes its nodes. Another one follows.
    Retreating,
    /// The attempt has lost its place, and deletes its nodes. No other follows.
    Resigning { is_concluded: bool },
    /// Waits before the next attempt, so that it does not race with a client that deletes nodes.
    Pausing,
}

impl<M: Restart> Machine for Requeuing<M> {
    fn handle(&mut self, input: Input, turn: &mut Turn<'_>) {
        match input {
            _ if self.is_done() => {}
            // There is one attempt, and nothing to decide.
            input if matches!(self.until, Until::Begun) => self.machine.handle(input, turn),
            Input::Reply { result: Err(Error::Ended { end, .. }), .. } => {
                self.follow(State::Ended(end), turn);
            }
            Input::State(state) => self.follow(state, turn),
            Input::Timer if self.step == RequeueStep::Pausing => self.begin_again(turn),
            Input::LeaseEnded => self.end_lease(turn),
            input => self.attempt(input.into(), turn),
        }
        self.go_on(turn);
    }

    fn command(&mut self, command: Command, turn: &mut Turn<'_>) {
        match command {
            _ if self.is_done() => {}
            #[cfg(feature = "full")]
            Command::Convert(_) if self.until == Until::Released => turn.report(Event::NO_READERS),
            Command::Leave | Command::Release if self.step != RequeueStep::Contending => {
                self.resign(turn);
            }
            _ => self.attempt(command.into(), turn),
        }
        self.go_on(turn);
    }

    fn is_done(&self) -> bool {
        self.step == RequeueStep::Contending && self.machine.is_done()
    }

    fn outlives_session(&self) -> bool {
        self.until != Until::Begun
    }

    fn describe(&self, description: &mut Description<'_>) {
        self.machine.describe(match self.until {
            Until::Begun => description,
            Until::Acquired => description.inside("requeuing "),
            Until::Released => description.inside("election "),
        });
    }
}

impl<M: Restart> Requeuing<M> {
    /// Makes a machine queue again until it holds the lock, if `requeues` is set.
    pub fn new(machine: M, requeues: bool) -> Self {
        Self::until(machine, if requeues { Until::Acquired } else { Until::Begun })
    }

    pub(crate) fn until(machine: M, until: Until) -> Self {
        Self { machine, until, step: RequeueStep::Contending, session: None }
    }

    /// Lets the attempt act. It ignores replies and events of an earlier one.
    fn attempt(&mut self, given: Given, turn: &mut Turn<'_>) {
        let (until, is_renewing) = (self.until, self.session == Some(State::Renewing));
        let step = &mut self.step;
        let mut judge = |event| judge(event, until, is_renewing, step);
        turn.filtered(0, &mut judge, |turn| given.to(&mut self.machine, turn));
    }

    /// Begins the next step if the attempt is over.
    fn go_on(&mut self, turn: &mut Turn<'_>) {
        match self.step {
            _ if !self.machine.is_done() => {}
            RequeueStep::Retreating => self.retreated(turn),
            RequeueStep::Resigning { .. } => self.conclude(Event::Released, turn),
            RequeueStep::Contending | RequeueStep::Pausing => {}
        }
    }

    /// Begins the next attempt, which waits for the new session if there is to be one.
    fn begin_again(&mut self, turn: &mut Turn<'_>) {
        self.machine = self.machine.restart(self.session);
        self.step = RequeueStep::Contending;
        let state = self.session.map_or(Input::Settled, Input::State);
        self.attempt(state.into(), turn);
    }

    fn resign(&mut self, turn: &mut Turn<'_>) {
        match self.step {
            RequeueStep::Retreating => self.step = RequeueStep::Resigning { is_concluded: false },
            RequeueStep::Pausing => self.conclude(Event::Released, turn),
            RequeueStep::Contending | RequeueStep::Resigning { .. } => {}
        }
    }

    fn follow(&mut self, state: State, turn: &mut Turn<'_>) {
        let is_first = self.session.replace(state).is_none();
        let seen = match state {
            // The nodes of this attempt are gone. The next attempt belongs to the new session.
            State::Renewing if !is_first && self.outlives_session() => State::Ended(End::Expired),
            state => state,
        };
        self.attempt(Input::State(seen).into(), turn);
        match (state, self.step) {
            (State::Ended(end), RequeueStep::Retreating | RequeueStep::Pausing) => {
                self.conclude(Event::Failed(LockError::Ended(end)), turn);
            }
            (State::Ended(end), _) => self.conclude(Event::gone_with(end), turn),
            (State::Renewing, RequeueStep::Pausing) => self.begin_again(turn),
            _ => {}
        }
    }

    fn end_lease(&mut self, turn: &mut Turn<'_>) {
        self.attempt(Input::LeaseEnded.into(), turn);
        // The attempt has already reported its loss.
        if let RequeueStep::Resigning { is_concluded } = &mut self.step {
            turn.conclude(is_concluded, Event::NOT_CONFIRMED);
        }
    }

    /// Waits for the time of the next attempt: no node of this one is left.
    fn retreated(&mut self, turn: &mut Turn<'_>) {
        if self.session == Some(State::Renewing) {
            return self.begin_again(turn);
        }
        self.step = RequeueStep::Pausing;
        turn.set_timer(RETRY_AFTER);
    }

    /// Ends with this attempt, which is done. One that contended has reported its result.
    fn conclude(&mut self, event: Event, turn: &mut Turn<'_>) {
        let step = core::mem::replace(&mut self.step, RequeueStep::Contending);
        let is_concluded = match step {
            RequeueStep::Contending => true,
            RequeueStep::Resigning { is_concluded } => is_concluded,
            _ => false,
        };
        if !is_concluded {
            turn.report(event);
        }
    }
}

/// Returns the event to report. Decides whether another attempt follows.
fn judge(event: Event, until: Until, is_renewing: bool, step: &mut RequeueStep) -> Option<Event> {
    if until == Until::Begun || *step != RequeueStep::Contending {
        return Some(event);
    }
    let stands = until == Until::Released;
    let report = match event {
        // It did not hold the lock, and queues again: nothing changes for the caller.
        Event::Failed(LockError::NodeVanished) => None,
        Event::Failed(LockError::Ended(_)) if is_renewing => None,
        Event::Lost(Loss::Ended(_)) if stands && is_renewing => Some(Event::Lost(Loss::Renewed)),
        Event::Lost(loss) if stands && !matches!(loss, Loss::Ended(_)) => Some(event),
        event => return Some(event),
    };
    *step = RequeueStep::Retreating;
    report
}
