//! Requests that refuse other locks at the path of the semaphore.

use alloc::format;
use alloc::string::String;

use uuid::Uuid;
use zk_session::proto::ErrorCode;

use super::super::super::tests::{SESSION, lost, ok, refused};
use super::harness::{Harness, children, created, maximum};
use crate::attempt::{LockMode, Scheme};
use crate::error::LockError;
use crate::tests::Input;

fn harness() -> Harness {
    Harness::of(|request| request.refuses_other_locks = true)
}

/// First in the queue.
fn asking(h: Harness) -> Harness {
    let mut h = h.queueing();
    h.answer("list locks", children(&["locks/own-7"]));
    h.expect(&["timer", "watch max"]);
    h
}

/// The semaphore exists.
fn counting() -> Harness {
    let mut h = asking(harness());
    h.answer("watch max", maximum(3));
    h.expect(&["create 2 leases", "watch leases"]);
    h.answer("create 2 leases", created(&[3, 4]));
    h.expect(&["timer", "timer"]);
    h
}

fn free(h: &mut Harness) {
    h.answer("watch leases", children(&["leases/own-3", "leases/own-4"]));
}

fn refusal() -> String {
    let scheme = Scheme::CURATOR_MUTEX;
    let node = scheme.prefix(LockMode::Exclusive, Uuid::from_u128(9), SESSION);
    let why = LockError::OtherLock { node: format!("{node}0000000002"), scheme: scheme.into() };
    format!("Failed: {why:?}")
}

const ACQUIRED: [&str; 5] = [
    "unwatch leases",
    "unwatch max",
    "Permits leases/own-3 leases/own-4",
    "Acquired leases/own-3 token 100",
    "delete locks/own-7",
];

#[test]
fn a_semaphore_is_created_only_where_there_is_no_other_lock() {
    let mut h = asking(harness());
    h.answer("watch max", refused(ErrorCode::NO_NODE));
    h.expect(&["unwatch max", "list sem"]);
    h.answer("list sem", children(&["locks/9-2"]));
    h.expect(&[&refusal(), "delete locks/own-7"]);
    h.answer("delete locks/own-7", ok());
    h.expect_last(&[]);

    let mut h = asking(harness());
    h.answer("watch max", refused(ErrorCode::NO_NODE));
    h.expect(&["unwatch max", "list sem"]);
    h.answer("list sem", lost());
    h.expect(&["list sem"]);
    h.answer("list sem", children(&[]));
    h.expect(&["create max Some([0, 0, 0, 3])"]);
    h.answer("create max Some([0, 0, 0, 3])", ok());
    h.expect(&["watch max"]);
    h.answer("watch max", maximum(3));
    h.expect(&["create 2 leases", "watch leases"]);
    h.answer("create 2 leases", created(&[3, 4]));
    h.expect(&["timer", "timer"]);
    // The one list is enough.
    free(&mut h);
    h.expect(&ACQUIRED);
}

#[test]
fn a_request_for_an_existing_semaphore_that_finds_none_says_so_if_there_is_no_other_lock() {
    let mut h = asking(Harness::of(|request| {
        (request.refuses_other_locks, request.maximum) = (true, None);
    }));
    h.answer("watch max", refused(ErrorCode::NO_NODE));
    h.expect(&["unwatch max", "list sem"]);
    h.answer("list sem", children(&[]));
    h.expect(&["Refused: NoMaximum", "delete locks/own-7"]);
}

#[test]
fn permits_are_granted_only_where_there_is_no_other_lock() {
    let mut h = counting();
    free(&mut h);
    h.expect(&["list sem"]);
    h.answer("list sem", children(&[]));
    h.expect(&ACQUIRED);

    let mut h = counting();
    free(&mut h);
    h.expect(&["list sem"]);
    h.answer("list sem", children(&["locks/9-2"]));
    assert_eq!(h.wanted()[0], refusal());
}

#[test]
fn a_request_that_has_waited_looks_for_other_locks_afterwards() {
    let mut h = counting();
    h.full("watch leases");
    h.expect(&["Waiting behind leases"]);
    h.leases_change();
    h.expect(&["watch leases"]);
    free(&mut h);
    h.expect(&["list sem"]);
    // A permit is taken meanwhile: another look will be needed.
    h.leases_change();
    h.expect(&["watch leases"]);
    h.full("watch leases");
    h.expect(&[]);
    h.answer("list sem", children(&[]));
    h.expect(&[]);
    h.leases_change();
    h.expect(&["watch leases"]);
    free(&mut h);
    h.expect(&["list sem"]);
    h.answer("list sem", children(&["locks/9-2"]));
    assert_eq!(h.wanted()[0], refusal());
}

#[test]
fn a_look_for_other_locks_that_is_refused_for_now_is_repeated() {
    let mut h = counting();
    free(&mut h);
    h.expect(&["list sem"]);
    h.answer("list sem", refused(ErrorCode::THROTTLED_OP));
    h.expect(&["timer"]);
    h.feed(Input::Timer);
    assert!(h.wanted().contains(&"list sem".into()));
    h.answer("list sem", children(&[]));
    h.expect(&ACQUIRED);
}
