//! Children of the lock path that are no contenders.

use crate::tests::*;

fn enqueued(unknown_nodes: UnknownNodePolicy) -> Harness {
    let mut h = Harness::of(|config| config.unknown_nodes = unknown_nodes);
    h.created(7);
    h.expect(&["create", "list", "Enqueued own-7 token 107"]);
    h
}

#[test]
fn unknown_nodes_are_ignored_and_reported_once() {
    let mut h = enqueued(UnknownNodePolicy::Ignore);
    h.answer("list", children(&["a-5", "b-6", "0000000001", "own-7"]));
    h.expect(&["UnknownNode(\"0000000001\")", "Waiting behind b-6, 2 ahead", "watch b-6"]);
    h.answer("watch b-6", ok());
    h.deleted("watch b-6");
    h.expect(&["unwatch b-6", "list"]);
    h.answer("list", children(&["another", "own-7"]));
    h.expect(&["Acquired own-7 token 107", "timer"]);
}

/// Nodes of Curator's read/write lock, of kazoo, and others.
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

/// The lock path contains our node, this one, and an unknown one.
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
        // At the position where it sorts as text.
        assert!(!h.wanted()[1].starts_with("Failed"), "{other}");
    }
}

#[test]
fn an_unknown_node_that_comes_later_is_seen_in_the_next_list() {
    let mut h = Harness::third();
    h.deleted("watch b-6");
    h.expect(&["unwatch b-6", "list"]);
    let (other, scheme) = of_other_locks().remove(0);
    h.answer("list", list_beside(Some("own-7"), &other));
    h.expect(&[&refused_for(&other, scheme), "delete own-7"]);
}

#[test]
fn a_try_beside_another_kind_of_lock_fails_and_creates_nothing() {
    for (other, scheme) in of_other_locks() {
        let mut h = Harness::of(|config| config.wait_policy = WaitPolicy::OnlyIfFree);
        h.feed(Input::State(CONNECTED));
        h.answer("list", list_beside(None, &other));
        h.expect_last(&["list", &refused_for(&other, scheme)]);
    }
}

#[test]
fn no_upgrade_beside_another_kind_of_lock() {
    let mut h = Harness::reader_or_writer(LockMode::Shared);
    h.created_as("create R", "own-R7", czxid(7));
    h.answer("list", children(&["own-R7"]));
    h.feed(Command::Convert(LockMode::Exclusive));
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
fn a_lock_at_the_path_of_a_semaphore_ignores_its_parents() {
    let mut h = enqueued(UnknownNodePolicy::default());
    h.answer("list", children(&["own-7", "locks", "leases", "max"]));
    h.expect(&["UnknownNode(\"locks\")", "Acquired own-7 token 107", "timer"]);
}

#[test]
fn unknown_nodes_fail_an_attempt_that_refuses_them() {
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
fn unknown_nodes_that_count_are_waited_for() {
    let mut h = enqueued(UnknownNodePolicy::Count);
    h.answer("list", children(&["0000000001", "own-7"]));
    // Without a takeover: the next node may sort before ours as well.
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
fn an_unknown_node_that_does_not_block_does_not_make_a_lock_busy() {
    let mut h = Harness::of(|config| {
        (config.unknown_nodes, config.wait_policy) =
            (UnknownNodePolicy::Count, WaitPolicy::OnlyIfFree);
    });
    h.feed(Input::State(CONNECTED));
    h.answer("list", children(&["lease_holder"]));
    h.expect(&["list", "create", "list"]);
    h.created(7);
    h.answer("list", children(&["lease_holder", "own-7"]));
    assert_eq!(h.wanted()[2], "Acquired own-7 token 107");
}

#[test]
fn schemes_without_shared_nodes_make_every_mode_exclusive() {
    let mut h = Harness::of(|config| config.mode = LockMode::Shared);
    h.disconnect();
    h.reconnect();
    h.expect(&["create", "list", "sync", "list"]);
    h.answer("sync", ok());
    h.answer("list", children(&["a-5", "own-7"]));
    h.expect(&["stat own-7"]);
}
