//! A machine that does what the test says, on a real session.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::any::Any;
use std::sync::{Mutex, MutexGuard};

use zk_session::dispatch::{Attached, Key, Port};
use zk_session::session::WatchedEvent;

use super::renewals::{Connected, NODE};
use crate::tests::*;

/// What the machine is to do.
#[derive(Clone, Debug)]
enum Act {
    /// Set a watch of this name.
    Watch(u64),
    Unwatch(u64),
    Settle,
    Report(Event),
}

/// What the machine is to do, and what has happened to it.
#[derive(Debug, Default)]
struct Course {
    acts: VecDeque<Act>,
    /// The names of its requests.
    ops: Vec<(OpId, u64)>,
    is_done: bool,
    seen: Vec<String>,
}

#[derive(Clone, Debug, Default)]
struct Script(Arc<Mutex<Course>>);

impl Script {
    fn course(&self) -> MutexGuard<'_, Course> {
        self.0.lock().expect("nobody panics")
    }

    fn take(&self) -> Vec<String> {
        core::mem::take(&mut self.course().seen)
    }
}

impl Machine for Script {
    fn handle(&mut self, input: Input, turn: &mut Turn<'_>) {
        let name = |op: OpId| {
            let course = self.course();
            let known = course.ops.iter().find(|(known, _)| *known == op);
            known.expect("it was submitted").1
        };
        let line = match input {
            Input::Reply { tag, .. } => format!("reply {}", name(OpId(tag))),
            Input::Watch { tag, .. } => format!("watch {}", name(OpId(tag))),
            Input::State(State::Connected { .. }) => "connected".to_string(),
            input => format!("{input:?}"),
        };
        self.perform(line, turn);
    }

    fn command(&mut self, command: Command, turn: &mut Turn<'_>) {
        self.perform(format!("{command:?}"), turn);
    }

    fn is_done(&self) -> bool {
        self.course().is_done
    }

    fn outlives_session(&self) -> bool {
        true
    }
}

impl Script {
    /// Notes the call, and acts as the test wants.
    fn perform(&self, line: String, turn: &mut Turn<'_>) {
        self.course().seen.push(line);
        let acts = core::mem::take(&mut self.course().acts);
        for act in acts {
            match act {
                Act::Watch(name) => {
                    let op = turn.watch(NODE);
                    self.course().ops.push((op, name));
                }
                Act::Unwatch(name) => {
                    let op =
                        self.course().ops.iter().find(|(_, known)| *known == name).map(|it| it.0);
                    turn.unwatch(op.expect("it was submitted"));
                }
                Act::Settle => turn.settle(),
                Act::Report(event) => turn.report(event),
            }
        }
    }
}

impl Observer for Script {
    fn observe(&mut self, event: Event, _: &mut Port<'_>) {
        if event == Event::Releasing {
            self.course().seen.push("releasing".to_string());
        }
    }

    fn finish(&mut self, _: &mut Port<'_>) {
        self.course().seen.push("finish".to_string());
    }
}

/// Takes inputs of the dispatcher as messages, too.
struct Directed(OnSession<Script, Script>);

impl Attached for Directed {
    fn handle(&mut self, input: Input, port: &mut Port<'_>) {
        self.0.handle(input, port);
    }

    fn command(&mut self, message: &mut dyn Any, port: &mut Port<'_>) {
        match message.downcast_mut::<Option<Input>>() {
            Some(input) => self.0.handle(input.take().expect("an input"), port),
            None => self.0.command(message, port),
        }
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }
}

/// A session with such a machine, which has submitted these requests for a watch.
struct Attachment {
    connected: Connected,
    key: Key,
    script: Script,
}

impl Attachment {
    fn watching(ops: &[u64]) -> Self {
        Self::configured(ops, |machine| machine)
    }

    fn configured(
        ops: &[u64],
        configure: fn(OnSession<Script, Script>) -> OnSession<Script, Script>,
    ) -> Self {
        let (mut connected, script) = (Connected::new(), Script::default());
        script.course().acts.extend(ops.iter().copied().map(Act::Watch));
        let machine = configure(OnSession::new(script.clone(), script.clone(), 1));
        let key = connected.dispatcher.attach(connected.now, Box::new(Directed(machine)));
        connected.answer();
        let replies = ops.iter().map(|op| format!("reply {op}"));
        let seen: Vec<_> = core::iter::once("connected".to_string()).chain(replies).collect();
        assert_eq!(script.take(), seen);
        Self { connected, key, script }
    }

    fn send(&mut self, message: &mut dyn Any) {
        let Self { connected: Connected { dispatcher, now, .. }, key, .. } = self;
        assert!(dispatcher.command(*now, *key, message));
    }

    fn feed(&mut self, input: Input) {
        self.send(&mut Some(input));
    }

    /// The machine wants this before it receives its next input.
    fn perform(&mut self, act: Act) {
        self.script.course().acts.push_back(act);
        self.feed(Input::LeaseEnded);
        self.expect(&["LeaseEnded"]);
    }

    /// Waits until a watch is renewed.
    fn renew(&mut self) {
        while !self.connected.answer().contains(&OpCode::GET_CHILDREN) {
            self.connected.sleep();
        }
    }

    #[track_caller]
    fn expect(&mut self, lines: &[&str]) {
        assert_eq!(self.script.take(), lines);
    }
}

#[test]
fn a_watch_that_fires_is_reported_once_whether_it_was_renewed_or_not() {
    for renewals in 0..4 {
        let mut attachment = Attachment::watching(&[1]);
        for _ in 0..renewals {
            attachment.renew();
            attachment.expect(&["reply 1"]);
        }
        attachment.connected.fire();
        attachment.expect(&["watch 1"]);
        attachment.connected.fire();
        attachment.expect(&[]);
    }
}

#[test]
fn each_watch_is_renewed_under_its_own_number() {
    let mut attachment = Attachment::watching(&[4, 7]);
    for op in [7, 4, 7, 4] {
        attachment.renew();
        attachment.expect(&[&format!("reply {op}")]);
    }
}

#[test]
fn a_watch_that_is_dropped_is_removed_whether_it_was_renewed_or_not() {
    for renewals in 0..3 {
        let mut attachment = Attachment::watching(&[1]);
        (0..renewals).for_each(|_| attachment.renew());
        attachment.script.take();
        attachment.perform(Act::Unwatch(1));
        assert_eq!(attachment.connected.answer(), [OpCode::REMOVE_WATCHES]);
        // It is not renewed any more.
        for _ in 0..50 {
            attachment.connected.sleep();
            assert_eq!(attachment.connected.answer(), []);
        }
    }
}

#[test]
fn an_event_of_another_watch_is_not_reported() {
    let mut attachment = Attachment::watching(&[1]);
    let event = WatchedEvent::new(EventType::NODE_DELETED, NODE.into(), Zxid(-1));
    attachment.feed(Input::Watch { tag: 2, event });
    attachment.expect(&[]);
}

#[test]
fn watches_stay_with_their_session() {
    let mut attachment = Attachment::watching(&[1]);
    attachment.feed(Input::State(State::Suspended));
    attachment.expect(&["State(Suspended)"]);
    attachment.connected.fire();
    attachment.expect(&["watch 1"]);
    let mut attachment = Attachment::watching(&[1]);
    attachment.feed(Input::State(State::Renewing));
    attachment.expect(&["State(Renewing)"]);
    attachment.connected.fire();
    attachment.expect(&[]);
}

#[test]
fn a_machine_settles_when_the_session_has() {
    let mut attachment = Attachment::watching(&[]);
    attachment.perform(Act::Settle);
    let now = attachment.connected.now;
    attachment.connected.dispatcher.settle(now);
    attachment.expect(&["Settled"]);
}

#[test]
fn commands_are_inputs_except_the_check_of_the_lease() {
    let mut attachment = Attachment::watching(&[]);
    for (mut command, input) in [
        (Command::Convert(LockMode::Shared), &["Convert(Shared)"][..]),
        (Command::Leave, &["Leave"]),
        (Command::Release, &["Release"]),
        (Command::CheckLease, &[]),
    ] {
        attachment.send(&mut command);
        attachment.expect(input);
    }
}

#[test]
fn a_machine_that_is_done_is_detached() {
    let mut attachment = Attachment::watching(&[]);
    attachment.script.course().is_done = true;
    attachment.send(&mut Command::Release);
    attachment.expect(&["Release", "finish"]);
    assert_eq!(attachment.connected.dispatcher.attached(), 0);
}

#[test]
fn watches_are_not_renewed_on_request() {
    let mut attachment = Attachment::configured(&[1], OnSession::without_renewals);
    for _ in 0..100 {
        attachment.connected.sleep();
        assert_eq!(attachment.connected.answer(), []);
    }
}

#[test]
fn an_attached_machine_outlives_the_session_if_it_can() {
    assert!(OnSession::new(Script::default(), Script::default(), 1).outlives_session());
    let contender = Contender::new(config());
    assert!(!OnSession::new(contender, Script::default(), 1).outlives_session());
}

/// A cache on a session.
struct Cached(CacheMachine, Script);

impl Attached for Cached {
    fn handle(&mut self, input: Input, port: &mut Port<'_>) {
        let Self(machine, script) = self;
        machine.drive(input, port, |event, _| script.course().seen.push(format!("{event:?}")));
    }

    fn command(&mut self, _: &mut dyn Any, _: &mut Port<'_>) {}

    fn is_done(&self) -> bool {
        false
    }
}

#[test]
fn a_cache_reads_behind_its_watch_and_drops_it_in_the_end() {
    let (mut connected, script) = (Connected::new(), Script::default());
    let machine = CacheMachine::new(CacheConfig::new(NODE.into()));
    let machine = Box::new(Cached(machine, script.clone()));
    connected.dispatcher.attach(connected.now, machine);
    assert_eq!(connected.answer(), [OpCode::ADD_WATCH, OpCode::GET_DATA]);
    // The reply has no data, which ends the cache.
    let seen = script.take();
    assert!(seen.len() == 1 && seen[0].starts_with("Ended"), "{seen:?}");
    assert_eq!(connected.answer(), [OpCode::REMOVE_WATCHES]);
}

fn acquired() -> Act {
    Act::Report(Event::Acquired { node: "own".into(), token: Zxid(7) })
}

#[test]
fn an_owner_learns_of_its_release_before_the_machine_does() {
    for (command, seen) in [(Command::Release, "Release"), (Command::Leave, "Leave")] {
        let mut attachment = Attachment::watching(&[]);
        attachment.send(&mut { command });
        attachment.expect(&[seen]);
        attachment.perform(acquired());
        attachment.send(&mut { command });
        attachment.expect(&["releasing", seen]);
        attachment.send(&mut { command });
        attachment.expect(&[seen]);
    }
}

#[test]
fn a_hold_ends_as_soon_as_its_session_is_being_closed() {
    let mut waiting = Attachment::watching(&[]);
    waiting.feed(Input::Closing);
    waiting.expect(&[]);
    for end in [Event::Lost(Loss::LeaseEnded), Event::Released] {
        let mut over = Attachment::watching(&[]);
        over.perform(acquired());
        over.perform(Act::Report(end));
        over.feed(Input::Closing);
        over.expect(&[]);
    }
    let mut held = Attachment::watching(&[]);
    held.perform(acquired());
    held.feed(Input::Closing);
    held.expect(&["State(Ended(Closed))"]);
}
