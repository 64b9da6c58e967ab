use super::*;
use zk_proto::WatcherType;

const OK: ErrorCode = ErrorCode::OK;
const NO_NODE: ErrorCode = ErrorCode::NO_NODE;

/// Returns the removals sent now. Nothing else may be sent.
fn removals(h: &mut Harness) -> Vec<(String, WatcherType)> {
    let removal = |sent: Sent| match sent.request() {
        Request::RemoveWatches(body) => (body.path.to_string(), body.watcher_type),
        other => panic!("{other:?}"),
    };
    h.sent().into_iter().map(removal).collect()
}

/// The lists of a `SetWatches`: data, exist and child watches.
type Lists = [Vec<String>; 3];

/// Returns the watches that are set again now, with the zxid of each request. Nothing else may be
/// sent.
fn replayed(h: &mut Harness) -> Vec<(Zxid, Lists)> {
    let replay = |sent: Sent| {
        assert_eq!(sent.xid, Xid::SET_WATCHES);
        let Request::SetWatches(body) = sent.request() else { panic!("{sent:?}") };
        let lists = [body.data_watches, body.exist_watches, body.child_watches];
        let lists = lists.map(|list| list.iter().map(ToString::to_string).collect());
        (body.relative_zxid, lists)
    };
    h.sent().into_iter().map(replay).collect()
}

fn lists(data: &[&str], exist: &[&str], child: &[&str]) -> Lists {
    [data, exist, child].map(|list| list.iter().map(ToString::to_string).collect())
}

#[test]
fn a_watch_is_set_as_the_reply_says() {
    let e = || lists(&[], &["/a"], &[]);
    let d = || lists(&["/a"], &[], &[]);
    let c = || lists(&[], &[], &["/a"]);
    for (request, err, expected) in [
        (exists("/a"), OK, Some(d())),
        (exists("/a"), NO_NODE, Some(e())),
        (exists("/a"), ErrorCode::NO_AUTH, None),
        (get_data("/a"), OK, Some(d())),
        (get_data("/a"), NO_NODE, None),
        (get_data("/a"), ErrorCode::NO_AUTH, None),
        (get_children("/a"), OK, Some(c())),
        (get_children("/a"), NO_NODE, None),
    ] {
        let mut h = Harness::connected();
        h.watch(&request, err);
        h.disconnect();
        h.connect();
        let replayed: Vec<_> = replayed(&mut h).into_iter().map(|(_, lists)| lists).collect();
        assert_eq!(replayed, expected.into_iter().collect::<Vec<_>>(), "{request:?} {err}");
    }
}

#[test]
fn no_watch_is_set_without_a_request() {
    let mut h = Harness::connected();
    h.watch(&Request::GetData(GetDataRequest { path: "/a", watch: false }), OK);
    h.watch(&SYNC, OK);
    h.notify(EventType::NODE_DELETED, "/a");
    assert_eq!(h.fired(), []);
    h.disconnect();
    h.connect();
    assert_eq!(replayed(&mut h), []);
}

#[test]
fn an_event_fires_the_watches_that_the_server_removes_with_it() {
    for (event, data, exist, child) in [
        (EventType::NODE_CREATED, true, true, false),
        (EventType::NODE_DATA_CHANGED, true, true, false),
        (EventType::NODE_DELETED, true, true, true),
        (EventType::NODE_CHILDREN_CHANGED, false, false, true),
        (EventType::NONE, false, false, false),
        (EventType(99), false, false, false),
    ] {
        for (request, answer, fires) in [
            (get_data("/a"), OK, data),
            (exists("/a"), OK, data),
            (exists("/a"), NO_NODE, exist),
            (get_children("/a"), OK, child),
        ] {
            let mut h = Harness::connected();
            let id = h.watch(&request, answer);
            h.notify(event, "/a/b");
            h.notify(event, "/");
            assert_eq!(h.fired(), [], "another node");
            h.notify(event, "/a");
            let expected = fires.then(|| (Vec::from([id]), event, "/a".to_string()));
            assert_eq!(h.fired(), expected.into_iter().collect::<Vec<_>>(), "{request:?} {event}");
            h.notify(event, "/a");
            assert_eq!(h.fired(), [], "a watch fires once");
            h.session.unwatch(id);
            assert_eq!(removals(&mut h).is_empty(), fires);
        }
    }
}

#[test]
fn one_event_fires_all_watches_on_its_node() {
    let mut h = Harness::connected();
    let first = h.watch(&get_data("/a"), OK);
    let second = h.watch(&exists("/a"), OK);
    let third = h.watch(&get_children("/a"), OK);
    h.watch(&get_data("/b"), OK);
    h.notify(EventType::NODE_DELETED, "/a");
    let all = Vec::from([first, second, third]);
    assert_eq!(h.fired(), [(all, EventType::NODE_DELETED, "/a".to_string())]);
    // The server has two tables, and reports each of them after a reconnect.
    h.notify(EventType::NODE_DELETED, "/a");
    assert_eq!(h.fired(), []);
    assert_eq!(h.session.statistics().notifications, 2, "also the one that nobody waits for");
}

#[test]
fn an_event_reports_its_zxid() {
    let mut h = Harness::connected();
    let id = h.watch(&get_data("/a"), OK);
    let event = WatcherEvent {
        event_type: EventType::NODE_DATA_CHANGED,
        state: KeeperState(77),
        path: "/a",
    };
    h.reply_with(Xid::NOTIFICATION.0, 42, OK, &event);
    assert_eq!(
        h.events(),
        [Event::Watch {
            requests: Vec::from([id]),
            persistent: Vec::new(),
            event: WatchedEvent {
                event_type: EventType::NODE_DATA_CHANGED,
                path: "/a".into(),
                zxid: Zxid(42),
            },
        }]
    );
}

#[test]
fn events_and_replies_keep_the_order_of_the_server() {
    let mut h = Harness::connected();
    h.watch(&get_data("/a"), OK);
    h.submit(&get_data("/a"), 1);
    h.sent();
    h.notify(EventType::NODE_DATA_CHANGED, "/a");
    h.reply(2, 1, OK);
    h.notify(EventType::NODE_DELETED, "/a");
    let order: Vec<_> = h
        .events()
        .into_iter()
        .map(|event| match event {
            Event::Watch { event, .. } => event.event_type.0,
            Event::Reply { .. } => 0,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(order, [3, 0, 2]);
}

#[test]
fn the_last_dropped_watch_of_a_path_is_removed_from_the_server() {
    for (request, answer, watcher_type) in [
        (get_data("/a"), OK, WatcherType::DATA),
        (exists("/a"), OK, WatcherType::DATA),
        (exists("/a"), NO_NODE, WatcherType::DATA),
        (get_children("/a"), OK, WatcherType::CHILDREN),
    ] {
        let mut h = Harness::connected();
        let first = h.watch(&request, answer);
        let second = h.watch(&request, answer);
        h.session.unwatch(first);
        assert_eq!(removals(&mut h), []);
        h.session.unwatch(first);
        assert_eq!(removals(&mut h), []);
        h.session.unwatch(second);
        assert_eq!(removals(&mut h), [("/a".to_string(), watcher_type)]);
        h.notify(EventType::NODE_DELETED, "/a");
        assert_eq!(h.fired(), []);
    }
}

#[test]
fn watches_of_one_class_do_not_keep_those_of_the_other() {
    let mut h = Harness::connected();
    let data = h.watch(&get_data("/a"), OK);
    let child = h.watch(&get_children("/a"), OK);
    h.session.unwatch(data);
    assert_eq!(removals(&mut h), [("/a".to_string(), WatcherType::DATA)]);
    h.notify(EventType::NODE_CHILDREN_CHANGED, "/a");
    assert_eq!(h.fired()[0].0, [child]);
}

#[test]
fn a_watch_dropped_before_it_is_set_is_removed_at_once() {
    for answer in [OK, NO_NODE] {
        let mut h = Harness::connected();
        let id = h.submit(&get_data("/a"), 1);
        h.session.unwatch(id);
        let opcodes: Vec<_> = h.sent().iter().map(|sent| sent.opcode).collect();
        assert_eq!(opcodes, [OpCode::GET_DATA, OpCode::REMOVE_WATCHES]);
        h.reply(1, 1, answer);
        h.reply(2, 1, if answer == OK { OK } else { ErrorCode::NO_WATCHER });
        assert_eq!(removals(&mut h), []);
        assert!(h.session.watches.is_empty());
        h.notify(EventType::NODE_DELETED, "/a");
        assert_eq!(h.fired(), []);
    }
}

#[test]
fn of_several_watches_dropped_before_they_are_set_the_last_sends_the_removal() {
    for answers in [[OK, OK], [OK, NO_NODE], [NO_NODE, OK], [NO_NODE, NO_NODE]] {
        let mut h = Harness::connected();
        let first = h.submit(&get_data("/a"), 1);
        let second = h.submit(&get_data("/a"), 2);
        h.session.unwatch(second);
        assert_eq!(h.sent_xids(), [1, 2]);
        h.session.unwatch(first);
        assert_eq!(removals(&mut h).len(), 1);
        h.reply(1, 1, answers[0]);
        h.reply(2, 1, answers[1]);
        h.reply(3, 1, OK);
        assert_eq!(removals(&mut h), []);
        assert!(h.session.watches.is_empty());
    }
}

/// The request is sent on another connection, but not the removal behind it.
#[test]
fn the_watch_of_a_dropped_request_that_is_sent_again_is_removed() {
    let mut h = Harness::connected();
    let id = h.submit(&get_data("/a"), 1);
    h.session.unwatch(id);
    h.take(5);
    h.disconnect();
    assert_eq!(h.session.pending(), 1);
    h.connect();
    assert_eq!(h.sent_xids(), [1]);
    h.reply(1, 1, OK);
    assert_eq!(removals(&mut h), [("/a".to_string(), WatcherType::DATA)]);
    assert!(h.session.watches.is_empty());
}

/// Otherwise they would fill the queue during an outage.
#[test]
fn dropped_requests_that_are_never_sent_leave_nothing_behind() {
    let mut h = Harness::connected();
    h.disconnect();
    for token in 0..3_000 {
        let deadline = h.now + ms(1);
        let request = get_data("/a");
        let id = h.session.submit_until(&request, token, deadline).expect("there is room");
        h.session.unwatch(id);
        h.advance(ms(1));
    }
    assert_eq!(h.answers().len(), 3_000);
    assert_eq!(h.session.pending(), 0);
    assert!(h.session.watches.is_empty());
    h.connect();
    assert_eq!(h.sent(), []);
}

#[test]
fn a_removal_is_not_sent_on_another_connection() {
    let mut h = Harness::connected();
    let id = h.watch(&get_data("/a"), OK);
    h.session.unwatch(id);
    h.disconnect();
    assert_eq!(h.session.pending(), 0);
    h.connect();
    assert_eq!(h.sent(), []);
}

#[test]
fn a_watch_dropped_before_it_is_set_is_removed_if_the_shared_watch_fires_first() {
    for (answer, expected) in [(OK, 1), (NO_NODE, 0)] {
        let mut h = Harness::connected();
        let first = h.watch(&get_data("/a"), OK);
        let second = h.submit(&get_data("/a"), 2);
        h.sent();
        h.session.unwatch(second);
        h.notify(EventType::NODE_DATA_CHANGED, "/a");
        assert_eq!(h.fired()[0].0, [first]);
        assert_eq!(removals(&mut h), []);
        h.reply(2, 1, answer);
        assert_eq!(removals(&mut h).len(), expected);
    }
}

/// The deletion of the node then fires no watch.
#[test]
fn a_watch_dropped_in_flight_is_removed_at_once() {
    for answer in [OK, NO_NODE] {
        let mut h = Harness::connected();
        let id = h.submit(&get_data("/a"), 1);
        h.sent();
        h.session.unwatch(id);
        h.sync(2);
        let opcodes: Vec<_> = h.sent().iter().map(|sent| sent.opcode).collect();
        assert_eq!(opcodes, [OpCode::REMOVE_WATCHES, OpCode::SYNC]);
        h.reply(1, 1, answer);
        h.reply(2, 1, if answer == OK { OK } else { ErrorCode::NO_WATCHER });
        assert_eq!(removals(&mut h), []);
        assert!(h.session.watches.is_empty());
    }
}

/// Only servers that do not know the type of a watch refuse like this, and all know this one.
#[test]
fn a_refused_removal_of_a_data_watch_is_not_repeated() {
    let mut h = Harness::connected();
    let id = h.watch(&get_data("/a"), OK);
    h.session.unwatch(id);
    assert_eq!(h.sent().len(), 1);
    h.reply(2, 1, ErrorCode::MARSHALLING_ERROR);
    assert_eq!(h.sent(), []);
}

#[test]
fn a_watch_dropped_before_it_is_sent_is_removed_on_the_next_connection() {
    let mut h = Harness::connected();
    h.disconnect();
    let id = h.submit(&get_data("/a"), 1);
    h.session.unwatch(id);
    h.connect();
    assert_eq!(h.sent_xids(), [1]);
    h.reply(1, 1, OK);
    assert_eq!(removals(&mut h), [("/a".to_string(), WatcherType::DATA)]);
}

#[test]
fn a_watch_set_again_before_its_removal_is_answered_stays() {
    let mut h = Harness::connected();
    let first = h.submit(&get_data("/a"), 1);
    h.session.unwatch(first);
    let second = h.submit(&get_data("/a"), 2);
    h.sent();
    h.reply(1, 1, OK);
    h.reply(2, 1, OK);
    h.reply(3, 1, OK);
    assert_eq!(removals(&mut h), []);
    h.events();
    h.notify(EventType::NODE_DATA_CHANGED, "/a");
    assert_eq!(h.fired()[0].0, [second]);
}

#[test]
fn a_watch_dropped_while_another_is_being_set_is_removed_after_that_reply() {
    for (answer, removed) in [(OK, false), (NO_NODE, true)] {
        let mut h = Harness::connected();
        let first = h.watch(&get_data("/a"), OK);
        let second = h.submit(&get_data("/a"), 1);
        h.session.unwatch(first);
        assert_eq!(h.sent_xids(), [2]);
        h.reply(2, 1, answer);
        assert_eq!(!removals(&mut h).is_empty(), removed);
        h.events();
        h.notify(EventType::NODE_DATA_CHANGED, "/a");
        let expected = (!removed)
            .then(|| (Vec::from([second]), EventType::NODE_DATA_CHANGED, "/a".to_string()));
        assert_eq!(h.fired(), expected.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_watch_that_has_fired_is_not_removed_when_the_next_one_cannot_be_set() {
    let mut h = Harness::connected();
    h.watch(&get_data("/a"), OK);
    h.submit(&get_data("/a"), 1);
    h.sent();
    h.notify(EventType::NODE_DELETED, "/a");
    h.reply(2, 1, NO_NODE);
    assert_eq!(removals(&mut h), []);
}

#[test]
fn an_event_that_crosses_a_removal_fires_nothing() {
    let mut h = Harness::connected();
    let id = h.watch(&get_data("/a"), OK);
    h.session.unwatch(id);
    h.sent();
    h.notify(EventType::NODE_DELETED, "/a");
    h.reply(2, 1, ErrorCode::NO_WATCHER);
    assert_eq!(h.events(), []);
    // The same holds for the next removal.
    let id = h.watch(&exists("/a"), NO_NODE);
    h.session.unwatch(id);
    assert_eq!(removals(&mut h).len(), 1);
}

#[test]
fn a_watch_set_again_during_the_removal_of_the_old_one_stays() {
    let mut h = Harness::connected();
    let old = h.watch(&get_data("/a"), OK);
    h.session.unwatch(old);
    let new = h.submit(&get_data("/a"), 1);
    let opcodes: Vec<_> = h.sent().iter().map(|sent| sent.opcode).collect();
    assert_eq!(opcodes, [OpCode::REMOVE_WATCHES, OpCode::GET_DATA], "the server keeps the order");
    h.notify(EventType::NODE_DATA_CHANGED, "/a"); // fired before the removal
    h.reply(2, 1, ErrorCode::NO_WATCHER);
    h.reply(3, 1, OK);
    assert_eq!(h.fired(), []);
    h.notify(EventType::NODE_DATA_CHANGED, "/a");
    assert_eq!(h.fired()[0].0, [new]);
}

#[test]
fn a_removal_that_the_server_does_not_support_is_not_sent_again() {
    let mut h = Harness::connected();
    let first = h.watch(&get_data("/a"), OK);
    let second = h.watch(&get_data("/b"), OK);
    h.session.unwatch(first);
    h.sent();
    h.reply(3, -1, ErrorCode::UNIMPLEMENTED);
    h.session.unwatch(second);
    assert_eq!(removals(&mut h), []);
    h.notify(EventType::NODE_DELETED, "/b");
    assert_eq!(h.fired(), []);
}

#[test]
fn while_closing_no_watch_is_removed() {
    let mut h = Harness::connected();
    let id = h.watch(&get_data("/a"), OK);
    h.session.close();
    h.session.unwatch(id);
    let opcodes: Vec<_> = h.sent().iter().map(|sent| sent.opcode).collect();
    assert_eq!(opcodes, [OpCode::CLOSE_SESSION]);
}

#[test]
fn watches_are_set_again_before_any_request() {
    let mut h = Harness::connected();
    h.watch(&get_data("/d"), OK);
    h.watch(&exists("/e"), NO_NODE);
    h.watch(&get_children("/c"), OK);
    let dropped = h.watch(&get_data("/dropped"), OK);
    h.watch(&get_data("/fired"), OK);
    h.notify(EventType::NODE_DELETED, "/fired");
    h.submit(&get_data("/in/flight"), 1);
    h.sent();
    h.disconnect();
    h.session.unwatch(dropped);
    h.submit(&get_data("/unsent"), 2);
    h.connect();

    let sent = h.sent();
    assert_eq!(sent[0].xid, Xid::SET_WATCHES);
    let Request::SetWatches(set) = sent[0].request() else { panic!("{sent:?}") };
    assert_eq!(set.data_watches, (&["/d"]).into());
    assert_eq!(set.exist_watches, (&["/e"]).into());
    assert_eq!(set.child_watches, (&["/c"]).into());
    assert_eq!(sent[1].request(), get_data("/unsent"));
    assert_eq!(sent.len(), 2);
}

#[test]
fn a_watch_requested_before_the_connection_was_lost_is_set_on_the_next() {
    let mut h = Harness::connected();
    let id = h.submit(&get_data("/a"), 1);
    h.disconnect();
    h.connect();
    h.answer_all();
    h.notify(EventType::NODE_DELETED, "/a");
    assert_eq!(h.fired()[0].0, [id]);
}

/// They can differ if a missing read permission withheld the event between them.
#[test]
fn the_latest_request_decides_which_watch_is_set_again() {
    let mut h = Harness::connected();
    h.watch(&exists("/a"), NO_NODE);
    h.watch(&get_data("/a"), OK);
    h.watch(&get_data("/b"), OK);
    h.watch(&exists("/b"), NO_NODE);
    h.disconnect();
    h.connect();
    assert_eq!(replayed(&mut h), [(Zxid(1), lists(&["/a"], &["/b"], &[]))]);
}

#[test]
fn missed_changes_fire_before_the_watches_are_set_again() {
    let mut h = Harness::connected();
    let id = h.watch(&get_data("/a"), OK);
    h.disconnect();
    h.connect();
    h.sent();
    h.notify(EventType::NODE_DATA_CHANGED, "/a");
    h.reply(Xid::SET_WATCHES.0, 9, OK);
    assert_eq!(h.fired()[0].0, [id]);
    h.disconnect();
    h.connect();
    assert_eq!(replayed(&mut h), []);
}

#[test]
fn a_watch_dropped_right_after_a_reconnect_is_removed_after_its_replay() {
    let mut h = Harness::connected();
    let id = h.watch(&get_data("/a"), OK);
    h.disconnect();
    h.connect();
    h.session.unwatch(id);
    let opcodes: Vec<_> = h.sent().iter().map(|sent| sent.opcode).collect();
    assert_eq!(opcodes, [OpCode::SET_WATCHES, OpCode::REMOVE_WATCHES]);
}

#[test]
fn many_watches_are_set_again_in_batches_with_one_zxid() {
    const NAME: usize = 1_000;
    let mut h = Harness::connected();
    let path = |n: usize| alloc::format!("/{n:0>width$}", width = NAME - 1);
    let mut expected: Vec<String> = (0..300).map(path).collect();
    for path in &expected {
        h.submit(&get_data(path), 0);
    }
    h.sent();
    for n in 0..300 {
        h.reply(n + 1, 0x500, OK);
    }
    h.disconnect();
    h.connect();
    // Any reply advances the zxid before the batches are sent.
    h.session.last_zxid = Zxid(0x600);
    let batches = replayed(&mut h);
    // Of 4 KiB each.
    assert_eq!(batches.len(), 75);
    let mut paths = Vec::new();
    for (zxid, [data, ..]) in batches {
        assert_eq!(zxid, Zxid(0x500));
        assert!(data.len() * (NAME + 4) <= 4 * 1024);
        paths.extend(data);
    }
    paths.sort_unstable();
    expected.sort_unstable();
    assert_eq!(paths, expected);
}

/// Otherwise the replay would cost each connection, for ever (ZOOKEEPER-706).
#[test]
fn no_batch_of_watches_is_longer_than_the_server_accepts() {
    let limit = 200;
    let mut h = Harness::with(Config { max_request: limit, ..Config::new(1, 0) });
    h.connect();
    let name = |length: usize| alloc::format!("/{:x>length$}", "");
    let mut watched = Vec::new();
    for length in 1..limit {
        let path = name(length);
        if h.session.submit(&get_data(&path), 0).is_ok() {
            watched.push(path);
        }
    }
    assert!(watched.len() > limit / 2);
    h.answer_all();
    h.disconnect();
    h.connect();
    h.take_all();
    let mut set = 0;
    while let Some(payload) = h.payload() {
        assert!(payload.len() <= limit, "{}", payload.len());
        let (header, body) =
            <(RequestHeader, SetWatches<'_>)>::decode_all(&payload).expect("it is one");
        assert_eq!(header.opcode, OpCode::SET_WATCHES);
        set += body.data_watches.len();
    }
    assert_eq!(set, watched.len());
}

#[test]
fn a_batch_takes_the_watches_that_fit() {
    // Three paths of two bytes, each with its length, behind what every batch has.
    let fits = 36 + 3 * 6;
    for (max_request, batches) in [(fits, 1), (fits - 1, 2)] {
        let mut h = Harness::with(Config { max_request, ..Config::new(1, 0) });
        h.connect();
        for path in ["/a", "/b", "/c"] {
            h.watch(&get_data(path), OK);
        }
        h.disconnect();
        h.connect();
        assert_eq!(replayed(&mut h).len(), batches);
    }
    let longer_than_a_batch = "/".to_string() + &"x".repeat(8 * 1024);
    let mut h = Harness::connected();
    h.watch(&get_data(&longer_than_a_batch), OK);
    h.disconnect();
    h.connect();
    assert_eq!(replayed(&mut h).len(), 1);
}

#[test]
fn a_watch_that_could_not_be_set_again_is_refused() {
    let (limit, path) = (60, "/".to_string() + &"x".repeat(19));
    let mut h = Harness::with(Config { max_request: limit, ..Config::new(1, 0) });
    assert!(h.session.submit(&get_data(&path), 0).is_ok());
    let refused = Error::Invalid(Invalid::TooLarge { length: limit + 1, limit });
    assert_eq!(h.session.submit(&get_data(&(path + "x")), 0), Err(refused));
}

#[test]
fn a_server_that_refuses_the_watches_is_abandoned() {
    let mut h = Harness::new(2);
    let first = h.connect();
    h.watch(&get_data("/a"), OK);
    h.disconnect();
    assert_ne!(h.connect(), first);
    h.sent();
    h.events();
    h.actions();
    h.reply(Xid::SET_WATCHES.0, 1, ErrorCode::MARSHALLING_ERROR);
    assert_eq!(h.cause(), Some(Cause::WatchesRefused(ErrorCode::MARSHALLING_ERROR)));
    assert_eq!(h.actions(), [Action::Disconnect]);
    assert_eq!(h.connect(), first);
    assert_eq!(replayed(&mut h).len(), 1);
}

#[test]
fn nothing_is_stored_for_watches_that_have_fired_or_were_dropped() {
    let mut h = Harness::connected();
    for round in 0..4 {
        let fired = h.watch(&get_data("/fired"), OK);
        let dropped = h.watch(&exists("/dropped"), NO_NODE);
        h.watch(&get_children("/refused"), NO_NODE);
        h.notify(EventType::NODE_DELETED, "/fired");
        h.session.unwatch(dropped);
        h.session.unwatch(fired);
        assert!(h.session.watches.is_empty(), "{:?}", h.session.watches);
        h.submit(&get_data("/lost"), 1);
        let removal = &h.sent()[0];
        h.reply(removal.xid.0, 1, OK);
        if round % 2 == 1 {
            h.session.handle_bad_frame(h.now, frame::FrameError::Negative(-1));
        } else {
            h.disconnect();
        }
        h.connect();
        h.answer_all();
        assert!(h.session.watches.is_empty(), "{:?}", h.session.watches);
    }
}
