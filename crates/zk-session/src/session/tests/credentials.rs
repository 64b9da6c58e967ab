use zk_proto::AuthPacket;

use super::*;

const OK: ErrorCode = ErrorCode::OK;

fn add(h: &mut Harness, auth: &str, token: u32) {
    h.session.add_auth("digest", auth.as_bytes(), token).expect("the session takes credentials");
}

fn auth(auth: &str) -> Request<'_> {
    Request::Auth(AuthPacket { auth_type: 0, scheme: "digest", auth: Some(auth.as_bytes()) })
}

fn accept(h: &mut Harness) {
    h.reply(Xid::AUTH.0, 0, OK);
}

#[test]
fn credentials_are_sent_on_every_connection_in_order_before_watches_and_requests() {
    let mut h = Harness::connected();
    h.watch(&get_data("/a"), OK);
    add(&mut h, "one", 1);
    add(&mut h, "two", 2);
    h.sent();
    for _ in 0..3 {
        h.sync(3);
        h.disconnect();
        h.connect();
        let sent = h.sent();
        let header = |sent: &Sent| (sent.xid, sent.opcode);
        assert_eq!(sent[0].request(), auth("one"));
        assert_eq!(sent[1].request(), auth("two"));
        assert_eq!(header(&sent[0]), (Xid::AUTH, OpCode::AUTH));
        assert_eq!(header(&sent[2]), (Xid::SET_WATCHES, OpCode::SET_WATCHES));
        assert_eq!(sent[3].opcode, OpCode::SYNC);
        h.answer_all();
    }
}

#[test]
fn a_credential_added_before_the_first_connection_waits_for_it() {
    let mut h = Harness::new(1);
    add(&mut h, "one", 1);
    assert_eq!(h.session.pending(), 1);
    h.connect();
    let sent = h.sent();
    assert_eq!((sent.len(), sent[0].request()), (1, auth("one")));
    accept(&mut h);
    assert_eq!(h.answers(), [(1, None)]);
    assert_eq!(h.session.pending(), 0);
}

#[test]
fn a_credential_is_sent_in_the_order_of_the_calls() {
    let mut h = Harness::connected();
    h.sync(1);
    h.take(3);
    add(&mut h, "one", 2);
    h.sync(3);
    let opcodes: Vec<_> = h.sent().iter().map(|sent| sent.opcode).collect();
    assert_eq!(opcodes, [OpCode::SYNC, OpCode::AUTH, OpCode::SYNC]);
}

#[test]
fn replies_to_credentials_may_overtake_others_and_keep_their_own_order() {
    let mut h = Harness::connected();
    h.sync(1);
    add(&mut h, "one", 10);
    add(&mut h, "two", 20);
    h.sent();
    accept(&mut h);
    assert_eq!(h.answers(), [(10, None)]);
    accept(&mut h);
    h.reply(1, 1, OK);
    assert_eq!(h.answers(), [(20, None), (1, None)]);
    assert_eq!(h.actions(), []);
}

#[test]
fn a_pending_credential_is_answered_on_the_next_connection() {
    for taken in [0, 5, usize::MAX] {
        let mut h = Harness::connected();
        add(&mut h, "one", 1);
        h.sent();
        accept(&mut h);
        h.events();
        add(&mut h, "two", 2);
        h.take(h.session.output().len().min(taken));
        h.disconnect();
        assert_eq!(h.answers(), []);
        h.connect();
        let sent = h.sent();
        let sent: Vec<_> = sent.iter().map(Sent::request).collect();
        assert_eq!(sent, [auth("one"), auth("two")], "each once");
        accept(&mut h);
        assert_eq!(h.answers(), [], "the first answer is to the first credential");
        accept(&mut h);
        assert_eq!(h.answers(), [(2, None)]);
    }
}

#[test]
fn a_known_credential_is_not_sent_twice() {
    let mut h = Harness::connected();
    add(&mut h, "one", 1);
    add(&mut h, "one", 2);
    assert_eq!(h.sent().len(), 1);
    accept(&mut h);
    assert_eq!(h.answers(), [(1, None), (2, None)]);
    add(&mut h, "one", 3);
    assert_eq!(h.answers(), [(3, None)]);
    h.disconnect();
    add(&mut h, "one", 4);
    assert_eq!(h.answers(), []);
    h.connect();
    assert_eq!(h.sent().len(), 1);
    accept(&mut h);
    assert_eq!(h.answers(), [(4, None)]);
}

#[test]
fn a_refused_credential_ends_the_session_and_fails_all_requests() {
    let mut h = Harness::connected();
    h.sync(1);
    add(&mut h, "one", 2);
    h.sent();
    h.sync(3);
    let lease = h.session.lease();
    assert!(lease.is_some());
    h.reply(Xid::AUTH.0, 0, ErrorCode::AUTH_FAILED);
    assert_eq!(
        h.answers(),
        [
            ended(1, End::AuthFailed, Outcome::Unknown),
            ended(3, End::AuthFailed, Outcome::NotApplied),
            ended(2, End::AuthFailed, Outcome::NotApplied),
        ]
    );
    assert_eq!(h.session.state(), State::Ended(End::AuthFailed));
    assert_eq!(h.actions(), [Action::Disconnect]);
    assert_eq!(h.session.poll_timeout(), None, "it does not try again");
    let refusal = Err(Error::Ended { end: End::AuthFailed, outcome: Outcome::NotApplied });
    assert_eq!(h.session.submit(&SYNC, 4).map(drop), refusal);
    assert_eq!(h.session.add_auth("digest", b"two", 5), refusal);
}

#[test]
fn a_credential_refused_when_it_is_sent_again_ends_the_session() {
    let mut h = Harness::connected();
    add(&mut h, "one", 1);
    h.sent();
    accept(&mut h);
    h.disconnect();
    h.connect();
    h.sent();
    h.reply(Xid::AUTH.0, 0, ErrorCode::AUTH_FAILED);
    assert_eq!(h.session.state(), State::Ended(End::AuthFailed));
}

#[test]
fn credentials_renew_no_lease() {
    let mut h = Harness::connected();
    let lease = h.session.lease();
    h.advance(ms(100));
    add(&mut h, "one", 1);
    h.sent();
    accept(&mut h);
    assert_eq!(h.session.lease(), lease);
}

#[test]
fn a_credential_beyond_the_limits_fails_alone() {
    let mut h = Harness::with(Config { max_request: 40, max_pending: 1, ..Config::new(1, 0) });
    h.connect();
    let long = h.session.add_auth("digest", &[0; 40], 1);
    assert!(matches!(long, Err(Error::Invalid(Invalid::TooLarge { .. }))), "{long:?}");
    add(&mut h, "one", 2);
    let full = h.session.add_auth("digest", b"two", 3);
    assert_eq!(full, Err(Error::QueueFull { limit: 1 }));
    assert_eq!(h.sent().len(), 1);
    accept(&mut h);
    assert_eq!(h.answers(), [(2, None)]);
}

#[test]
fn a_reply_to_no_credential_is_ignored() {
    let mut h = Harness::connected();
    accept(&mut h);
    h.sync(1);
    h.answer_all();
    assert_eq!(h.answers(), [(1, None)]);
}

#[test]
fn secrets_are_not_printed() {
    let mut h = Harness::connected();
    add(&mut h, "the secret", 1);
    let text = alloc::format!("{:?} {:?}", h.session.credentials, h.session.password);
    assert!(!text.contains("secret\"") && !text.contains("sixteen"), "{text}");
    let resume = h.session.ticket().expect("there is a session");
    let shown = alloc::format!("{resume:?}");
    assert!(shown.contains("Secret(16 bytes)") && !shown.contains("sixteen"), "{shown}");
    assert!(text.contains("Secret(10 bytes)") && text.ends_with("Secret(16 bytes)"), "{text}");
    assert_eq!(alloc::format!("{:?}", Harness::new(1).session.password), "Secret(none)");
}
