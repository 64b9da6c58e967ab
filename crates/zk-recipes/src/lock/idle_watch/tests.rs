use zk_session::dispatch::Input;
use zk_session::proto::{EventType, SessionId};

use super::*;
use crate::attempt::Command;
use crate::tests::{Driven, Output, children, fired, name};

const CONNECTED: State = State::Connected { session: SessionId(1), server: 0 };
const KEEP: Duration = Duration::from_secs(5);

/// Begins the watch. Returns the request that sets it.
fn begin() -> (Driven<IdleWatch>, OpId) {
    let mut watch = Driven::new(IdleWatch::new("/locks".into(), name("own-1"), KEEP));
    watch.handle(Input::State(CONNECTED));
    match watch.poll_output() {
        Some(Output::Submit { op, operation }) if operation.watches() => (watch, op),
        output => panic!("{output:?}"),
    }
}

fn outputs(watch: &mut Driven<IdleWatch>) -> alloc::vec::Vec<Output> {
    core::iter::from_fn(|| watch.poll_output()).collect()
}

#[test]
fn it_reports_once_that_somebody_else_may_be_there() {
    let event_type = EventType::NODE_CHILDREN_CHANGED;
    for (is_alone, then) in [(true, Some(fired(OpId::of_tag(1), event_type))), (false, None)] {
        let (mut watch, op) = begin();
        assert_eq!(op, OpId::of_tag(1));
        let names: &[&str] = if is_alone { &["own-1"] } else { &["own-1", "a-2"] };
        watch.handle(Input::Reply { tag: op.tag(), result: children(names) });
        if let Some(event) = then {
            assert_eq!(outputs(&mut watch), []);
            watch.handle(event);
        }
        let reported = [Output::Unwatch(op), Output::Event(Event::Revoked)];
        assert_eq!(outputs(&mut watch), reported);
        watch.handle(Input::State(CONNECTED));
        watch.handle(fired(op, event_type));
        assert_eq!(outputs(&mut watch), []);
    }
}

#[test]
fn a_list_that_cannot_be_read_may_have_anybody() {
    let (mut watch, op) = begin();
    watch.handle(Input::Reply { tag: op.tag(), result: Err(Error::ConnectionLost) });
    assert_eq!(outputs(&mut watch), [Output::Unwatch(op), Output::Event(Event::Revoked)]);
}

#[test]
fn the_time_begins_with_each_leave() {
    let (mut watch, op) = begin();
    watch.handle(Input::Reply { tag: op.tag(), result: children(&["own-1"]) });
    for _ in 0..2 {
        watch.handle(Command::Leave);
        assert_eq!(outputs(&mut watch), [Output::SetTimer(KEEP)]);
        watch.handle(Input::Timer);
        assert_eq!(outputs(&mut watch), [Output::Event(Event::Released)]);
    }
    watch.handle(Command::Release);
    assert_eq!(outputs(&mut watch), [Output::Unwatch(op)]);
    assert!(watch.is_done());
}

#[test]
fn it_ends_with_its_session() {
    for state in [State::Ended(End::Expired), State::Renewing] {
        let (mut watch, _) = begin();
        watch.handle(Input::State(state));
        assert!(watch.is_done());
        assert_eq!(outputs(&mut watch), []);
    }
}
