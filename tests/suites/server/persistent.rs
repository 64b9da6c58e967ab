//! Persistent watches.

use zk_proto::{
    AddWatchMode, CheckWatchesRequest, List, RemoveWatchesRequest, Request, SetWatches2,
    WatcherType,
};
use zk_testkit::server::{Config, Version};

use crate::world::{World, add_watch, create, delete, exists, get_children, get_data, set_data};

const NOTHING: [&str; 0] = [];

fn remove(path: &str, watcher_type: WatcherType) -> Request<'_> {
    Request::RemoveWatches(RemoveWatchesRequest { path, watcher_type })
}

fn check(path: &str, watcher_type: WatcherType) -> Request<'_> {
    Request::CheckWatches(CheckWatchesRequest { path, watcher_type })
}

/// Creates, changes and deletes `/a` and a child of it.
fn change_all(world: &mut World, writer: zk_testkit::server::ConnId) {
    for request in [
        create("/a"),
        create("/a/b"),
        set_data("/a/b", -1),
        delete("/a/b"),
        set_data("/a", -1),
        delete("/a"),
    ] {
        world.call(writer, &request);
    }
}

#[test]
fn a_persistent_watch_reports_every_event_of_its_node() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let (writer, _) = world.connect(0);
    world.call(conn, &add_watch("/a", AddWatchMode::PERSISTENT));
    let events = [
        "NODE_CREATED /a",
        "NODE_CHILDREN_CHANGED /a",
        "NODE_CHILDREN_CHANGED /a",
        "NODE_DATA_CHANGED /a",
        "NODE_DELETED /a",
    ];
    for _ in 0..2 {
        change_all(&mut world, writer);
        assert_eq!(world.received(conn), events);
    }
    assert_eq!(world.ask(conn, &remove("/a", WatcherType::ANY)), "REMOVE_WATCHES OK");
    change_all(&mut world, writer);
    assert_eq!(world.received(conn), NOTHING);
}

#[test]
fn a_recursive_watch_reports_descendants_but_no_lists_of_children() {
    for version in [Version::V3_6, Version::V3_8, Version::V3_9] {
        let mut world = World::with(Config::default().with_version(version));
        let (conn, _) = world.connect(0);
        let (writer, _) = world.connect(0);
        world.call(conn, &add_watch("/", AddWatchMode::PERSISTENT_RECURSIVE));
        let events = [
            "NODE_CREATED /a",
            "NODE_CREATED /a/b",
            "NODE_DATA_CHANGED /a/b",
            "NODE_DELETED /a/b",
            "NODE_DATA_CHANGED /a",
            "NODE_DELETED /a",
        ];
        for _ in 0..2 {
            change_all(&mut world, writer);
            assert_eq!(world.received(conn), events, "{version:?}");
        }
    }
}

#[test]
fn before_3_9_a_new_watch_replaces_the_previous_one() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let (writer, _) = world.connect(0);
    world.call(conn, &add_watch("/a", AddWatchMode::PERSISTENT));
    world.call(conn, &exists("/a", true));
    change_all(&mut world, writer);
    let events = [
        "NODE_CREATED /a",
        "NODE_CHILDREN_CHANGED /a",
        "NODE_CHILDREN_CHANGED /a",
        "NODE_DELETED /a",
    ];
    assert_eq!(world.received(conn), events);
}

#[test]
fn since_3_9_one_path_has_watches_of_several_modes() {
    let mut world = World::with(Config::default().with_version(Version::V3_9));
    let (conn, _) = world.connect(0);
    let (writer, _) = world.connect(0);
    world.call(conn, &add_watch("/a", AddWatchMode::PERSISTENT));
    world.call(conn, &add_watch("/a", AddWatchMode::PERSISTENT_RECURSIVE));
    world.call(conn, &exists("/a", true));
    change_all(&mut world, writer);
    let received = world.received(conn);
    assert_eq!(received.iter().filter(|event| *event == "NODE_DATA_CHANGED /a").count(), 1);
    for (watcher_type, answer) in [
        (WatcherType::DATA, "NO_WATCHER"),
        (WatcherType::PERSISTENT, "OK"),
        (WatcherType::PERSISTENT, "NO_WATCHER"),
        (WatcherType::PERSISTENT_RECURSIVE, "OK"),
        (WatcherType::ANY, "NO_WATCHER"),
    ] {
        let expected = format!("REMOVE_WATCHES {answer}");
        assert_eq!(world.ask(conn, &remove("/a", watcher_type)), expected);
    }
}

#[test]
fn a_check_for_watches_finds_those_of_other_connections_only_before_3_9() {
    for (version, answer) in [(Version::V3_8, "OK"), (Version::V3_9, "NO_WATCHER")] {
        let mut world = World::with(Config::default().with_version(version));
        let (conn, _) = world.connect(0);
        let (other, _) = world.connect(0);
        world.call(other, &get_data("/", true));
        let expected = format!("CHECK_WATCHES {answer}");
        assert_eq!(world.ask(conn, &check("/", WatcherType::DATA)), expected);
        assert_eq!(world.ask(conn, &check("/", WatcherType::CHILDREN)), "CHECK_WATCHES NO_WATCHER");
        assert_eq!(world.ask(other, &check("/", WatcherType::DATA)), "CHECK_WATCHES OK");
    }
}

#[test]
fn persistent_watches_set_again_report_no_missed_events() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let seen = world.ensemble.zxid();
    world.call(conn, &create("/a"));
    let request = SetWatches2 {
        relative_zxid: seen,
        data_watches: List::default(),
        exist_watches: List::default(),
        child_watches: List::default(),
        persistent_watches: List::new(&["/a"]),
        persistent_recursive_watches: List::new(&["/b"]),
    };
    assert_eq!(world.ask(conn, &Request::SetWatches2(request)), "SET_WATCHES2 OK");
    world.send(conn, &set_data("/a", -1));
    assert_eq!(world.received(conn), ["NODE_DATA_CHANGED /a", "SET_DATA OK"]);
    world.call(conn, &get_children("/", false));
    for path in ["/b", "/b/c"] {
        world.send(conn, &create(path));
        assert_eq!(world.received(conn)[0], format!("NODE_CREATED {path}"));
    }
}

#[test]
fn an_unknown_mode_is_refused() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let request = add_watch("/a", AddWatchMode(2));
    assert_eq!(world.ask(conn, &request), "ADD_WATCH MARSHALLING_ERROR");
    assert_eq!(world.ensemble.watches(), 0);
}
