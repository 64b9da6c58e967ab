use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use zk_session::proto::ErrorCode;

use super::*;

#[test]
fn waits_are_spread_over_a_few_session_timeouts() {
    let timeout = Duration::from_secs(6);
    for seed in 0..100 {
        let mut renewal = Renewal::new(seed);
        let waits: BTreeSet<_> = (0..500).map(|_| renewal.wait(timeout)).collect();
        assert!(waits.len() == 7, "{waits:?}");
        assert!(waits.iter().all(|wait| *wait > timeout * 2 && *wait < timeout * 6));
        // Just before a ping, which is due every two seconds.
        let before = |wait: &Duration| (*wait + BEFORE_PING).as_millis() % 2000;
        assert!(waits.iter().all(|wait| before(wait) == 0), "{waits:?}");
    }
    let first = |seed| Renewal::new(seed).wait(timeout);
    assert!((0..20).map(first).collect::<BTreeSet<_>>().len() > 3);
    assert!(Renewal::new(1).wait(Duration::MAX) <= ping_interval(Duration::MAX) * 15);
    assert_eq!(Renewal::new(1).wait(Duration::ZERO), Duration::ZERO);
}

#[test]
fn every_watch_has_its_turn() {
    let mut renewal = Renewal::new(0);
    let turns: Vec<_> = (0..6).filter_map(|_| renewal.next(3)).collect();
    assert_eq!(turns, [1, 2, 0, 1, 2, 0]);
    assert_eq!(renewal.next(0), None);
}

#[test]
fn a_reply_that_says_nothing_about_the_node_is_not_delivered() {
    for (error, is_conclusive) in [
        (Error::Server(ErrorCode::NO_NODE), true),
        (Error::Server(ErrorCode::NO_AUTH), true),
        (Error::ConnectionLost, false),
        (Error::Server(ErrorCode::THROTTLED_OP), false),
        (Error::Server(ErrorCode::SYSTEM_ERROR), false),
    ] {
        assert_eq!(Renewal::is_conclusive(&Err(error.clone())), is_conclusive, "{error}");
    }
}
