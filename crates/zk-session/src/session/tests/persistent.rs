//! Persistent watches.

use zk_proto::{AddWatchMode, AddWatchRequest, WatcherType};

use super::*;

const OK: ErrorCode = ErrorCode::OK;

fn persistent(path: &str) -> Request<'_> {
    Request::AddWatch(AddWatchRequest { path, mode: AddWatchMode::PERSISTENT })
}

fn recursive(path: &str) -> Request<'_> {
    Request::AddWatch(AddWatchRequest { path, mode: AddWatchMode::PERSISTENT_RECURSIVE })
}

/// Returns whose persistent watches have fired since the last call, event by event.
fn reported(h: &mut Harness) -> Vec<Vec<RequestId>> {
    let reported = |event| match event {
        Event::Watch { requests, persistent, .. } => {
            assert_eq!(requests, [], "no watch here fires once");
            Some(persistent)
        }
        _ => None,
    };
    h.events().into_iter().filter_map(reported).collect()
}

fn removals(h: &mut Harness) -> Vec<(i32, String, WatcherType)> {
    let removal = |sent: Sent| match sent.request() {
        Request::RemoveWatches(body) => (sent.xid.0, body.path.to_string(), body.watcher_type),
        other => panic!("{other:?}"),
    };
    h.sent().into_iter().map(removal).collect()
}

#[test]
fn a_persistent_watch_reports_all_events_of_its_node() {
    let mut h = Harness::connected();
    let id = h.watch(&persistent("/a"), OK);
    for _ in 0..3 {
        for event in 1..=4 {
            h.notify(EventType(event), "/a");
            assert_eq!(reported(&mut h), [[id]], "{event}");
        }
    }
    for (event, path) in [(1, "/a/b"), (1, "/"), (1, "/ab"), (-1, "/a"), (0, "/a"), (9, "/a")] {
        h.notify(EventType(event), path);
        assert_eq!(reported(&mut h).len(), 0, "{event} {path}");
    }
}

#[test]
fn a_recursive_watch_reports_all_events_below_except_changes_of_children() {
    for (root, path, told_of) in [
        ("/a", "/a", true),
        ("/a", "/a/b", true),
        ("/a", "/a/b/c/d", true),
        ("/a", "/ab", false),
        ("/a", "/ab/c", false),
        ("/a", "/", false),
        ("/a/b", "/a", false),
        ("/", "/", true),
        ("/", "/a/b", true),
        ("/", "/zookeeper/config", true),
    ] {
        let mut h = Harness::connected();
        let id = h.watch(&recursive(root), OK);
        for event in 1..=3 {
            h.notify(EventType(event), path);
            let expected = told_of.then(|| Vec::from([id]));
            assert_eq!(reported(&mut h), expected.into_iter().collect::<Vec<_>>(), "{root} {path}");
        }
        h.notify(EventType::NODE_CHILDREN_CHANGED, path);
        assert_eq!(reported(&mut h).len(), 0, "{root} {path}");
    }
}

#[test]
fn one_event_fires_watches_of_all_kinds() {
    let mut h = Harness::connected();
    let data = h.watch(&get_data("/a/b"), OK);
    let stays = h.watch(&persistent("/a/b"), OK);
    let root = h.watch(&recursive("/"), OK);
    let above = h.watch(&recursive("/a"), OK);
    h.notify(EventType::NODE_DATA_CHANGED, "/a/b");
    let events = h.events();
    let [Event::Watch { requests, persistent, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&requests[..], &persistent[..]), (&[data][..], &[stays, root, above][..]));
}

#[test]
fn a_watch_that_the_server_refuses_is_not_set() {
    for err in [ErrorCode::NO_AUTH, ErrorCode::BAD_ARGUMENTS, ErrorCode::UNIMPLEMENTED] {
        let mut h = Harness::connected();
        h.watch(&persistent("/a"), err);
        h.notify(EventType::NODE_CREATED, "/a");
        assert_eq!(reported(&mut h).len(), 0);
        assert!(h.session.watches.is_empty());
    }
    // Nor does an event of an unknown kind.
    let mut h = Harness::connected();
    let mode = AddWatchMode(7);
    h.watch(&Request::AddWatch(AddWatchRequest { path: "/a", mode }), OK);
    assert!(h.session.watches.is_empty());
}

#[test]
fn persistent_watches_are_removed_when_the_last_sharer_drops_them() {
    for (request, watcher_type) in [
        (persistent("/a"), WatcherType::PERSISTENT),
        (recursive("/a"), WatcherType::PERSISTENT_RECURSIVE),
    ] {
        let mut h = Harness::connected();
        let first = h.watch(&request, OK);
        let second = h.watch(&request, OK);
        h.notify(EventType::NODE_CREATED, "/a");
        assert_eq!(reported(&mut h), [[first, second]]);
        h.session.unwatch(first);
        assert_eq!(removals(&mut h), []);
        h.notify(EventType::NODE_CREATED, "/a");
        assert_eq!(reported(&mut h), [[second]]);
        h.session.unwatch(second);
        assert_eq!(removals(&mut h), [(3, "/a".to_string(), watcher_type)]);
        h.reply(3, 1, OK);
        assert_eq!(removals(&mut h), []);
        h.notify(EventType::NODE_CREATED, "/a");
        assert_eq!(reported(&mut h).len(), 0);
        assert!(h.session.watches.is_empty());
    }
}

#[test]
fn an_old_server_removes_all_watches_of_a_path_if_none_is_needed() {
    let mut h = Harness::connected();
    let id = h.watch(&persistent("/a"), OK);
    h.session.unwatch(id);
    assert_eq!(removals(&mut h), [(2, "/a".to_string(), WatcherType::PERSISTENT)]);
    h.reply(2, 1, ErrorCode::MARSHALLING_ERROR);
    assert_eq!(removals(&mut h), [(3, "/a".to_string(), WatcherType::ANY)]);
    h.reply(3, 1, ErrorCode::MARSHALLING_ERROR);
    assert_eq!(removals(&mut h), [], "and that is all that can be done");
}

#[test]
fn an_old_server_keeps_an_unneeded_watch_beside_a_needed_one() {
    for other in [recursive("/a"), get_data("/a"), get_children("/a")] {
        let mut h = Harness::connected();
        let id = h.watch(&persistent("/a"), OK);
        let wanted = h.watch(&other, OK);
        h.session.unwatch(id);
        assert_eq!(removals(&mut h).len(), 1);
        h.reply(3, 1, ErrorCode::MARSHALLING_ERROR);
        assert_eq!(removals(&mut h), []);
        h.notify(EventType::NODE_DELETED, "/a");
        let events = h.events();
        let [Event::Watch { requests, persistent, .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!([&requests[..], &persistent[..]].concat(), [wanted]);
    }
}

#[test]
fn an_old_server_removes_an_unneeded_watch_once_the_request_beside_it_has_failed() {
    for (other, watcher_type) in [
        (persistent("/a"), WatcherType::PERSISTENT),
        (recursive("/a"), WatcherType::PERSISTENT_RECURSIVE),
    ] {
        let mut h = Harness::connected();
        let id = h.watch(&persistent("/a"), OK);
        h.session.unwatch(id);
        assert_eq!(removals(&mut h).len(), 1);
        h.session.submit_until(&other, 7, h.now + ms(5)).expect("the session takes requests");
        h.reply(2, 1, ErrorCode::MARSHALLING_ERROR);
        // Its deadline passes before it is sent.
        h.advance(ms(5));
        assert_eq!(removals(&mut h), [(4, "/a".to_string(), watcher_type)]);
        h.reply(4, 1, ErrorCode::MARSHALLING_ERROR);
        assert_eq!(removals(&mut h), [(5, "/a".to_string(), WatcherType::ANY)]);
        assert!(h.session.watches.is_empty());
    }
}

/// Servers before 3.9 would remove the persistent one, too.
#[test]
fn a_dropped_one_shot_watch_beside_a_persistent_one_is_not_removed() {
    let mut h = Harness::connected();
    let stays = h.watch(&persistent("/a"), OK);
    let once = h.watch(&get_data("/a"), OK);
    h.session.unwatch(once);
    assert_eq!(removals(&mut h), []);
    h.notify(EventType::NODE_DATA_CHANGED, "/a");
    assert_eq!(reported(&mut h), [[stays]]);
}

/// Returns the requests that set watches again: opcode, and the five lists.
fn replayed(h: &mut Harness) -> Vec<(OpCode, [Vec<String>; 5])> {
    let owned = |list: List<'_, &str>| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let replay = |sent: Sent| {
        assert_eq!(sent.xid, Xid::SET_WATCHES);
        let lists = match sent.request() {
            Request::SetWatches(set) => {
                let none = Vec::new;
                [set.data_watches, set.exist_watches, set.child_watches]
                    .map(owned)
                    .into_iter()
                    .chain([none(), none()])
                    .collect::<Vec<_>>()
            }
            Request::SetWatches2(set) => {
                assert_eq!(set.relative_zxid, Zxid(1));
                [
                    set.data_watches,
                    set.exist_watches,
                    set.child_watches,
                    set.persistent_watches,
                    set.persistent_recursive_watches,
                ]
                .map(owned)
                .into()
            }
            other => panic!("{other:?}"),
        };
        (sent.opcode, lists.try_into().expect("five"))
    };
    h.sent().into_iter().map(replay).collect()
}

#[test]
fn persistent_watches_are_set_again_and_report_the_gap() {
    let mut h = Harness::connected();
    h.watch(&get_data("/d"), OK);
    let p = h.watch(&persistent("/p"), OK);
    let r = h.watch(&recursive("/r"), OK);
    for _ in 0..2 {
        h.disconnect();
        h.events();
        h.connect();
        assert_eq!(
            h.events(),
            [
                Event::State(State::Connected { server: 0, session: SESSION }),
                Event::Gap { requests: Vec::from([p, r]) },
            ]
        );
        let paths = ["/d", "", "", "/p", "/r"];
        let lists = paths.map(|path| Some(path.to_string()).filter(|path| !path.is_empty()));
        let lists = lists.map(|path| path.into_iter().collect());
        assert_eq!(replayed(&mut h), [(OpCode::SET_WATCHES2, lists)]);
        h.reply(Xid::SET_WATCHES.0, 1, OK);
    }
    h.notify(EventType::NODE_DATA_CHANGED, "/r/x");
    assert_eq!(reported(&mut h), [[r]]);
    for id in [p, r] {
        h.session.unwatch(id);
    }
    assert_eq!(removals(&mut h).len(), 2);
    h.disconnect();
    h.events();
    h.connect();
    assert_eq!(h.events().len(), 1, "nobody holds one any more");
    assert_eq!(replayed(&mut h)[0].0, OpCode::SET_WATCHES);
}

#[test]
fn only_batches_with_persistent_watches_need_a_server_that_supports_them() {
    let mut h = Harness::with(Config { max_request: 200, ..Config::new(1, 0) });
    h.connect();
    for n in 0..20 {
        h.watch(&get_data(&alloc::format!("/data/number/{n}")), OK);
    }
    h.watch(&persistent("/persistent"), OK);
    h.disconnect();
    h.connect();
    let opcodes: Vec<_> = replayed(&mut h).into_iter().map(|(opcode, _)| opcode).collect();
    assert!(opcodes.len() > 2, "{opcodes:?}");
    let (last, others) = opcodes.split_last().expect("some");
    assert_eq!(*last, OpCode::SET_WATCHES2);
    assert!(others.iter().all(|opcode| *opcode == OpCode::SET_WATCHES), "{opcodes:?}");
}

#[test]
fn a_server_too_old_for_persistent_watches_ends_them_and_is_not_asked_again() {
    let mut h = Harness::connected();
    h.watch(&get_data("/d"), OK);
    let p = h.watch(&persistent("/p"), OK);
    let r = h.watch(&recursive("/r"), OK);
    h.disconnect();
    h.connect();
    h.sent();
    h.events();
    h.reply(Xid::SET_WATCHES.0, -1, ErrorCode::UNIMPLEMENTED);
    let events = h.events();
    let lost = Event::WatchLost { requests: Vec::from([p, r]), code: ErrorCode::UNIMPLEMENTED };
    assert_eq!(events[0], lost);
    let cause = Cause::WatchesRefused(ErrorCode::UNIMPLEMENTED);
    assert_eq!(events[1], Event::Disconnected { server: 0, cause });
    h.connect();
    assert_eq!(replayed(&mut h)[0].0, OpCode::SET_WATCHES);
    assert!(h.events().iter().all(|event| !matches!(event, Event::Gap { .. })));
    h.session.unwatch(p);
    assert_eq!(removals(&mut h), []);
}

#[test]
fn persistent_watches_stay_when_a_server_fails_to_set_them_again() {
    let mut h = Harness::connected();
    let p = h.watch(&persistent("/p"), OK);
    h.disconnect();
    h.connect();
    h.sent();
    h.events();
    h.reply(Xid::SET_WATCHES.0, 1, ErrorCode::SYSTEM_ERROR);
    h.connect();
    assert!(h.events().contains(&Event::Gap { requests: Vec::from([p]) }));
}

#[test]
fn servers_that_refuse_watches_are_tried_with_growing_delays() {
    let mut h = Harness::connected();
    h.watch(&get_data("/d"), OK);
    let start = h.now;
    // Each attempt has kept the session alive, so at first there seems to be one to save.
    for _ in 0..100 {
        h.disconnect();
        h.connect();
        h.sent();
        h.reply(Xid::SET_WATCHES.0, 1, ErrorCode::SYSTEM_ERROR);
        h.events();
    }
    assert!(h.now - start > Duration::from_secs(100), "{:?}", h.now - start);
    // A server that accepts them, and goes on serving, ends the back-off.
    h.connect();
    h.sent();
    h.reply(Xid::SET_WATCHES.0, 1, OK);
    h.be_of_use();
    h.disconnect();
    assert!(h.sleep() <= ms(50));
}

#[test]
fn a_refusal_of_an_operation_may_overtake_other_answers() {
    let mut h = Harness::connected();
    h.sync(1);
    let id = h.submit(&persistent("/a"), 2);
    h.sync(3);
    h.sent();
    h.reply(2, -1, ErrorCode::UNIMPLEMENTED);
    assert_eq!(
        h.answers(),
        [(2, Some(Error::refused(OpCode::ADD_WATCH, ErrorCode::UNIMPLEMENTED)))]
    );
    h.reply(1, 1, OK);
    h.reply(3, 1, OK);
    assert_eq!(h.answers(), [(1, None), (3, None)]);
    h.session.unwatch(id);
    assert_eq!(removals(&mut h), []);
    // Any other reply does not, nor one to a request that was not made.
    h.sync(4);
    h.sent();
    h.reply(9, -1, ErrorCode::UNIMPLEMENTED);
    let cause = Cause::UnexpectedReply { expected: Some(Xid(4)), received: Xid(9) };
    assert_eq!(h.cause(), Some(cause));
}

#[test]
fn a_persistent_watch_dropped_before_it_is_set_is_removed_at_once() {
    let mut h = Harness::connected();
    let id = h.submit(&persistent("/a"), 1);
    h.session.unwatch(id);
    let opcodes: Vec<_> = h.sent().iter().map(|sent| sent.opcode).collect();
    assert_eq!(opcodes, [OpCode::ADD_WATCH, OpCode::REMOVE_WATCHES]);
    h.reply(1, 1, OK);
    h.reply(2, 1, OK);
    assert_eq!(removals(&mut h), []);
    assert!(h.session.watches.is_empty());
}

/// A path of separators only has as many ancestors as bytes.
#[test]
fn the_lookup_of_a_hostile_path_is_fast() {
    let mut h = Harness::connected();
    let id = h.watch(&recursive("/"), OK);
    h.notify(EventType::NODE_CREATED, &"/".repeat(1 << 20));
    assert_eq!(reported(&mut h), [[id]]);
    h.notify(EventType::NODE_CREATED, "");
    h.notify(EventType::NODE_CREATED, "no/root");
    assert_eq!(reported(&mut h).len(), 0);
}

/// Some Keepers lack removals, and would end the session at one.
#[test]
fn on_a_keeper_watches_are_removed_once_it_has_set_a_persistent_one() {
    let mut h = Harness::new(1);
    let answer = |h: &mut Harness, password: &[u8], read_only| {
        h.reach();
        h.handshake();
        h.deliver(&ConnectResponse {
            protocol_version: 0,
            timeout: GRANTED,
            session_id: SESSION,
            password: Some(password),
            read_only,
        });
    };
    answer(&mut h, &NO_PASSWORD, None);
    assert_eq!(h.session.server_kind(), ServerKind::Keeper);
    let removed_by_dropping = |h: &mut Harness, path| {
        let dropped = h.watch(&get_data(path), OK);
        h.session.unwatch(dropped);
        removals(h).len()
    };
    assert_eq!(removed_by_dropping(&mut h, "/a"), 0);
    h.watch(&persistent("/p"), ErrorCode::NO_AUTH);
    assert_eq!(removed_by_dropping(&mut h, "/b"), 0);
    h.watch(&persistent("/p"), OK);
    assert_eq!(removed_by_dropping(&mut h, "/c"), 1);
    // Another session on it remembers. Another server is asked anew.
    for (password, read_only, kind) in [
        (&NO_PASSWORD, None, ServerKind::Keeper),
        (&PASSWORD, None, ServerKind::ZooKeeper),
        (&NO_PASSWORD, Some(false), ServerKind::ZooKeeper),
    ] {
        h.disconnect();
        answer(&mut h, password, read_only);
        assert_eq!(h.session.server_kind(), kind);
        h.answer_all();
        assert_eq!(removed_by_dropping(&mut h, "/d"), 1, "{kind:?}");
    }
    h.disconnect();
    answer(&mut h, &NO_PASSWORD, None);
    h.answer_all();
    assert_eq!(removed_by_dropping(&mut h, "/e"), 0);
}
