//! Watches for other contenders while a client keeps a lock.

use alloc::string::String;
use core::time::Duration;

use zk_session::proto::recording::Description;
use zk_session::proto::{EventType, GetChildrenResponse};
use zk_session::session::{Reply, State};
use zk_session::sync::Arc;
use zk_session::{End, Error};

#[cfg(doc)]
use crate::attempt::Command;
use crate::attempt::{Event, Machine, OpId, Turn};

/// Watches the queue of a lock that is held, and for how long it is idle. It creates nothing.
///
/// It reports [`Event::Revoked`], once, as soon as another contender may be in the queue: the list
/// shows one, changes, or cannot be read. After [`Command::Leave`], the lock is idle: it reports
/// [`Event::Released`] when it has been so for its time. A later `Leave` begins that time again.
///
/// Attach it when the lock is held, and [release](Command::Release) it with the lock.
#[derive(Clone, Debug)]
pub struct IdleWatch {
    lock_path: Arc<str>,
    /// The name of the node that the lock is held with.
    node: String,
    keep: Duration,
    /// The list that sets the watch.
    list: Option<OpId>,
    is_contended: bool,
    is_done: bool,
}

impl IdleWatch {
    /// Watches `lock_path`, a path of the server, whose contender `node` holds the lock. An idle lock
    /// is kept for the time `keep`.
    pub const fn new(lock_path: Arc<str>, node: String, keep: Duration) -> Self {
        Self { lock_path, node, keep, list: None, is_contended: false, is_done: false }
    }

    /// Returns whether a list has no other contender.
    fn is_alone(&self, reply: &Reply) -> bool {
        let names = reply.decode::<GetChildrenResponse<'_>>().map(|list| list.children);
        names.is_ok_and(|names| names.iter().all(|name| name == self.node))
    }

    fn contended(&mut self, turn: &mut Turn<'_>) {
        if !core::mem::replace(&mut self.is_contended, true) {
            self.unwatch(turn);
            turn.report(Event::Revoked);
        }
    }

    fn unwatch(&mut self, turn: &mut Turn<'_>) {
        if let Some(list) = self.list.take() {
            turn.unwatch(list);
        }
    }
}

impl Machine for IdleWatch {
    fn is_done(&self) -> bool {
        self.is_done
    }

    fn describe(&self, description: &mut Description<'_>) {
        description.machine("idle watch", &self.lock_path);
        description.bytes(self.node.as_bytes());
        description.duration(self.keep);
    }

    fn session_changed(&mut self, state: State, turn: &mut Turn<'_>) {
        if state == State::Renewing {
            self.is_done = true;
        } else if self.list.is_none() && !self.is_contended {
            self.list = Some(turn.watch(self.lock_path.clone()));
        }
    }

    fn session_ended(&mut self, _: End, _: &mut Turn<'_>) {
        self.is_done = true;
    }

    fn handle_reply(&mut self, op: OpId, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        if self.list == Some(op) && !result.is_ok_and(|reply| self.is_alone(&reply)) {
            self.contended(turn);
        }
    }

    fn watch_fired(&mut self, op: OpId, _: EventType, turn: &mut Turn<'_>) {
        if self.list == Some(op) {
            self.contended(turn);
        }
    }

    fn timer_fired(&mut self, turn: &mut Turn<'_>) {
        turn.report(Event::Released);
    }

    fn leave(&mut self, turn: &mut Turn<'_>) {
        turn.set_timer(self.keep);
    }

    fn release(&mut self, turn: &mut Turn<'_>) {
        self.unwatch(turn);
        self.is_done = true;
    }
}

#[cfg(test)]
mod tests {
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
}
