//! One-shot watches: which changes fire them, and in which order.

use zk_proto::{
    CreateMode, ErrorCode, List, MultiOp, RemoveWatchesRequest, Request, SetWatches, SetWatches2,
    WatcherType, Zxid,
};

use crate::world::{
    World, create, create_as, delete, exists, get_children, get_data, multi, node, set_data,
};

const NOTHING: [&str; 0] = [];

#[test]
fn a_watch_event_precedes_the_reply_to_its_write() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    assert_eq!(world.ask(conn, &exists("/a", true)), "EXISTS NO_NODE");
    world.send(conn, &create("/a"));
    assert_eq!(world.received(conn), ["NODE_CREATED /a", "CREATE /a"]);
}

#[test]
fn a_watch_fires_once() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let (writer, _) = world.connect(0);
    world.ask(writer, &create("/a"));
    world.call(conn, &get_data("/a", true));
    world.call(conn, &exists("/a", true));
    world.ask(writer, &set_data("/a", -1));
    world.ask(writer, &set_data("/a", -1));
    assert_eq!(world.received(conn), ["NODE_DATA_CHANGED /a"]);
    assert_eq!(world.ensemble.watches(), 0);
    assert_eq!(world.ensemble.counters().notifications, 1);
}

#[test]
fn a_child_watch_reports_created_and_deleted_children_but_not_data() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let (writer, _) = world.connect(0);
    world.ask(writer, &create("/a"));
    world.call(conn, &get_children("/a", true));
    world.ask(writer, &set_data("/a", -1));
    assert_eq!(world.received(conn), NOTHING);
    world.ask(writer, &create("/a/b"));
    world.ask(writer, &set_data("/a/b", -1));
    assert_eq!(world.received(conn), ["NODE_CHILDREN_CHANGED /a"]);
    world.call(conn, &get_children("/a", true));
    world.ask(writer, &delete("/a/b"));
    assert_eq!(world.received(conn), ["NODE_CHILDREN_CHANGED /a"]);
}

#[test]
fn a_deletion_fires_once_and_before_the_watch_of_the_parent() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let (writer, _) = world.connect(0);
    world.ask(writer, &create("/a"));
    world.call(conn, &get_children("/", true));
    world.call(conn, &get_data("/a", true));
    world.call(conn, &get_children("/a", true));
    world.ask(writer, &delete("/a"));
    assert_eq!(world.received(conn), ["NODE_DELETED /a", "NODE_CHILDREN_CHANGED /"]);
}

#[test]
fn each_part_of_a_multi_fires_its_own_events() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    world.ask(conn, &create("/a"));
    world.call(conn, &exists("/b", true));
    world.call(conn, &get_data("/a", true));
    let Request::Delete(deletion) = delete("/a") else { unreachable!() };
    let ops = [MultiOp::Delete(deletion), MultiOp::Create(node("/b", CreateMode::PERSISTENT))];
    world.send(conn, &multi(&ops));
    assert_eq!(world.received(conn), ["NODE_DELETED /a", "NODE_CREATED /b", "MULTI done, /b"]);
}

#[test]
fn watches_set_again_report_missed_events() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    for path in ["/same", "/changed", "/gone", "/same-children", "/children"] {
        world.ask(conn, &create(path));
    }
    let seen = world.ensemble.zxid();
    world.ask(conn, &set_data("/changed", -1));
    world.ask(conn, &delete("/gone"));
    world.ask(conn, &create("/children/new"));
    world.ask(conn, &create("/created"));
    let request = SetWatches {
        relative_zxid: seen,
        data_watches: List::new(&["/same", "/changed", "/gone"]),
        exist_watches: List::new(&["/created", "/still-missing"]),
        child_watches: List::new(&["/same-children", "/children", "/gone"]),
    };
    let missed = [
        "NODE_DATA_CHANGED /changed",
        "NODE_DELETED /gone",
        "NODE_CREATED /created",
        "NODE_CHILDREN_CHANGED /children",
        "NODE_DELETED /gone",
        "SET_WATCHES OK",
    ];
    world.send(conn, &Request::SetWatches(request));
    assert_eq!(world.received(conn), missed);
    assert_eq!(world.ensemble.watches(), 3);

    let SetWatches { relative_zxid, data_watches, exist_watches, child_watches } = request;
    let request = SetWatches2 {
        relative_zxid,
        data_watches,
        exist_watches,
        child_watches,
        persistent_watches: List::default(),
        persistent_recursive_watches: List::default(),
    };
    world.send(conn, &Request::SetWatches2(request));
    assert_eq!(world.received(conn).len(), missed.len());
    for (write, event) in [
        (set_data("/same", -1), "NODE_DATA_CHANGED /same"),
        (create("/still-missing"), "NODE_CREATED /still-missing"),
        (create("/same-children/x"), "NODE_CHILDREN_CHANGED /same-children"),
    ] {
        world.send(conn, &write);
        assert_eq!(world.received(conn)[0], event);
    }
}

#[test]
fn watches_belong_to_the_connection() {
    let mut world = World::new(1);
    let (conn, session) = world.connect(0);
    let (writer, _) = world.connect(0);
    world.call(conn, &exists("/a", true));
    world.ensemble.handle_disconnect(conn);
    assert_eq!(world.ensemble.watches(), 0);
    let conn = world.open(0);
    let resume = zk_testkit::raw::RawClient::resume(Zxid(1), &session);
    world.send_bytes(conn, &resume);
    world.ask(writer, &create("/a"));
    assert_eq!(world.received(conn), ["connected"]);
}

#[test]
fn removed_watches_do_not_fire() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let (writer, _) = world.connect(0);
    world.ask(writer, &create("/a"));
    let remove =
        |path, watcher_type| Request::RemoveWatches(RemoveWatchesRequest { path, watcher_type });
    let refused = format!("REMOVE_WATCHES {}", ErrorCode::NO_WATCHER);
    assert_eq!(world.ask(conn, &remove("/a", WatcherType::ANY)), refused);
    world.call(conn, &get_data("/a", true));
    assert_eq!(world.ask(conn, &remove("/a", WatcherType::CHILDREN)), refused);
    world.call(conn, &get_children("/a", true));
    assert_eq!(world.ask(conn, &remove("/a", WatcherType::DATA)), "REMOVE_WATCHES OK");
    assert_eq!(world.ask(conn, &remove("/a", WatcherType::ANY)), "REMOVE_WATCHES OK");
    let unknown = remove("/a", WatcherType::PERSISTENT);
    assert_eq!(world.ask(conn, &unknown), "REMOVE_WATCHES MARSHALLING_ERROR");
    world.ask(writer, &set_data("/a", -1));
    world.ask(writer, &create_as("/a/b", CreateMode::EPHEMERAL));
    assert_eq!(world.received(conn), NOTHING);
}
