//! Hand-written fault scenarios.

use std::time::Duration;

use uuid::Uuid;
use zk_proto::CreateMode;
use zk_session::State;
use zk_testkit::sim::{Bug, Call, Cut, Direction, LockKind, Options, Sim, SimClient, Tail};

pub(crate) const LOCK: &str = "/lock";

/// Creates a simulation with connected clients and a parent node for locks.
pub(crate) fn connected(options: Options) -> Sim {
    let clients = options.clients;
    let mut sim = Sim::new(options);
    let is_connected = |sim: &Sim, client| {
        matches!(sim.client(client).map(|c| c.state()), Some(State::Connected { .. }))
    };
    assert!(sim.run_until(second(), |sim| (0..clients).all(|client| is_connected(sim, client))));
    sim.with(0, |now, client| {
        client.call(now, Call::Create { path: LOCK.into(), mode: CreateMode::PERSISTENT })
    });
    sim.advance(second());
    sim
}

pub(crate) fn second() -> Duration {
    Duration::from_secs(1)
}

fn followers(sim: &Sim) -> Vec<usize> {
    (0..3).filter(|server| sim.ensemble().leader() != Some(*server)).collect()
}

/// Loses the reply to the create of a lock node. The servers that the client may reconnect to lag
/// behind the one that has applied the create. Returns the violations.
fn lost_creation_and_lagging_servers(seed: u64, bug: Option<Bug>) -> Vec<String> {
    let mut sim = connected(Options { seed, bug, ..Options::default() });
    let followers = followers(&sim);
    followers.iter().for_each(|server| sim.hold(*server));
    sim.with(0, |now, client| client.contend(now, LOCK, LockKind::Mutex, Uuid::from_u128(7)));
    let is_applied = |sim: &Sim| sim.ensemble().node(LOCK).is_some_and(|n| n.children().len() == 1);
    assert!(sim.run_until(second(), is_applied));
    sim.cut(0, Cut::AFTER_APPLIED);
    sim.advance(second());
    followers.iter().for_each(|server| sim.release(*server));
    sim.advance(second());
    sim.report().violations
}

#[test]
fn a_lost_creation_is_found_behind_a_sync() {
    for seed in 0..20 {
        assert_eq!(lost_creation_and_lagging_servers(seed, None), Vec::<String>::new());
    }
}

#[test]
fn a_lost_creation_is_not_found_without_one() {
    let found = (0..20)
        .flat_map(|seed| lost_creation_and_lagging_servers(seed, Some(Bug::SearchesWithoutSync)));
    assert!(found.into_iter().any(|violation| violation.contains("two nodes of one attempt")));
}

/// Asserts that all guarantees hold after a quiet time.
fn assert_quiet(mut sim: Sim) {
    sim.heal();
    sim.advance(second() * 20);
    sim.conclude();
    assert_eq!(sim.report().violations, Vec::<String>::new());
}

#[test]
fn a_request_cut_at_any_byte_is_applied_as_a_whole_or_not_at_all() {
    let mut applied = Vec::new();
    for bytes in 0..100 {
        let mut sim = connected(Options { seed: bytes as u64, ..Options::default() });
        let made = |path: &str| Call::Create { path: path.into(), mode: CreateMode::PERSISTENT };
        sim.with(0, |now, client| client.call(now, made("/made")));
        sim.advance(second());
        sim.with(0, |now, client| client.call(now, made("/made/one")));
        sim.cut(0, Cut { up: Tail { bytes, silent: false }, down: Tail::LOST });
        sim.advance(second());
        applied.push(sim.ensemble().node("/made/one").is_some());
        assert_quiet(sim);
    }
    // With a small window, the rest is sent on the next connection.
    assert!(applied.contains(&true) && applied.contains(&false));
}

#[test]
fn a_half_open_connection_is_noticed() {
    let mut sim = connected(Options::default());
    let silent = Tail { bytes: 0, silent: true };
    sim.cut(0, Cut { up: silent, down: silent });
    let is = |sim: &Sim, state| sim.client(0).map(|client| client.state()) == Some(state);
    assert!(sim.run_until(second() * 8, |sim| is(sim, State::Suspended)));
    assert!(sim.run_until(second(), |sim| !is(sim, State::Suspended)));
    assert_quiet(sim);
}

#[test]
fn a_stalled_request_is_answered_later_and_once() {
    for direction in Direction::ALL {
        let mut sim = connected(Options::default());
        sim.stall(0, direction, second());
        sim.with(0, |now, client| client.call(now, Call::Look { path: LOCK.into() }));
        let is_answered = |sim: &Sim| sim.client(0).is_some_and(|client| client.waiting() == 0);
        assert!(!sim.run_until(second() / 2, is_answered), "{direction:?}");
        assert!(sim.run_until(second(), is_answered), "{direction:?}");
        assert_quiet(sim);
    }
}

/// Expires the session of a holder, which renews it. Returns the violations.
fn renewed_holder(bug: Option<Bug>) -> Vec<String> {
    let mut sim = connected(Options { renew: true, bug, ..Options::default() });
    sim.with(0, |now, client| client.contend(now, LOCK, LockKind::Mutex, Uuid::from_u128(7)));
    assert!(sim.run_until(second(), |sim| sim.report().acquisitions == 1));
    sim.expire(0);
    sim.advance(second() * 5);
    let is_connected = |client: &SimClient| matches!(client.state(), State::Connected { .. });
    assert!(sim.client(0).is_some_and(is_connected));
    sim.report().violations
}

#[test]
fn a_lock_ends_with_its_session_although_a_new_one_follows() {
    assert_eq!(renewed_holder(None), Vec::<String>::new());
}

#[test]
fn a_lock_held_across_sessions_is_found() {
    let found = renewed_holder(Some(Bug::KeepsLocksAcrossSessions));
    assert!(found.iter().any(|violation| violation.contains("outlives its session")), "{found:?}");
}

/// Both renew their sessions: a holder, and a contender that waits for it.
#[test]
fn locks_go_on_after_the_servers_have_lost_their_data() {
    for (seed, servers) in [(1, 1), (2, 3), (3, 3)] {
        let mut sim =
            connected(Options { seed, servers, clients: 2, renew: true, ..Options::default() });
        for client in 0..2 {
            let guid = Uuid::from_u128(client as u128);
            sim.with(client, |now, client| client.contend(now, LOCK, LockKind::Mutex, guid));
            sim.advance(second());
        }
        assert_eq!(sim.report().acquisitions, 1);
        sim.wipe();
        let is_next = |sim: &Sim| sim.report().acquisitions == 2;
        assert!(sim.run_until(second() * 30, is_next), "the contender queues again");
        assert_eq!(sim.report().violations, Vec::<String>::new());
    }
}

#[test]
fn the_lock_of_a_paused_client_goes_to_the_next() {
    let mut sim = connected(Options { clients: 2, ..Options::default() });
    for client in 0..2 {
        let guid = Uuid::from_u128(client as u128);
        sim.with(client, |now, client| client.contend(now, LOCK, LockKind::Mutex, guid));
        sim.advance(second());
    }
    assert_eq!(sim.report().acquisitions, 1);
    sim.pause(0, second() * 30);
    assert!(sim.run_until(second() * 20, |sim| sim.report().acquisitions == 2));
    sim.advance(second() * 30);
    let left = |sim: &Sim, client| sim.client(client).map(|client| client.attempts());
    assert_eq!([left(&sim, 0), left(&sim, 1)], [Some(0), Some(1)]);
    sim.crash(1, second());
    assert_quiet(sim);
}

#[test]
fn a_deleted_node_does_not_acquire_the_lock_after_its_predecessor() {
    let mut sim = connected(Options { clients: 3, ..Options::default() });
    for client in 0..2 {
        let guid = Uuid::from_u128(client as u128);
        sim.with(client, |now, client| client.contend(now, LOCK, LockKind::Mutex, guid));
        sim.advance(second());
    }
    // Both events arrive, in order, at the instant at which the second client continues.
    sim.pause(1, second());
    let lock = sim.ensemble().node(LOCK).expect("created");
    let mut nodes: Vec<_> = lock.children().map(|child| format!("{LOCK}/{child}")).collect();
    nodes.sort();
    assert_eq!(nodes.len(), 2);
    for path in nodes {
        sim.with(2, |now, client| client.call(now, Call::Delete { path }));
    }
    sim.advance(second() * 3);
    assert_eq!(sim.report().acquisitions, 1);
    let left = |client| sim.client(client).map(SimClient::attempts);
    assert_eq!([left(0), left(1)], [Some(0), Some(0)]);
    assert_quiet(sim);
}

/// Kills two of three servers, then lets these two form a quorum without the third. Returns the
/// state of the client before and after.
fn minority_and_majority(read_only: bool, bug: Option<Bug>) -> [Option<State>; 2] {
    let mut sim = Sim::new(Options { read_only, bug, ..Options::default() });
    // Before any server has answered the client.
    let [cut_off, others @ ..] = [0, 1, 2];
    sim.cut_off(cut_off);
    others.iter().for_each(|server| sim.kill(*server));
    sim.advance(second() * 3);
    let before = sim.client(0).map(SimClient::state);
    others.iter().for_each(|server| sim.restart(*server));
    sim.advance(second() * 15);
    let after = sim.client(0).map(SimClient::state);
    assert_eq!(sim.report().violations, Vec::<String>::new());
    [before, after]
}

#[test]
fn a_read_only_client_moves_from_a_minority_to_a_quorum() {
    let is_connected_elsewhere =
        |state| matches!(state, Some(State::Connected { server: 1 | 2, .. }));
    let [before, after] = minority_and_majority(true, None);
    assert!(matches!(before, Some(State::ReadOnly { server: 0, .. })), "{before:?}");
    assert!(is_connected_elsewhere(after), "{after:?}");
    // A client that rejects read-only servers waits; one that never probes stays.
    let [before, after] = minority_and_majority(false, None);
    assert_eq!(before, Some(State::Connecting));
    assert!(is_connected_elsewhere(after), "{after:?}");
    let [before, after] = minority_and_majority(true, Some(Bug::StaysReadOnly));
    assert_eq!(before, after);
}

#[test]
fn a_contender_without_its_watch_event_waits_for_ever() {
    for (bug, served) in [(None, 2), (Some(Bug::DropsEvents), 1)] {
        let mut sim = connected(Options { clients: 2, bug, ..Options::default() });
        let mut contend = |client| {
            let guid = Uuid::from_u128(client as u128);
            let attempt =
                sim.with(client, |now, client| client.contend(now, LOCK, LockKind::Mutex, guid));
            sim.advance(second());
            attempt.expect("a client")
        };
        let (first, second_attempt) = (contend(0), contend(1));
        sim.with(0, |now, client| client.release(now, first));
        sim.advance(second());
        assert_eq!(sim.report().acquisitions, served, "{bug:?}");
        sim.with(1, |now, client| {
            if served == 2 {
                client.release(now, second_attempt);
            }
        });
        sim.advance(second());
        sim.conclude();
        assert_eq!(sim.report().violations.is_empty(), served == 2, "{bug:?}");
    }
}

#[test]
fn two_holders_are_found_for_every_kind_of_lock() {
    for demand in [LockKind::Mutex, LockKind::Write, LockKind::Permits { count: 2, of: 3 }] {
        for (bug, acquired) in [(None, 1), (Some(Bug::IgnoresContenders), 2)] {
            let mut sim = connected(Options { clients: 2, bug, ..Options::default() });
            for client in 0..2 {
                let guid = Uuid::from_u128(client as u128);
                sim.with(client, |now, client| client.contend(now, LOCK, demand, guid));
                sim.advance(second());
            }
            assert_eq!(sim.report().acquisitions, acquired, "{demand:?}, {bug:?}");
            let is_found = |violation: &String| violation.contains("held by");
            assert_eq!(sim.report().violations.iter().any(is_found), bug.is_some(), "{demand:?}");
        }
    }
}
