//! What is recorded for the features `tracing` and `metrics`.

use zk_proto::{ErrorResponse, Multi, MultiResult};

use super::*;

#[test]
fn a_request_is_recorded_when_it_was_answered_or_has_failed() {
    let mut h = Harness::connected();
    let multi = Request::Multi(Multi::new(&[]));
    h.sync(0);
    h.answer_all();
    h.session.record_exchanges();
    for request in [&SYNC, &SYNC, &multi, &multi, &multi, &SYNC] {
        h.submit(request, 0);
    }
    h.sent();
    h.advance(ms(5));
    let rolled_back = [MultiResult::Error(ErrorResponse { err: ErrorCode::NO_NODE })];
    let applied = [MultiResult::Delete(())];
    h.reply(2, 1, ErrorCode::NO_NODE);
    for (xid, results) in [(3, &rolled_back[..]), (4, &rolled_back), (5, &applied), (6, &[])] {
        h.reply_with(xid, 1, ErrorCode::OK, &Multi::new(results));
    }
    h.disconnect();
    let recorded = h.session.take_exchanges().into_iter();
    let recorded: Vec<_> =
        recorded.map(|it| (it.opcode, it.error, it.is_rolled_back, it.latency)).collect();
    let (sync, multi, latency) = (OpCode::SYNC, OpCode::MULTI, Some(ms(5)));
    assert_eq!(
        recorded,
        [
            (sync, Some(Error::Server(ErrorCode::NO_NODE)), false, latency),
            (sync, None, false, latency),
            (multi, None, true, latency),
            (multi, None, false, latency),
            (multi, None, false, latency),
            (sync, Some(Error::ConnectionLost), false, None),
        ]
    );
    assert!(h.session.take_exchanges().is_empty());
}

#[cfg(feature = "metrics")]
#[test]
fn the_watches_of_the_servers_are_counted() {
    let mut h = Harness::connected();
    let first = h.watch(&get_data("/a"), ErrorCode::OK);
    h.watch(&exists("/a"), ErrorCode::OK);
    h.watch(&get_children("/a"), ErrorCode::OK);
    h.watch(&get_data("/b"), ErrorCode::OK);
    assert_eq!(h.session.watches(), 3, "two requests share one");
    h.session.unwatch(first);
    h.notify(EventType::NODE_DELETED, "/b");
    assert_eq!(h.session.watches(), 2);
}
