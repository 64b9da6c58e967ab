//! Runs of outages of all servers, and of slow connections.
//!
//! An outage that ends early enough before the lease must cost no session and no lock.
//! `docs/timing.md` says how early.

use uuid::Uuid;
use zk_proto::CreateMode;

use super::*;

const CLIENTS: usize = 4;
const SHARED: &str = "/shared";
/// The locks that are held: one by each client, and one of all.
const HELD: u64 = CLIENTS as u64 + 1;
/// Two round trips with slow pieces.
const RECONNECT: Duration = Duration::from_millis(400);

/// Runs outages of every kind and length that end early enough.
pub fn outages(seed: u64, bug: Option<Bug>) -> Report {
    let mut sim = holders(Options { seed, clients: CLIENTS, bug, ..Options::default() });
    let mut rng = fastrand::Rng::with_seed(seed);
    let all = Outage::ALL.into_iter().zip(rare::OF_OUTAGES);
    for (outage, name) in all.cycle().take(9) {
        sim.advance(Duration::from_secs(10) + Duration::from_secs(4).mul_f64(rng.f64()));
        let longest = |client| {
            let client = sim.client(client)?;
            let left = client.lease()?.checked_sub(sim.now())?;
            left.checked_sub(client.session_timeout() / 20 + RECONNECT)
        };
        let Some(longest) = (0..CLIENTS).map(longest).min().flatten() else {
            sim.checker.violated(format!("a lease is short before {outage:?}"));
            break;
        };
        // Prefer long outages, which are harder.
        let time = longest.mul_f64(1.0 - rng.f64() * rng.f64());
        let kept = sim.outage(outage, time, RECONNECT);
        sim.advance(time);
        let is_over = sim.run_until(Duration::from_secs(20), all_are_connected);
        if kept < CLIENTS || !is_over {
            sim.checker.violated(format!("{kept} leases outlast {outage:?}; over: {is_over}"));
        }
        sim.checker.count(name);
        if !sim.checker.violations().is_empty() {
            break;
        }
    }
    let mut report = sim.report();
    if report.acquisitions != HELD && report.violations.is_empty() {
        report.violations.push("a lock was acquired after an outage".to_owned());
    }
    report
}

/// Holds locks over slow connections. Returns how often clients have connected again.
///
/// # Panics
///
/// If a lock is lost although no client has connected again.
pub fn reconnections(slowness: u64, bug: Option<Bug>) -> u64 {
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

fn own(client: usize) -> String {
    format!("/own-{client}")
}

fn all_are_connected(sim: &Sim) -> bool {
    let is_connected =
        |client| sim.client(client).is_some_and(|it| matches!(it.state(), State::Connected { .. }));
    (0..CLIENTS).all(is_connected)
}

/// Creates clients that each hold a lock and contend for a shared one.
fn holders(options: Options) -> Sim {
    let mut sim = Sim::new(options);
    sim.run_until(Duration::from_secs(100), all_are_connected);
    for path in (0..CLIENTS).map(own).chain([SHARED.to_owned()]) {
        let call = Call::Create { path, mode: CreateMode::PERSISTENT };
        sim.with(0, |now, client| client.call(now, call));
    }
    sim.advance(Duration::from_secs(10));
    for client in 0..CLIENTS {
        for directory in [&own(client), SHARED] {
            let guid = Uuid::from_u128(sim.now().as_nanos() + client as u128);
            sim.with(client, |now, it| it.contend(now, directory, LockKind::Mutex, guid));
            sim.advance(Duration::from_millis(1));
        }
    }
    sim.advance(Duration::from_secs(10));
    let acquisitions = sim.report().acquisitions;
    if acquisitions != HELD {
        sim.checker.violated(format!("{acquisitions} locks are held before the first outage"));
    }
    sim
}
