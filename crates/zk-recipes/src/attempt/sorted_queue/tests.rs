use alloc::format;

use uuid::Uuid;
use zk_session::proto::SessionId;

use super::*;
use crate::attempt::UnknownNodePolicy;
use crate::attempt::queue::Observation;

const SCHEME: Scheme = Scheme::CURATOR_MUTEX;

fn name(guid: u128, number: u32) -> String {
    let guid = Uuid::from_u128(guid << 96);
    format!("{}{number:010}", SCHEME.prefix(LockMode::Exclusive, guid, SessionId(1)))
}

fn reader(guid: u128) -> QueueReader {
    let (mode, guid) = (LockMode::Exclusive, Uuid::from_u128(guid << 96));
    QueueReader { scheme: SCHEME, unknown_nodes: UnknownNodePolicy::default(), mode, guid }
}

fn sorted(names: &[String]) -> Option<SortedQueue> {
    SortedQueue::new(SCHEME, names.iter().map(String::as_str))
}

/// GUIDs and numbers in different orders.
fn names() -> Vec<String> {
    (0..100).map(|n| name(n.into(), n * 37 % 100)).collect()
}

#[test]
fn every_attempt_finds_the_place_that_it_would_find_alone() {
    let names = names();
    let queue = sorted(&names).expect("exclusive contenders only");
    for (guid, own) in (0..).zip(&names) {
        let mut seen = Observation::default();
        reader(guid).observe(own, names.iter().map(String::as_str), &mut seen);
        assert_eq!(queue.position(&reader(guid), own), Some(seen.position()), "{own}");
    }
}

#[test]
fn what_is_not_plain_is_left_to_each_attempt() {
    let mut names = names();
    let queue = sorted(&names).expect("exclusive contenders only");
    assert_eq!(queue.position(&reader(200), &name(200, 200)), None, "absent");
    assert_eq!(queue.position(&reader(200), &name(200, 7)), None, "another has the number");
    let other = QueueReader { scheme: Scheme::GO_ZK, ..reader(3) };
    assert_eq!(queue.position(&other, &names[3]), None, "another scheme");

    names.push(name(3, 200));
    let queue = sorted(&names).expect("exclusive contenders only");
    assert_eq!(queue.position(&reader(3), &names[3]), None, "two nodes of one attempt");
    assert!(queue.position(&reader(4), &names[4]).is_some());
    for odd in [name(300, 5), "lease_holder".into(), name(300, 2_147_483_647)] {
        names.push(odd);
        assert!(sorted(&names).is_none(), "{names:?}");
        names.pop();
    }
    assert!(sorted(&names[..3]).is_none(), "it is not worth it");
}
