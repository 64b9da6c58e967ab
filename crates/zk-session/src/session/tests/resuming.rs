use super::*;

#[test]
fn a_clone_behaves_the_same_and_is_independent() {
    let mut h = Harness::connected();
    h.watch(&get_data("/a"), ErrorCode::OK);
    h.sync(1);
    h.take(5);
    let mut clone = h.session.clone();
    assert_eq!(clone.output(), h.session.output());
    h.disconnect();
    clone.handle_disconnected(h.now);
    assert_eq!(clone.poll_timeout(), h.session.poll_timeout());
    let events: Vec<_> = core::iter::from_fn(|| clone.poll_event()).collect();
    assert_eq!(events, h.events());
    clone.close();
    assert_eq!(clone.state(), State::Ended(End::Closed));
    assert_eq!(h.session.pending(), 1);
    h.connect();
    let sent: Vec<_> = h.sent().iter().map(|sent| sent.opcode).collect();
    assert_eq!(sent, [OpCode::SET_WATCHES, OpCode::SYNC]);
}

const RESUME: SessionTicket = SessionTicket {
    id: SESSION,
    password: Bytes::from_static(b"a password"),
    last_zxid: Zxid(0x2a),
};

fn resuming() -> Harness {
    Harness::with(Config { resume: Some(RESUME), ..Config::new(2, 0) })
}

#[test]
fn a_ticket_is_resumed_with_its_password_and_zxid() {
    let mut h = resuming();
    assert_eq!(h.session.state(), State::Suspended, "there is one, and no connection");
    h.reach();
    let payload = h.handshake();
    let request = ConnectRequest::decode_all(&payload).expect("a handshake");
    assert_eq!((request.session_id, request.last_zxid_seen), (SESSION, Zxid(0x2a)));
    assert_eq!(request.password, Some(&b"a password"[..]));
    h.welcome();
    assert!(matches!(h.session.state(), State::Connected { session: SESSION, .. }));
}

#[test]
fn the_ticket_of_a_session_resumes_it() {
    let mut first = Harness::new(1);
    assert_eq!(first.session.ticket(), None);
    first.connect();
    first.sync(1);
    first.sent();
    first.reply(1, 0x77, ErrorCode::OK);
    let resume = first.session.ticket().expect("there is a session");
    let expected = SessionTicket {
        id: SESSION,
        password: Bytes::copy_from_slice(&PASSWORD),
        last_zxid: Zxid(0x77),
    };
    assert_eq!(resume, expected);
    let mut second = Harness::with(Config { resume: Some(resume), ..Config::new(1, 0) });
    second.reach();
    first.disconnect();
    first.reach();
    assert_eq!(second.handshake(), first.handshake());
}

#[test]
fn a_detached_session_is_not_closed_on_the_servers() {
    let mut h = Harness::connected();
    h.sync(1);
    h.sent();
    let resume = h.session.ticket();
    assert_eq!(h.session.detach(), resume);
    assert!(resume.is_some());
    assert_eq!(h.sent(), [], "the server is not reported");
    assert_eq!(h.session.state(), State::Ended(End::Closed));
    assert_eq!(h.answers(), [ended(1, End::Closed, Outcome::Unknown)]);
    assert_eq!(h.session.detach(), None, "it is somebody else's now");
}

#[test]
fn resuming_an_expired_session_reports_expiry() {
    for (timeout, id) in [(0, SessionId::NONE), (GRANTED, SessionId(7))] {
        let mut h = resuming();
        h.sync(1);
        h.reach();
        h.handshake();
        h.answer_handshake(timeout, id);
        assert_eq!(h.session.state(), State::Ended(End::Expired));
        assert_eq!(h.answers(), [ended(1, End::Expired, Outcome::NotApplied)]);
        assert_eq!(h.session.ticket(), None);
    }
}

/// The server closes the connection without an answer, like one that is behind the zxid.
#[test]
fn a_server_that_closes_the_connection_on_a_ticket_is_left_for_the_next() {
    let mut h = resuming();
    let first = h.reach();
    h.handshake();
    h.disconnect();
    assert_ne!(h.connect(), first);
    assert_eq!(h.session.id(), SESSION);
    assert_eq!(h.session.last_zxid(), Zxid(0x2a));
}

#[test]
fn a_ticket_without_an_id_begins_a_new_session() {
    let none = SessionTicket { id: SessionId::NONE, password: Bytes::new(), last_zxid: Zxid::ZERO };
    let mut h = Harness::with(Config { resume: Some(none), ..Config::new(1, 0) });
    assert_eq!((h.session.state(), h.session.ticket()), (State::Connecting, None));
    h.connect();
    assert_eq!(h.session.id(), SESSION);
}
