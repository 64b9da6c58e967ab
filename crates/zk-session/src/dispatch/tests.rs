//! Tests with machines that log their inputs, on a session with a scripted server.

#[cfg(feature = "blocking")]
mod lists;
mod port;
mod renewal;
mod watches;

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::time::Duration;
use std::sync::Mutex;

use bytes::BytesMut;
use zk_proto::{
    AddWatchMode, AddWatchRequest, ConnectResponse, Decode as _, Encode, ErrorCode, EventType,
    ExistsRequest, KeeperState, OpCode, Reader, ReplyHeader, Request, RequestHeader, SessionId,
    SyncRequest, WatcherEvent, Xid, Zxid, frame,
};

use super::*;
use crate::error::{Error, Invalid};
use crate::session::{Config, Event, Reply, Session, State};
use crate::time::Instant;

const NODE: &str = "/node";
const TIMEOUT: Duration = Duration::from_secs(6);

/// The reaction of a machine to each input.
type React = fn(&str, &mut Port<'_>);

/// The reaction of a machine to a message.
type Act = Box<dyn FnMut(&mut Port<'_>) + Send>;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, line: String) {
        self.0.lock().expect("nobody panics").push(line);
    }

    fn take(&self) -> Vec<String> {
        core::mem::take(&mut *self.0.lock().expect("nobody panics"))
    }
}

/// A machine that logs its inputs and its drop.
struct Recorder {
    log: Log,
    /// The reaction to each input.
    react: fn(&str, &mut Port<'_>),
    is_done: bool,
    outlives_session: bool,
}

impl Recorder {
    fn new(log: &Log) -> Box<Self> {
        Self::reacting(log, |_, _| {})
    }

    fn reacting(log: &Log, react: fn(&str, &mut Port<'_>)) -> Box<Self> {
        Box::new(Self { log: log.clone(), react, is_done: false, outlives_session: false })
    }
}

impl Attached for Recorder {
    fn handle(&mut self, input: Input, port: &mut Port<'_>) {
        let line = match input {
            Input::State(State::Connected { .. }) => "connected".to_owned(),
            Input::State(State::Ended(_)) => "ended".to_owned(),
            Input::State(State::Renewing) => "renewing".to_owned(),
            Input::State(_) => "not connected".to_owned(),
            Input::Reply { tag, result: Ok(_) } => format!("reply {tag}"),
            Input::Reply { tag, result: Err(error) } => format!("reply {tag}: {error}"),
            Input::Watch { tag, event } => format!("watch {tag} {}", event.path),
            Input::Gap { tag } => format!("gap {tag}"),
            Input::WatchLost { tag, code } => format!("watch {tag} lost: {code:?}"),
            Input::LeaseEnded => "lease ended".to_owned(),
            Input::Closing => "closing".to_owned(),
            Input::Timer => "timer".to_owned(),
            Input::Settled => "settled".to_owned(),
        };
        (self.react)(&line, port);
        self.log.push(line);
    }

    fn command(&mut self, message: &mut dyn Any, port: &mut Port<'_>) {
        match message.downcast_mut::<Act>() {
            Some(act) => act(port),
            None => self.is_done = true,
        }
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn outlives_session(&self) -> bool {
        self.outlives_session
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.log.push("dropped".to_owned());
    }
}

/// A scripted server, a clock, and the dispatcher.
struct World {
    dispatcher: Dispatcher<u32>,
    now: Instant,
    received: BytesMut,
    log: Log,
}

impl World {
    fn new() -> Self {
        let now = Instant::after_start(Duration::from_secs(1000));
        let session = Session::new(now, Config::new(1, 0));
        let (received, log) = (BytesMut::new(), Log::default());
        Self { dispatcher: Dispatcher::new(session), now, received, log }
    }

    fn connected() -> Self {
        let mut world = Self::new();
        world.connect();
        world.drain();
        world
    }

    fn session(&mut self) -> &mut SharedSession<u32> {
        self.dispatcher.session_mut()
    }

    fn connect(&mut self) {
        while self.session().poll_action().is_some() {}
        let now = self.now;
        self.session().handle_connected(now);
        self.sent();
        self.received.clear();
        self.deliver(&ConnectResponse {
            protocol_version: 0,
            timeout: i32::try_from(TIMEOUT.as_millis()).expect("it fits"),
            session_id: SessionId(1),
            password: Some(&[1; 16]),
            read_only: Some(false),
        });
    }

    fn deliver(&mut self, message: &impl Encode) {
        let mut frame = BytesMut::new();
        message.encode(&mut frame);
        let now = self.now;
        self.session().handle_frame(now, frame.freeze());
    }

    fn reply(&mut self, xid: i32) {
        let header = ReplyHeader { xid: Xid(xid), zxid: Zxid(1), err: ErrorCode::NO_NODE };
        self.deliver(&(header, ()));
    }

    fn fire(&mut self) {
        let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid: Zxid(-1), err: ErrorCode::OK };
        let event = WatcherEvent {
            event_type: EventType::NODE_CREATED,
            state: KeeperState::SYNC_CONNECTED,
            path: NODE,
        };
        self.deliver(&(header, event));
    }

    /// Returns the operations that reach the server now.
    fn sent(&mut self) -> Vec<OpCode> {
        let now = self.now;
        let session = self.dispatcher.session_mut();
        self.received.extend_from_slice(session.output());
        let count = session.output().len();
        session.handle_sent(now, count);
        let next = || frame::split_bytes(&mut self.received, usize::MAX).expect("frames");
        let bodies: Vec<_> = core::iter::from_fn(next).collect();
        let opcode = |body: &bytes::Bytes| {
            RequestHeader::decode(&mut Reader::new(body)).map(|header| header.opcode)
        };
        bodies.iter().filter_map(|body| opcode(body).ok()).collect()
    }

    fn drain(&mut self) -> Vec<Event<u32>> {
        let now = self.now;
        core::iter::from_fn(|| self.dispatcher.poll_event(now)).collect()
    }

    fn attach(&mut self) -> Key {
        let machine = Recorder::new(&self.log);
        self.dispatcher.attach(self.now, machine)
    }

    fn act(&mut self, key: Key, act: impl FnMut(&mut Port<'_>) + Send + 'static) -> bool {
        let mut act: Act = Box::new(act);
        self.dispatcher.command(self.now, key, &mut act)
    }

    fn end(&mut self, key: Key) -> bool {
        self.dispatcher.command(self.now, key, &mut ())
    }

    fn sleep(&mut self, time: Duration) {
        self.now = self.now + time;
        let now = self.now;
        self.dispatcher.handle_timeout(now);
    }
}

const fn exists() -> Request<'static> {
    Request::Exists(ExistsRequest { path: NODE, watch: true })
}

fn sync(port: &mut Port<'_>, tag: u64) {
    port.submit(tag, &Request::Sync(SyncRequest { path: NODE }));
}

#[test]
fn a_request_that_sets_no_watch_may_be_submitted_with_one() {
    let mut world = World::connected();
    let key = world.attach();
    let request = Request::Exists(ExistsRequest { path: NODE, watch: false });
    world.act(key, move |port| port.submit_and_watch(7, &request));
    assert_eq!(world.sent(), [OpCode::EXISTS]);
    world.reply(1);
    world.drain();
    let log = world.log.take();
    assert!(log.iter().any(|line| line.starts_with("reply 7")), "{log:?}");
}

#[test]
fn everything_is_delivered_in_session_order() {
    let mut world = World::connected();
    let key = world.attach();
    world.act(key, |port| {
        port.submit_and_watch(7, &exists());
        sync(port, 8);
    });
    assert_eq!(world.sent(), [OpCode::EXISTS, OpCode::SYNC]);
    world.reply(1);
    world.fire();
    world.reply(2);
    let now = world.now;
    world.session().handle_disconnected(now);
    let events = world.drain();
    let lines = ["connected", "reply 7: ", "watch 7 /node", "reply 8: ", "not connected"];
    let log = world.log.take();
    assert_eq!(log.len(), lines.len(), "{log:?}");
    assert!(log.iter().zip(lines).all(|(line, begin)| line.starts_with(begin)), "{log:?}");
    // The owner receives what concerns all, and nothing of the machines alone.
    assert!(events.iter().any(|event| matches!(event, Event::State(State::Suspended))));
    let is_ours = |event: &Event<u32>| matches!(event, Event::Reply { .. } | Event::Watch { .. });
    assert!(!events.iter().any(is_ours), "{events:?}");
}

#[test]
fn a_new_index_of_the_same_server_is_no_new_connection() {
    let mut world = World::new();
    world.dispatcher = Dispatcher::new(Session::new(world.now, Config::new(2, 0)));
    world.connect();
    world.drain();
    world.attach();
    world.drain();
    world.log.take();
    let now = world.now;
    world.session().update_servers(now, &[Some(1), Some(0)], 2);
    assert!(matches!(world.drain()[..], [Event::State(State::Connected { .. })]));
    assert_eq!(world.log.take(), [""; 0]);
}

#[test]
fn timers_that_are_set_again_and_again_are_few() {
    let mut world = World::connected();
    let [far, near] = [world.attach(), world.attach()];
    let hour = Duration::from_secs(3_600);
    world.act(near, |port| port.set_timer(Some(port.now() + Duration::from_millis(10))));
    for later in 1..=1_000 {
        let at = Duration::from_nanos(later);
        world.act(far, move |port| port.set_timer(Some(port.now() + hour + at)));
        world.act(near, |port| port.set_timer(Some(port.now() + Duration::from_millis(10))));
        assert!(world.dispatcher.machines.kept_timers() <= 12, "two for each machine, and eight");
    }
    world.act(near, |port| port.set_timer(None));
    world.drain();
    world.log.take();
    world.now = world.now + hour + hour;
    let now = world.now;
    world.dispatcher.handle_timeout(now);
    world.drain();
    let timers = world.log.take().into_iter().filter(|line| line == "timer");
    assert_eq!(timers.count(), 1, "that of the first machine");
}

#[test]
fn a_refusal_is_delivered_after_everything_else() {
    let mut world = World::connected();
    let close = |port: &mut Port<'_>, tag| port.submit(tag, &Request::CloseSession(()));
    // A machine that repeats its request at once.
    let machine = Recorder::reacting(&world.log, |line, port| {
        if line.starts_with("reply") {
            port.submit(2, &Request::CloseSession(()));
        }
    });
    let key = world.dispatcher.attach(world.now, machine);
    world.act(key, move |port| close(port, 1));
    assert_eq!(world.drain(), []);
    assert_eq!(world.log.take(), ["connected"]);
    let reason = Error::from(Invalid::Reserved(OpCode::CLOSE_SESSION));
    for tag in [1, 2, 2] {
        assert!(world.dispatcher.is_unsettled());
        let now = world.now;
        world.dispatcher.settle(now);
        assert_eq!(world.drain(), []);
        assert_eq!(world.log.take(), [format!("reply {tag}: {reason}")]);
    }
}

#[test]
fn settled_is_delivered_once_and_after_everything_that_had_arrived() {
    let mut world = World::connected();
    let key = world.attach();
    assert!(!world.dispatcher.is_unsettled());
    world.act(key, |port| {
        sync(port, 1);
        port.settle();
    });
    world.sent();
    world.reply(1);
    world.drain();
    let now = world.now;
    world.dispatcher.settle(now);
    let log = world.log.take();
    assert_eq!((log.len(), log[2].as_str()), (3, "settled"), "{log:?}");
    assert!(!world.dispatcher.is_unsettled());
}

#[test]
fn a_timer_is_delivered_after_the_events_and_can_be_replaced() {
    let mut world = World::connected();
    let key = world.attach();
    world.act(key, |port| {
        let now = port.now();
        port.set_timer(Some(now + Duration::from_millis(1)));
        port.set_timer(Some(now + Duration::from_millis(20)));
        sync(port, 1);
    });
    world.sent();
    assert_eq!(world.dispatcher.poll_timeout(), Some(world.now + Duration::from_millis(20)));
    world.sleep(Duration::from_millis(10));
    world.drain();
    assert_eq!(world.log.take(), ["connected"]);
    world.sleep(Duration::from_millis(10));
    world.reply(1);
    world.drain();
    let log = world.log.take();
    assert_eq!((log.len(), log[1].as_str()), (2, "timer"), "{log:?}");
    world.act(key, |port| port.set_timer(Some(port.now())));
    world.act(key, |port| port.set_timer(None));
    world.sleep(Duration::from_millis(1));
    world.drain();
    assert_eq!(world.log.take(), [""; 0]);
}

#[test]
fn a_timer_that_is_always_due_does_not_block_the_drain() {
    let mut world = World::connected();
    let machine = Recorder::reacting(&world.log, |_, port| port.set_timer(Some(Instant::START)));
    world.dispatcher.attach(world.now, machine);
    for _ in 0..3 {
        world.log.take();
        world.sleep(Duration::from_millis(1));
        world.drain();
        assert_eq!(world.log.take(), ["timer"]);
    }
}

#[test]
fn a_timer_at_the_end_of_time_never_comes() {
    let mut world = World::connected();
    let machine = Recorder::reacting(&world.log, |_, port| port.set_timer(Some(Instant::END)));
    world.dispatcher.attach(world.now, machine);
    world.sleep(Duration::MAX);
    assert_eq!(world.now, Instant::END);
    // It returns.
    world.drain();
    let log = world.log.take();
    assert!(!log.contains(&"timer".to_owned()), "{log:?}");
}

#[test]
fn a_machine_that_is_done_leaves_nothing_and_is_dropped_as_an_effect() {
    let mut world = World::connected();
    let key = world.attach();
    world.act(key, |port| {
        port.submit_and_watch(1, &exists());
        port.set_timer(Some(port.now()));
    });
    world.sent();
    world.reply(1);
    world.drain();
    world.log.take();
    world.act(key, |port| sync(port, 2));
    assert!(world.end(key));
    assert_eq!((world.dispatcher.attached(), world.log.take()), (0, Vec::new()));
    assert_eq!(world.sent(), [OpCode::SYNC, OpCode::REMOVE_WATCHES]);
    world.dispatcher.take_effects().run();
    assert_eq!(world.log.take(), ["dropped"]);
    // The next machine in its slot does not receive the other's inputs.
    let next = world.attach();
    assert_ne!(next, key);
    world.reply(2);
    world.sleep(Duration::from_millis(1));
    assert_eq!(world.drain(), []);
    assert_eq!(world.log.take(), ["connected"]);
    assert!(!world.end(key));
    assert_eq!(world.dispatcher.attached(), 1);
}

#[test]
fn the_end_of_the_lease_comes_with_every_late_input() {
    let mut world = World::connected();
    let early = world.attach();
    world.now = world.now + TIMEOUT;
    let log = world.log.clone();
    world.act(early, move |_| log.push("command".to_owned()));
    assert_eq!(world.log.take(), ["connected", "lease ended", "command", "lease ended"]);
    world.attach();
    assert_eq!(world.log.take(), ["connected", "lease ended"]);
    let now = world.now;
    world.session().handle_disconnected(now);
    world.drain();
    let one = ["not connected", "lease ended"];
    assert_eq!(world.log.take(), [one, one].concat());
}

#[test]
fn the_end_of_the_lease_is_delivered_by_the_clock() {
    let mut world = World::connected();
    world.attach();
    let lease = world.session().lease().expect("a server has answered");
    let now = world.now;
    world.session().handle_disconnected(now);
    world.drain();
    world.log.take();
    world.sleep(lease - now);
    assert!(world.drain().contains(&Event::LeaseEnded));
    assert_eq!(world.log.take().last().map(String::as_str), Some("lease ended"));
}

#[test]
fn the_end_of_the_session_is_the_last_input() {
    let mut world = World::connected();
    let key = world.attach();
    world.act(key, |port| {
        port.submit_and_watch(1, &exists());
        port.set_timer(Some(port.now()));
        port.submit(2, &Request::CloseSession(()));
        port.settle();
    });
    world.sent();
    world.dispatcher.session.0.close();
    let now = world.now;
    world.session().handle_disconnected(now);
    world.dispatcher.handle_timeout(now);
    world.drain();
    world.dispatcher.settle(now);
    world.drain();
    let log = world.log.take();
    assert_eq!((log.len(), log[2].as_str()), (3, "ended"), "{log:?}");
    assert!(log[1].starts_with("reply 1: "), "{log:?}");
    assert!(!world.dispatcher.is_unsettled());
}

#[test]
fn nothing_is_attached_to_a_session_that_has_ended() {
    let mut world = World::connected();
    world.attach();
    world.dispatcher.session.0.close();
    let now = world.now;
    world.session().handle_disconnected(now);
    while world.dispatcher.has_events() {
        assert_eq!(world.dispatcher.attached(), 1, "until all is drained");
        world.dispatcher.poll_event(now);
    }
    assert_eq!(world.dispatcher.attached(), 0);
    world.dispatcher.take_effects().run();
    assert_eq!(world.log.take(), ["connected", "ended", "dropped"]);
    let late = world.attach();
    assert!(!world.end(late));
    world.dispatcher.take_effects().run();
    assert_eq!(world.log.take(), ["ended", "dropped"]);
}

#[test]
fn the_session_is_closed_when_the_last_machine_is_done() {
    let mut world = World::connected();
    let [first, second] = [world.attach(), world.attach()];
    world.dispatcher.close_when_done();
    assert_eq!(world.sent(), []);
    world.end(first);
    assert_eq!(world.sent(), []);
    world.end(second);
    assert_eq!(world.sent(), [OpCode::CLOSE_SESSION]);
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "poll_timeout: drain the events first")]
fn the_timeout_is_not_read_before_the_drain() {
    let mut world = World::new();
    world.connect();
    world.dispatcher.poll_timeout();
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "poll_timeout: drain the events first")]
fn the_timeout_is_not_read_before_timers_are_drained() {
    let mut world = World::connected();
    let key = world.attach();
    world.act(key, |port| port.set_timer(Some(port.now())));
    world.sleep(Duration::ZERO);
    world.dispatcher.poll_timeout();
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "settle: drain the events first")]
fn nothing_is_settled_before_the_drain() {
    let mut world = World::connected();
    let key = world.attach();
    world.act(key, |port| {
        sync(port, 1);
        port.settle();
    });
    world.sent();
    world.reply(1);
    let now = world.now;
    world.dispatcher.settle(now);
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "new: the session has events")]
fn a_session_with_pending_events_is_refused_by_the_dispatcher() {
    let now = Instant::START;
    let mut session: Session<Token<()>> = Session::new(now, Config::new(1, 0));
    while session.poll_action().is_some() {}
    session.handle_disconnected(now);
    Dispatcher::new(session);
}

#[test]
fn room_made_by_a_write_does_not_count_as_undrained() {
    let now = Instant::START;
    let mut config = Config::new(1, 0);
    config.max_unsent = 1;
    let mut world = World::new();
    world.now = now;
    world.dispatcher = Dispatcher::new(Session::new(now, config));
    world.connect();
    world.drain();
    world.session().submit(&exists(), Token::Caller(1)).expect("there is room");
    world.session().submit(&exists(), Token::Caller(2)).expect_err("there is none");
    world.drain();
    world.sent();
    assert!(world.dispatcher.poll_timeout().is_some());
    assert_eq!(world.drain(), [Event::Room]);
}

#[test]
fn effects_run_in_order_and_only_on_request() {
    let mut world = World::connected();
    let key = world.attach();
    let log = world.log.clone();
    world.act(key, move |port| {
        for number in 1..=2 {
            let (reports, deferred) = (log.clone(), log.clone());
            port.defer(move || deferred.push(format!("deferred {number}")));
            port.report(move || reports.push(format!("reported {number}")));
        }
    });
    assert_eq!(world.log.take(), ["connected"]);
    world.dispatcher.take_effects().run();
    let all = ["reported 1", "reported 2", "deferred 1", "deferred 2"];
    assert_eq!(world.log.take(), all);
    world.dispatcher.take_effects().run();
    assert_eq!(world.log.take(), [""; 0]);
}
