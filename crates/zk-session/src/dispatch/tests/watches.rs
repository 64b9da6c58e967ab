//! Which machines receive a watch event.

use super::*;

#[test]
fn a_watch_event_goes_to_all_its_watchers() {
    let mut world = World::connected();
    let [first, second] = [world.attach(), world.attach()];
    let own = world.session().submit(&exists(), Token::Caller(1)).expect("there is room");
    for key in [first, second] {
        world.act(key, |port| port.submit_and_watch(1, &exists()));
    }
    world.sent();
    (1..=3).for_each(|xid| world.reply(xid));
    world.drain();
    world.log.take();
    world.fire();
    let events = world.drain();
    assert!(
        matches!(&events[..], [Event::Watch { requests, .. }] if *requests == [own]),
        "{events:?}"
    );
    assert_eq!(world.log.take(), ["watch 1 /node"; 2]);
    world.fire();
    assert_eq!((world.drain(), world.log.take()), (Vec::new(), Vec::new()));
    assert_eq!(world.dispatcher.machines.kept_watches(first), 0, "the watch is over");
}

#[test]
fn a_persistent_watch_of_a_machine_stays_until_it_is_dropped() {
    let mut world = World::connected();
    let [first, second] = [world.attach(), world.attach()];
    let watch = Request::AddWatch(AddWatchRequest { path: NODE, mode: AddWatchMode::PERSISTENT });
    let own = world.session().submit(&watch, Token::Caller(1)).expect("there is room");
    for key in [first, second] {
        world.act(key, move |port| port.submit_and_watch(1, &watch));
        world.act(key, |port| port.submit_and_watch(2, &exists()));
    }
    world.sent();
    for xid in 1..=5 {
        let header = ReplyHeader { xid: Xid(xid), zxid: Zxid(1), err: ErrorCode::OK };
        world.deliver(&(header, ()));
    }
    world.drain();
    world.log.take();
    let is_only_ours = |events: &[Event<u32>]| {
        let [Event::Watch { requests, persistent, .. }] = events else { return false };
        requests.is_empty() && *persistent == [own]
    };
    let (one_shot, persistent) = (["watch 2 /node"; 2], ["watch 1 /node"; 2]);
    for expected in [[one_shot, persistent].concat(), persistent.to_vec()] {
        world.fire();
        let events = world.drain();
        assert!(is_only_ours(&events), "{events:?}");
        assert_eq!(world.log.take(), expected);
    }
    world.act(first, |port| port.unwatch_all());
    assert!(world.end(second));
    world.log.take();
    world.fire();
    let events = world.drain();
    assert!(is_only_ours(&events), "{events:?}");
    assert_eq!(world.log.take(), [""; 0]);
}

#[test]
fn gaps_and_losses_of_persistent_watches_go_to_their_machines() {
    let mut world = World::connected();
    let [first, second] = [world.attach(), world.attach()];
    let watch = Request::AddWatch(AddWatchRequest { path: NODE, mode: AddWatchMode::PERSISTENT });
    let own = world.session().submit(&watch, Token::Caller(1)).expect("there is room");
    for (key, tag) in [(first, 1), (second, 2)] {
        world.act(key, move |port| port.submit_and_watch(tag, &watch));
    }
    world.sent();
    for xid in 1..=3 {
        world.deliver(&(ReplyHeader { xid: Xid(xid), zxid: Zxid(1), err: ErrorCode::OK }, ()));
    }
    world.drain();
    world.act(second, |port| port.unwatch(2));
    let reconnect = |world: &mut World| {
        let now = world.now;
        world.session().handle_disconnected(now);
        world.sleep(Duration::from_secs(1));
        world.connect();
        world.log.take();
        let events = world.drain();
        world.sent();
        events
    };
    let events = reconnect(&mut world);
    assert_eq!(events.last(), Some(&Event::Gap { requests: [own].into() }));
    let log = world.log.take();
    assert_eq!(log[log.len() - 3..], ["connected", "connected", "gap 1"], "{log:?}");

    reconnect(&mut world);
    world.log.take();
    let err = ErrorCode::UNIMPLEMENTED;
    world.deliver(&(ReplyHeader { xid: Xid::SET_WATCHES, zxid: Zxid(1), err }, ()));
    let events = world.drain();
    let lost = Event::WatchLost { requests: [own].into(), code: err };
    assert!(events.contains(&lost), "{events:?}");
    let log = world.log.take();
    assert_eq!(log[0], "watch 1 lost: ErrorCode(UNIMPLEMENTED)", "{log:?}");
    // It is forgotten.
    reconnect(&mut world);
    assert!(!world.log.take().iter().any(|line| line.starts_with("gap")));
}

#[test]
fn a_watch_dropped_while_its_event_is_delivered_stays_the_machines() {
    let mut world = World::connected();
    let machine = Recorder::reacting(&world.log, |line, port| {
        if line.starts_with("watch 1") {
            port.unwatch(2);
        }
    });
    let key = world.dispatcher.attach(world.now, machine);
    world.act(key, |port| (1..=2).for_each(|tag| port.submit_and_watch(tag, &exists())));
    world.sent();
    (1..=2).for_each(|xid| world.reply(xid));
    world.drain();
    world.log.take();
    world.fire();
    assert_eq!(world.drain(), []);
    assert_eq!(world.log.take(), ["watch 1 /node"]);
}

#[test]
fn a_watch_set_while_an_event_is_delivered_takes_no_event_of_another() {
    let mut world = World::connected();
    let react = |line: &str, port: &mut Port<'_>| {
        if line.starts_with("watch 1") {
            (3..=6).for_each(|tag| port.submit_and_watch(tag, &exists()));
            port.unwatch(1);
        }
    };
    let machines = [(); 2].map(|()| Recorder::reacting(&world.log, react));
    for machine in machines {
        let key = world.dispatcher.attach(world.now, machine);
        world.act(key, |port| (1..=2).for_each(|tag| port.submit_and_watch(tag, &exists())));
    }
    world.sent();
    (1..=4).for_each(|xid| world.reply(xid));
    world.drain();
    world.log.take();
    world.fire();
    assert_eq!(world.drain(), []);
    let each = ["watch 1 /node", "watch 2 /node"];
    assert_eq!(world.log.take(), [each, each].concat());
}

#[test]
fn a_watch_set_before_an_event_is_delivered_takes_no_event_of_another() {
    let mut world = World::connected();
    // The reply comes ahead of the event in one drain. The new watch gets the place of the old one.
    let machine = Recorder::reacting(&world.log, |line, port| {
        if line.starts_with("reply 2") {
            port.submit_and_watch(3, &exists());
        }
    });
    let key = world.dispatcher.attach(world.now, machine);
    world.act(key, |port| port.submit_and_watch(1, &exists()));
    world.sent();
    world.reply(1);
    world.drain();
    world.act(key, |port| sync(port, 2));
    world.sent();
    world.log.take();
    world.reply(2);
    world.fire();
    world.drain();
    let log = world.log.take();
    assert_eq!((log.len(), log[1].as_str()), (2, "watch 1 /node"), "{log:?}");
}

#[test]
fn events_of_a_machine_that_is_detached_meanwhile_are_nobodys() {
    for is_persistent in [false, true] {
        let mut world = World::connected();
        let key = world.attach();
        let watch = AddWatchRequest { path: NODE, mode: AddWatchMode::PERSISTENT };
        world.act(key, move |port| match is_persistent {
            true => port.submit_and_watch(1, &Request::AddWatch(watch)),
            false => port.submit_and_watch(1, &exists()),
        });
        world.sent();
        world.deliver(&(ReplyHeader { xid: Xid(1), zxid: Zxid(1), err: ErrorCode::OK }, ()));
        world.drain();
        // The event has arrived, and is not delivered yet.
        world.fire();
        world.end(key);
        // Another machine takes its place, and watches the same node.
        let other = world.attach();
        world.act(other, |port| port.submit_and_watch(1, &exists()));
        world.log.take();
        assert_eq!((world.drain(), world.log.take()), (Vec::new(), Vec::new()));
        assert_eq!(world.dispatcher.attached(), 1);
    }
}
