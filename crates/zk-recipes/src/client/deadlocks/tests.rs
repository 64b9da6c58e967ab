use alloc::string::{String, ToString};

use super::*;
use LockMode::{Exclusive, Shared};

fn enter(graph: &mut Graph, owner: &str, lock: &str, mode: LockMode) -> Option<String> {
    let entry = GraphEntry { owner: owner.into(), lock: lock.into(), mode, is_held: false };
    let number = graph.entries.push(entry);
    graph.deadlock(number).map(|deadlock| deadlock.to_string())
}

fn hold(graph: &mut Graph, owner: &str, lock: &str, mode: LockMode) {
    assert_eq!(enter(graph, owner, lock, mode), None);
    graph.entries.values_mut().last().expect("added").is_held = true;
}

#[test]
fn a_circle_of_three_is_found_by_the_last_one() {
    let mut graph = Graph::default();
    for (owner, lock) in [("a", "/1"), ("b", "/2"), ("c", "/3")] {
        hold(&mut graph, owner, lock, Exclusive);
    }
    assert_eq!(enter(&mut graph, "a", "/2", Exclusive), None);
    assert_eq!(enter(&mut graph, "b", "/3", Exclusive), None);
    assert_eq!(enter(&mut graph, "d", "/1", Exclusive), None, "it holds nothing");
    let found = "c waits for /1 behind a, a waits for /2 behind b, b waits for /3 behind c";
    assert_eq!(enter(&mut graph, "c", "/1", Exclusive).as_deref(), Some(found));
}

#[test]
fn an_owner_that_waits_for_itself_is_found() {
    let mut graph = Graph::default();
    hold(&mut graph, "a", "/1", Exclusive);
    let found = enter(&mut graph, "a", "/1", Exclusive);
    assert_eq!(found.as_deref(), Some("a waits for /1 behind a"));
}

#[test]
fn readers_wait_for_writers_that_wait_and_not_for_each_other() {
    let mut graph = Graph::default();
    hold(&mut graph, "a", "/1", Shared);
    hold(&mut graph, "b", "/1", Shared);
    hold(&mut graph, "c", "/2", Exclusive);
    assert_eq!(enter(&mut graph, "c", "/1", Shared), None);
    assert_eq!(enter(&mut graph, "w", "/3", Exclusive), None);
    let is_waiting = |(_, entry): &&(u64, GraphEntry)| !entry.is_held;
    let waiting: Vec<_> = graph.entries.iter().filter(is_waiting).map(|(it, _)| *it).collect();
    waiting.into_iter().for_each(|number| drop(graph.entries.remove(number)));
    assert_eq!(enter(&mut graph, "w", "/1", Exclusive), None);
    assert_eq!(enter(&mut graph, "c", "/1", Shared), None);
    // Behind the writer, which waits for `a`.
    let found = "a waits for /2 behind c, c waits for /1 behind w, w waits for /1 behind a";
    assert_eq!(enter(&mut graph, "a", "/2", Exclusive).as_deref(), Some(found));
}

/// Each waits for a lock that the next one holds, and others queue for the first one. With time of the
/// third power, this takes minutes.
#[test]
fn a_long_chain_and_a_long_queue_are_searched() {
    const COUNT: usize = 1_000;
    let mut graph = Graph::default();
    for n in 0..COUNT {
        hold(&mut graph, &n.to_string(), &n.to_string(), Exclusive);
    }
    for n in 1..COUNT {
        let entry = |owner: usize, lock: &str| GraphEntry {
            owner: owner.to_string().into(),
            lock: lock.into(),
            mode: Exclusive,
            is_held: false,
        };
        graph.entries.push(entry(n - 1, &n.to_string()));
        graph.entries.push(entry(COUNT + n, "0"));
    }
    assert_eq!(enter(&mut graph, "another", "0", Exclusive), None);
    let found = enter(&mut graph, &(COUNT - 1).to_string(), "0", Exclusive).expect("a circle");
    assert_eq!(found.matches(" waits for ").count(), COUNT);
}
