//! Contending for election, again and again: a contender at a time.

use alloc::collections::VecDeque;
use alloc::string::String;

use uuid::Uuid;
use zk_session::Error;
use zk_session::proto::{Zxid, path};
use zk_session::session::State;

use super::retry_policy::RETRY_AFTER;
use super::{AttemptConfig, Contender, Event, Input, LockMode, Machine, Output, WaitPolicy};
use crate::error::{LockError, Loss};

/// One who stands for election until it resigns, or its session ends. Drive it as a [`Contender`].
///
/// It leads as long as it holds the lock. When it has lost that, or its place in the queue, and its
/// session lives, it queues again after a while, at the end. So what it tells goes on after
/// [`Event::Lost`], unless the session has ended.
///
/// Of its [`AttemptConfig`], mode and entry do not matter. The guid is that of the first attempt; the
/// next one has the next, and so on.
#[derive(Clone, Debug)]
pub struct ElectionMachine {
    config: AttemptConfig,
    /// Which part of it the contender is, as requests are numbered.
    attempt: u32,
    contender: Contender,
    step: Step,
    /// What was last told of the session.
    session: Option<State>,
    /// Whether the caller was told how it ended.
    concluded: bool,
    outputs: VecDeque<Output>,
}

/// Where a candidacy is.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The contender waits or leads, or goes and has told why.
    Contending,
    /// It has lost, and goes; then comes another.
    Retreating,
    /// It has lost, and goes; no other comes.
    Resigning,
    /// It has gone, and another comes in a while: who deletes nodes is not to be fought over them.
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
            Input::Convert(_) => self.tell(Event::NotConverted(LockError::NoReaders)),
            Input::Leave | Input::Release => self.resign(),
        }
        self.settle();
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }
}

impl ElectionMachine {
    /// A candidacy that begins now, with a session that is connected.
    pub fn new(config: AttemptConfig) -> Self {
        let config =
            AttemptConfig { mode: LockMode::Exclusive, wait_policy: WaitPolicy::Queue, ..config };
        let mut election = Self {
            contender: Contender::new(config.clone()),
            config,
            attempt: 0,
            step: Step::Contending,
            session: None,
            concluded: false,
            outputs: VecDeque::new(),
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
        self.session = Some(state);
        self.config.follow(state);
        self.contender.handle(Input::Session(state));
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
        // The contender has told already that it has lost.
        if matches!(self.step, Step::Resigning) && !core::mem::replace(&mut self.concluded, true) {
            self.tell(Event::NOT_CONFIRMED);
        }
    }

    /// Takes what the contender wants and tells.
    fn settle(&mut self) {
        while let Some(output) = self.contender.poll_output() {
            match output {
                Output::Event(event) => self.hear(event),
                output => self.outputs.push_back(output.of_part(self.attempt)),
            }
        }
        if self.contender.is_done() {
            match self.step {
                Step::Contending => self.step = Step::Done,
                Step::Retreating => {
                    self.step = Step::Pausing;
                    self.outputs.push_back(Output::SetTimer(RETRY_AFTER));
                }
                Step::Resigning => self.conclude(Event::Released),
                Step::Pausing | Step::Done => {}
            }
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            // It did not lead, and stands again: nothing has changed for its caller.
            Event::Failed(LockError::NodeVanished) => self.step = Step::Retreating,
            Event::Lost(Loss::Ended(_)) => self.tell(event),
            Event::Lost(_) => {
                self.step = Step::Retreating;
                self.tell(event);
            }
            event => self.tell(event),
        }
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn conclude(&mut self, event: Event) {
        if !core::mem::replace(&mut self.concluded, true) {
            self.tell(event);
        }
        self.step = Step::Done;
    }
}

/// How things stand with a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leadership {
    /// It does not lead: it waits for its turn, or is about to queue again.
    Follower,
    /// It leads.
    Leader(Term),
    /// It led when it lost its connection. Another may be elected once the session has expired.
    Suspended(Term),
    /// It was closed, and nothing is left of it.
    Resigned,
    /// It cannot stand any more: the session has ended, or the ensemble refuses it.
    Failed(LockError),
}

/// From when somebody was elected until it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Term {
    /// Greater than that of any leader before, and of this one in an earlier term: if it is not the
    /// one seen last, leadership was lost in between. It is the fencing token of the lock.
    pub token: Zxid,
    /// The path of the leader's node.
    pub node: String,
}

impl Leadership {
    /// How things stand once a [`ElectionMachine`] has told this, whose nodes are in `directory`.
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
