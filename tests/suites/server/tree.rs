//! Nodes: sequence numbers, versions, ephemerals, containers, transactions.

use core::time::Duration;

use zk_proto::{
    Acl, CreateMode, CreateRequest, DeleteRequest, ErrorCode, GetDataRequest, List, MultiOp,
    Request, Response, SessionId, SetDataRequest, Stat, Zxid,
};

use crate::world::{
    World, check, create, create_as, delete, exists, get_children, get_data, multi, node, set_data,
};

#[test]
fn a_new_server_has_the_nodes_of_a_real_one() {
    let world = World::new(1);
    let paths: Vec<_> = world.ensemble.paths().collect();
    assert_eq!(paths, ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"]);
    let root = world.ensemble.node("/").expect("the root").stat();
    assert_eq!(root, Stat { cversion: -1, num_children: 1, ..Stat::default() });
}

#[test]
fn sequence_numbers_count_all_children_ever_created() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    world.ask(conn, &create("/q"));
    let sequential = create_as("/q/n-", CreateMode::PERSISTENT_SEQUENTIAL);
    assert_eq!(world.ask(conn, &sequential), "CREATE /q/n-0000000000");
    assert_eq!(world.ask(conn, &create("/q/plain")), "CREATE /q/plain");
    assert_eq!(world.ask(conn, &create("/q/plain")), "CREATE NODE_EXISTS");
    assert_eq!(world.ask(conn, &delete("/q/plain")), "DELETE OK");
    let other = create_as("/q/", CreateMode::EPHEMERAL_SEQUENTIAL);
    assert_eq!(world.ask(conn, &other), "CREATE /q/0000000002");
    let stat = world.stat(conn, "/q");
    // Three creations and one deletion.
    assert_eq!((stat.cversion, stat.num_children), (4, 2));
}

#[test]
fn stats_record_zxids_times_and_versions() {
    let mut world = World::new(1);
    let (conn, session) = world.connect(0);
    world.now = Duration::from_millis(1500);
    world.ask(conn, &create_as("/e", CreateMode::EPHEMERAL));
    world.now = Duration::from_millis(1600);
    world.ask(conn, &set_data("/e", 0));
    let stat = world.stat(conn, "/e");
    let expected = Stat {
        czxid: Zxid(2),
        mzxid: Zxid(3),
        pzxid: Zxid(2),
        ctime: 1500,
        mtime: 1600,
        version: 1,
        ephemeral_owner: session.id,
        data_length: 1,
        ..Stat::default()
    };
    assert_eq!(stat, expected);
    assert_eq!(world.stat(conn, "/").pzxid, Zxid(2));
}

#[test]
fn checks_have_the_order_of_a_real_server() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    world.ask(conn, &create("/a"));
    world.ask(conn, &create("/a/b"));
    world.ask(conn, &create_as("/e", CreateMode::EPHEMERAL));
    let no_acl = |path| {
        let mode = CreateMode::PERSISTENT;
        Request::Create(CreateRequest { path, data: None, acl: List::NULL, mode })
    };
    for (request, outcome) in [
        (create_as("/n", CreateMode(9)), "CREATE BAD_ARGUMENTS"),
        (create("n"), "CREATE BAD_ARGUMENTS"),
        (create("/n\0"), "CREATE BAD_ARGUMENTS"),
        (no_acl("/missing/n"), "CREATE INVALID_ACL"),
        (create("/missing/n//"), "CREATE NO_NODE"),
        (create("/a//"), "CREATE NO_NODE"),
        (create("/a/"), "CREATE BAD_ARGUMENTS"),
        (create("/a/.."), "CREATE BAD_ARGUMENTS"),
        (create("/"), "CREATE NODE_EXISTS"),
        (create("/e/n"), "CREATE NO_CHILDREN_FOR_EPHEMERALS"),
        (delete("/"), "DELETE BAD_ARGUMENTS"),
        (delete("/zookeeper"), "DELETE BAD_ARGUMENTS"),
        (delete("/missing"), "DELETE NO_NODE"),
        (Request::Delete(DeleteRequest { path: "/a", version: 7 }), "DELETE BAD_VERSION"),
        (delete("/a"), "DELETE NOT_EMPTY"),
        (set_data("a", -1), "SET_DATA BAD_ARGUMENTS"),
        (set_data("/missing", -1), "SET_DATA NO_NODE"),
        (set_data("/a", 7), "SET_DATA BAD_VERSION"),
        (get_data("/missing", true), "GET_DATA NO_NODE"),
        (get_children("/missing", true), "GET_CHILDREN NO_NODE"),
        (exists("/missing", false), "EXISTS NO_NODE"),
        (exists("/\0", false), "EXISTS BAD_ARGUMENTS"),
    ] {
        assert_eq!(world.ask(conn, &request), outcome, "{request:?}");
    }
    assert_eq!(world.ensemble.watches(), 0);
}

#[test]
fn null_data_stays_null() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let null = CreateRequest { data: None, ..node("/null", CreateMode::PERSISTENT) };
    world.ask(conn, &Request::Create(null));
    let reply = world.call(conn, &Request::GetData(GetDataRequest { path: "/null", watch: false }));
    let Some(Response::GetData(got)) = reply.response() else { panic!("{reply:?}") };
    assert_eq!((got.data, got.stat.data_length), (None, 0));
    world.ask(conn, &set_data("/null", 0));
    assert_eq!(world.ensemble.node("/null").and_then(|node| node.data()), Some(&b"y"[..]));
}

#[test]
fn a_refused_write_has_a_zxid_and_a_read_has_none() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let before = world.ensemble.zxid();
    world.call(conn, &get_data("/", false));
    world.call(conn, &Request::Ping(()));
    assert_eq!(world.ensemble.zxid(), before);
    let reply = world.call(conn, &delete("/missing"));
    assert_eq!(reply.header.err, ErrorCode::NO_NODE);
    assert_eq!(reply.header.zxid, Zxid(before.0 + 1));
}

#[test]
fn a_multi_sees_its_own_changes_and_has_one_zxid() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let before = world.ensemble.zxid();
    let sequential = node("/t/n-", CreateMode::PERSISTENT_SEQUENTIAL);
    let ops = [
        MultiOp::Create(node("/t", CreateMode::PERSISTENT)),
        MultiOp::Create(sequential),
        MultiOp::SetData(SetDataRequest { path: "/t", data: None, version: 0 }),
        check("/t", 1),
        MultiOp::Delete(DeleteRequest { path: "/t/n-0000000000", version: 0 }),
        MultiOp::Create(sequential),
    ];
    let outcome = world.ask(conn, &multi(&ops));
    assert_eq!(outcome, "MULTI /t, /t/n-0000000000, done, done, done, /t/n-0000000001");
    assert_eq!(world.ensemble.zxid(), Zxid(before.0 + 1));
}

#[test]
fn a_failed_multi_changes_nothing_and_uses_no_sequence_numbers() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    world.ask(conn, &create("/t"));
    world.call(conn, &get_children("/t", true));
    let before = world.ensemble.node("/t").map(|node| (node.stat(), node.next_sequence()));
    let sequential = node("/t/n-", CreateMode::PERSISTENT_SEQUENTIAL);
    let ops = [
        MultiOp::Create(sequential),
        MultiOp::Create(sequential),
        check("/t", 9),
        MultiOp::Create(sequential),
    ];
    let outcome = world.ask(conn, &multi(&ops));
    assert_eq!(outcome, "MULTI OK, OK, BAD_VERSION, RUNTIME_INCONSISTENCY");
    let after = world.ensemble.node("/t").map(|node| (node.stat(), node.next_sequence()));
    assert_eq!(after, before);
    assert_eq!(world.ensemble.watches(), 1);
    world.send(conn, &create_as("/t/m-", CreateMode::PERSISTENT_SEQUENTIAL));
    assert_eq!(world.received(conn), ["NODE_CHILDREN_CHANGED /t", "CREATE /t/m-0000000000"]);
}

#[test]
fn a_container_is_deleted_after_its_last_child() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let container = |path| Request::CreateContainer(node(path, CreateMode::CONTAINER));
    assert_eq!(world.ask(conn, &container("/used")), "CREATE_CONTAINER /used");
    world.ask(conn, &container("/unused"));
    world.ask(conn, &create_as("/used/child", CreateMode::EPHEMERAL));
    assert_eq!(world.stat(conn, "/used").ephemeral_owner, SessionId::NONE);

    let keep_alive = |world: &mut World| {
        for _ in 0..70 {
            world.advance(Duration::from_secs(1));
            world.call(conn, &Request::Ping(()));
        }
    };
    keep_alive(&mut world);
    assert!(world.ensemble.node("/used").is_some());
    world.ask(conn, &delete("/used/child"));
    keep_alive(&mut world);
    assert!(world.ensemble.node("/used").is_none());
    assert!(world.ensemble.node("/unused").is_some());
}

#[test]
fn malformed_acls_are_refused_and_others_stored() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let with = |path, acl| {
        let mode = CreateMode::PERSISTENT;
        Request::Create(CreateRequest { path, data: None, acl: List::new(acl), mode })
    };
    assert_eq!(world.ask(conn, &with("/a", &[Acl::READ, Acl::READ])), "CREATE /a");
    let acl = world.ensemble.node("/a").map(|node| node.acl().len());
    assert_eq!(acl, Some(1));
    assert_eq!(world.ask(conn, &with("/b", &[])), "CREATE INVALID_ACL");
    assert_eq!(world.ask(conn, &with("/b", &[Acl::CREATOR_ALL])), "CREATE INVALID_ACL");
}

/// A recipe that forgets to sort must fail here as it would with a real server.
#[test]
fn the_first_name_of_a_list_is_not_the_first_in_the_queue() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    world.ask(conn, &create("/q"));
    let sequential = create_as("/q/n-", CreateMode::EPHEMERAL_SEQUENTIAL);
    (0..20).for_each(|_| drop(world.ask(conn, &sequential)));
    let mut overtaken = 0;
    for _ in 0..20 {
        let names: Vec<_> = world.ensemble.node("/q").expect("it exists").children().collect();
        let (first, lowest) = (names[0].to_owned(), names.iter().min().copied());
        overtaken += usize::from(Some(&*first) != lowest);
        let path = format!("/q/{first}");
        assert_eq!(world.ask(conn, &delete(&path)), "DELETE OK");
    }
    assert!(overtaken >= 10, "{overtaken} of 20");
}
