//! Waiting at a barrier, which is open while a node does not exist.

#[cfg(feature = "blocking")]
pub(crate) mod recipe;

use alloc::string::String;

use zk_session::proto::{ErrorCode, EventType, path};
use zk_session::session::{Reply, State};
use zk_session::{End, Error};

use crate::attempt::connection::Connection;
use crate::attempt::retry_policy::{RETRY_AFTER, RetryPolicy};
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
    step: Step,
    last_op: OpId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
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
        self.step == Step::Done
    }

    fn outlives_session(&self) -> bool {
        self.wait_policy.waits_for_connection()
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
            self.step = Step::Beginning;
        } else if self.step == Step::Beginning {
            self.read(turn);
        }
    }

    fn session_ended(&mut self, end: End, turn: &mut Turn<'_>) {
        self.conclude(Event::Failed(LockError::Ended(end)), turn);
    }

    fn timer_fired(&mut self, turn: &mut Turn<'_>) {
        if self.step == Step::Pausing {
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
        Self { path, wait_policy, step: Step::Beginning, last_op: OpId(0) }
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        // The watch of a read that failed, or was not trusted, would stay.
        if self.step != Step::Beginning {
            turn.unwatch(self.last_op);
        }
        if let Err(error) = path::validate(&self.path) {
            return self.conclude(Event::Failed(error.into()), turn);
        }
        self.step = Step::Reading;
        self.last_op = turn.watch_data(self.path.clone());
    }

    fn looked(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let error = match result {
            Ok(_) => match self.wait_policy.refusal() {
                None => {
                    self.step = Step::Watching;
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
        match RetryPolicy::of(&error) {
            RetryPolicy::Now if self.wait_policy.waits_for_connection() => self.read(turn),
            RetryPolicy::Now => self.conclude(Event::Failed(LockError::NoConnection), turn),
            RetryPolicy::Later => {
                self.step = Step::Pausing;
                turn.set_timer(RETRY_AFTER);
            }
            RetryPolicy::Never => self.conclude(Event::Failed(error.into()), turn),
        }
    }

    fn conclude(&mut self, event: Event, turn: &mut Turn<'_>) {
        self.step = Step::Done;
        turn.report(event);
    }
}

#[cfg(test)]
mod tests {
    mod exploring;

    use zk_session::End;
    use zk_session::proto::{EventType, OpCode, SessionId, Zxid};

    use super::*;
    use crate::tests::noise::check_ignores_noise;
    use crate::tests::{Command, Input, fired};
    use crate::tests::{Driven, Output};

    const CONNECTED: State = State::Connected { session: SessionId(1), server: 0 };

    fn begin(wait_policy: WaitPolicy, state: State) -> Driven<BarrierWait> {
        let mut wait = Driven::new(BarrierWait::new("/barrier".into(), wait_policy));
        wait.handle(Input::State(state));
        wait
    }

    /// The number of the only request that the machine submits, after removing the watch of `last`.
    fn reads_again(wait: &mut Driven<BarrierWait>, last: OpId) -> OpId {
        assert_eq!(wait.poll_output(), Some(Output::Unwatch(last)));
        reads(wait)
    }

    /// The number of the only request that the machine submits.
    fn reads(wait: &mut Driven<BarrierWait>) -> OpId {
        check_ignores_noise(wait);
        match wait.poll_output() {
            Some(Output::Submit { op, operation }) if operation.watches() => op,
            output => panic!("{output:?}"),
        }
    }

    fn reports(wait: &mut Driven<BarrierWait>) -> Event {
        check_ignores_noise(wait);
        loop {
            match wait.poll_output() {
                Some(Output::Event(event)) => break event,
                Some(Output::Unwatch(_)) => {}
                output => panic!("{output:?}"),
            }
        }
    }

    #[test]
    fn it_ends_when_the_node_is_gone() {
        let mut wait = begin(WaitPolicy::Queue, CONNECTED);
        let first = reads(&mut wait);
        wait.handle(fired(first, EventType::NODE_DELETED));
        let second = reads_again(&mut wait, first);
        // The reply to the first request is ignored now, and so is a timer that nobody has set.
        wait.handle(Input::Timer);
        wait.handle(Input::Reply { tag: first.tag(), result: Err(OPEN) });
        assert_eq!(wait.poll_output(), None);
        wait.handle(Input::Reply { tag: second.tag(), result: Err(Error::ConnectionLost) });
        let third = reads_again(&mut wait, second);
        wait.handle(Input::Reply {
            tag: third.tag(),
            result: Err(Error::Server(ErrorCode::THROTTLED_OP)),
        });
        assert_eq!(wait.poll_output(), Some(Output::SetTimer(RETRY_AFTER)));
        wait.handle(Input::Timer);
        let fourth = reads_again(&mut wait, third);
        wait.handle(Input::Reply { tag: fourth.tag(), result: Err(OPEN) });
        assert_eq!(reports(&mut wait), Event::Released);
        assert!(wait.is_done());
    }

    #[test]
    fn a_read_only_server_does_not_open_the_barrier() {
        let mut wait =
            begin(WaitPolicy::Queue, State::ReadOnly { session: SessionId(1), server: 0 });
        let op = reads(&mut wait);
        wait.handle(Input::Reply { tag: op.tag(), result: Err(OPEN) });
        assert_eq!(wait.poll_output(), Some(Output::SetTimer(RETRY_AFTER)));
        wait.handle(Input::Timer);
        reads_again(&mut wait, op);
    }

    #[test]
    fn an_attempt_that_does_not_wait_fails_without_a_connection() {
        let mut wait = begin(WaitPolicy::OnlyIfFirst, State::Suspended);
        assert_eq!(reports(&mut wait), Event::Failed(LockError::NoConnection));
        let mut wait = begin(WaitPolicy::OnlyIfFirst, CONNECTED);
        let op = reads(&mut wait);
        wait.handle(Input::Reply { tag: op.tag(), result: Err(Error::ConnectionLost) });
        assert_eq!(reports(&mut wait), Event::Failed(LockError::NoConnection));
    }

    #[test]
    fn it_reads_again_on_the_next_session() {
        let mut wait = begin(WaitPolicy::Queue, CONNECTED);
        let first = reads(&mut wait);
        assert!(wait.outlives_session());
        wait.handle(Input::State(State::Renewing));
        assert_eq!(wait.poll_output(), None);
        wait.handle(Input::State(CONNECTED));
        let second = reads(&mut wait);
        assert!(second > first);
        wait.handle(Input::Reply { tag: second.tag(), result: Err(OPEN) });
        assert_eq!(reports(&mut wait), Event::Released);
        assert!(!BarrierWait::new("/barrier".into(), WaitPolicy::OnlyIfFirst).outlives_session());
    }

    #[test]
    fn it_fails_with_the_session_and_ends_when_released() {
        let mut wait = begin(WaitPolicy::Queue, CONNECTED);
        wait.handle(Input::State(State::Ended(End::Expired)));
        reads(&mut wait);
        assert_eq!(reports(&mut wait), Event::Failed(LockError::Ended(End::Expired)));
        let mut wait = begin(WaitPolicy::Queue, CONNECTED);
        let op = reads(&mut wait);
        wait.handle(Command::Release);
        assert_eq!(wait.poll_output(), Some(Output::Unwatch(op)));
        assert_eq!(reports(&mut wait), Event::Released);
        assert!(wait.is_done());
    }

    #[test]
    fn an_attempt_that_does_not_wait_fails_at_a_closed_barrier() {
        let mut wait = begin(WaitPolicy::OnlyIfFirst, CONNECTED);
        let op = reads(&mut wait);
        let body = bytes::Bytes::new();
        let exists = Reply::new(OpCode::GET_DATA, Zxid(1), body);
        wait.handle(Input::Reply { tag: op.tag(), result: Ok(exists) });
        assert_eq!(wait.poll_output(), Some(Output::Unwatch(op)));
        assert_eq!(reports(&mut wait), Event::Failed(LockError::TimedOut));
        assert!(wait.is_done());
    }

    #[test]
    fn it_has_no_mode_to_convert() {
        let mut wait = begin(WaitPolicy::Queue, CONNECTED);
        reads(&mut wait);
        wait.handle(Command::Convert(crate::attempt::LockMode::Shared));
        assert_eq!(reports(&mut wait), Event::NO_READERS);
    }
}
