use super::*;

const CLOSE: [u8; 12] = [0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5];

#[test]
fn a_session_is_closed_after_all_earlier_requests() {
    let mut h = Harness::connected();
    h.sync(1);
    h.session.close();
    h.session.close();
    let sent = h.sent();
    let opcodes: Vec<_> = sent.iter().map(|sent| sent.opcode).collect();
    assert_eq!(opcodes, [OpCode::SYNC, OpCode::CLOSE_SESSION]);
    h.reply(1, 1, ErrorCode::OK);
    assert_eq!(h.answers(), [(1, None)]);
    h.reply(2, 1, ErrorCode::OK);
    assert_eq!(h.events(), [Event::State(State::Ended(End::Closed))]);
    assert_eq!(h.actions(), [Action::Disconnect]);
    assert_eq!((h.session.poll_timeout(), h.session.output()), (None, &b""[..]));
}

#[test]
fn a_closing_session_accepts_no_more_requests() {
    let mut h = Harness::connected();
    h.session.close();
    let refusal = Err(Error::Ended { end: End::Closed, outcome: Outcome::NotApplied });
    assert_eq!(h.session.submit(&SYNC, 1), refusal);
    assert_eq!(h.session.output(), CLOSE);
    h.answer_all();
    assert_eq!(h.session.submit(&SYNC, 2), refusal);
    assert_eq!(h.events(), [Event::State(State::Ended(End::Closed))]);
}

#[test]
fn a_connection_lost_while_closing_ends_the_session() {
    let mut h = Harness::connected();
    h.sync(1);
    h.sync(2);
    h.take_all();
    h.sync(3);
    h.session.close();
    h.take(5);
    h.disconnect();
    assert_eq!(
        h.answers(),
        [
            ended(1, End::Closed, Outcome::Unknown),
            ended(2, End::Closed, Outcome::Unknown),
            ended(3, End::Closed, Outcome::NotApplied),
        ]
    );
    assert_eq!(h.session.state(), State::Ended(End::Closed));
    assert_eq!(h.session.poll_timeout(), None);
}

#[test]
fn a_server_that_does_not_answer_cannot_keep_a_session_from_closing() {
    let mut h = Harness::connected();
    h.session.close();
    h.sent();
    while h.session.poll_timeout().is_some() {
        h.sleep();
    }
    assert_eq!(h.session.state(), State::Ended(End::Closed));
    assert_eq!(h.actions(), [Action::Disconnect]);
}

#[test]
fn a_server_that_answers_all_but_the_close_cannot_keep_a_session_from_closing() {
    let mut h = Harness::connected();
    h.sync(1);
    h.session.close();
    h.sent();
    let start = h.now;
    h.advance(ms(2_000));
    // Slow, but in progress.
    h.reply(1, 1, ErrorCode::OK);
    while h.session.poll_timeout().is_some() {
        h.sent();
        h.reply(Xid::PING.0, 1, ErrorCode::OK);
        h.notify(EventType::NODE_CREATED, "/a");
        h.sleep();
    }
    assert_eq!(h.session.state(), State::Ended(End::Closed));
    assert_eq!(h.now - start, ms(2_000 + GRANTED as u64 / 3 * 2));
}

#[test]
fn without_a_connection_a_session_is_closed_at_once() {
    let mut waiting = Harness::connected();
    waiting.disconnect();
    let mut handshaking = Harness::new(1);
    handshaking.reach();
    for mut h in [Harness::new(1), waiting, handshaking] {
        h.events();
        h.actions();
        h.sync(1);
        h.session.close();
        assert_eq!(
            h.events(),
            [
                Event::Reply {
                    token: 1,
                    result: Err(Error::Ended { end: End::Closed, outcome: Outcome::NotApplied })
                },
                Event::State(State::Ended(End::Closed)),
            ]
        );
        assert_eq!(h.actions(), [Action::Disconnect]);
        assert_eq!((h.session.poll_timeout(), h.session.output()), (None, &b""[..]));
    }
}

#[test]
fn an_expired_session_fails_pending_and_later_requests() {
    let mut h = Harness::connected();
    h.sync(1);
    h.sent();
    h.sync(2);
    h.disconnect();
    h.sync(3);
    h.reach();
    h.handshake();
    h.answer_handshake(0, SessionId::NONE);
    assert_eq!(
        h.answers(),
        [
            unknown(1),
            ended(2, End::Expired, Outcome::NotApplied),
            ended(3, End::Expired, Outcome::NotApplied),
        ]
    );
    assert_eq!(
        h.session.submit(&SYNC, 4),
        Err(Error::Ended { end: End::Expired, outcome: Outcome::NotApplied })
    );
}

#[test]
fn a_session_that_has_ended_has_no_timeout() {
    let mut h = Harness::connected();
    let watch = h.watch(&get_data("/a"), ErrorCode::OK);
    h.session.close();
    h.answer_all();
    h.events();
    h.actions();
    assert!(h.session.watches.is_empty());
    h.session.unwatch(watch);
    h.session.close();
    h.session.handle_connected(h.now);
    h.welcome();
    h.notify(EventType::NODE_DELETED, "/a");
    h.reply(1, 1, ErrorCode::OK);
    h.session.handle_bad_frame(h.now, frame::FrameError::Negative(-1));
    h.disconnect();
    h.session.handle_sent(h.now, usize::MAX);
    h.advance(Duration::MAX);
    assert_eq!((h.events(), h.actions()), (Vec::new(), Vec::new()));
    assert_eq!((h.session.poll_timeout(), h.session.output()), (None, &b""[..]));
    assert_eq!(h.session.state(), State::Ended(End::Closed));
}

#[test]
fn every_error_has_an_outcome() {
    for (error, outcome) in [
        (Error::ConnectionLost, Outcome::Unknown),
        (Error::Server(ErrorCode::NO_NODE), Outcome::NotApplied),
        (Error::Server(ErrorCode::SYSTEM_ERROR), Outcome::Unknown),
        (Error::Transaction { index: 0, code: ErrorCode::NO_NODE }, Outcome::NotApplied),
        (Error::QueueFull { limit: 1 }, Outcome::NotApplied),
    ] {
        assert_eq!(error.outcome(), outcome, "{error}");
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn the_cause_of_a_lost_connection_has_a_text() {
    let malformed = Xid::decode(&mut Reader::new(&[])).expect_err("no bytes");
    let (expected, received) = (Some(Xid(1)), Xid(2));
    for (cause, text) in [
        (Cause::Transport, "the connection was closed"),
        (Cause::Frame(frame::FrameError::Negative(-2)), "the frame length -2 is negative"),
        (Cause::Unasked, "the server replied to a request that was not sent completely"),
        (Cause::UnknownProtocol(3), "unknown protocol version 3"),
        (Cause::UnexpectedReply { expected, received }, "reply to request 2 instead of 1"),
        (
            Cause::UnexpectedReply { expected: None, received },
            "reply to request 2, but no request was pending",
        ),
        (
            Cause::WatchesRefused(ErrorCode::NO_AUTH),
            "the server refused to set watches again: NO_AUTH",
        ),
    ] {
        assert_eq!(cause.to_string(), text);
    }
    let text = Cause::Malformed(malformed).to_string();
    assert_eq!(text.strip_prefix("malformed frame: "), Some(&*malformed.to_string()));
}

#[test]
fn a_session_without_servers_has_ended_from_the_start() {
    let mut h = Harness::new(0);
    let ended = State::Ended(End::NoServers);
    assert_eq!(h.session.state(), ended);
    assert_eq!(h.actions(), []);
    let refusal = h.session.submit(&SYNC, 1).map(drop);
    assert_eq!(refusal, Err(Error::Ended { end: End::NoServers, outcome: Outcome::NotApplied }));
    assert_eq!(End::NoServers.to_string(), "there is no server to connect to");
    // It has no events, so that a dispatcher takes it. Its machines learn the end at once.
    assert!(h.session.poll_event().is_none());
    h.session.update_servers(h.now, &[], 1);
    assert_eq!((h.session.state(), h.session.poll_timeout()), (ended, None));
}
