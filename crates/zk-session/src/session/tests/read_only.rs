use super::*;

fn config(servers: usize) -> Config {
    Config { read_only: true, ..Config::new(servers, 0) }
}

/// Connects to a read-only or read-write server.
fn connect(h: &mut Harness, session_id: SessionId, read_only: bool) -> usize {
    let server = h.reach();
    h.handshake();
    answer(h, session_id, read_only);
    server
}

fn answer(h: &mut Harness, session_id: SessionId, read_only: bool) {
    h.deliver(&ConnectResponse {
        protocol_version: 0,
        timeout: GRANTED,
        session_id,
        password: Some(&PASSWORD),
        read_only: Some(read_only),
    });
}

fn presented(h: &mut Harness) -> (SessionId, bool) {
    h.reach();
    let payload = h.handshake();
    let request = ConnectRequest::decode_all(&payload).expect("a handshake");
    if request.session_id == SessionId::NONE {
        assert_eq!(request.password, Some(&[0; 16][..]));
    }
    (request.session_id, request.read_only == Some(true))
}

/// Returns the servers probed until then, and the time between the probes.
fn probes(h: &mut Harness, count: usize) -> Vec<(usize, Duration)> {
    let mut probes = Vec::new();
    let mut last = h.now;
    while probes.len() < count {
        let due = h.session.poll_timeout().expect("there is always something");
        h.advance(due - h.now);
        h.sent();
        h.notify(EventType::NODE_CREATED, "/keeps/the/connection/alive");
        h.reply(Xid::PING.0, 1, ErrorCode::OK);
        for action in h.actions() {
            let Action::Probe(server) = action else { panic!("{action:?}") };
            probes.push((server, h.now - last));
            last = h.now;
        }
    }
    probes
}

#[test]
fn read_only_servers_serve_only_sessions_that_accept_them() {
    assert_eq!(presented(&mut Harness::with(config(1))), (SessionId::NONE, true));
    assert_eq!(presented(&mut Harness::new(1)), (SessionId::NONE, false));
}

#[test]
fn the_state_reports_whether_the_server_is_read_only() {
    let mut h = Harness::with(config(1));
    connect(&mut h, SessionId(5), true);
    let state = State::ReadOnly { server: 0, session: SessionId(5) };
    assert_eq!((h.session.state(), h.session.id()), (state, SessionId(5)));
    assert_eq!(h.events(), [Event::State(state)]);
    h.sync(1);
    assert_eq!(h.sent_xids(), [1], "requests are sent");
    h.disconnect();
    connect(&mut h, SESSION, false);
    assert_eq!(h.session.state(), State::Connected { server: 0, session: SESSION });
}

#[test]
fn a_session_of_a_read_only_server_is_not_resumed_elsewhere() {
    let mut h = Harness::with(config(2));
    connect(&mut h, SessionId(5), true);
    h.actions();
    assert_eq!(h.session.ticket(), None);
    h.disconnect();
    assert_eq!(presented(&mut h), (SessionId::NONE, true));
    // The session that the server returns instead is the session now.
    answer(&mut h, SESSION, false);
    assert_eq!(h.session.id(), SESSION);
    h.disconnect();
    assert_eq!(presented(&mut h).0, SESSION);
}

#[test]
fn a_session_of_the_ensemble_keeps_its_identity_at_a_read_only_server() {
    let mut h = Harness::with(config(2));
    connect(&mut h, SESSION, false);
    h.disconnect();
    connect(&mut h, SESSION, true);
    assert!(matches!(h.session.state(), State::ReadOnly { session: SESSION, .. }));
    h.actions();
    h.disconnect();
    assert_eq!(presented(&mut h).0, SESSION);
}

#[test]
fn a_resumed_session_counts_as_one_of_the_ensemble() {
    let resume = SessionTicket { id: SESSION, password: Bytes::new(), last_zxid: Zxid::ZERO };
    let mut h = Harness::with(Config { resume: Some(resume), ..config(1) });
    assert_eq!(presented(&mut h).0, SESSION);
    answer(&mut h, SessionId(5), true);
    assert_eq!(h.session.state(), State::Ended(End::Expired));
}

#[test]
fn other_servers_are_probed_in_turn_with_growing_delays() {
    let mut h = Harness::with(config(3));
    let current = connect(&mut h, SessionId(5), true);
    let probes = probes(&mut h, 14);
    let mut delay = ms(100);
    for (place, (server, after)) in probes.iter().enumerate() {
        assert_eq!(*after, delay, "probe {place}");
        assert_ne!(*server, current);
        delay = (delay * 2).min(ms(60_000));
    }
    assert!(probes.windows(2).all(|pair| pair[0].0 != pair[1].0), "{probes:?}");
}

#[test]
fn the_session_moves_to_a_read_write_server_at_once() {
    let mut h = Harness::with(config(3));
    let current = connect(&mut h, SessionId(5), true);
    h.sync(1);
    h.sent();
    let (other, _) = probes(&mut h, 2)[1];
    h.events();
    h.session.handle_probed(h.now, other, true);
    assert_eq!(h.actions(), [Action::Disconnect, Action::Connect(other)]);
    assert_eq!(
        h.events(),
        [
            Event::Disconnected { server: current, cause: Cause::ReadWriteFound },
            Event::Reply { token: 1, result: Err(Error::ConnectionLost) },
            Event::State(State::Suspended),
        ]
    );
    h.session.handle_connected(h.now);
    h.received.clear();
    h.handshake();
    answer(&mut h, SESSION, false);
    assert_eq!(h.session.state(), State::Connected { server: other, session: SESSION });
    h.advance(ms(100));
    assert_eq!(h.actions(), [], "the search is over");
}

#[test]
fn useless_results_of_probes_are_ignored() {
    let mut h = Harness::with(config(3));
    let current = connect(&mut h, SessionId(5), true);
    let other = probes(&mut h, 1)[0].0;
    h.session.handle_probed(h.now, other, false);
    h.session.handle_probed(h.now, current, true);
    h.session.handle_probed(h.now, 3, true);
    h.session.handle_probed(h.now, usize::MAX, true);
    assert_eq!(h.actions(), []);
    h.disconnect();
    h.session.handle_probed(h.now, other, true);
    assert_eq!(h.actions(), []);
    connect(&mut h, SESSION, false);
    h.session.handle_probed(h.now, other, true);
    assert_eq!(h.actions(), []);
    h.session.close();
    h.session.handle_probed(h.now, other, true);
    h.answer_all();
    h.actions();
    h.session.handle_probed(h.now, other, true);
    assert_eq!(h.actions(), []);
}

#[test]
fn a_closing_session_does_not_move() {
    let mut h = Harness::with(config(2));
    connect(&mut h, SessionId(5), true);
    let other = probes(&mut h, 1)[0].0;
    h.sync(1);
    h.session.close();
    h.session.handle_probed(h.now, other, true);
    assert_eq!((h.actions(), h.answers()), (Vec::new(), Vec::new()), "the close is on its way");
    h.answer_all();
    assert_eq!(h.answers(), [(1, None)]);
    assert_eq!(h.actions(), [Action::Disconnect]);
    assert_eq!(h.session.state(), State::Ended(End::Closed));
}

#[test]
fn the_only_server_is_not_probed() {
    let mut h = Harness::with(config(1));
    connect(&mut h, SessionId(5), true);
    h.advance(ms(100));
    h.advance(ms(200));
    assert_eq!(h.actions(), []);
}

#[test]
fn added_servers_are_probed_too() {
    let mut h = Harness::with(config(1));
    connect(&mut h, SessionId(5), true);
    h.advance(ms(100));
    h.session.update_servers(h.now, &[Some(0)], 2);
    assert_eq!(probes(&mut h, 2), [(1, ms(100)), (1, ms(200))]);
    h.session.handle_probed(h.now, 1, true);
    assert_eq!(h.actions(), [Action::Disconnect, Action::Connect(1)]);
}

/// Another thread of the server writes them than the replies to reads.
#[test]
fn a_refused_write_may_be_answered_before_an_earlier_read() {
    let mut h = Harness::with(config(1));
    connect(&mut h, SessionId(5), true);
    h.submit(&get_data("/a"), 1);
    h.submit(&create("/b"), 2);
    h.sent();
    h.reply(2, 0, ErrorCode::NOT_READ_ONLY);
    h.reply(1, 1, ErrorCode::OK);
    let refused = Some(Error::Server(ErrorCode::NOT_READ_ONLY));
    assert_eq!(h.answers(), [(2, refused), (1, None)]);
    assert_eq!(h.actions(), []);
}

#[test]
fn watches_survive_the_move_from_a_read_only_session_to_a_real_one() {
    let mut h = Harness::with(config(2));
    connect(&mut h, SessionId(5), true);
    let id = h.watch(&get_data("/a"), ErrorCode::OK);
    h.disconnect();
    connect(&mut h, SESSION, false);
    assert_eq!(h.sent()[0].opcode, OpCode::SET_WATCHES);
    h.notify(EventType::NODE_DATA_CHANGED, "/a");
    assert_eq!(h.fired()[0].0, [id]);
}

/// The server answers pings, but the leader, which decides about expiry, never sees them.
#[test]
fn a_read_only_server_renews_no_lease() {
    let mut h = Harness::with(config(2));
    connect(&mut h, SESSION, false);
    let before = h.session.lease();
    h.advance(ms(100));
    h.disconnect();
    assert_eq!(h.session.lease(), before);
    connect(&mut h, SESSION, true);
    h.advance(ms(100));
    h.sync(1);
    h.answer_all();
    assert_eq!(h.session.lease(), before, "nobody who knows has been asked since");
    h.disconnect();
    assert_eq!(h.session.lease(), before);
    connect(&mut h, SESSION, false);
    assert!(h.session.lease() > before);
}

#[test]
fn the_grant_of_a_read_only_server_is_for_no_lease_that_it_did_not_renew() {
    for granted in [GRANTED * 4, GRANTED / 4] {
        let mut h = Harness::with(config(2));
        connect(&mut h, SESSION, false);
        let lease = h.session.lease();
        h.disconnect();
        h.reach();
        h.handshake();
        h.deliver(&ConnectResponse {
            protocol_version: 0,
            timeout: granted,
            session_id: SESSION,
            password: Some(&PASSWORD),
            read_only: Some(true),
        });
        assert_eq!(h.session.timeout(), ms(u64::from(granted.unsigned_abs())));
        assert_eq!(h.session.lease(), lease);
        h.disconnect();
        connect(&mut h, SESSION, false);
        assert!(h.session.lease() > lease);
    }
}
