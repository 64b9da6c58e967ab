//! Tests of the barrier. Outputs are compared in order.

mod exploring;

use zk_session::End;
use zk_session::proto::{EventType, OpCode, SessionId, Zxid};

use super::*;
use crate::attempt::retry_policy::RETRY_AFTER;
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
    let mut wait = begin(WaitPolicy::Queue, State::ReadOnly { session: SessionId(1), server: 0 });
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

#[cfg(feature = "full")]
#[test]
fn it_has_no_mode_to_convert() {
    let mut wait = begin(WaitPolicy::Queue, CONNECTED);
    reads(&mut wait);
    wait.handle(Command::Convert(crate::attempt::LockMode::Shared));
    assert_eq!(reports(&mut wait), Event::NO_READERS);
}
