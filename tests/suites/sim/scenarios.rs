//! Trouble by order, step by step.

use std::time::Duration;

use uuid::Uuid;
use zk_proto::CreateMode;
use zk_session::State;
use zk_testkit::sim::{Call, Cut, Options, Quirk, Sim};

const LOCK: &str = "/lock";

/// A simulation whose clients are all connected, and a directory for locks.
fn connected(options: Options) -> Sim {
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

fn second() -> Duration {
    Duration::from_secs(1)
}

fn followers(sim: &Sim) -> Vec<usize> {
    (0..3).filter(|member| sim.ensemble().leader() != Some(*member)).collect()
}

/// The creation of a lock node is lost with its connection, and the members that the client may
/// turn to lag behind the one that has applied it.
fn lost_creation_and_lagging_members(seed: u64, quirk: Option<Quirk>) -> Vec<String> {
    let mut sim = connected(Options { seed, quirk, ..Options::default() });
    let followers = followers(&sim);
    followers.iter().for_each(|member| sim.hold(*member));
    sim.with(0, |now, client| client.contend(now, LOCK, Uuid::from_u128(7)));
    let is_applied = |sim: &Sim| sim.ensemble().node(LOCK).is_some_and(|n| n.children().len() == 1);
    assert!(sim.run_until(second(), is_applied));
    sim.cut(0, Cut::AFTER_APPLIED);
    sim.advance(second());
    followers.iter().for_each(|member| sim.release(*member));
    sim.advance(second());
    sim.report().violations
}

#[test]
fn a_lost_creation_is_found_behind_a_sync() {
    for seed in 0..20 {
        assert_eq!(lost_creation_and_lagging_members(seed, None), Vec::<String>::new());
    }
}

#[test]
fn a_lost_creation_is_not_found_without_one() {
    let found = (0..20)
        .flat_map(|seed| lost_creation_and_lagging_members(seed, Some(Quirk::LooksWithoutSync)));
    assert!(found.into_iter().any(|violation| violation.contains("two nodes of one attempt")));
}
