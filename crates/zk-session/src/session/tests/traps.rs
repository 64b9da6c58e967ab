//! Known bugs of other clients: one test for each that a session could share.
//!
//! The names have the numbers in docs/tables/session-traps.md, which says where the other tests
//! are.

use zk_proto::{AddWatchMode, AddWatchRequest};

use super::*;

const OK: ErrorCode = ErrorCode::OK;
const NO_NODE: ErrorCode = ErrorCode::NO_NODE;

fn stays(path: &str, mode: AddWatchMode) -> Request<'_> {
    Request::AddWatch(AddWatchRequest { path, mode })
}

/// Returns the handshake with which the session reconnects.
fn return_to_server(h: &mut Harness) -> (SessionId, Zxid, i32) {
    h.disconnect();
    h.reach();
    let payload = h.handshake();
    let request = ConnectRequest::decode_all(&payload).expect("a handshake");
    (request.session_id, request.last_zxid_seen, request.timeout)
}

fn opcodes(h: &mut Harness) -> Vec<OpCode> {
    h.sent().iter().map(|sent| sent.opcode).collect()
}

#[test]
fn trap_01_xids_wrap_to_1_and_never_collide_with_special_ones() {
    let mut h = Harness::connected();
    h.session.outbox.set_last_xid(Xid(i32::MAX));
    h.sync(1);
    assert_eq!(h.sent_xids(), [1]);
}

#[test]
fn trap_02_the_last_zxid_comes_only_from_replies_and_is_sent() {
    let mut h = Harness::connected();
    h.sync(1);
    h.sent();
    h.reply(1, 50, OK);
    h.notify(EventType::NODE_CREATED, "/a"); // its zxid is far ahead
    h.reply(Xid::PING.0, 60, OK);
    h.reply(Xid::SET_WATCHES.0, 70, OK);
    assert_eq!(return_to_server(&mut h).1, Zxid(50));
}

#[test]
fn trap_03_all_batches_of_watches_carry_the_zxid_from_before_the_connection() {
    let mut h = Harness::with(Config { max_request: 64, ..Config::new(1, 0) });
    h.connect();
    for n in 0..8 {
        h.watch(&get_data(&alloc::format!("/node/number/{n}")), OK);
    }
    h.disconnect();
    h.connect();
    h.session.last_zxid = Zxid(99); // A reply came in between.
    let sent = h.sent();
    assert!(sent.len() > 2);
    for sent in &sent {
        let Request::SetWatches(set) = sent.request() else { panic!("{sent:?}") };
        assert_eq!(set.relative_zxid, Zxid(1));
    }
}

#[test]
fn trap_04_watches_are_set_again_in_frames_that_servers_accept() {
    let mut h = Harness::connected();
    let long = "x".repeat(1_000);
    for n in 0..1_100 {
        h.submit(&get_data(&alloc::format!("/{long}{n}")), 0);
        h.answer_all();
    }
    h.disconnect();
    h.connect();
    h.take_all();
    let lengths: Vec<usize> =
        core::iter::from_fn(|| h.payload()).map(|payload| payload.len()).collect();
    assert!(lengths.iter().sum::<usize>() > frame::DEFAULT_LIMIT);
    assert!(lengths.iter().all(|length| *length < 140_000), "{lengths:?}");
}

#[test]
fn trap_06_persistent_watches_are_set_again_by_set_watches2() {
    let mut h = Harness::connected();
    h.watch(&stays("/p", AddWatchMode::PERSISTENT), OK);
    h.watch(&stays("/r", AddWatchMode::PERSISTENT_RECURSIVE), OK);
    h.disconnect();
    h.connect();
    let sent = h.sent();
    let Request::SetWatches2(set) = sent[0].request() else { panic!("{sent:?}") };
    assert_eq!(set.persistent_watches, (&["/p"]).into());
    assert_eq!(set.persistent_recursive_watches, (&["/r"]).into());
}

#[test]
fn trap_07_no_batch_of_watches_waits_for_the_answer_to_another() {
    let mut h = Harness::with(Config { max_request: 64, ..Config::new(1, 0) });
    h.connect();
    for n in 0..8 {
        h.watch(&get_data(&alloc::format!("/node/number/{n}")), OK);
    }
    h.disconnect();
    h.sync(1);
    h.connect();
    let opcodes = opcodes(&mut h);
    let (last, batches) = opcodes.split_last().expect("some");
    assert!(batches.len() > 2 && batches.iter().all(|opcode| *opcode == OpCode::SET_WATCHES));
    assert_eq!(*last, OpCode::SYNC);
}

#[test]
fn trap_08_nothing_is_sent_before_the_handshake_is_answered() {
    let mut h = Harness::new(1);
    h.sync(1);
    h.session.add_auth("digest", b"me", 2).expect("taken");
    h.reach();
    h.handshake(); // asserts that nothing follows
    assert_eq!(h.session.output(), b"");
}

#[test]
fn trap_09_either_sign_of_expiry_is_enough() {
    for (timeout, id) in [(0, SESSION), (GRANTED, SessionId::NONE), (GRANTED, SessionId(9))] {
        let mut h = Harness::connected();
        return_to_server(&mut h);
        h.answer_handshake(timeout, id);
        assert_eq!(h.session.state(), State::Ended(End::Expired), "{timeout} {id:?}");
    }
}

#[test]
fn trap_10_a_server_that_closes_the_connection_in_the_handshake_is_not_retried_in_a_loop() {
    let mut h = Harness::new(3);
    let start = h.now;
    let mut tried = Vec::new();
    for _ in 0..30 {
        tried.push(h.reach());
        h.handshake();
        h.disconnect();
    }
    assert!(tried.windows(2).all(|pair| pair[0] != pair[1]), "{tried:?}");
    assert!(h.now - start > Duration::from_secs(4), "{:?}", h.now - start);
    assert_eq!(h.session.state(), State::Connecting);
}

#[test]
fn trap_11_replies_to_credentials_are_outside_the_order() {
    let mut h = Harness::connected();
    h.sync(1);
    h.session.add_auth("digest", b"me", 2).expect("taken");
    h.sent();
    h.reply(Xid::AUTH.0, 0, OK);
    h.reply(1, 1, OK);
    assert_eq!(h.answers(), [(2, None), (1, None)]);
    assert_eq!(h.session.last_zxid(), Zxid(1));
}

#[test]
fn trap_12_credentials_come_before_watches_and_requests_on_every_connection() {
    let mut h = Harness::connected();
    h.watch(&get_data("/a"), OK);
    h.session.add_auth("digest", b"me", 1).expect("taken");
    h.sent();
    h.sync(2);
    h.disconnect();
    h.connect();
    assert_eq!(opcodes(&mut h), [OpCode::AUTH, OpCode::SET_WATCHES, OpCode::SYNC]);
}

#[test]
fn trap_13_a_credential_cut_off_is_answered_by_the_next_connection_even_if_refused() {
    let mut h = Harness::connected();
    h.session.add_auth("digest", b"me", 1).expect("taken");
    h.sent();
    h.disconnect();
    assert_eq!(h.answers(), []);
    h.connect();
    h.sent();
    h.reply(Xid::AUTH.0, 0, ErrorCode::AUTH_FAILED);
    assert_eq!(h.answers(), [(1, Some(Error::Server(ErrorCode::AUTH_FAILED)))]);
}

#[test]
fn trap_14_pings_are_distinguished_by_their_order_alone() {
    let mut h = Harness::connected();
    let before = h.session.lease();
    h.advance(ms(2_000));
    h.sent();
    h.reply(Xid::PING.0, 1, OK);
    let after = h.session.lease();
    assert!(after > before);
    h.reply(Xid::PING.0, 1, OK); // To no ping: whatever it is, it proves nothing.
    assert_eq!(h.session.lease(), after);
    assert_eq!(h.actions(), []);
}

#[test]
fn trap_15_heavy_traffic_from_the_server_does_not_delay_pings() {
    let mut h = Harness::connected();
    let mut pings = 0;
    for _ in 0..1_000 {
        h.advance(ms(20));
        h.notify(EventType::NODE_CREATED, "/nobody/watches");
        pings += h.sent().iter().filter(|sent| sent.opcode == OpCode::PING).count();
        h.reply(Xid::PING.0, 1, OK);
    }
    assert_eq!(pings, 10, "one in each third of the timeout");
}

#[test]
fn trap_16_very_long_and_very_short_sessions_are_kept_alive() {
    for (granted, interval) in [(i32::MAX, 10_000), (60_000, 10_000), (30, 10), (6_000, 2_000)] {
        let mut h = Harness::new(1);
        h.reach();
        h.handshake();
        h.answer_handshake(granted, SESSION);
        h.advance(ms(interval - 1));
        assert_eq!(opcodes(&mut h), [], "{granted}");
        h.advance(ms(1));
        assert_eq!(opcodes(&mut h), [OpCode::PING], "{granted}");
    }
}

#[test]
fn trap_17_a_transport_without_a_handshake_is_no_connection() {
    let mut h = Harness::new(1);
    h.reach();
    assert_eq!(h.session.state(), State::Connecting);
    for _ in 0..9 {
        h.disconnect();
        h.reach();
    }
    h.disconnect();
    assert!(h.sleep() >= ms(500), "transports that can be made do not reset the back-off");
}

#[test]
fn trap_18_every_server_has_at_least_a_second_to_answer() {
    let h = Harness::new(1_000);
    assert_eq!(h.session.poll_timeout(), Some(h.now + ms(1_000)));
}

/// Only a server reports expiry. The client knows when the lease has ended, and callers are
/// released by deadlines and the disconnect timeout.
#[test]
fn trap_19_an_unreachable_ensemble_ends_the_lease_but_not_the_session() {
    let mut h = Harness::with(Config { disconnect_timeout: Some(ms(8_000)), ..Config::new(1, 0) });
    h.connect();
    h.disconnect();
    h.sync(1);
    let gone = h.now + ms(60_000);
    while h.now < gone {
        h.sleep();
        h.disconnect();
    }
    assert!(h.session.lease() < Some(h.now));
    assert_eq!(h.session.state(), State::Suspended);
    assert_eq!(h.answers(), [(1, Some(Error::NoConnection))]);
}

#[test]
fn trap_20_the_frame_after_a_reply_may_be_the_event_of_its_watch() {
    let mut h = Harness::connected();
    let id = h.submit(&get_data("/a"), 1);
    h.sent();
    h.reply(1, 1, OK);
    h.notify(EventType::NODE_DATA_CHANGED, "/a");
    assert_eq!(h.fired()[0].0, [id]);
}

#[test]
fn trap_21_a_watch_left_on_a_missing_node_can_be_removed() {
    let mut h = Harness::connected();
    let id = h.watch(&exists("/a"), NO_NODE);
    h.session.unwatch(id);
    assert_eq!(opcodes(&mut h), [OpCode::REMOVE_WATCHES]);
}

#[test]
fn trap_22_a_refused_request_sets_no_watch() {
    for (request, err) in [
        (get_data("/a"), NO_NODE),
        (get_children("/a"), NO_NODE),
        (exists("/a"), ErrorCode::NO_AUTH),
        (get_data("/a"), ErrorCode::NO_AUTH),
        (stays("/a", AddWatchMode::PERSISTENT), ErrorCode::NO_AUTH),
    ] {
        let mut h = Harness::connected();
        h.watch(&request, err);
        assert!(h.session.watches.is_empty(), "{request:?}");
    }
}

#[test]
fn trap_23_an_event_fires_all_watches_that_it_clears_on_the_server() {
    for (request, answer, event) in [
        (exists("/a"), NO_NODE, EventType::NODE_DATA_CHANGED),
        (get_data("/a"), OK, EventType::NODE_CREATED),
        (get_children("/a"), OK, EventType::NODE_DELETED),
    ] {
        let mut h = Harness::connected();
        let id = h.watch(&request, answer);
        h.notify(event, "/a");
        assert_eq!(h.fired()[0].0, [id], "{request:?}");
        assert!(h.session.watches.is_empty());
    }
}

#[test]
fn trap_24_recursive_watches_do_not_report_lists_of_children() {
    let mut h = Harness::connected();
    h.watch(&stays("/a", AddWatchMode::PERSISTENT_RECURSIVE), OK);
    let children = h.watch(&get_children("/a/b"), OK);
    h.notify(EventType::NODE_CHILDREN_CHANGED, "/a/b");
    let events = h.events();
    let [Event::Watch { requests, persistent, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&requests[..], persistent.len()), (&[children][..], 0));
}

#[test]
fn trap_25_all_events_of_one_transaction_are_reported() {
    let mut h = Harness::connected();
    h.watch(&stays("/a", AddWatchMode::PERSISTENT), OK);
    for event in [EventType::NODE_DELETED, EventType::NODE_CREATED, EventType::NODE_DELETED] {
        h.notify(event, "/a"); // of one zxid, on one path
    }
    assert_eq!(h.fired().len(), 3);
}

#[test]
fn trap_26_persistent_watches_report_the_gap() {
    let mut h = Harness::connected();
    let id = h.watch(&stays("/a", AddWatchMode::PERSISTENT), OK);
    h.disconnect();
    h.connect();
    assert_eq!(h.events().pop(), Some(Event::Gap { requests: Vec::from([id]) }));
}

/// The client cannot see the server's error, but must not add to it.
#[test]
fn trap_27_removing_a_one_shot_watch_keeps_a_persistent_one() {
    let mut h = Harness::connected();
    h.watch(&stays("/a", AddWatchMode::PERSISTENT), OK);
    let once = h.watch(&get_data("/a"), OK);
    h.session.unwatch(once);
    assert_eq!(opcodes(&mut h), []);
}

#[test]
fn trap_28_a_shared_watch_is_removed_with_its_last_user_and_may_have_fired() {
    let mut h = Harness::connected();
    let first = h.watch(&get_data("/a"), OK);
    let second = h.watch(&get_data("/a"), OK);
    h.session.unwatch(first);
    assert_eq!(opcodes(&mut h), []);
    h.session.unwatch(second);
    assert_eq!(opcodes(&mut h), [OpCode::REMOVE_WATCHES]);
    h.notify(EventType::NODE_DELETED, "/a");
    h.reply(3, 1, ErrorCode::NO_WATCHER);
    assert_eq!((h.events(), h.actions()), (Vec::new(), Vec::new()));
}

#[test]
fn trap_29_unknown_numbers_do_no_harm() {
    let mut h = Harness::connected();
    h.watch(&get_data("/a"), OK);
    for number in [i32::MIN, -77, 5, 99, i32::MAX] {
        let event =
            WatcherEvent { event_type: EventType(number), state: KeeperState(number), path: "/a" };
        h.reply_with(Xid::NOTIFICATION.0, 1, ErrorCode(number), &event);
    }
    h.sync(1);
    h.sent();
    h.reply(2, 1, ErrorCode(-9_999));
    assert_eq!(h.answers(), [(1, Some(Error::Server(ErrorCode(-9_999))))]);
    assert_eq!(h.actions(), []);
}

#[test]
fn trap_30_the_body_of_a_reply_to_add_watch_is_read_with_its_frame() {
    let mut h = Harness::connected();
    h.submit(&stays("/a", AddWatchMode::PERSISTENT), 1);
    h.sync(2);
    h.sent();
    h.reply_with(1, 1, OK, &zk_proto::ErrorResponse { err: OK });
    h.reply(2, 1, OK);
    assert_eq!(h.answers(), [(1, None), (2, None)]);
}

#[test]
fn trap_35_a_request_too_long_fails_alone_and_was_not_applied() {
    let mut h = Harness::with(Config { max_request: 100, ..Config::new(1, 0) });
    h.connect();
    let long = "/".to_string() + &"x".repeat(100);
    let error = h.session.submit(&create(&long), 1).expect_err("too long");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert_eq!((opcodes(&mut h), h.actions()), (Vec::new(), Vec::new()));
}

/// A server with a lower limit than the configured one closes the connection once it has read the
/// length.
#[test]
fn trap_35_a_request_that_costs_every_connection_fails_alone_and_was_not_applied() {
    let mut h = Harness::new(2);
    h.submit(&create("/too/long/for/them"), 1);
    h.sync(2);
    for _ in 0..3 {
        h.connect();
        h.disconnect(); // before any byte of the request was sent
    }
    let start = h.now;
    for _ in 0..3 {
        assert_eq!(h.answers(), []);
        h.connect();
        h.take(10);
        h.disconnect();
    }
    let length = outbox::request_length(&create("/too/long/for/them"));
    let error = Error::Undeliverable { opcode: OpCode::CREATE2, length };
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert_eq!(h.answers(), [(1, Some(error))]);
    h.connect();
    assert!(h.now - start >= ms(50), "and the servers are not hammered");
    assert_eq!(opcodes(&mut h), [OpCode::SYNC]);
    h.reply(2, 1, OK);
    assert_eq!(h.answers(), [(2, None)]);
}

/// A deletion, say, that is repeated while a network fails. Every server has it, and has answered longer
/// requests.
#[test]
fn trap_35_a_request_that_every_server_can_answer_is_not_blamed_for_lost_connections() {
    let mut h = Harness::connected();
    h.submit(&create("/longer/than/the/path/of/the/request"), 0);
    h.sent();
    h.reply(1, 1, OK);
    assert_eq!(h.answers(), [(0, None)]);
    for token in 1..10 {
        h.sync(token);
        h.sent();
        h.disconnect();
        assert_eq!(h.answers(), [unknown(token)]);
        h.connect();
    }
}

#[test]
fn trap_37_a_request_that_may_have_been_applied_is_not_sent_again() {
    let mut h = Harness::connected();
    h.submit(&create("/seq-"), 1);
    h.sent();
    h.disconnect();
    h.connect();
    assert_eq!(opcodes(&mut h), []);
    assert_eq!(h.answers(), [unknown(1)]);
}

#[test]
fn trap_40_closing_never_hangs_and_follows_earlier_requests() {
    let mut h = Harness::connected();
    h.disconnect();
    h.session.close();
    assert_eq!(h.session.state(), State::Ended(End::Closed));
    let mut h = Harness::connected();
    h.sync(1);
    h.session.close();
    assert!(h.session.submit(&SYNC, 2).is_err());
    assert_eq!(opcodes(&mut h), [OpCode::SYNC, OpCode::CLOSE_SESSION]);
}

#[test]
fn trap_41_requests_pending_at_the_end_are_answered_once_and_in_order() {
    let mut h = Harness::connected();
    for token in 0..3 {
        h.sync(token);
    }
    h.take(20);
    h.session.close();
    h.disconnect();
    let tokens: Vec<_> = h.answers().into_iter().map(|(token, _)| token).collect();
    assert_eq!(tokens, [0, 1, 2]);
    h.disconnect();
    h.session.close();
    assert_eq!(h.answers(), []);
}

#[test]
fn trap_42_a_session_of_a_read_only_server_is_not_resumed_elsewhere() {
    let mut h = Harness::with(Config { read_only: true, ..Config::new(1, 0) });
    h.reach();
    h.handshake();
    h.deliver(&ConnectResponse {
        protocol_version: 0,
        timeout: GRANTED,
        session_id: SessionId(5),
        password: Some(&PASSWORD),
        read_only: Some(true),
    });
    assert_eq!(return_to_server(&mut h).0, SessionId::NONE);
}

#[test]
fn trap_45_the_granted_timeout_counts_and_the_configured_one_is_requested_again() {
    let mut h = Harness::connected();
    assert_eq!(h.session.timeout(), ms(6_000));
    assert_eq!(return_to_server(&mut h).2, 10_000);
}

#[test]
fn trap_46_a_long_outage_overflows_nothing() {
    let mut h = Harness::new(1);
    for _ in 0..100_000 {
        h.disconnect();
        assert!(h.sleep() <= Duration::from_secs(5));
    }
}

#[test]
fn trap_47_a_loss_is_reported_completely_before_the_next_connection() {
    let mut h = Harness::connected();
    h.submit(&get_data("/a"), 1);
    h.sent();
    h.disconnect();
    h.connect();
    let events = h.events();
    assert!(
        matches!(
            events[..],
            [
                Event::Disconnected { .. },
                Event::Reply { token: 1, result: Err(Error::ConnectionLost) },
                Event::State(State::Suspended),
                Event::State(State::Connected { .. }),
            ]
        ),
        "{events:?}"
    );
    assert!(h.session.watches.is_empty());
}

#[test]
fn trap_48_events_and_replies_are_one_stream() {
    let mut h = Harness::connected();
    h.watch(&get_data("/a"), OK);
    h.sync(1);
    h.sent();
    h.notify(EventType::NODE_DATA_CHANGED, "/a");
    h.reply(2, 9, OK);
    let events = h.events();
    assert!(matches!(events[..], [Event::Watch { .. }, Event::Reply { .. }]), "{events:?}");
}

#[test]
fn trap_50_the_last_zxid_never_goes_back() {
    let mut h = Harness::connected();
    for (xid, zxid) in [(1, 9), (2, 5)] {
        h.sync(0);
        h.sent();
        h.reply(xid, zxid, OK);
    }
    assert_eq!(return_to_server(&mut h).1, Zxid(9));
}

/// For the claims of the table in the documentation.
#[test]
fn every_trap_has_a_test_or_a_row_whose_tests_exist() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tables/session-traps.md");
    let text = std::fs::read_to_string(path).expect(path);
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let source = include_str!("traps.rs");
    for number in 1..=50 {
        let test = alloc::format!("trap_{number:02}_");
        let row = rows.iter().find(|row| row.starts_with(&alloc::format!("| {number} |")));
        assert!(row.is_some() || source.contains(&alloc::format!("\nfn {test}")), "{test}");
        let named = row.into_iter().flat_map(|row| row.split('`'));
        for name in named.filter(|name| name.starts_with("trap_")) {
            assert!(source.contains(&alloc::format!("\nfn {name}()")), "{name}");
            assert!(name.starts_with(&test), "{name}");
        }
    }
}
