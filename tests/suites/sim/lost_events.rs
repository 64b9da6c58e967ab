//! Watch events that a server loses: waiters still acquire the lock, without additional requests.

use std::time::Duration;

use uuid::Uuid;
use zk_proto::OpCode;
use zk_testkit::sim::{AttemptId, Bug, Fault, LockKind, Options, Sim};

use super::scenarios::{LOCK, connected, second};

/// The longest time until a renewal, with the session timeouts of the simulator.
const RENEWAL: Duration = Duration::from_secs(60);

fn contend(sim: &mut Sim, client: usize, demand: LockKind) -> AttemptId {
    let guid = Uuid::from_u128(client as u128 + 1);
    let attempt = sim.with(client, |now, client| client.contend(now, LOCK, demand, guid));
    sim.advance(second());
    attempt.expect("a client")
}

/// Loses the event that wakes the second contender. Returns the number of acquisitions.
fn served(demand: LockKind, bug: Option<Bug>, seed: u64) -> u64 {
    let mut sim = connected(Options { clients: 2, seed, bug, ..Options::default() });
    let first = contend(&mut sim, 0, demand);
    contend(&mut sim, 1, demand);
    sim.inject(Fault::Swallow(1));
    sim.with(0, |now, client| client.release(now, first));
    sim.advance(second());
    assert_eq!(sim.report().acquisitions, 1, "the event is lost");
    sim.advance(RENEWAL);
    sim.report().acquisitions
}

const LOCK_KINDS: [LockKind; 3] =
    [LockKind::Mutex, LockKind::Write, LockKind::Permits { count: 2, of: 3 }];

#[test]
fn a_waiter_whose_event_is_lost_still_acquires() {
    for demand in LOCK_KINDS {
        for seed in 0..5 {
            assert_eq!(served(demand, None, seed), 2, "{demand:?}");
            assert_eq!(served(demand, Some(Bug::NeverRenewsWatches), seed), 1, "{demand:?}");
        }
    }
}

/// Returns the numbers of requests of a holder and of a waiter in 1000 idle seconds: all requests,
/// and those other than pings.
fn requests(demand: LockKind, bug: Option<Bug>) -> [(u64, u64); 2] {
    let mut sim = connected(Options { clients: 2, bug, ..Options::default() });
    for client in 0..2 {
        contend(&mut sim, client, demand);
    }
    let counts = |sim: &Sim| {
        [0, 1].map(|client| {
            let session = sim.client(client).expect("the session is alive").id();
            let counters = sim.ensemble().session_counters(session).expect("a session");
            (counters.all_requests(), counters.all_requests() - counters.requests(OpCode::PING))
        })
    };
    let before = counts(&sim);
    sim.advance(Duration::from_secs(1000));
    let after = counts(&sim);
    [0, 1].map(|client| {
        let ((all, others), (all_before, others_before)) = (after[client], before[client]);
        (all - all_before, others - others_before)
    })
}

#[test]
fn renewals_replace_pings_and_cost_no_request() {
    for demand in LOCK_KINDS {
        let renewing = requests(demand, None);
        let pinging = requests(demand, Some(Bug::NeverRenewsWatches));
        println!("{demand:?}: {renewing:?} requests with renewals, {pinging:?} without");
        for ((all, renewals), (pings, others)) in renewing.into_iter().zip(pinging) {
            assert_eq!(others, 0, "{demand:?}");
            assert!(renewals > 10, "{demand:?}: {renewals}");
            assert!(all <= pings, "{demand:?}: {all} instead of {pings}");
        }
    }
}

#[test]
fn the_renewals_of_many_waiters_are_spread_out() {
    let mut sim = connected(Options { clients: 20, ..Options::default() });
    for client in 0..20 {
        contend(&mut sim, client, LockKind::Mutex);
    }
    sim.advance(RENEWAL);
    let lists = |sim: &Sim| sim.ensemble().counters().requests(OpCode::GET_CHILDREN);
    let most = (0..60).map(|_| {
        let before = lists(&sim);
        sim.advance(second());
        lists(&sim) - before
    });
    let most = most.max().unwrap_or_default();
    assert!((1..10).contains(&most), "{most} of 20 in one second");
}
