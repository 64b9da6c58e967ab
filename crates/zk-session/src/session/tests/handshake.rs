use super::*;

/// Returns the fields of a handshake.
fn request(payload: &Bytes) -> ConnectRequest<'_> {
    ConnectRequest::decode_all(payload).expect("a handshake")
}

#[test]
fn the_handshake_of_a_new_session_has_these_bytes() {
    let mut h = Harness::with(Config { timeout: ms(30_000), ..Config::new(1, 0) });
    h.reach();
    let mut expected = Vec::from([0, 0, 0, 0x2d, 0, 0, 0, 0]); // length, version
    expected.extend([0; 8]); // last zxid
    expected.extend([0, 0, 0x75, 0x30]); // timeout
    expected.extend([0; 8]); // session
    expected.extend([0, 0, 0, 0x10]);
    expected.extend([0; 16]); // password
    expected.push(0); // not read-only
    assert_eq!(h.session.output(), expected);
}

#[test]
fn the_session_has_the_id_and_the_timeout_that_the_server_grants() {
    let mut h = Harness::new(1);
    assert_eq!((h.session.state(), h.session.id()), (State::Connecting, SessionId::NONE));
    assert_eq!(h.session.timeout(), ms(10_000));
    h.connect();
    let connected = State::Connected { server: 0, session: SESSION };
    assert_eq!((h.session.state(), h.session.id()), (connected, SESSION));
    assert_eq!(h.session.timeout(), ms(6_000));
    assert_eq!(h.events(), [Event::State(connected)]);
}

#[test]
fn a_session_is_resumed_with_its_password_its_zxid_and_the_requested_timeout() {
    let mut h = Harness::connected();
    h.sync(1);
    h.sent();
    h.reply(1, 0x2a, ErrorCode::OK);
    h.disconnect();
    assert_eq!(h.session.state(), State::Suspended);
    h.reach();
    let payload = h.handshake();
    assert_eq!(
        request(&payload),
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0x2a),
            timeout: 10_000,
            session_id: SESSION,
            password: Some(&PASSWORD),
            read_only: Some(false),
        }
    );
}

#[test]
fn the_password_and_the_timeout_of_the_latest_handshake_count() {
    let mut h = Harness::connected();
    h.disconnect();
    h.reach();
    h.handshake();
    h.deliver(&ConnectResponse {
        protocol_version: 0,
        timeout: 9_000,
        session_id: SESSION,
        password: Some(b"another"),
        read_only: Some(false),
    });
    assert_eq!(h.session.timeout(), ms(9_000));
    h.disconnect();
    h.reach();
    let payload = h.handshake();
    assert_eq!(request(&payload).password, Some(&b"another"[..]));
    assert_eq!(request(&payload).timeout, 10_000);
}

#[test]
fn a_timeout_beyond_the_range_of_the_wire_is_clamped() {
    let mut h = Harness::with(Config { timeout: Duration::MAX, ..Config::new(1, 0) });
    assert!(h.session.poll_timeout() < Some(Instant::after_start(ms(1 << 40))));
    h.reach();
    assert_eq!(request(&h.handshake()).timeout, i32::MAX);
}

#[test]
fn a_handshake_that_reports_expiry_ends_the_session() {
    for (timeout, id) in [(0, SessionId::NONE), (-1, SESSION), (GRANTED, SessionId::NONE)] {
        let mut h = Harness::connected();
        h.disconnect();
        h.reach();
        h.handshake();
        h.events();
        h.answer_handshake(timeout, id);
        assert_eq!(h.session.state(), State::Ended(End::Expired), "{timeout} {id}");
        assert_eq!(h.events(), [Event::State(State::Ended(End::Expired))]);
        assert_eq!(h.actions(), [Action::Disconnect]);
        assert_eq!(h.session.poll_timeout(), None);
    }
}

#[test]
fn a_handshake_with_another_session_id_means_expired() {
    let mut h = Harness::connected();
    h.disconnect();
    h.reach();
    h.handshake();
    h.answer_handshake(GRANTED, SessionId(7));
    assert_eq!(h.session.state(), State::Ended(End::Expired));
    assert_eq!(h.session.id(), SESSION);
}

/// A read-only server of 3.7 and later may answer with the header of a refusal instead.
#[test]
fn an_invalid_handshake_moves_the_session_to_the_next_server() {
    let refusal = ReplyHeader { xid: Xid(0), zxid: Zxid(5), err: ErrorCode::NOT_READ_ONLY };
    let mut h = Harness::new(2);
    let first = h.reach();
    h.handshake();
    h.deliver(&refusal);
    assert!(matches!(
        h.events()[..],
        [Event::Disconnected { server, cause: Cause::Malformed(_) }] if server == first
    ));
    assert_eq!(h.actions()[..1], [Action::Disconnect]);
    assert_ne!(h.connect(), first);
}

#[test]
fn a_server_that_closes_the_connection_in_the_handshake_moves_the_session_to_the_next() {
    let mut h = Harness::new(2);
    let first = h.reach();
    h.handshake();
    h.disconnect();
    assert_eq!(
        h.events(),
        [Event::Disconnected { server: first, cause: Cause::Transport }],
        "and the state is what it was"
    );
    assert_ne!(h.connect(), first);
}

#[test]
fn a_server_of_3_3_answers_without_the_last_byte() {
    let mut h = Harness::new(1);
    h.reach();
    h.handshake();
    h.deliver(&ConnectResponse {
        protocol_version: 0,
        timeout: GRANTED,
        session_id: SESSION,
        password: Some(&PASSWORD),
        read_only: None,
    });
    assert_eq!(h.session.state(), State::Connected { server: 0, session: SESSION });
}

#[test]
fn nothing_is_sent_before_the_handshake_is_answered() {
    let mut h = Harness::connected();
    let watch = h.watch(&get_data("/a"), ErrorCode::OK);
    h.disconnect();
    h.sync(1);
    assert_eq!(h.session.output(), b"");
    h.reach();
    h.sync(2);
    let length = h.session.output().len();
    h.take(length - 1);
    assert_eq!(h.session.output().len(), 1);
    h.take(1);
    assert_eq!(h.session.output(), b"");
    h.sync(3);
    h.session.unwatch(watch);
    h.advance(ms(500));
    assert_eq!(h.session.output(), b"");
    h.received.clear();
    h.welcome();
    assert_eq!(h.sent_xids(), [2, 3, 4]);
}

#[test]
fn a_report_of_more_sent_bytes_than_exist_is_clamped() {
    let mut h = Harness::new(1);
    h.sync(1);
    h.session.handle_sent(h.now, usize::MAX);
    h.reach();
    h.session.handle_sent(h.now, usize::MAX);
    h.welcome();
    assert_eq!(h.sent_xids(), [1]);
    h.sync(2);
    h.disconnect();
    h.session.handle_sent(h.now, usize::MAX);
    h.connect();
    assert_eq!(h.sent_xids(), [2]);
}

/// Only a well-formed answer to the handshake may end a session.
#[test]
fn a_frame_that_is_no_handshake_does_not_end_the_session() {
    let mut h = Harness::connected();
    h.disconnect();
    h.reach();
    h.handshake();
    h.events();
    h.notify(EventType::NODE_DELETED, "/a/path/as/long/as/a/password");
    assert_eq!(h.cause(), Some(Cause::UnknownProtocol(Xid::NOTIFICATION.0)));
    assert_eq!(h.session.state(), State::Suspended);
    h.connect();
}

/// The rest of the handshake would be missing on the wire, or in the way.
#[test]
fn a_reply_before_the_handshake_is_fully_sent_costs_the_connection() {
    for taken in [0, 1, 48] {
        let mut h = Harness::new(1);
        h.reach();
        h.take(taken);
        h.welcome();
        assert_eq!(h.cause(), Some(Cause::Unasked), "{taken}");
        assert_eq!(h.session.state(), State::Connecting);
        h.connect();
    }
}
