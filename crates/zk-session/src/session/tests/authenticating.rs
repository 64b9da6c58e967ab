//! The authentication exchange, and what waits for it.

use zk_proto::{CheckVersionRequest, GetSaslRequest, SetSaslResponse};

use super::*;

const FIRST: Request<'static> = Request::Sasl(GetSaslRequest { token: Some(b"") });
const SECOND: Request<'static> = Request::Sasl(GetSaslRequest { token: Some(b"proof") });

/// Makes a session with a watch and a credential, whose exchange on a second connection has begun.
fn authenticating() -> Harness {
    let mut h = Harness::connected();
    h.watch(&get_data("/watched"), ErrorCode::OK);
    h.session.add_auth("digest", b"me:me", 0).expect("taken");
    h.answer_all();
    h.session.config.authenticate = true;
    h.disconnect();
    let server = h.reach();
    h.handshake();
    h.events();
    h.welcome();
    assert_eq!(h.events(), [Event::Authenticate { server }]);
    h
}

fn exchange(h: &mut Harness, request: &Request<'_>) -> i32 {
    h.session.authenticate(request).expect("it is asked for");
    let sent = h.sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0].request(), *request);
    sent[0].xid.0
}

#[test]
fn everything_is_held_back_until_the_exchange_ends() {
    let mut h = authenticating();
    h.sync(1);
    assert_eq!(h.sent(), []);
    for request in [&FIRST, &SECOND] {
        let xid = exchange(&mut h, request);
        h.reply_with(xid, 0, ErrorCode::OK, &SetSaslResponse { token: Some(b"challenge") });
        assert!(matches!(h.events()[..], [Event::AuthenticationReply { result: Ok(_), .. }]));
        assert_eq!(h.session.state(), State::Suspended);
    }
    h.session.authenticated(h.now);
    assert!(matches!(h.session.state(), State::Connected { .. }));
    let sent: Vec<_> = h.sent().iter().map(|sent| sent.opcode).collect();
    assert_eq!(sent, [OpCode::AUTH, OpCode::SET_WATCHES, OpCode::SYNC]);
}

/// Otherwise half a frame would stay on the wire, and the rest be read as its continuation.
#[test]
fn nothing_is_released_before_the_last_request_of_the_exchange_is_answered() {
    let mut h = authenticating();
    h.session.authenticate(&FIRST).expect("it is asked for");
    h.take(5);
    h.session.authenticated(h.now);
    let sent = h.sent();
    assert_eq!(sent.iter().map(Sent::request).collect::<Vec<_>>(), [FIRST]);
    assert_eq!((h.session.pending(), h.session.state()), (0, State::Suspended));
    h.reply(sent[0].xid.0, 0, ErrorCode::OK);
    h.session.authenticated(h.now);
    assert!(matches!(h.session.state(), State::Connected { .. }));
}

#[test]
fn a_reply_to_half_a_request_of_the_exchange_costs_the_connection() {
    let mut h = authenticating();
    h.session.authenticate(&FIRST).expect("it is asked for");
    h.take(5);
    h.reply(h.session.outbox.last_xid().0, 0, ErrorCode::OK);
    assert_eq!(h.cause(), Some(Cause::Unasked));
}

#[test]
fn an_exchange_sends_one_request_at_a_time_and_only_after_its_event() {
    let mut h = authenticating();
    exchange(&mut h, &FIRST);
    let full = Error::QueueFull { limit: 1 };
    assert_eq!(h.session.authenticate(&SECOND), Err(full));
    let mut h = Harness::connected();
    assert_eq!(h.session.authenticate(&FIRST), Err(Error::NoConnection));
    h.session.authenticated(h.now);
    assert_eq!(h.events(), []);
}

#[test]
fn a_request_of_the_exchange_that_is_too_long_or_harms_servers_is_not_sent() {
    let mut h = authenticating();
    let limit = h.session.config.max_request;
    // Behind a header and the length of the token.
    let token = [0].repeat(limit - 12 + 1);
    let too_long = Request::Sasl(GetSaslRequest { token: Some(&token) });
    let refused = h.session.authenticate(&too_long);
    assert_eq!(refused, Err(Invalid::TooLarge { length: limit + 1, limit }.into()));
    let check = Request::Check(CheckVersionRequest { path: "/a", version: 0 });
    let refused = h.session.authenticate(&check);
    assert_eq!(refused, Err(Invalid::HarmsServer(OpCode::CHECK).into()));
    assert!(h.sent().is_empty());
    let longest = Request::Sasl(GetSaslRequest { token: Some(&token[1..]) });
    exchange(&mut h, &longest);
}

#[test]
fn an_exchange_ends_with_its_connection_and_starts_again_on_the_next() {
    let mut h = authenticating();
    exchange(&mut h, &FIRST);
    h.disconnect();
    h.reach();
    h.handshake();
    h.events();
    h.welcome();
    assert!(matches!(h.events()[..], [Event::Authenticate { .. }]));
    exchange(&mut h, &FIRST);
}

#[test]
fn a_server_that_never_answers_the_exchange_is_abandoned_in_time() {
    let mut h = authenticating();
    exchange(&mut h, &FIRST);
    let due = h.session.connect_deadline().expect("the exchange has a deadline");
    assert!(due - h.now <= ms(10_000));
    h.advance(due - h.now);
    assert_eq!(h.cause(), Some(Cause::ConnectTimeout));
}

#[test]
fn a_refusal_ends_the_session() {
    for err in [ErrorCode::AUTH_FAILED, ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH] {
        let mut h = authenticating();
        h.sync(1);
        let xid = exchange(&mut h, &FIRST);
        let server = h.session.server().expect("connected");
        h.reply(xid, 0, err);
        let refusal = Event::AuthenticationReply { server, result: Err(Error::Server(err)) };
        assert_eq!(h.session.poll_event(), Some(refusal));
        assert_eq!(h.answers(), [ended(1, End::AuthFailed, Outcome::NotApplied)]);
        assert_eq!(h.session.state(), State::Ended(End::AuthFailed));
    }
}

/// Passwords may be changed at one server after the other.
#[test]
fn one_server_that_refuses_the_exchange_or_demands_one_is_a_failed_attempt() {
    const DEMAND: ErrorCode = ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH;
    let mut h = Harness::with(Config { authenticate: true, ..Config::new(2, 0) });
    for _ in 0..5 {
        h.reach();
        h.handshake();
        h.welcome();
        let xid = exchange(&mut h, &FIRST);
        let server = h.session.server().expect("connected");
        h.reply(xid, 0, ErrorCode::AUTH_FAILED);
        let cause = Cause::AuthRefused(ErrorCode::AUTH_FAILED);
        assert!(h.events().contains(&Event::Disconnected { server, cause }));
        assert_ne!(h.reach(), server);
        h.handshake();
        h.welcome();
        let xid = exchange(&mut h, &FIRST);
        h.reply(xid, 0, ErrorCode::OK);
        h.session.authenticated(h.now);
        h.sync(1);
        h.answer_all();
        h.disconnect();
    }
    let mut h = Harness::new(2);
    for _ in 0..5 {
        h.connect();
        h.sync(1);
        let xid = h.sent_xids()[0];
        h.reply(xid, 0, DEMAND);
        assert_eq!(h.answers(), [(1, Some(Error::Server(DEMAND)))]);
        assert!(matches!(h.session.state(), State::Suspended));
        h.connect();
        h.sync(2);
        h.answer_all();
        h.disconnect();
        h.events();
    }
}

/// In an idle ensemble, a server that was not restarted lacks what the session has seen, and closes
/// each handshake.
#[test]
fn a_server_that_closes_handshakes_does_not_keep_a_refused_session_alive() {
    let mut h = Harness::with(Config { authenticate: true, ..Config::new(3, 0) });
    let silent = h.reach();
    h.disconnect();
    let before = h.now;
    while h.session.state() != State::Ended(End::AuthFailed) {
        let server = h.reach();
        h.handshake();
        if server == silent {
            h.disconnect();
        } else {
            h.welcome();
            let xid = exchange(&mut h, &FIRST);
            h.reply(xid, 0, ErrorCode::AUTH_FAILED);
        }
        assert!(h.now - before < 3 * ms(GRANTED as u64), "{:?}", h.session.state());
    }
    assert!(h.now - before >= ms(GRANTED as u64), "a server that restarts may accept it");
    // Without a refusal, nothing is known.
    let mut h = Harness::with(Config { authenticate: true, ..Config::new(3, 0) });
    for _ in 0..9 {
        h.reach();
        h.handshake();
        h.disconnect();
    }
    assert_eq!(h.session.state(), State::Connecting);
}

#[test]
fn servers_of_another_list_are_asked_anew() {
    let mut h = Harness::with(Config { authenticate: true, ..Config::new(2, 0) });
    let refuse = |h: &mut Harness| {
        h.reach();
        h.handshake();
        h.welcome();
        let xid = exchange(h, &FIRST);
        h.reply(xid, 0, ErrorCode::AUTH_FAILED);
    };
    refuse(&mut h);
    h.session.update_servers(h.now, &[None, None], 3);
    h.advance(ms(GRANTED as u64));
    refuse(&mut h);
    assert_eq!(h.session.state(), State::Connecting, "two have not been asked");
}

#[test]
fn an_exchange_that_fails_on_this_side_ends_the_session() {
    let mut h = Harness::connected();
    h.session.authentication_failed();
    assert_eq!(h.events(), [], "no exchange is asked for");
    let mut h = authenticating();
    h.sync(1);
    h.session.authentication_failed();
    assert_eq!(h.answers(), [ended(1, End::AuthFailed, Outcome::NotApplied)]);
    assert_eq!(h.session.state(), State::Ended(End::AuthFailed));
    assert_eq!(h.actions(), [Action::Disconnect]);
}

#[test]
fn a_frame_that_is_no_reply_to_the_exchange_costs_the_connection() {
    let mut h = authenticating();
    h.reply(77, 1, ErrorCode::OK);
    let received = Xid(77);
    assert_eq!(h.cause(), Some(Cause::UnexpectedReply { expected: None, received }));
}

/// The server answers so to every request, even a ping. There is no other server to try.
#[test]
fn a_server_that_demands_authentication_ends_the_session() {
    const DEMAND: ErrorCode = ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH;
    for xid in [1, 2, Xid::PING.0, Xid::SET_WATCHES.0] {
        let mut h = Harness::connected();
        h.sync(1);
        h.sync(2);
        h.sent();
        h.reply(xid, 0, DEMAND);
        let answer = |request| {
            if xid == request as i32 {
                (request, Some(Error::Server(DEMAND)))
            } else {
                ended(request, End::AuthFailed, Outcome::Unknown)
            }
        };
        let mut answers = h.answers();
        answers.sort_by_key(|(request, _)| *request);
        assert_eq!(answers, [answer(1), answer(2)]);
        assert_eq!(h.session.state(), State::Ended(End::AuthFailed));
        assert_eq!(h.actions(), [Action::Disconnect]);
    }
}
