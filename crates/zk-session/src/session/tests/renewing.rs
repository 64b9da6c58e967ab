//! Sessions that are renewed after they have expired.

use zk_proto::{AddWatchMode, AddWatchRequest};

use super::*;

const NEXT: SessionId = SessionId(0x0200_0000_0000_0002);
const RENEWING: Event<u32> = Event::State(State::Renewing);

fn config() -> Config {
    Config { renew: true, ..Config::new(1, 0) }
}

impl Harness {
    fn renewing(config: Config) -> Self {
        let mut h = Self::with(config);
        h.connect();
        h.events();
        h
    }

    /// Loses the connection, and finds the session expired.
    fn expire(&mut self) {
        self.disconnect();
        self.reach();
        self.handshake();
        self.answer_handshake(0, SessionId::NONE);
        assert_eq!(self.session.state(), State::Renewing);
    }

    /// Returns the handshake of the next session, which the server accepts.
    fn renew(&mut self) -> Bytes {
        self.session.renew(self.now);
        self.reach();
        let handshake = self.handshake();
        self.answer_handshake(GRANTED, NEXT);
        handshake
    }
}

#[test]
fn a_new_session_begins_like_the_first_one() {
    let mut h = Harness::renewing(config());
    assert!(h.session.renews() && !Harness::new(1).session.renews());
    h.sync(1);
    let xid = h.sent_xids()[0];
    h.reply(xid, 700, ErrorCode::OK);
    h.expire();
    h.events();
    let handshake = h.renew();
    let handshake =
        ConnectRequest::decode(&mut Reader::new(&handshake)).expect("it is a handshake");
    assert_eq!((handshake.session_id, handshake.last_zxid_seen), (SessionId::NONE, Zxid::ZERO));
    assert_eq!((handshake.password, handshake.timeout), (Some(&NO_PASSWORD[..]), 10_000));
    assert_eq!(h.session.state(), State::Connected { server: 0, session: NEXT });
    assert_eq!(h.session.ticket().map(|ticket| ticket.id), Some(NEXT));
    assert_eq!(h.session.statistics().renewals, 1);
    h.sync(2);
    let xid = h.sent_xids()[0];
    // It need not know the transactions of the old session.
    h.reply(xid, 5, ErrorCode::OK);
    assert_eq!((h.answers(), h.session.last_zxid()), (Vec::from([(2, None)]), Zxid(5)));
}

#[test]
fn requests_of_the_old_session_fail_and_later_ones_wait() {
    let mut h = Harness::renewing(config());
    h.sync(1);
    h.sent();
    h.disconnect();
    h.sync(2);
    assert_eq!(h.answers(), [unknown(1)]);
    h.expire();
    let expired = Error::Ended { end: End::Expired, outcome: Outcome::NotApplied };
    // Its caller has not seen the expiry yet.
    assert_eq!(h.session.submit(&SYNC, 3), Err(expired));
    let events = h.events();
    assert!(matches!(events[..], [Event::Reply { token: 2, result: Err(_) }, RENEWING]));
    assert_eq!(h.session.lease(), None);
    h.session.renew(h.now);
    assert_eq!(h.session.state(), State::Renewing);
    h.sync(4);
    h.renew();
    let sent = h.sent();
    assert_eq!(sent.iter().map(|sent| sent.opcode).collect::<Vec<_>>(), [OpCode::SYNC]);
    h.reply(sent[0].xid.0, 1, ErrorCode::OK);
    assert_eq!(h.answers(), [(4, None)]);
}

#[test]
fn requests_fail_while_it_renews_if_so_configured() {
    let disconnect_timeout = Some(ms(500));
    let mut h = Harness::renewing(Config { disconnect_timeout, ..config() });
    h.disconnect();
    h.advance(ms(400));
    h.reach();
    h.handshake();
    h.answer_handshake(0, SessionId::NONE);
    h.events();
    h.session.renew(h.now);
    h.sync(1);
    // The time without a connection counts from its loss.
    h.advance(ms(100));
    assert_eq!(h.answers(), [(1, Some(Error::NoConnection))]);
    assert_eq!(h.session.submit(&SYNC, 2), Err(Error::NoConnection));
    h.renew();
    h.sync(3);
}

#[test]
fn credentials_and_persistent_watches_pass_to_the_new_session() {
    let mut h = Harness::renewing(config());
    h.session.add_auth("digest", b"user:password", 1).expect("there is room");
    let [auth] = &h.sent()[..] else { panic!("one request") };
    assert_eq!(auth.opcode, OpCode::AUTH);
    h.reply(Xid::AUTH.0, 0, ErrorCode::OK);
    let mode = AddWatchMode::PERSISTENT;
    let request = Request::AddWatch(AddWatchRequest { path: "/kept", mode });
    let kept = h.watch(&request, ErrorCode::OK);
    h.watch(&get_data("/once"), ErrorCode::OK);
    h.watch(&get_children("/once"), ErrorCode::OK);
    h.expire();
    h.events();
    h.renew();
    let sent = h.sent();
    let opcodes: Vec<_> = sent.iter().map(|sent| sent.opcode).collect();
    assert_eq!(opcodes, [OpCode::AUTH, OpCode::SET_WATCHES2]);
    let Request::SetWatches2(again) = sent[1].request() else { panic!("{sent:?}") };
    assert_eq!(again.persistent_watches.iter().collect::<Vec<_>>(), ["/kept"]);
    assert_eq!(again.relative_zxid, Zxid::ZERO);
    assert_eq!(again.data_watches.iter().chain(again.child_watches.iter()).count(), 0);
    let gap = Event::Gap { requests: Vec::from([kept]) };
    let connected = Event::State(State::Connected { server: 0, session: NEXT });
    assert_eq!(h.events(), [connected, gap]);
    h.notify(EventType::NODE_DATA_CHANGED, "/kept");
    assert_eq!(h.events().len(), 1);
    h.notify(EventType::NODE_DATA_CHANGED, "/once");
    assert_eq!(h.events(), []);
}

#[test]
fn a_credential_that_no_server_has_accepted_waits_for_the_new_session() {
    let mut h = Harness::renewing(config());
    h.session.add_auth("digest", b"user:password", 1).expect("there is room");
    h.sent();
    h.expire();
    assert_eq!(h.events().last(), Some(&RENEWING));
    assert_eq!(h.session.pending(), 1);
    h.renew();
    h.sent();
    h.reply(Xid::AUTH.0, 0, ErrorCode::OK);
    assert_eq!(h.answers(), [(1, None)]);
}

#[test]
fn an_expired_session_can_be_closed() {
    let mut h = Harness::renewing(config());
    h.expire();
    h.session.close();
    h.session.renew(h.now);
    let events = h.events();
    assert_eq!(events[events.len() - 2..], [RENEWING, Event::State(State::Ended(End::Closed))]);
    assert_eq!(h.session.poll_timeout(), None);

    let mut h = Harness::renewing(config());
    h.expire();
    h.session.renew(h.now);
    h.session.close();
    assert_eq!(h.session.state(), State::Ended(End::Closed));
    assert_eq!(h.session.poll_timeout(), None);
}

#[test]
fn a_session_is_renewed_again_and_again() {
    let mut h = Harness::renewing(config());
    for _ in 0..3 {
        h.expire();
        assert_eq!(h.events().last(), Some(&RENEWING));
        h.renew();
        h.events();
    }
    assert_eq!(h.session.statistics().renewals, 3);
}

#[test]
fn servers_that_expire_sessions_before_they_begin_are_not_asked_without_a_pause() {
    let mut h = Harness::with(config());
    let start = h.now;
    for _ in 0..20 {
        h.reach();
        h.handshake();
        h.answer_handshake(0, SessionId::NONE);
        h.events();
        h.session.renew(h.now);
    }
    assert!(h.now - start > Duration::from_secs(5), "{:?}", h.now - start);
}

#[test]
fn a_session_to_resume_that_has_expired_is_replaced() {
    let ticket = Harness::connected().session.ticket();
    let mut h = Harness::with(Config { resume: ticket, ..config() });
    assert_eq!(h.session.state(), State::Suspended);
    h.reach();
    h.handshake();
    h.answer_handshake(0, SessionId::NONE);
    assert_eq!(h.events(), [RENEWING]);
    h.renew();
    assert_eq!(h.session.id(), NEXT);
}

#[test]
fn a_refused_credential_ends_the_session_for_good() {
    let mut h = Harness::renewing(config());
    h.session.add_auth("sasl-like", b"changed", 1).expect("there is room");
    h.sent();
    h.reply(Xid::AUTH.0, 0, ErrorCode::OK);
    h.disconnect();
    h.connect();
    h.sent();
    h.reply(Xid::AUTH.0, 0, ErrorCode::AUTH_FAILED);
    assert_eq!(h.session.state(), State::Ended(End::AuthFailed));
    h.events();
    h.session.renew(h.now);
    assert_eq!(h.session.state(), State::Ended(End::AuthFailed));
}

#[test]
fn the_list_of_servers_may_change_before_the_renewal() {
    let mut h = Harness::renewing(Config { renew: true, ..Config::new(3, 0) });
    h.expire();
    h.events();
    h.actions();
    h.session.update_servers(h.now, &[Some(0), None, None], 1);
    assert_eq!(h.actions(), [], "the new session has not begun");
    h.renew();
    for _ in 0..6 {
        h.disconnect();
        assert_eq!(h.reach(), 0);
    }
}

/// The server answers a request of each new session, and then expires it.
#[test]
fn servers_that_expire_each_session_at_once_are_asked_with_growing_delays() {
    let mut h = Harness::renewing(config());
    let start = h.now;
    for _ in 0..20 {
        h.sync(1);
        h.answer_all();
        h.expire();
        h.renew();
        h.events();
    }
    assert!(h.now - start > Duration::from_secs(9), "{:?}", h.now - start);
    // A session that is of use ends that, so the next renewal is as quick as the first one.
    h.be_of_use();
    let lost = h.now;
    h.expire();
    h.renew();
    assert!(h.now - lost <= ms(150), "{:?}", h.now - lost);
}
