//! Servers that have lost data which the session has seen.

use super::*;

const EXPIRED: (i32, SessionId) = (0, SessionId::NONE);

/// The last transaction that the session has seen.
const SEEN: Zxid = Zxid(700);

impl Harness {
    /// Makes a session that has seen a transaction, and whose connection is lost.
    fn informed(config: Config) -> Self {
        let mut h = Self::with(config);
        h.connect();
        h.sync(1);
        h.sent();
        h.reply(1, SEEN.0, ErrorCode::OK);
        h.disconnect();
        h.events();
        h
    }

    /// Waits for the next attempt. Returns its server, and the newest transaction and the session
    /// that it presents.
    fn attempt(&mut self) -> (usize, Zxid, SessionId) {
        let server = self.reach();
        let handshake = self.handshake();
        let request = ConnectRequest::decode(&mut Reader::new(&handshake)).expect("it is one");
        assert_eq!(request.read_only, Some(request.last_zxid_seen == SEEN && self.reads()));
        (server, request.last_zxid_seen, request.session_id)
    }

    fn reads(&self) -> bool {
        self.session.config.read_only
    }

    /// Refuses the session until it asks. Returns the server that it asks, and after how long.
    fn refuse(&mut self) -> (usize, Duration) {
        let before = self.now;
        loop {
            let (server, seen, session) = self.attempt();
            assert_eq!(session, SESSION);
            if seen != SEEN {
                assert_eq!(seen, Zxid::ZERO);
                return (server, self.now - before);
            }
            self.disconnect();
        }
    }
}

fn causes(h: &mut Harness) -> Vec<Cause> {
    let cause = |event| match event {
        Event::Disconnected { cause, .. } => Some(cause),
        _ => None,
    };
    h.events().into_iter().filter_map(cause).collect()
}

#[test]
fn a_session_that_wiped_servers_refuse_ends_as_expired() {
    for servers in 1..4 {
        let mut h = Harness::informed(Config::new(servers, 7));
        let (asked, after) = h.refuse();
        let timeout = ms(GRANTED as u64);
        assert!(after >= timeout && after < timeout + ms(5_000), "{after:?}");
        h.events();
        h.answer_handshake(EXPIRED.0, EXPIRED.1);
        assert_eq!((h.events(), h.session.state()), (vec![], State::Suspended));
        let before = h.now;
        assert_eq!(h.attempt(), (asked, SEEN, SESSION), "the same server");
        assert_eq!(h.now, before, "at once");
        h.disconnect();
        assert_eq!(causes(&mut h), [Cause::OlderHistory]);
        assert_eq!(h.session.state(), State::Ended(End::Expired));
        assert_eq!((h.session.poll_timeout(), h.actions()), (None, vec![]));
    }
}

/// It is in their backup. To go on with it would be time travel.
#[test]
fn a_session_that_restored_servers_know_ends_as_expired() {
    let mut h = Harness::informed(Config::new(3, 7));
    h.refuse();
    h.welcome();
    assert_eq!((h.session.state(), h.session.last_zxid()), (State::Suspended, SEEN));
    assert_eq!(h.attempt().1, SEEN);
    h.disconnect();
    assert_eq!(h.session.state(), State::Ended(End::Expired));
}

#[test]
fn the_next_session_begins_with_the_servers_history() {
    let mut h = Harness::informed(Config { renew: true, ..Config::new(1, 7) });
    h.refuse();
    h.answer_handshake(EXPIRED.0, EXPIRED.1);
    h.attempt();
    h.disconnect();
    assert_eq!(h.session.state(), State::Renewing);
    h.session.renew(h.now);
    assert_eq!(h.attempt(), (0, Zxid::ZERO, SessionId::NONE));
    h.answer_handshake(GRANTED, SessionId(5));
    assert!(matches!(h.session.state(), State::Connected { .. }));
}

/// They answer as soon as they have a quorum again, and may know the session.
#[test]
fn a_session_survives_servers_without_a_quorum() {
    let mut h = Harness::informed(Config { read_only: true, ..Config::new(3, 7) });
    let mut pause = ms(0);
    for _ in 0..10 {
        h.refuse();
        h.disconnect();
        let waited = h.now;
        assert_eq!(h.attempt().1, SEEN);
        assert!(h.now - waited >= ms(50), "the question does not replace the pause");
        pause = h.now - waited;
        h.disconnect();
    }
    assert!(pause >= ms(2_500), "{pause:?}: it grows");
    h.refuse();
    h.welcome();
    assert_eq!(h.attempt().1, SEEN);
    h.welcome();
    assert!(matches!(h.session.state(), State::Connected { session: SESSION, .. }));
    assert_eq!(h.session.last_zxid(), SEEN);
}

#[test]
fn only_a_server_that_closes_the_handshake_proves_anything() {
    type Fail = fn(&mut Harness);
    let fails: [Fail; 3] = [
        |h| h.advance(ms(60_000)),
        |h| h.session.handle_frame(h.now, Bytes::from_static(b"no answer")),
        |h| {
            h.session.handle_bad_frame(h.now, frame::FrameError::Negative(-1));
        },
    ];
    for fail in fails {
        let mut h = Harness::informed(Config::new(2, 7));
        h.refuse();
        h.welcome();
        h.attempt();
        fail(&mut h);
        assert_eq!(h.session.state(), State::Suspended);
        assert_ne!(causes(&mut h).last(), Some(&Cause::OlderHistory));
        h.connect();
    }
    let mut h = Harness::informed(Config::new(2, 7));
    h.refuse();
    h.welcome();
    while !h.actions().iter().any(|action| matches!(action, Action::Connect(_))) {
        h.sleep();
    }
    // It is gone again.
    h.disconnect();
    assert_eq!(h.session.state(), State::Suspended);
}

#[test]
fn a_session_that_has_seen_nothing_or_is_refused_by_nobody_asks_nothing() {
    let mut h = Harness::new(2);
    h.connect();
    h.disconnect();
    for _ in 0..20 {
        assert_eq!(h.attempt().1, Zxid::ZERO);
        assert_eq!(h.session.history.next, Purpose::Service);
        h.disconnect();
    }
    let mut h = Harness::informed(Config::new(2, 7));
    for _ in 0..20 {
        assert_eq!(h.attempt().1, SEEN);
        h.session.handle_frame(h.now, Bytes::from_static(b"no answer"));
    }
}

/// One that cannot be reached, or has not lost its data yet, must not keep the session for ever.
#[test]
fn one_server_that_refuses_the_session_is_asked_among_others_that_fail() {
    let mut h = Harness::informed(Config::new(3, 7));
    let asked = loop {
        let (server, seen, _) = h.attempt();
        if seen == Zxid::ZERO {
            break server;
        }
        match server {
            0 => h.disconnect(),
            _ => h.session.handle_frame(h.now, Bytes::from_static(b"no answer")),
        }
    };
    assert_eq!(asked, 0);
}

#[test]
fn a_new_list_of_servers_forgets_who_refused() {
    let mut h = Harness::informed(Config::new(2, 7));
    h.refuse();
    h.disconnect();
    h.attempt();
    h.disconnect();
    h.session.update_servers(h.now, &[None, Some(0)], 1);
    assert_eq!(h.attempt().1, SEEN);
}
