use alloc::format;
use alloc::string::String;

use uuid::Uuid;
use zk_session::proto::SessionId;

use super::*;

#[test]
fn the_queue_order_shows_which_node_each_contender_waits_for() {
    const SCHEME: Scheme = Scheme::CURATOR_READ_WRITE;
    let queue = "RRWRRWWRWRR".bytes().zip(0..);
    let mode = |role| if role == b'W' { LockMode::Exclusive } else { LockMode::Shared };
    let name = |(role, n): (u8, u32)| {
        let guid = Uuid::from_u128(20 - u128::from(n));
        format!("{}{n:010}", SCHEME.prefix(mode(role), guid, SessionId(1)))
    };
    let names: Vec<_> = queue.map(name).collect();
    let children = names.iter().rev().map(String::as_str).chain(["junk"]);
    let queued = queue_order(SCHEME, children);
    assert!(queued.iter().map(|place| place.name.child).eq(&names));
    let index_of = |child| names.iter().position(|name| name == child);
    let waits_for: Vec<_> = queued.iter().map(|place| place.waits_for.and_then(index_of)).collect();
    let expected = [-1, -1, 1, 2, 2, 4, 5, 6, 7, 8, 8].map(|n| usize::try_from(n).ok());
    assert_eq!(waits_for, expected);
}
