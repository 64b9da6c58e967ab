//! Waiting at a barrier, which is open while a node does not exist.

#[cfg(feature = "blocking")]
pub(crate) mod recipe;

use alloc::string::String;

use zk_session::proto::recording::Description;
use zk_session::proto::{ErrorCode, EventType, path};
use zk_session::session::{Reply, State};
use zk_session::{End, Error};

use crate::attempt::connection::Connection;
use crate::attempt::retry_policy::RetryPolicy;
use crate::attempt::{Event, Machine, OpId, Turn, WaitPolicy};
use crate::error::LockError;

/// The reply if the barrier is open.
const OPEN: Error = Error::Server(ErrorCode::NO_NODE);

/// Waits until a node does not exist. It creates nothing.
///
/// Drive it like a [`Contender`](crate::machine::Contender). It reports [`Event::Released`] when a server
/// confirms that the node does not exist, and [`Event::Failed`] if it cannot find out.
#[derive(Clone, Debug)]
pub struct BarrierWait {
    path: String,
    wait_policy: WaitPolicy,
    step: BarrierStep,
    last_op: OpId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BarrierStep {
    /// Waits for the first state of the session, or of the next one.
    Beginning,
    /// Reads the node and sets a watch.
    Reading,
    /// Waits for the watch event: the node exists.
    Watching,
    /// Waits for the timer: a server refused the request for now.
    Pausing,
    Done,
}

impl Machine for BarrierWait {
    fn is_done(&self) -> bool {
        self.step == BarrierStep::Done
    }

    fn outlives_session(&self) -> bool {
        self.wait_policy.waits_for_connection()
    }

    fn describe(&self, description: &mut Description<'_>) {
        description.machine("barrier", &self.path);
        description.number(self.wait_policy as u64);
    }

    fn handle_reply(&mut self, op: OpId, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        if op == self.last_op {
            // Contenders trust this reply, but a barrier can be closed again. A read-only server may
            // have missed that.
            let result = match result {
                Err(OPEN) if turn.connection() == Connection::ReadOnly => {
                    Err(Error::Server(ErrorCode::NOT_READ_ONLY))
                }
                result => result,
            };
            self.looked(result, turn);
        }
    }

    fn watch_fired(&mut self, op: OpId, _: EventType, turn: &mut Turn<'_>) {
        if op == self.last_op {
            self.read(turn);
        }
    }

    fn session_changed(&mut self, state: State, turn: &mut Turn<'_>) {
        if !turn.connection().is_up() && !self.wait_policy.waits_for_connection() {
            self.conclude(Event::Failed(LockError::NoConnection), turn);
        } else if state == State::Renewing {
            // The watch is gone. The next state is that of the new session.
            self.step = BarrierStep::Beginning;
        } else if self.step == BarrierStep::Beginning {
            self.read(turn);
        }
    }

    fn session_ended(&mut self, end: End, turn: &mut Turn<'_>) {
        self.conclude(Event::Failed(LockError::Ended(end)), turn);
    }

    fn timer_fired(&mut self, turn: &mut Turn<'_>) {
        if self.step == BarrierStep::Pausing {
            self.read(turn);
        }
    }

    fn release(&mut self, turn: &mut Turn<'_>) {
        turn.unwatch(self.last_op);
        self.conclude(Event::Released, turn);
    }
}

impl BarrierWait {
    /// Creates an attempt that waits while the node at `path` exists. `path` is a path of the
    /// server. `wait_policy` decides whether to wait if it exists.
    pub const fn new(path: String, wait_policy: WaitPolicy) -> Self {
        Self { path, wait_policy, step: BarrierStep::Beginning, last_op: OpId(0) }
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        // The watch of a read that failed, or was not trusted, would stay.
        if self.step != BarrierStep::Beginning {
            turn.unwatch(self.last_op);
        }
        if let Err(error) = path::validate(&self.path) {
            return self.conclude(Event::Failed(error.into()), turn);
        }
        self.step = BarrierStep::Reading;
        self.last_op = turn.watch_data(self.path.clone());
    }

    fn looked(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let error = match result {
            Ok(_) => match self.wait_policy.refusal() {
                None => {
                    self.step = BarrierStep::Watching;
                    let behind = path::name(&self.path).into();
                    return turn.report(Event::Waiting { behind, ahead: 1 });
                }
                Some(refusal) => {
                    turn.unwatch(self.last_op);
                    return self.conclude(Event::Failed(refusal), turn);
                }
            },
            Err(OPEN) => return self.conclude(Event::Released, turn),
            Err(error) => error,
        };
        match turn.retry(&error) {
            RetryPolicy::Now if self.wait_policy.waits_for_connection() => self.read(turn),
            RetryPolicy::Now => self.conclude(Event::Failed(LockError::NoConnection), turn),
            RetryPolicy::Later => self.step = BarrierStep::Pausing,
            RetryPolicy::Never => self.conclude(Event::Failed(error.into()), turn),
        }
    }

    fn conclude(&mut self, event: Event, turn: &mut Turn<'_>) {
        self.step = BarrierStep::Done;
        turn.report(event);
    }
}

zk_session::proto::formatted_by_debug! {
    [] BarrierWait;
}

#[cfg(test)]
mod tests;
