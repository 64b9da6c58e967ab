//! Expiry of nodes, and exhausted sequence numbers.

use core::time::Duration;

use zk_proto::{
    Acl, CreateMode, CreateTtlRequest, DeleteContainerRequest, List, MultiOp, Request, SessionId,
};
use zk_testkit::server::{Config, ConnId, Version};

use crate::world::{World, create, create_as, delete, multi, node, set_data};

fn create_ttl(path: &str, ttl: i64) -> Request<'_> {
    let mode = CreateMode::PERSISTENT_WITH_TTL;
    let acl = List::new(&[Acl::OPEN]);
    Request::CreateTtl(CreateTtlRequest { path, data: None, acl, mode, ttl })
}

/// Advances the clock in steps that keep the session alive.
fn pass(world: &mut World, conn: ConnId, seconds: u64) {
    for _ in 0..seconds {
        world.advance(Duration::from_secs(1));
        world.call(conn, &Request::Ping(()));
    }
}

#[test]
fn a_node_is_deleted_after_its_time_to_live() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    for path in ["/left", "/changed", "/parent"] {
        assert_eq!(world.ask(conn, &create_ttl(path, 90_000)), format!("CREATE_TTL {path}"));
    }
    world.call(conn, &create("/parent/child"));
    assert_eq!(world.stat(conn, "/left").ephemeral_owner, SessionId::NONE);
    pass(&mut world, conn, 65);
    world.call(conn, &set_data("/changed", -1));
    pass(&mut world, conn, 60);
    let lives = |world: &World, path| world.ensemble.node(path).is_some();
    assert!(!lives(&world, "/left"));
    assert!(lives(&world, "/changed") && lives(&world, "/parent"));
    world.call(conn, &delete("/parent/child"));
    pass(&mut world, conn, 60);
    assert!(!lives(&world, "/changed") && !lives(&world, "/parent"));
}

#[test]
fn an_invalid_time_to_live_is_refused() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    for ttl in [-1, 0, 0x100_0000_0000] {
        assert_eq!(world.ask(conn, &create_ttl("/a", ttl)), "CREATE_TTL BAD_ARGUMENTS");
    }
    let mut world = World::with(Config { extended_types: false, ..Config::default() });
    let (conn, _) = world.connect(0);
    assert_eq!(world.ask(conn, &create_ttl("/a", 1)), "CREATE_TTL UNIMPLEMENTED");
    assert_eq!(world.ask(conn, &create("/a")), "CREATE /a");
}

#[test]
fn a_container_that_was_never_used_is_deleted_if_configured() {
    let config = Config { max_never_used: Some(Duration::from_secs(90)), ..Config::default() };
    let mut world = World::with(config);
    let (conn, _) = world.connect(0);
    world.call(conn, &Request::CreateContainer(node("/k", CreateMode::CONTAINER)));
    pass(&mut world, conn, 61);
    assert!(world.ensemble.node("/k").is_some());
    pass(&mut world, conn, 60);
    assert!(world.ensemble.node("/k").is_none());
}

#[test]
fn clients_can_delete_containers_only_since_3_9() {
    for (version, answer) in [(Version::V3_8, "BAD_ARGUMENTS"), (Version::V3_9, "OK")] {
        let mut world = World::with(Config::default().with_version(version));
        let (conn, _) = world.connect(0);
        world.call(conn, &Request::CreateContainer(node("/k", CreateMode::CONTAINER)));
        let request = Request::DeleteContainer(DeleteContainerRequest { path: "/k" });
        assert_eq!(world.ask(conn, &request), format!("DELETE_CONTAINER {answer}"));
    }
}

#[test]
fn sequence_numbers_stop_at_their_maximum_since_3_6() {
    let mut world = World::new(3);
    let (conn, _) = world.connect(0);
    world.call(conn, &create("/d"));
    assert!(world.ensemble.set_counter(world.now, "/d", i32::MAX - 1));
    assert!(!world.ensemble.set_counter(world.now, "/missing", 1));
    let sequential = create_as("/d/n-", CreateMode::PERSISTENT_SEQUENTIAL);
    let ops = [MultiOp::Create(node("/d/m-", CreateMode::PERSISTENT_SEQUENTIAL)); 2];
    for answer in ["CREATE /d/n-2147483646", "CREATE /d/n-2147483647", "CREATE NODE_EXISTS"] {
        assert_eq!(world.ask(conn, &sequential), answer);
    }
    // Within one multi, the numbers continue beyond the maximum.
    assert_eq!(world.ask(conn, &multi(&ops)), "MULTI /d/m-2147483647, /d/m--2147483648");
}

#[test]
fn sequence_numbers_wrap_before_3_6() {
    let mut world = World::with(Config::default().with_version(Version::V3_5));
    let (conn, _) = world.connect(0);
    world.call(conn, &create("/d"));
    world.ensemble.set_counter(world.now, "/d", i32::MAX);
    for name in ["2147483647", "-2147483648", "-2147483647"] {
        let sequential = create_as("/d/n-", CreateMode::PERSISTENT_SEQUENTIAL);
        assert_eq!(world.ask(conn, &sequential), format!("CREATE /d/n-{name}"));
    }
}
