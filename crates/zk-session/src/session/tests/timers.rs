use super::*;

const THIRD: Duration = ms(2_000);

fn pings(h: &mut Harness) -> usize {
    h.sent().iter().filter(|sent| (sent.xid, sent.opcode) == (Xid::PING, OpCode::PING)).count()
}

#[test]
fn an_idle_session_pings_after_a_third_of_the_timeout_granted() {
    let mut h = Harness::connected();
    h.advance(THIRD - ms(1));
    assert_eq!(pings(&mut h), 0);
    h.advance(ms(1));
    assert_eq!(h.session.output(), [0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11]);
    assert_eq!(pings(&mut h), 1);
    h.reply(Xid::PING.0, 5, ErrorCode::OK);
    h.advance(THIRD);
    assert_eq!(pings(&mut h), 1);
}

#[test]
fn any_request_serves_as_a_ping() {
    let mut h = Harness::connected();
    h.advance(THIRD - ms(1));
    h.sync(1);
    h.answer_all();
    h.advance(THIRD - ms(1));
    assert_eq!(pings(&mut h), 0);
    h.advance(ms(1));
    assert_eq!(pings(&mut h), 1);
}

#[test]
fn no_ping_follows_one_that_is_unanswered() {
    let mut h = Harness::connected();
    h.advance(THIRD);
    h.advance(THIRD - ms(1));
    h.notify(EventType::NODE_CREATED, "/keeps/the/connection/alive");
    assert_eq!(pings(&mut h), 1);
    h.advance(THIRD);
    assert_eq!(pings(&mut h), 0, "it is in flight");
    h.reply(Xid::PING.0, 5, ErrorCode::OK);
    h.advance(THIRD);
    assert_eq!(pings(&mut h), 1);
}

#[test]
fn replies_to_pings_stand_outside_the_order() {
    let mut h = Harness::connected();
    h.sync(1);
    h.sent();
    h.advance(THIRD);
    h.sync(2);
    assert_eq!(h.sent_xids(), [Xid::PING.0, 2]);
    h.reply(Xid::PING.0, 5, ErrorCode::OK);
    h.reply(Xid::PING.0, 5, ErrorCode::OK);
    h.reply(1, 5, ErrorCode::OK);
    h.reply(2, 5, ErrorCode::OK);
    assert_eq!(h.answers(), [(1, None), (2, None)]);
    assert_eq!(h.actions(), []);
}

#[test]
fn silence_for_two_thirds_of_the_timeout_costs_the_connection() {
    let mut h = Harness::connected();
    h.sync(1);
    h.sent();
    h.advance(THIRD);
    h.sent();
    h.advance(THIRD - ms(1));
    assert_eq!(h.cause(), None);
    h.advance(ms(1));
    assert_eq!(h.actions(), [Action::Disconnect]);
    assert_eq!(
        h.events(),
        [
            Event::Disconnected { member: 0, cause: Cause::ReadTimeout },
            Event::Reply { token: 1, result: Err(Error::ConnectionLost) },
            Event::State(State::Suspended),
        ]
    );
    h.connect();
}

#[test]
fn any_frame_breaks_the_silence() {
    let mut h = Harness::connected();
    for _ in 0..10 {
        h.advance(THIRD * 2 - ms(1));
        h.notify(EventType::NODE_CREATED, "/nobody/watches");
    }
    assert_eq!(h.cause(), None);
}

fn lease(h: &Harness) -> Duration {
    h.session.lease().expect("there is a session") - h.now
}

#[test]
fn the_lease_counts_from_when_the_newest_acknowledged_request_was_sent() {
    let mut h = Harness::new(1);
    assert_eq!(h.session.lease(), None);
    h.reach();
    h.advance(ms(100)); // until the transport takes the handshake, and the answer is there
    h.handshake();
    h.welcome();
    assert_eq!(lease(&h), ms(6_000 - 300 - 100));

    h.advance(ms(400));
    h.sync(1);
    h.advance(ms(50));
    h.sent();
    h.advance(ms(50));
    assert_eq!(lease(&h), ms(5_100), "sending alone renews nothing");
    h.notify(EventType::NODE_CREATED, "/a");
    assert_eq!(lease(&h), ms(5_100), "nor does what the server says unasked");
    h.reply(1, 1, ErrorCode::OK);
    assert_eq!(lease(&h), ms(5_650));
}

#[test]
fn the_lease_counts_from_the_last_byte_of_a_request() {
    let mut h = Harness::connected();
    h.sync(1);
    h.advance(ms(100));
    h.take(3);
    h.advance(ms(100));
    h.take_all();
    h.reply(1, 1, ErrorCode::OK);
    assert_eq!(lease(&h), ms(5_700));
}

#[test]
fn the_lease_never_goes_back() {
    let mut h = Harness::connected();
    h.sync(1);
    h.sent();
    h.advance(THIRD);
    h.sent();
    h.reply(Xid::PING.0, 1, ErrorCode::OK);
    let after_ping = h.session.lease();
    h.reply(1, 1, ErrorCode::OK); // sent before the ping, answered after it
    assert_eq!(h.session.lease(), after_ping);
    h.disconnect();
    assert_eq!(h.session.lease(), after_ping, "nobody has ended the session");
    h.connect();
    assert!(h.session.lease() >= after_ping);
}

#[test]
fn a_refusal_for_want_of_a_session_renews_no_lease() {
    for err in [ErrorCode::SESSION_EXPIRED, ErrorCode::SESSION_MOVED, ErrorCode::UNKNOWN_SESSION] {
        let mut h = Harness::connected();
        let before = h.session.lease();
        h.advance(THIRD);
        h.sync(1);
        h.sent();
        h.reply(Xid::PING.0, 1, err);
        h.reply(1, 1, err);
        assert_eq!(h.answers(), [(1, Some(Error::Server(err)))]);
        assert_eq!(h.session.lease(), before, "{err}");
    }
}

#[test]
fn a_session_that_ends_has_no_lease() {
    let mut h = Harness::connected();
    h.session.close();
    assert_eq!(h.session.lease(), None, "the server may have closed it by now");
    let mut h = Harness::connected();
    h.disconnect();
    h.reach();
    h.handshake();
    h.answer_handshake(0, SessionId::NONE);
    assert_eq!(h.session.lease(), None);
}
