use alloc::collections::BTreeMap;

use super::*;

/// Servers that stay, then new ones: `old` of them before, of which the first `stay` stay.
fn kept(old: usize, stay: usize) -> Vec<Option<usize>> {
    (0..old).map(|server| (server < stay).then_some(server)).collect()
}

/// Returns how many clients each server has after all of many clients have learned of a change.
fn clients(old: usize, stay: usize, count: usize) -> (BTreeMap<usize, usize>, usize) {
    let (mut clients, mut moved) = (BTreeMap::new(), 0);
    for seed in 0..2_000 {
        let mut h = Harness::with(Config { seed, ..Config::new(old, 0) });
        let before = h.connect();
        h.session.update_servers(h.now, &kept(old, stay), count);
        let server = match h.session.state() {
            State::Connected { server, .. } => {
                assert_eq!(server, before);
                server
            }
            _ => {
                moved += 1;
                h.reach()
            }
        };
        assert!(server < count);
        *clients.entry(server).or_default() += 1;
    }
    (clients, moved)
}

#[test]
fn clients_are_spread_evenly_after_a_change_and_no_more_move_than_needed() {
    for (old, stay, count, must_move) in [
        (3, 3, 5, 2.0 / 5.0),
        (5, 3, 3, 2.0 / 5.0),
        (3, 2, 3, 1.0 / 3.0),
        (3, 0, 3, 1.0),
        (3, 2, 5, 1.0 / 3.0 + 2.0 / 3.0 * 2.0 / 5.0),
        (5, 2, 3, 3.0 / 5.0),
        (3, 3, 3, 0.0),
        (1, 1, 2, 1.0 / 2.0),
    ] {
        let (clients, moved) = clients(old, stay, count);
        let moved = moved as f64 / 2_000.0;
        assert!((moved - must_move).abs() < 0.05, "{old} {stay} {count}: {moved} moved");
        // If servers are both added and removed, the spread is only roughly even, as in Java.
        let tolerance = if count > old && stay < old { 0.4 } else { 0.15 };
        for server in 0..count {
            let share = clients.get(&server).copied().unwrap_or(0) as f64 * count as f64 / 2_000.0;
            assert!((share - 1.0).abs() < tolerance, "{old} {stay} {count}: {clients:?}");
        }
    }
}

#[test]
fn a_session_that_stays_knows_its_server_by_the_new_index() {
    let mut h = Harness::new(2);
    let server = h.connect();
    h.sync(1);
    h.sent();
    h.events();
    h.session.update_servers(h.now, &[Some(1), Some(0)], 2);
    let state = State::Connected { server: 1 - server, session: SESSION };
    assert_eq!(h.session.state(), state);
    assert_eq!(h.events(), [Event::State(state)]);
    h.reply(1, 1, ErrorCode::OK);
    assert_eq!((h.answers(), h.actions()), (Vec::from([(1, None)]), Vec::new()));
}

#[test]
fn a_session_that_is_being_closed_does_not_move_without_need() {
    for seed in 0..100 {
        let mut h = Harness::with(Config { seed, ..Config::new(1, 0) });
        h.connect();
        h.session.close();
        h.sent();
        h.session.update_servers(h.now, &[Some(0)], 9);
        assert_eq!(h.actions(), []);
    }
    let mut h = Harness::new(1);
    h.connect();
    h.session.close();
    h.sent();
    h.session.update_servers(h.now, &[None], 1);
    assert_eq!(h.session.state(), State::Ended(End::Closed));
}

#[test]
fn a_session_whose_server_was_removed_moves_with_its_requests_and_watches() {
    let mut h = Harness::new(1);
    h.connect();
    h.sync(1);
    h.sent();
    h.sync(2);
    h.events();
    h.session.update_servers(h.now, &[None], 1);
    assert_eq!(
        h.events(),
        [
            Event::Disconnected { server: 0, cause: Cause::Rebalanced },
            Event::Reply { token: 1, result: Err(Error::ConnectionLost) },
            Event::State(State::Suspended),
        ]
    );
    assert_eq!(h.connect(), 0);
    assert_eq!(h.session.id(), SESSION);
    assert_eq!(h.sent_xids(), [2]);
}

#[test]
fn an_attempt_to_connect_continues_unless_its_server_was_removed() {
    for kept in [Some(0), None] {
        for reached in [false, true] {
            let mut h = Harness::new(1);
            if reached {
                h.reach();
            }
            h.session.update_servers(h.now, &[kept], 1);
            let actions = h.actions();
            match (kept, reached) {
                (Some(_), false) => assert_eq!(actions, [Action::Connect(0)]),
                (Some(_), true) => assert_eq!(actions, []),
                (None, _) => assert_eq!(actions, [Action::Disconnect]),
            }
            if kept.is_none() {
                assert_eq!(h.connect(), 0);
            }
        }
    }
}

#[test]
fn all_servers_may_be_removed_and_added_again() {
    let mut h = Harness::new(2);
    h.connect();
    h.session.update_servers(h.now, &[], 0);
    assert_eq!(h.session.state(), State::Suspended);
    h.sleep();
    h.actions();
    h.session.update_servers(h.now, &[], 3);
    h.connect();
    assert_eq!(h.session.id(), SESSION);
}

#[test]
fn an_invalid_list_of_servers_does_no_harm() {
    for kept in [&[Some(7), Some(usize::MAX)][..], &[Some(0), Some(0)], &[None; 9], &[Some(1); 9]] {
        for count in 0..3 {
            let mut h = Harness::new(2);
            h.connect();
            h.session.update_servers(h.now, kept, count);
            assert!(h.session.server().is_none_or(|server| server < count));
            if count > 0 && h.session.state() == State::Suspended {
                assert!(h.connect() < count);
            }
        }
    }
}

#[test]
fn an_ended_session_ignores_a_new_list_of_servers() {
    let mut h = Harness::new(1);
    h.session.close();
    h.events();
    h.actions();
    h.session.update_servers(h.now, &[None], 3);
    assert_eq!((h.events(), h.actions(), h.session.poll_timeout()), (Vec::new(), Vec::new(), None));
}

#[test]
fn a_connection_that_is_to_be_closed_is_closed_after_the_servers_have_changed() {
    let mut h = Harness::connected();
    h.actions();
    h.session.handle_frame(h.now, Bytes::from_static(b"short"));
    h.session.update_servers(h.now, &[Some(1)], 2);
    assert_eq!(h.session.poll_action(), Some(Action::Disconnect));
}
