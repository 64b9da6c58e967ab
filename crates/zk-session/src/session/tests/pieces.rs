//! Replies that come in pieces.

use super::*;

/// A list in a frame that is longer than the limit by far: the rest of it, behind the header.
const BODY: usize = TOO_LONG - 16;

/// Submits a list and receives the header of its reply, which is too long.
fn begun() -> Harness {
    let mut h = Harness::connected();
    h.session.submit_in_pieces(&get_children("/many"), 1).expect("room");
    h.sync(2);
    h.sent();
    h.begin_too_long(1, 9, ErrorCode::OK);
    assert_eq!((h.events(), h.session.pending()), (Vec::new(), 2));
    h
}

fn rest(h: &mut Harness, body: Bytes) -> Vec<(u32, Bytes, bool)> {
    h.session.handle_rest(h.now, body);
    let replies = h.events().into_iter().map(|event| match event {
        Event::Reply { token, result: Ok(reply) } => {
            assert_eq!((reply.opcode, reply.zxid), (OpCode::GET_CHILDREN2, Zxid(9)));
            (token, reply.body, reply.has_more)
        }
        event => panic!("{event:?}"),
    });
    replies.collect()
}

#[test]
fn a_long_reply_comes_in_pieces_to_who_asked_for_it() {
    let mut h = begun();
    let first = Bytes::from_static(b"first");
    assert_eq!(rest(&mut h, first.clone()), [(1, first.clone(), true)]);
    let most = Bytes::from([7].repeat(BODY - 2 * first.len()));
    assert_eq!(rest(&mut h, most.clone()), [(1, most, true)]);
    assert_eq!(h.session.last_zxid(), Zxid::ZERO, "it is not complete");
    let last = Bytes::from_static(b"final");
    assert_eq!(rest(&mut h, last.clone()), [(1, last, false)]);
    assert_eq!((h.session.last_zxid(), h.session.pending()), (Zxid(9), 1));
    assert!(rest(&mut h, first).is_empty(), "there is no reply that it belongs to");
    h.reply(2, 9, ErrorCode::OK);
    assert_eq!(h.answers(), [(2, None)]);
    assert!(h.actions().is_empty());
}

#[test]
fn a_reply_within_the_limit_comes_whole() {
    let mut h = Harness::connected();
    h.session.submit_in_pieces(&get_children("/few"), 1).expect("room");
    h.sent();
    h.reply(1, 9, ErrorCode::OK);
    let Some(Event::Reply { token: 1, result: Ok(reply) }) = h.events().pop() else { panic!() };
    assert!(!reply.has_more);
}

#[test]
fn the_rest_of_a_reply_that_nobody_wants_in_pieces_is_dropped() {
    let mut h = Harness::connected();
    h.submit(&get_children("/many"), 1);
    h.sent();
    h.reply_too_long(1, 9, ErrorCode::OK);
    assert!(matches!(h.answers()[..], [(1, Some(Error::ReplyTooLarge { .. }))]));
    assert!(rest(&mut h, Bytes::from_static(b"rest")).is_empty());
}

#[test]
fn a_connection_lost_between_pieces_loses_the_request() {
    let mut h = begun();
    assert_eq!(rest(&mut h, Bytes::from_static(b"first")).len(), 1);
    h.disconnect();
    let lost = Some(Error::ConnectionLost);
    assert_eq!(h.answers(), [(1, lost.clone()), (2, lost)]);
    assert_eq!(h.session.last_zxid(), Zxid::ZERO);
    h.connect();
    h.events();
    assert!(rest(&mut h, Bytes::from_static(b"of the old connection")).is_empty());
}

#[test]
fn the_rest_has_to_arrive_within_the_read_timeout() {
    let mut h = begun();
    let begun_at = h.now;
    while !h.actions().contains(&Action::Disconnect) {
        assert!(h.now < begun_at + ms(GRANTED as u64), "it never gave up");
        h.session.handle_rest(h.now, Bytes::from_static(b"slow"));
        h.advance(ms(100));
    }
    let lost = |event: &Event<u32>| {
        matches!(event, Event::Reply { token: 1, result: Err(Error::ConnectionLost) })
    };
    assert!(h.events().iter().any(lost));
}

#[test]
fn the_end_of_the_session_between_pieces_ends_the_request() {
    let mut h = begun();
    h.session.close();
    h.disconnect();
    let ended = |token| ended(token, End::Closed, Outcome::Unknown);
    assert_eq!(h.answers(), [ended(1), ended(2)]);
}

#[test]
fn pieces_of_a_reply_out_of_order_cost_the_connection() {
    let mut h = Harness::connected();
    h.sync(1);
    h.session.submit_in_pieces(&get_children("/many"), 2).expect("room");
    h.sent();
    h.reply_too_long(2, 9, ErrorCode::OK);
    let cause = Cause::UnexpectedReply { expected: Some(Xid(1)), received: Xid(2) };
    assert_eq!(h.cause(), Some(cause));
}

#[test]
fn a_reply_that_is_only_a_header_has_no_pieces() {
    let mut h = Harness::connected();
    h.session.submit_in_pieces(&get_children("/many"), 1).expect("room");
    h.sent();
    let mut start = BytesMut::new();
    ReplyHeader { xid: Xid(1), zxid: Zxid(9), err: ErrorCode::OK }.encode(&mut start);
    h.session.handle_oversized(h.now, &start, start.len());
    assert_eq!(h.answers().len(), 1);
}

#[test]
fn a_refusal_that_is_too_long_has_no_pieces() {
    let mut h = Harness::connected();
    h.session.submit_in_pieces(&get_children("/many"), 1).expect("room");
    h.sent();
    h.reply_too_long(1, 9, ErrorCode::NO_NODE);
    assert_eq!(h.answers(), [(1, Some(Error::Server(ErrorCode::NO_NODE)))]);
    assert!(rest(&mut h, Bytes::from_static(b"rest")).is_empty());
}
