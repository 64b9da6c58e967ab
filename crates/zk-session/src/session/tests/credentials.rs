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

/// The wrong name of a scheme must not end the locks of a client.
#[test]
fn a_credential_that_no_server_has_accepted_fails_alone() {
    for servers in [1, 3] {
        let mut h = Harness::new(servers);
        h.connect();
        h.events();
        add(&mut h, "good", 1);
        h.sent();
        accept(&mut h);
        h.events();
        for _ in 0..10 {
            h.sync(2);
            add(&mut h, "bad", 3);
            add(&mut h, "bad", 4);
            h.sent();
            h.sync(5);
            let server = h.session.server();
            h.reply(Xid::AUTH.0, 0, ErrorCode::AUTH_FAILED);
            let refused = |event: &Event<u32>| {
                let cause = Cause::AuthRefused(ErrorCode::AUTH_FAILED);
                matches!(event, Event::Disconnected { server: s, cause: c }
                    if (Some(*s), *c) == (server, cause))
            };
            let events = h.events();
            assert!(events.iter().any(refused), "{events:?}");
            let answers: Vec<_> = events
                .into_iter()
                .filter_map(|event| match event {
                    Event::Reply { token, result } => Some((token, result.err())),
                    _ => None,
                })
                .collect();
            let refusal = || Some(Error::Server(ErrorCode::AUTH_FAILED));
            assert_eq!(answers, [(3, refusal()), (4, refusal()), unknown(2)]);
            h.connect();
            let sent = h.sent();
            assert_eq!(sent[0].request(), auth("good"));
            assert_eq!((sent.len(), sent[1].request()), (2, SYNC), "the other one is forgotten");
            accept(&mut h);
            h.reply(sent[1].xid.0, 1, OK);
            assert_eq!(h.answers(), [(5, None)]);
            assert_eq!(h.session.pending(), 0);
        }
    }
}

/// Connects. The server refuses the credential.
fn refuse(h: &mut Harness) -> usize {
    let server = h.connect();
    assert_eq!(h.sent()[0].request(), auth("one"));
    h.reply(Xid::AUTH.0, 0, ErrorCode::AUTH_FAILED);
    server
}

#[test]
fn a_credential_that_was_accepted_once_must_be_refused_by_all_servers_in_a_row() {
    let mut h = Harness::new(3);
    h.connect();
    add(&mut h, "one", 1);
    h.sent();
    accept(&mut h);
    h.disconnect();
    for _ in 0..5 {
        let refused = [refuse(&mut h), refuse(&mut h)];
        assert_ne!(refused[0], refused[1]);
        assert_eq!(h.session.state(), State::Suspended);
        let cause = Cause::AuthRefused(ErrorCode::AUTH_FAILED);
        let failed = |server| Event::Disconnected { server, cause };
        let events = h.events();
        assert!(refused.iter().all(|server| events.contains(&failed(*server))), "{events:?}");
        // The third one accepts it, or nobody knows.
        h.connect();
        h.disconnect();
    }
    for _ in 0..2 {
        refuse(&mut h);
    }
    h.events();
    add(&mut h, "one", 2);
    let server = refuse(&mut h);
    let cause = Cause::AuthRefused(ErrorCode::AUTH_FAILED);
    let events = h.events();
    assert!(events.contains(&Event::Disconnected { server, cause }), "{events:?}");
    let ended = Err(Error::Ended { end: End::AuthFailed, outcome: Outcome::NotApplied });
    assert!(events.contains(&Event::Reply { token: 2, result: ended.clone() }), "{events:?}");
    assert_eq!(h.session.state(), State::Ended(End::AuthFailed));
    assert_eq!(h.session.poll_timeout(), None, "it does not try again");
    assert_eq!(h.session.submit(&SYNC, 4), ended.map(|_| unreachable!()));
}

#[test]
fn a_server_that_refuses_a_credential_is_not_asked_without_a_pause() {
    let mut h = Harness::new(2);
    h.connect();
    add(&mut h, "one", 1);
    h.sent();
    accept(&mut h);
    h.disconnect();
    let before = h.now;
    for _ in 0..20 {
        refuse(&mut h);
        // The other server does not accept connections.
        while !h.actions().iter().any(|action| matches!(action, Action::Connect(_))) {
            h.sleep();
        }
        h.disconnect();
    }
    // The session can be saved, so each round waits for a fortieth of its timeout at least.
    assert!(h.now - before > 19 * ms(GRANTED as u64 / 40), "{:?}", h.now - before);
}

#[test]
fn a_scheme_that_no_server_has_is_refused_at_once() {
    let mut h = Harness::connected();
    for scheme in ["", "world", "auth", "sasl"] {
        let refused = h.session.add_auth(scheme, b"one", 1);
        assert_eq!(refused, Err(Invalid::Scheme.into()));
    }
    assert_eq!((h.sent(), h.session.pending()), (Vec::new(), 0));
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
    let refusal = Err(Error::Ended { end: End::AuthFailed, outcome: Outcome::NotApplied });
    assert_eq!(h.session.add_auth("digest", b"two", 5), refusal);
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
