//! Leader election: one contender after another.

use alloc::string::String;

use uuid::Uuid;
use zk_session::proto::{Zxid, path};
use zk_session::session::State;
use zk_session::{End, Error};

use super::outputs::Outputs;
use super::retry_policy::RETRY_AFTER;
use super::{AttemptConfig, Contender, Event, Input, LockMode, Machine, Output, WaitPolicy};
use crate::error::{LockError, Loss};

/// A candidate that stands for election until it resigns or its session ends. Drive it as a
/// [`Contender`].
///
/// It leads as long as it holds the lock. If it loses the lock or its place in the queue while the
/// session lives, it queues again after 100 ms, at the end. It does so too when its session is
/// [renewed](State::Renewing). So events continue after [`Event::Lost`], unless the session has ended.
///
/// It ignores the mode and the wait policy of its [`AttemptConfig`]. The GUID is that of the first
/// attempt, and each later attempt takes the next one.
#[derive(Clone, Debug)]
pub struct ElectionMachine {
    config: AttemptConfig,
    /// The number of the attempt, and the part of the machine that its requests belong to.
    attempt: u32,
    contender: Contender,
    step: Step,
    /// The last state of the session.
    session: Option<State>,
    outputs: Outputs,
}

/// The step of a candidate.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The contender waits, leads, or leaves after it has reported the result.
    Contending,
    /// The contender has lost and leaves. Another attempt follows.
    Retreating,
    /// The contender has lost and leaves. No attempt follows.
    Resigning,
    /// Waits before the next attempt, so that it does not race with a client that deletes nodes.
    Pausing,
    Done,
}

impl Machine for ElectionMachine {
    fn handle(&mut self, input: Input) {
        match input {
            _ if self.is_done() => {}
            Input::Reply { result: Err(Error::Ended { end, .. }), .. } => {
                self.session_changed(State::Ended(end));
            }
            Input::Reply { .. } | Input::Watch { .. } => {
                if let Some(input) = input.of_part(self.attempt) {
                    self.contender.handle(input);
                }
            }
            Input::Session(state) => self.session_changed(state),
            Input::Timer => match self.step {
                Step::Pausing => self.stand_again(),
                _ => self.contender.handle(input),
            },
            Input::LeaseEnded => self.lease_ended(),
            Input::Settled | Input::BehindAbandoned => self.contender.handle(input),
            #[cfg(feature = "conversions")]
            Input::Convert(_) => self.outputs.report(Event::NotConverted(LockError::NoReaders)),
            Input::Leave | Input::Release => self.resign(),
        }
        self.settle();
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop()
    }

    fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }

    fn outlives_session(&self) -> bool {
        true
    }
}

impl ElectionMachine {
    /// Creates a candidate that begins now. Its session must be connected.
    pub fn new(config: AttemptConfig) -> Self {
        let config =
            AttemptConfig { mode: LockMode::Exclusive, wait_policy: WaitPolicy::Queue, ..config };
        let mut election = Self {
            contender: Contender::new(config.clone()),
            config,
            attempt: 0,
            step: Step::Contending,
            session: None,
            outputs: Outputs::default(),
        };
        election.settle();
        election
    }

    fn stand_again(&mut self) {
        self.attempt += 1;
        self.config.guid = Uuid::from_u128(self.config.guid.as_u128().wrapping_add(1));
        self.contender = Contender::new(self.config.clone());
        self.step = Step::Contending;
        if let Some(state) = self.session {
            self.contender.handle(Input::Session(state));
        }
    }

    fn resign(&mut self) {
        match self.step {
            Step::Contending => self.contender.handle(Input::Release),
            Step::Retreating => self.step = Step::Resigning,
            Step::Pausing => self.conclude(Event::Released),
            Step::Resigning | Step::Done => {}
        }
    }

    fn session_changed(&mut self, state: State) {
        let is_first = self.session.replace(state).is_none();
        self.config.follow(state);
        let seen = match state {
            // The node of this attempt is gone. The next attempt belongs to the new session.
            State::Renewing if !is_first => State::Ended(End::Expired),
            state => state,
        };
        self.contender.handle(Input::Session(seen));
        match (state, self.step) {
            (State::Ended(end), Step::Retreating | Step::Pausing) => {
                self.conclude(Event::Failed(LockError::Ended(end)));
            }
            (State::Ended(end), Step::Resigning) => self.conclude(Event::gone_with(end)),
            _ => {}
        }
    }

    fn lease_ended(&mut self) {
        self.contender.handle(Input::LeaseEnded);
        // The contender has already reported its loss.
        if matches!(self.step, Step::Resigning) {
            self.outputs.conclude(Event::NOT_CONFIRMED);
        }
    }

    /// Takes the outputs of the contender.
    fn settle(&mut self) {
        while let Some(output) = self.contender.poll_output() {
            match output {
                Output::Event(event) => self.check_reply(event),
                output => self.outputs.push(output.of_part(self.attempt)),
            }
        }
        if self.contender.is_done() {
            match self.step {
                Step::Contending => self.step = Step::Done,
                Step::Retreating => {
                    self.step = Step::Pausing;
                    self.outputs.set_timer(RETRY_AFTER);
                }
                Step::Resigning => self.conclude(Event::Released),
                Step::Pausing | Step::Done => {}
            }
        }
    }

    fn check_reply(&mut self, event: Event) {
        match event {
            // It did not lead, and queues again: nothing changes for the caller.
            Event::Failed(LockError::NodeVanished) => self.step = Step::Retreating,
            Event::Failed(LockError::Ended(_)) if self.is_renewing() => {
                self.step = Step::Retreating;
            }
            Event::Lost(Loss::Ended(_)) if self.is_renewing() => {
                self.step = Step::Retreating;
                self.outputs.report(Event::Lost(Loss::Renewed));
            }
            Event::Lost(Loss::Ended(_)) => self.outputs.report(event),
            Event::Lost(_) => {
                self.step = Step::Retreating;
                self.outputs.report(event);
            }
            event => self.outputs.report(event),
        }
    }

    fn is_renewing(&self) -> bool {
        self.session == Some(State::Renewing)
    }

    fn conclude(&mut self, event: Event) {
        self.outputs.conclude(event);
        self.step = Step::Done;
    }
}

/// The state of a candidate.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leadership {
    /// It waits for its turn, or is about to queue again.
    Follower,
    /// It leads.
    Leader(Term),
    /// It led when it lost its connection. Another may be elected once the session has expired.
    Suspended(Term),
    /// It has resigned, and its node is gone.
    Resigned,
    /// It can no longer be a candidate: the session has ended, or the ensemble refuses it.
    Failed(LockError),
}

/// The time from an election until that leader goes.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Term {
    /// The fencing token of the lock. It is greater than in any earlier term, so a new one shows
    /// that leadership was lost in between.
    pub token: Zxid,
    /// The path of the leader's node.
    pub node: String,
}

impl Leadership {
    /// Returns the state after an [`ElectionMachine`] on `lock_path` has reported `event`.
    #[must_use]
    pub fn after(&self, event: &Event, lock_path: &str) -> Self {
        match (self, event) {
            (_, Event::Acquired { node, token }) => {
                Self::Leader(Term { token: *token, node: path::child(lock_path, node) })
            }
            (Self::Leader(term), Event::Suspended) => Self::Suspended(term.clone()),
            (Self::Suspended(term), Event::Resumed) => Self::Leader(term.clone()),
            (_, Event::Lost(Loss::Ended(end))) => Self::Failed(LockError::Ended(*end)),
            (_, Event::Lost(_)) => Self::Follower,
            (_, Event::Released) => Self::Resigned,
            (_, Event::Failed(error)) => Self::Failed(error.clone()),
            _ => self.clone(),
        }
    }
}
