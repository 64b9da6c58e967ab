//! Replies longer than the limit: only their headers are kept.

use super::*;
use zk_proto::{AddWatchMode, AddWatchRequest, DeleteRequest, Multi, WatcherType};

const OK: ErrorCode = ErrorCode::OK;
const LIMIT: usize = 64 << 20;

fn too_large(outcome: Outcome) -> Error {
    Error::ReplyTooLarge { length: TOO_LONG, limit: LIMIT, outcome }
}

/// Returns the operations of the requests sent now.
fn opcodes(h: &mut Harness) -> Vec<OpCode> {
    h.sent().iter().map(|sent| sent.opcode).collect()
}

#[test]
fn a_reply_that_is_too_long_fails_its_request_alone_and_the_connection_stays() {
    let mut h = Harness::connected();
    h.submit(&get_children("/many"), 1);
    h.sync(2);
    h.sent();
    let sent_at = h.now;
    h.advance(ms(10));
    h.reply_too_long(1, 9, OK);
    h.reply(2, 9, OK);
    assert_eq!(h.answers(), [(1, Some(too_large(Outcome::NotApplied))), (2, None)]);
    assert_eq!((h.actions(), h.session.pending()), (Vec::new(), 0));
    assert!(matches!(h.session.state(), State::Connected { .. }));
    assert_eq!(h.session.last_zxid(), Zxid(9), "its header counts as any other");
    assert_eq!(h.session.lease(), Some(sent_at + ms(GRANTED as u64 * 95 / 100)));
}

#[test]
fn the_header_of_a_reply_that_is_too_long_decides_the_outcome() {
    let delete = Request::Delete(DeleteRequest { path: "/a", version: -1 });
    let multi = Request::Multi(Multi::new(&[]));
    for (request, outcome) in [
        (get_data("/a"), Outcome::NotApplied),
        (SYNC, Outcome::NotApplied),
        (create("/a"), Outcome::Applied),
        (delete, Outcome::Applied),
        (multi, Outcome::Unknown),
    ] {
        let mut h = Harness::connected();
        h.submit(&request, 1);
        h.sent();
        h.reply_too_long(1, 1, OK);
        let error = too_large(outcome);
        assert_eq!(error.outcome(), outcome);
        assert_eq!(h.answers(), [(1, Some(error))], "{request:?}");
    }
}

#[test]
fn a_refusal_that_is_too_long_fails_with_the_code_of_its_header() {
    let mut h = Harness::connected();
    let id = h.submit(&exists("/a"), 1);
    h.sent();
    h.reply_too_long(1, 1, ErrorCode::NO_NODE);
    assert_eq!(h.answers(), [(1, Some(Error::Server(ErrorCode::NO_NODE)))]);
    h.notify(EventType::NODE_CREATED, "/a");
    assert_eq!(h.fired()[0].0, [id], "it has set a watch, as the caller knows");
}

#[test]
fn a_watch_whose_reply_is_too_long_is_removed_from_the_server() {
    let add = |mode| Request::AddWatch(AddWatchRequest { path: "/a", mode });
    for (request, watcher_type) in [
        (get_children("/a"), WatcherType::CHILDREN),
        (get_data("/a"), WatcherType::DATA),
        (add(AddWatchMode::PERSISTENT), WatcherType::PERSISTENT),
        (add(AddWatchMode::PERSISTENT_RECURSIVE), WatcherType::PERSISTENT_RECURSIVE),
    ] {
        let mut h = Harness::connected();
        let id = h.submit(&request, 1);
        h.sent();
        h.reply_too_long(1, 1, OK);
        let sent = h.sent();
        let Request::RemoveWatches(removal) = sent[0].request() else { panic!("{sent:?}") };
        assert_eq!((removal.path, removal.watcher_type, sent.len()), ("/a", watcher_type, 1));
        assert!(h.session.watches.is_empty());
        // An event that crosses the removal is ignored, and so is a drop of the watch.
        h.events();
        h.notify(EventType::NODE_DELETED, "/a");
        h.session.unwatch(id);
        h.reply(2, 1, ErrorCode::NO_WATCHER);
        assert_eq!((h.events(), h.sent()), (Vec::new(), Vec::new()));
        h.disconnect();
        h.connect();
        assert_eq!(h.sent(), [], "nor is it set again");
    }
}

#[test]
fn a_shared_watch_stays_when_one_reply_is_too_long() {
    let mut h = Harness::connected();
    let first = h.watch(&get_children("/a"), OK);
    h.submit(&get_children("/a"), 1);
    h.sent();
    h.reply_too_long(2, 1, OK);
    assert_eq!(opcodes(&mut h), []);
    h.notify(EventType::NODE_CHILDREN_CHANGED, "/a");
    assert_eq!(h.fired()[0].0, [first]);
}

#[test]
fn a_watch_dropped_before_its_long_reply_is_removed_once() {
    let mut h = Harness::connected();
    let id = h.submit(&get_children("/a"), 1);
    h.sent();
    h.session.unwatch(id);
    assert_eq!(opcodes(&mut h), [OpCode::REMOVE_WATCHES]);
    h.reply_too_long(1, 1, OK);
    assert_eq!(opcodes(&mut h), []);
    assert!(h.session.watches.is_empty());
}

#[test]
fn replies_to_the_sessions_own_requests_may_be_too_long() {
    let mut h = Harness::connected();
    let id = h.watch(&get_data("/a"), OK);
    h.session.unwatch(id);
    h.session.close();
    h.sent();
    h.reply_too_long(2, 1, OK);
    h.reply_too_long(3, 1, OK);
    assert_eq!(h.session.state(), State::Ended(End::Closed));
}

#[test]
fn a_long_frame_that_is_no_reply_costs_the_connection() {
    let cause = Cause::Frame(frame::FrameError::TooLong { length: TOO_LONG, limit: LIMIT });
    for xid in [Xid::NOTIFICATION, Xid::PING, Xid::AUTH, Xid::SET_WATCHES] {
        let mut h = Harness::connected();
        h.reply_too_long(xid.0, 1, OK);
        assert_eq!(h.cause(), Some(cause), "{xid}");
        assert_eq!(h.actions(), [Action::Disconnect]);
    }
    let mut h = Harness::new(1);
    h.reach();
    h.handshake();
    h.reply_too_long(0, 0, OK);
    assert_eq!(h.cause(), Some(cause), "the handshake");
    let mut h = Harness::with(Config { authenticate: true, ..Config::new(1, 0) });
    h.reach();
    h.handshake();
    h.welcome();
    h.session.authenticate(&SYNC).expect("it is asked for");
    h.take_all();
    h.reply_too_long(1, 0, OK);
    assert_eq!(h.cause(), Some(cause), "the exchange");
}

#[test]
fn a_long_reply_out_of_order_costs_the_connection() {
    let mut h = Harness::connected();
    h.sync(1);
    h.sync(2);
    h.sent();
    h.begin_too_long(2, 99, OK);
    let cause = Cause::UnexpectedReply { expected: Some(Xid(1)), received: Xid(2) };
    assert_eq!(h.cause(), Some(cause), "before the rest has arrived");
    let mut h = Harness::connected();
    h.session.handle_oversized(h.now, &[0; 15], TOO_LONG);
    assert!(matches!(h.cause(), Some(Cause::Malformed(_))));
}

/// Otherwise a server could continue one frame for ever.
#[test]
fn a_long_reply_must_arrive_within_the_read_deadline() {
    let mut h = Harness::connected();
    h.submit(&get_children("/many"), 1);
    h.sent();
    h.begin_too_long(1, 1, OK);
    assert_eq!(h.events(), []);
    let before = h.now;
    let cause = loop {
        h.sleep();
        h.take_all();
        if let Some(cause) = h.cause() {
            break cause;
        }
    };
    assert_eq!(cause, Cause::ReadTimeout);
    assert_eq!(h.now - before, ms(GRANTED as u64 / 3 * 2));
}

/// A wrong length makes the next replies the body of a frame that never ends.
#[test]
fn a_long_frame_that_is_not_received_whole_changes_nothing() {
    for err in [OK, ErrorCode::NO_NODE, ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH] {
        let mut h = Harness::connected();
        let id = h.submit(&get_data("/a"), 1);
        h.sync(2);
        h.sent();
        let lease = h.session.lease();
        h.advance(ms(10));
        h.begin_too_long(1, i64::MAX, err);
        h.session.handle_rest(h.now, vec![0; TOO_LONG - 17].into());
        assert_eq!((h.events(), h.actions(), h.session.pending()), (vec![], vec![], 2));
        assert_eq!((h.session.last_zxid(), h.session.lease()), (Zxid::ZERO, lease));
        h.disconnect();
        assert_eq!(h.answers(), [unknown(1), unknown(2)]);
        h.session.unwatch(id);
        h.reach();
        let handshake = h.handshake();
        let handshake = ConnectRequest::decode(&mut Reader::new(&handshake)).expect("it is one");
        assert_eq!(handshake.last_zxid_seen, Zxid::ZERO);
    }
}
