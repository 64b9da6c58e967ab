//! Tests of the board.

use super::*;

const GUID: &str = "_c_f5fd6747-e1b7-4202-a4bc-9474a7659da6";

fn board(nodes: &[&str]) -> Board {
    let mut board = Board::default();
    nodes.iter().for_each(|node| board.handle(EventType::NODE_CREATED, &named(node)));
    board
}

fn named(node: &str) -> String {
    node.replace('@', GUID)
}

fn delete(board: &mut Board, node: &str) {
    board.handle(EventType::NODE_DELETED, &named(node));
}

/// Returns path, holders, waiters and hand-overs of each lock.
fn summaries(board: &mut Board) -> Vec<(String, usize, usize, usize)> {
    let summaries = board.take_summaries().into_iter();
    summaries.map(|lock| (lock.path, lock.holders, lock.waiters, lock.hand_overs)).collect()
}

#[test]
fn a_release_with_a_waiter_is_a_hand_over() {
    let nodes = ["/a/@-lock-0000000001", "/a/@-lock-0000000002", "/a/@-lock-0000000003"];
    let mut board = board(&nodes);
    assert_eq!(summaries(&mut board), [("/a".to_owned(), 1, 2, 0)]);
    // A waiter gives up.
    delete(&mut board, nodes[1]);
    assert_eq!(summaries(&mut board), [("/a".to_owned(), 1, 1, 0)]);
    delete(&mut board, nodes[0]);
    assert_eq!(summaries(&mut board), [("/a".to_owned(), 1, 0, 1)]);
    // Nobody waits.
    delete(&mut board, nodes[2]);
    assert_eq!(summaries(&mut board), []);
    assert!(board.queues.is_empty());
}

#[test]
fn each_kind_of_lock_at_a_path_has_its_holder() {
    let mut board = board(&[
        "/a/@-lock-0000000001",
        "/a/@-lock-0000000003",
        "/a/f5fd6747e1b74202a4bc9474a7659da6__lock__0000000002",
    ]);
    assert_eq!(summaries(&mut board), [("/a".to_owned(), 2, 1, 0)]);
    delete(&mut board, "/a/@-lock-0000000001");
    assert_eq!(summaries(&mut board), [("/a".to_owned(), 2, 0, 1)]);
}

#[test]
fn readers_hold_together() {
    let mut board = board(&[
        "/@-__READ__0000000001",
        "/@-__READ__0000000002",
        "/@-__WRIT__0000000003",
        "/config",
    ]);
    assert_eq!(summaries(&mut board), [("/".to_owned(), 2, 1, 0)]);
    delete(&mut board, "/@-__READ__0000000001");
    assert_eq!(summaries(&mut board), [("/".to_owned(), 1, 1, 0)]);
    delete(&mut board, "/@-__READ__0000000002");
    assert_eq!(summaries(&mut board), [("/".to_owned(), 1, 0, 1)]);
}

#[test]
fn permits_and_waiters_of_a_semaphore_are_one_lock() {
    let mut board = board(&[
        "/s/leases/@-lease-0000000001",
        "/s/leases/@-lease-0000000002",
        "/s/locks/@-lock-0000000007",
        "/locks/@-lock-0000000000",
    ]);
    let shown = [("/s".to_owned(), 2, 1, 0), ("/locks".to_owned(), 1, 0, 0)];
    assert_eq!(summaries(&mut board), shown);
    delete(&mut board, "/s/leases/@-lease-0000000001");
    assert_eq!(summaries(&mut board)[0], ("/s".to_owned(), 1, 1, 1));
}

#[test]
fn a_semaphore_of_kazoo_is_one_lock() {
    let permit = "/s/f5fd6747e1b74202a4bc9474a7659da6";
    let waiter = "/s-__lock__/0123456789abcdef0123456789abcdef__lock__0000000001";
    // Other nodes may have such names.
    let other = "/other/f5fd6747e1b74202a4bc9474a7659da6";
    let mut board = board(&[permit, "/s-__lock__", waiter, other]);
    assert_eq!(summaries(&mut board), [("/s".to_owned(), 1, 1, 0)]);
    delete(&mut board, permit);
    assert_eq!(summaries(&mut board)[0], ("/s".to_owned(), 0, 0, 1));
    assert!(!board.queues.contains_key("/s"));
}

#[test]
fn events_of_unknown_nodes_do_no_harm() {
    let mut board = board(&["/a", "", "/", "a", "/a/b/c"]);
    delete(&mut board, "/b/@-lock-0000000001");
    assert_eq!(summaries(&mut board), []);
}
