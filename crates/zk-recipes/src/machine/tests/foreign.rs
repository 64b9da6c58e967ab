//! Nodes in the lock's directory that are no contenders'.

use super::*;

fn enqueued(foreign: Foreign) -> Harness {
    let mut h = Harness::of(|contest| contest.foreign = foreign);
    h.created(7);
    h.expect(&["create", "list", "Enqueued own-7 token 107"]);
    h
}

#[test]
fn they_are_passed_over_and_told_of_once() {
    let mut h = enqueued(Foreign::Ignore);
    h.answer("list", children(&["a-5", "b-6", "0000000001", "own-7"]));
    h.expect(&["Foreign(\"0000000001\")", "Waiting behind b-6, 2 ahead", "watch b-6"]);
    h.answer("watch b-6", ok());
    h.deleted("watch b-6");
    h.expect(&["unwatch b-6", "list"]);
    h.answer("list", children(&["another", "own-7"]));
    h.expect(&["Acquired own-7 token 107", "timer"]);
}

#[test]
fn they_keep_out_whoever_refuses_them() {
    let mut h = enqueued(Foreign::Refuse);
    h.answer("list", children(&["own-7", "lease_holder"]));
    h.expect(&["Failed: foreign lease_holder", "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&[]);

    let mut h = enqueued(Foreign::Refuse);
    h.answer("list", children(&["own-7", "a-8"]));
    h.expect(&["Acquired own-7 token 107", "timer"]);
}

#[test]
fn they_are_waited_for_where_they_count() {
    let mut h = enqueued(Foreign::Count);
    h.answer("list", children(&["0000000001", "own-7"]));
    // Without the shortcut: whatever comes next may sort before us as well.
    h.expect(&[
        "Foreign(\"0000000001\")",
        "Waiting behind 0000000001, 1 ahead",
        "watch 0000000001",
    ]);
    h.answer("watch 0000000001", ok());
    h.deleted("watch 0000000001");
    h.expect(&["unwatch 0000000001", "list"]);
    h.answer("list", children(&["own-7", "lease_holder"]));
    h.expect(&["Acquired own-7 token 107", "timer"]);
}

#[test]
fn one_that_counts_but_would_not_block_does_not_make_a_lock_busy() {
    let mut h = Harness::of(|contest| {
        (contest.foreign, contest.entry) = (Foreign::Count, Entry::OnlyIfFree);
    });
    h.answer("list", children(&["lease_holder"]));
    h.expect(&["list", "create", "list"]);
    h.created(7);
    h.answer("list", children(&["lease_holder", "own-7"]));
    assert_eq!(h.wanted()[2], "Acquired own-7 token 107");
}

#[test]
fn names_without_a_place_for_readers_make_everybody_exclusive() {
    let mut h = Harness::of(|contest| contest.claim = Claim::Shared);
    h.disconnect();
    h.reconnect();
    h.expect(&["create", "list", "sync", "list"]);
    h.answer("sync", ok());
    h.answer("list", children(&["a-5", "own-7"]));
    h.expect(&["stat own-7"]);
}
