//! Watch events that a server loses: those who wait find out all the same, and for nothing.

use std::time::Duration;

use uuid::Uuid;
use zk_proto::OpCode;
use zk_testkit::sim::{AttemptId, Demand, Fault, Options, Quirk, Sim};

use super::scenarios::{LOCK, connected, second};

/// Renewals come at the latest after this time, with the session timeout that the simulator has.
const SOON: Duration = Duration::from_secs(60);

fn contend(sim: &mut Sim, client: usize, demand: Demand) -> AttemptId {
    let guid = Uuid::from_u128(client as u128 + 1);
    let attempt = sim.with(client, |now, client| client.contend(now, LOCK, demand, guid));
    sim.advance(second());
    attempt.expect("there is a client")
}

/// The second in the queue is not told that the first has gone. How many have had the lock.
fn served(demand: Demand, quirk: Option<Quirk>, seed: u64) -> u64 {
    let mut sim = connected(Options { clients: 2, seed, quirk, ..Options::default() });
    let first = contend(&mut sim, 0, demand);
    contend(&mut sim, 1, demand);
    sim.inject(Fault::Swallow(1));
    sim.with(0, |now, client| client.let_go(now, first));
    sim.advance(second());
    assert_eq!(sim.report().acquisitions, 1, "its event is lost");
    sim.advance(SOON);
    sim.report().acquisitions
}

const DEMANDS: [Demand; 3] = [Demand::Mutex, Demand::Write, Demand::Permits { count: 2, of: 3 }];

#[test]
fn a_waiter_whose_event_is_lost_is_served_all_the_same() {
    for demand in DEMANDS {
        for seed in 0..5 {
            assert_eq!(served(demand, None, seed), 2, "{demand:?}");
            assert_eq!(served(demand, Some(Quirk::NeverRenews), seed), 1, "{demand:?}");
        }
    }
}

/// How many requests a holder and a waiter send in a thousand seconds in which nothing happens, and how
/// many of those are not pings.
fn requests(demand: Demand, quirk: Option<Quirk>) -> [(u64, u64); 2] {
    let mut sim = connected(Options { clients: 2, quirk, ..Options::default() });
    for client in 0..2 {
        contend(&mut sim, client, demand);
    }
    let counts = |sim: &Sim| {
        [0, 1].map(|client| {
            let session = sim.client(client).expect("it lives").id();
            let counters = sim.ensemble().session_counters(session).expect("it has sent something");
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
fn renewals_take_the_place_of_pings_and_cost_no_request() {
    for demand in DEMANDS {
        let renewing = requests(demand, None);
        let pinging = requests(demand, Some(Quirk::NeverRenews));
        println!("{demand:?}: {renewing:?} requests with renewals, {pinging:?} without");
        for ((all, renewals), (pings, others)) in renewing.into_iter().zip(pinging) {
            assert_eq!(others, 0, "{demand:?}");
            assert!(renewals > 10, "{demand:?}: {renewals}");
            assert!(all <= pings, "{demand:?}: {all} instead of {pings}");
        }
    }
}

#[test]
fn the_renewals_of_many_waiters_do_not_come_together() {
    let mut sim = connected(Options { clients: 20, ..Options::default() });
    for client in 0..20 {
        contend(&mut sim, client, Demand::Mutex);
    }
    sim.advance(SOON);
    let lists = |sim: &Sim| sim.ensemble().counters().requests(OpCode::GET_CHILDREN);
    let most = (0..60).map(|_| {
        let before = lists(&sim);
        sim.advance(second());
        lists(&sim) - before
    });
    let most = most.max().unwrap_or_default();
    assert!((1..10).contains(&most), "{most} of 20 in one second");
}
