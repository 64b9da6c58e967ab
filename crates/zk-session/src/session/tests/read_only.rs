use super::*;

fn config(members: usize) -> Config {
    Config { read_only: true, ..Config::new(members, 0) }
}

/// Connects to a member that is, or is not, read-only.
fn connect(h: &mut Harness, session_id: SessionId, read_only: bool) -> usize {
    let member = h.reach();
    h.handshake();
    answer(h, session_id, read_only);
    member
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

/// The members probed until then, and how long after the one before.
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
            let Action::Probe(member) = action else { panic!("{action:?}") };
            probes.push((member, h.now - last));
            last = h.now;
        }
    }
    probes
}

#[test]
fn only_who_asks_for_it_is_served_by_read_only_members() {
    assert_eq!(presented(&mut Harness::with(config(1))), (SessionId::NONE, true));
    assert_eq!(presented(&mut Harness::new(1)), (SessionId::NONE, false));
}

#[test]
fn the_state_says_whether_the_member_can_write() {
    let mut h = Harness::with(config(1));
    connect(&mut h, SessionId(5), true);
    let state = State::ReadOnly { member: 0, session: SessionId(5) };
    assert_eq!((h.session.state(), h.session.id()), (state, SessionId(5)));
    assert_eq!(h.events(), [Event::State(state)]);
    h.sync(1);
    assert_eq!(h.sent_xids(), [1], "requests are sent");
    h.disconnect();
    connect(&mut h, SESSION, false);
    assert_eq!(h.session.state(), State::Connected { member: 0, session: SESSION });
}

#[test]
fn a_session_made_by_a_read_only_member_is_presented_to_nobody() {
    let mut h = Harness::with(config(2));
    connect(&mut h, SessionId(5), true);
    h.actions();
    assert_eq!(h.session.resume(), None);
    h.disconnect();
    assert_eq!(presented(&mut h), (SessionId::NONE, true));
    // Whatever is given instead is the session.
    answer(&mut h, SESSION, false);
    assert_eq!(h.session.id(), SESSION);
    h.disconnect();
    assert_eq!(presented(&mut h).0, SESSION);
}

#[test]
fn a_session_of_the_ensemble_stays_itself_at_a_read_only_member() {
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
fn a_session_given_by_the_caller_is_taken_for_one_of_the_ensemble() {
    let resume = Resume { id: SESSION, password: Bytes::new(), last_zxid: Zxid::ZERO };
    let mut h = Harness::with(Config { resume: Some(resume), ..config(1) });
    assert_eq!(presented(&mut h).0, SESSION);
    answer(&mut h, SessionId(5), true);
    assert_eq!(h.session.state(), State::Ended(End::Expired));
}

#[test]
fn other_members_are_probed_in_turn_ever_more_seldom() {
    let mut h = Harness::with(config(3));
    let current = connect(&mut h, SessionId(5), true);
    let probes = probes(&mut h, 14);
    let mut delay = ms(100);
    for (place, (member, after)) in probes.iter().enumerate() {
        assert_eq!(*after, delay, "probe {place}");
        assert_ne!(*member, current);
        delay = (delay * 2).min(ms(60_000));
    }
    assert!(probes.windows(2).all(|pair| pair[0].0 != pair[1].0), "{probes:?}");
}

#[test]
fn a_member_that_can_write_is_gone_to_at_once() {
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
            Event::Disconnected { member: current, cause: Cause::ReadWriteFound },
            Event::Reply { token: 1, result: Err(Error::ConnectionLost) },
            Event::State(State::Suspended),
        ]
    );
    h.session.handle_connected(h.now);
    h.received.clear();
    h.handshake();
    answer(&mut h, SESSION, false);
    assert_eq!(h.session.state(), State::Connected { member: other, session: SESSION });
    h.advance(ms(100));
    assert_eq!(h.actions(), [], "the search is over");
}

#[test]
fn what_a_probe_finds_is_ignored_when_it_is_of_no_use() {
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
fn a_session_being_closed_does_not_go_elsewhere() {
    let mut h = Harness::with(config(2));
    connect(&mut h, SessionId(5), true);
    let other = probes(&mut h, 1)[0].0;
    h.session.close();
    h.session.handle_probed(h.now, other, true);
    assert_eq!(h.actions(), [Action::Disconnect]);
    assert_eq!(h.session.state(), State::Ended(End::Closed));
}

#[test]
fn there_is_nobody_to_probe_beside_the_only_member() {
    let mut h = Harness::with(config(1));
    connect(&mut h, SessionId(5), true);
    h.advance(ms(100));
    h.advance(ms(200));
    assert_eq!(h.actions(), []);
}

#[test]
fn members_that_come_later_are_probed_too() {
    let mut h = Harness::with(config(1));
    connect(&mut h, SessionId(5), true);
    h.advance(ms(100));
    h.session.update_members(h.now, &[Some(0)], 2);
    assert_eq!(probes(&mut h, 2), [(1, ms(100)), (1, ms(200))]);
    h.session.handle_probed(h.now, 1, true);
    assert_eq!(h.actions(), [Action::Disconnect, Action::Connect(1)]);
}

/// They are written by another thread of the server than the answers to reads.
#[test]
fn a_refusal_to_write_may_overtake_the_answer_to_a_read() {
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
fn watches_survive_the_way_from_a_read_only_session_to_the_real_one() {
    let mut h = Harness::with(config(2));
    connect(&mut h, SessionId(5), true);
    let id = h.watch(&get_data("/a"), ErrorCode::OK);
    h.disconnect();
    connect(&mut h, SESSION, false);
    assert_eq!(h.sent()[0].opcode, OpCode::SET_WATCHES);
    h.notify(EventType::NODE_DATA_CHANGED, "/a");
    assert_eq!(h.fired()[0].0, [id]);
}

/// It answers pings, but the leader, which decides about expiry, does not hear of them.
#[test]
fn a_read_only_member_renews_no_lease() {
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
