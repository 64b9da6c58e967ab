//! Many watches on one path. The cost is counted as the number of visited entries.

use alloc::format;

use super::*;

/// Counts the visited entries of shared watches.
pub(in crate::session) mod visits {
    use core::cell::Cell;

    std::thread_local!(static VISITS: Cell<usize> = const { Cell::new(0) });

    pub(in crate::session) fn count() {
        VISITS.set(VISITS.get() + 1);
    }

    /// Returns the count of this thread since the last call.
    pub(super) fn take() -> usize {
        VISITS.take()
    }
}

const FEW: usize = 1_000;
const MANY: usize = 4 * FEW;

/// The order in which `n` watches are dropped.
type Order = fn(usize) -> Vec<usize>;

const ORDERS: [Order; 3] = [
    |n| (0..n).collect(),
    |n| (0..n).rev().collect(),
    |n| (0..n).map(|at| at * 7 % n).collect(), // of 1000 and 4000, 7 divides neither
];

/// Four times as many may cost four times as much, and a little more for the search.
fn is_linear(what: &str, cost: impl Fn(usize) -> usize) {
    let (few, many) = (cost(FEW), cost(MANY));
    assert!(few > FEW && many < 5 * few, "{what}: {FEW} cost {few}, {MANY} cost {many}");
}

fn path(n: usize) -> Request<'static> {
    if n.is_multiple_of(2) { get_data("/a") } else { exists("/a") }
}

fn asked(n: usize) -> (Harness, Vec<RequestId>) {
    let mut h = Harness::connected();
    let ids = (0..n).map(|n| h.submit(&path(n), 0)).collect();
    h.take_all();
    visits::take();
    (h, ids)
}

fn set(n: usize) -> (Harness, Vec<RequestId>) {
    let (mut h, ids) = asked(n);
    h.answer_all();
    h.events();
    (h, ids)
}

#[test]
fn setting_many_watches_on_one_path_is_linear() {
    is_linear("set", |n| {
        set(n);
        visits::take()
    });
}

#[test]
fn dropping_many_watches_on_one_path_is_linear_in_any_order() {
    for order in ORDERS {
        is_linear("dropped", |n| {
            let (mut h, ids) = set(n);
            order(n).into_iter().for_each(|at| h.session.unwatch(ids[at]));
            assert_eq!(h.sent().len(), 1, "one removal for all");
            assert!(h.session.watches.is_empty());
            visits::take()
        });
    }
}

#[test]
fn dropping_many_watches_in_flight_is_linear_in_any_order() {
    for order in ORDERS {
        is_linear("dropped, then answered", |n| {
            let (mut h, ids) = asked(n);
            order(n).into_iter().for_each(|at| h.session.unwatch(ids[at]));
            h.answer_all();
            assert!(h.session.watches.is_empty());
            visits::take()
        });
    }
}

#[test]
fn dropping_each_watch_right_after_its_request_is_linear() {
    is_linear("asked and dropped", |n| {
        let mut h = Harness::connected();
        for n in 0..n {
            let id = h.submit(&path(n), 0);
            h.session.unwatch(id);
        }
        h.answer_all();
        assert!(h.session.watches.is_empty());
        visits::take()
    });
}

#[test]
fn firing_many_watches_on_one_path_is_linear_whatever_is_in_flight() {
    is_linear("fired at once", |n| {
        let (mut h, ids) = set(n);
        h.notify(EventType::NODE_DATA_CHANGED, "/a");
        assert_eq!(h.fired()[0].0, ids);
        visits::take()
    });
    is_linear("fired one by one", |n| {
        let (mut h, ids) = asked(n);
        for (sent, id) in h.sent().into_iter().zip(ids) {
            h.reply(sent.xid.0, 1, ErrorCode::OK);
            h.notify(EventType::NODE_DATA_CHANGED, "/a");
            assert_eq!(h.fired()[0].0, [id]);
        }
        assert!(h.session.watches.is_empty());
        visits::take()
    });
}

#[test]
fn losing_many_watches_with_the_connection_is_linear() {
    is_linear("lost", |n| {
        let (mut h, _) = asked(n);
        h.disconnect();
        h.connect();
        assert!(h.session.watches.is_empty());
        visits::take()
    });
}

#[test]
fn work_on_many_paths_is_linear() {
    let paths = |n| (0..n).map(|n| format!("/locks/{n}/contender-{n:010}")).collect::<Vec<_>>();
    let set = |n| {
        let mut h = Harness::connected();
        let requests = paths(n);
        let ids: Vec<_> = requests.iter().map(|path| h.submit(&get_data(path), 0)).collect();
        h.answer_all();
        h.events();
        visits::take();
        (h, ids)
    };
    // Short names differ only in their last bytes.
    is_linear("requested", |n| {
        let mut h = Harness::connected();
        visits::take();
        for n in 0..n {
            h.submit(&get_data(&format!("/{n}")), 0);
        }
        visits::take()
    });
    is_linear("fired", |n| {
        let (mut h, ids) = set(n);
        for (path, id) in paths(n).iter().zip(ids) {
            h.notify(EventType::NODE_DELETED, path);
            assert_eq!(h.fired()[0].0, [id]);
        }
        assert!(h.session.watches.is_empty());
        visits::take()
    });
    is_linear("dropped, and set again", |n| {
        let (mut h, ids) = set(n);
        for (path, id) in paths(n).iter().zip(ids) {
            h.session.unwatch(id);
            h.submit(&get_data(path), 0);
        }
        visits::take()
    });
}

#[test]
fn the_id_of_a_watch_that_is_over_drops_no_later_one() {
    let mut h = Harness::connected();
    let first = h.watch(&get_data("/a"), ErrorCode::OK);
    h.notify(EventType::NODE_DELETED, "/a");
    assert_eq!(h.fired()[0].0, [first]);
    let second = h.watch(&get_data("/b"), ErrorCode::OK);
    assert_eq!(first.place, second.place, "the place is reused");
    h.session.unwatch(first);
    h.notify(EventType::NODE_DELETED, "/b");
    assert_eq!(h.fired()[0].0, [second]);
}

/// Entries of dropped watches are freed in time, also between others.
#[test]
fn dropped_watches_free_their_memory() {
    let (mut h, ids) = set(FEW);
    let (first, rest) = ids.split_first().expect("there are some");
    let (last, between) = rest.split_last().expect("there are some");
    between.iter().for_each(|id| h.session.unwatch(*id));
    visits::take();
    h.notify(EventType::NODE_DATA_CHANGED, "/a");
    assert_eq!(h.fired()[0].0, [*first, *last]);
    assert!(visits::take() < 20);
}
