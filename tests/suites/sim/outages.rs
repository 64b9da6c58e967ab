//! Outages of all servers, and slow connections.
//!
//! An outage that ends early enough before the lease must cost no session and no lock.
//! `docs/timing.md` says how early.

use std::time::Duration;

use uuid::Uuid;
use zk_proto::CreateMode;
use zk_session::State;
use zk_testkit::sim::{Bug, Call, LockKind, Options, Outage, Sim};

const CLIENTS: usize = 4;
const SHARED: &str = "/shared";
/// Two round trips with slow pieces.
const RECONNECT: Duration = Duration::from_millis(400);

fn own(client: usize) -> String {
    format!("/own-{client}")
}

fn all_are_connected(sim: &Sim) -> bool {
    (0..CLIENTS).all(|client| {
        matches!(sim.client(client).map(|it| it.state()), Some(State::Connected { .. }))
    })
}

/// Creates clients that each hold a lock and contend for a shared one.
fn holders(options: Options) -> Sim {
    let mut sim = Sim::new(options);
    assert!(sim.run_until(Duration::from_secs(100), all_are_connected));
    for path in (0..CLIENTS).map(own).chain([SHARED.to_owned()]) {
        let call = Call::Create { path, mode: CreateMode::PERSISTENT };
        sim.with(0, |now, client| client.call(now, call));
    }
    sim.advance(Duration::from_secs(10));
    for client in 0..CLIENTS {
        for directory in [&own(client), SHARED] {
            let guid = Uuid::from_u128(sim.now().as_nanos() + client as u128);
            let contend = |now, it: &mut zk_testkit::sim::SimClient| {
                it.contend(now, directory, LockKind::Mutex, guid);
            };
            sim.with(client, contend);
            sim.advance(Duration::from_millis(1));
        }
    }
    sim.advance(Duration::from_secs(10));
    assert_eq!(sim.report().acquisitions, CLIENTS as u64 + 1);
    sim
}

/// Runs outages of every kind and length that end early enough. Returns the violations.
pub(crate) fn outages(seed: u64, bug: Option<Bug>) -> Vec<String> {
    let mut sim = holders(Options { seed, clients: CLIENTS, bug, ..Options::default() });
    let mut rng = fastrand::Rng::with_seed(seed);
    for outage in [Outage::ALL; 3].into_iter().flatten() {
        sim.advance(Duration::from_secs(10) + Duration::from_secs(4).mul_f64(rng.f64()));
        let longest = |client| {
            let client = sim.client(client)?;
            let left = client.lease()?.checked_sub(sim.now())?;
            left.checked_sub(client.session_timeout() / 20 + RECONNECT)
        };
        let Some(longest) = (0..CLIENTS).map(longest).min().flatten() else {
            return [sim.report().violations, vec![format!("a lease is short before {outage:?}")]]
                .concat();
        };
        // Prefer long outages, which are harder.
        let time = longest.mul_f64(1.0 - rng.f64() * rng.f64());
        assert_eq!(sim.outage(outage, time, RECONNECT), CLIENTS);
        sim.advance(time);
        sim.run_until(Duration::from_secs(20), all_are_connected);
        let violations = sim.report().violations;
        if !violations.is_empty() {
            return violations;
        }
        assert!(all_are_connected(&sim), "{outage:?}");
    }
    assert_eq!(
        sim.report().acquisitions,
        CLIENTS as u64 + 1,
        "no lock was acquired after the outage"
    );
    Vec::new()
}

#[test]
fn an_outage_that_ends_before_the_lease_costs_neither_session_nor_lock() {
    for seed in 0..50 {
        assert_eq!(outages(seed, None), Vec::<String>::new(), "seed {seed}");
    }
}

/// Holds locks over slow connections. Returns how often clients have connected again.
pub(crate) fn reconnections(slowness: u64, bug: Option<Bug>) -> u64 {
    let latency = Duration::from_millis(80 * slowness);
    let options = Options { seed: slowness, clients: CLIENTS, latency, bug, ..Options::default() };
    let mut sim = holders(options);
    let connections = |sim: &Sim| sim.report().counts["connections"];
    let before = connections(&sim);
    sim.advance(Duration::from_secs(600));
    let again = connections(&sim) - before;
    let keeps = |client| sim.client(client).is_some_and(|it| it.attempts() == 2);
    assert!(again > 0 || (0..CLIENTS).all(keeps), "{latency:?}: a lock was lost");
    again
}

#[test]
fn locks_stay_held_over_a_slow_connection() {
    // A round trip takes up to 0.45 of the shortest session timeout.
    for slowness in 1..=10 {
        assert_eq!(reconnections(slowness, None), 0, "{slowness}");
    }
}
