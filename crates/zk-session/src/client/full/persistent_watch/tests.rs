use zk_proto::{EventType, Zxid};

use super::*;

fn event(path: &str) -> WatchedEvent {
    let event_type = EventType::NODE_CREATED;
    WatchedEvent { event_type, path: path.into(), zxid: Zxid(1) }
}

#[test]
fn events_that_do_not_fit_become_one_gap() {
    let mut queue = WatchQueue::new(2);
    for path in ["/1", "/2", "/3", "/4"] {
        queue.push_event(event(path));
    }
    queue.push_gap();
    let reported = |path| Some(Ok(WatchUpdate::Event(event(path))));
    assert_eq!(queue.next(), reported("/1"));
    assert_eq!(queue.next(), reported("/2"));
    queue.push_event(event("/5"));
    assert_eq!(queue.next(), Some(Ok(WatchUpdate::Gap)));
    assert_eq!(queue.next(), reported("/5"));
    assert_eq!(queue.next(), None);
}

#[test]
fn a_full_queue_that_is_never_read_stays_within_its_bound() {
    let mut queue = WatchQueue::new(3);
    for _ in 0..1000 {
        queue.push_event(event("/"));
        queue.push_gap();
    }
    assert!(queue.updates.len() <= 4, "{}", queue.updates.len());
}

#[test]
fn the_end_comes_after_all_updates_and_stays() {
    let mut queue = WatchQueue::new(1);
    queue.push_event(event("/"));
    queue.end(Error::ConnectionLost);
    queue.end(Error::NoConnection);
    assert_eq!(queue.next(), Some(Ok(WatchUpdate::Event(event("/")))));
    assert_eq!(queue.next(), Some(Err(Error::ConnectionLost)));
    assert_eq!(queue.next(), Some(Err(Error::ConnectionLost)));
}
