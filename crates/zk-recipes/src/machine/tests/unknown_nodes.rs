//! Nodes in the lock path that are no contenders'.

use super::*;

fn enqueued(unknown_nodes: UnknownNodePolicy) -> Harness {
    let mut h = Harness::of(|config| config.unknown_nodes = unknown_nodes);
    h.created(7);
    h.expect(&["create", "list", "Enqueued own-7 token 107"]);
    h
}

#[test]
fn they_are_passed_over_and_told_of_once() {
    let mut h = enqueued(UnknownNodePolicy::Ignore);
    h.answer("list", children(&["a-5", "b-6", "0000000001", "own-7"]));
    h.expect(&["UnknownNode(\"0000000001\")", "Waiting behind b-6, 2 ahead", "watch b-6"]);
    h.answer("watch b-6", ok());
    h.deleted("watch b-6");
    h.expect(&["unwatch b-6", "list"]);
    h.answer("list", children(&["another", "own-7"]));
    h.expect(&["Acquired own-7 token 107", "timer"]);
}

/// A reader's or writer's node of Curator's read/write lock, kazoo's, and so on.
fn of_other_locks() -> Vec<(String, Scheme)> {
    let others = [
        (READ_WRITE, LockMode::Shared),
        (READ_WRITE, LockMode::Exclusive),
        (Scheme::CURATOR_LEADER, LockMode::Exclusive),
        (Scheme::CURATOR_LEASE, LockMode::Exclusive),
        (Scheme::KAZOO_READ_WRITE, LockMode::Exclusive),
        (Scheme::KAZOO_READ_WRITE, LockMode::Shared),
        (Scheme::ZOOKEEPER_RECIPE, LockMode::Exclusive),
    ];
    let name = |(scheme, mode): (Scheme, LockMode)| {
        let prefix = scheme.prefix(mode, Uuid::from_u128(9), SESSION);
        (format!("{prefix}0000000005"), scheme)
    };
    others.map(name).into()
}

/// The directory holds our node and this one, and one that belongs to nobody known.
fn list_beside(own: Option<&str>, other: &str) -> Result<Reply, Error> {
    let own = own.map(name);
    let names: Vec<_> = own.as_deref().into_iter().chain(["lease_holder", other]).collect();
    reply(OpCode::GET_CHILDREN, &GetChildrenResponse { children: names[..].into() })
}

fn refused_for(other: &str, scheme: Scheme) -> String {
    format!("Failed: {:?}", LockError::OtherLock { node: other.to_string(), scheme: scheme.into() })
}

#[test]
fn contenders_of_another_kind_of_lock_are_refused_unless_they_are_ignored_or_count() {
    for (other, scheme) in of_other_locks() {
        for foreign in [UnknownNodePolicy::default(), UnknownNodePolicy::Refuse] {
            let mut h = enqueued(foreign);
            h.answer("list", list_beside(Some("own-7"), &other));
            h.expect(&[&refused_for(&other, scheme), "delete own-7"]);
            h.answer("delete own-7", ok());
            h.expect_last(&[]);
        }
        let mut h = enqueued(UnknownNodePolicy::Ignore);
        h.answer("list", list_beside(Some("own-7"), &other));
        assert_eq!(h.wanted()[1], "Acquired own-7 token 107");
        let mut h = enqueued(UnknownNodePolicy::Count);
        h.answer("list", list_beside(Some("own-7"), &other));
        // Where it sorts as text.
        assert!(!h.wanted()[1].starts_with("Failed"), "{other}");
    }
}

#[test]
fn one_that_comes_while_we_wait_is_seen_in_the_next_list() {
    let mut h = Harness::third();
    h.deleted("watch b-6");
    h.expect(&["unwatch b-6", "list"]);
    let (other, scheme) = of_other_locks().remove(0);
    h.answer("list", list_beside(Some("own-7"), &other));
    h.expect(&[&refused_for(&other, scheme), "delete own-7"]);
}

#[test]
fn trying_a_path_where_another_kind_of_lock_is_says_so_and_creates_nothing() {
    for (other, scheme) in of_other_locks() {
        let mut h = Harness::of(|config| config.wait_policy = WaitPolicy::OnlyIfFree);
        h.feed(Input::Session(CONNECTED));
        h.answer("list", list_beside(None, &other));
        h.expect_last(&["list", &refused_for(&other, scheme)]);
    }
}

#[test]
fn a_reader_does_not_become_a_writer_beside_another_kind_of_lock() {
    let mut h = Harness::reader_or_writer(LockMode::Shared);
    h.created_as("create R", "own-R7", czxid(7));
    h.answer("list", children(&["own-R7"]));
    h.feed(Input::Convert(LockMode::Exclusive));
    h.created_as("create W", "own-W9", czxid(9));
    h.wanted();
    let names = ["own-R7", "own-W9"].map(name);
    let other =
        format!("{}0000000008", SCHEME.prefix(LockMode::Exclusive, Uuid::from_u128(9), SESSION));
    let all = [names[0].as_str(), names[1].as_str(), other.as_str()];
    h.answer(
        "list",
        reply(OpCode::GET_CHILDREN, &GetChildrenResponse { children: all[..].into() }),
    );
    let why = LockError::OtherLock { node: other, scheme: SCHEME.into() };
    h.expect(&["delete own-W9", &format!("NotConverted: {why:?}"), "timer"]);
}

#[test]
fn a_lock_at_the_path_of_a_semaphore_passes_its_directories_over() {
    let mut h = enqueued(UnknownNodePolicy::default());
    h.answer("list", children(&["own-7", "locks", "leases", "max"]));
    h.expect(&["UnknownNode(\"locks\")", "Acquired own-7 token 107", "timer"]);
}

#[test]
fn they_keep_out_whoever_refuses_them() {
    let mut h = enqueued(UnknownNodePolicy::Refuse);
    h.answer("list", children(&["own-7", "lease_holder"]));
    h.expect(&["Failed: foreign lease_holder", "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&[]);

    let mut h = enqueued(UnknownNodePolicy::Refuse);
    h.answer("list", children(&["own-7", "a-8"]));
    h.expect(&["Acquired own-7 token 107", "timer"]);
}

#[test]
fn they_are_waited_for_where_they_count() {
    let mut h = enqueued(UnknownNodePolicy::Count);
    h.answer("list", children(&["0000000001", "own-7"]));
    // Without the shortcut: whatever comes next may sort before us as well.
    h.expect(&[
        "UnknownNode(\"0000000001\")",
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
    let mut h = Harness::of(|config| {
        (config.unknown_nodes, config.wait_policy) =
            (UnknownNodePolicy::Count, WaitPolicy::OnlyIfFree);
    });
    h.feed(Input::Session(CONNECTED));
    h.answer("list", children(&["lease_holder"]));
    h.expect(&["list", "create", "list"]);
    h.created(7);
    h.answer("list", children(&["lease_holder", "own-7"]));
    assert_eq!(h.wanted()[2], "Acquired own-7 token 107");
}

#[test]
fn names_without_a_place_for_readers_make_everybody_exclusive() {
    let mut h = Harness::of(|config| config.mode = LockMode::Shared);
    h.disconnect();
    h.reconnect();
    h.expect(&["create", "list", "sync", "list"]);
    h.answer("sync", ok());
    h.answer("list", children(&["a-5", "own-7"]));
    h.expect(&["stat own-7"]);
}
