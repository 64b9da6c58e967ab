//! Several servers: agreement, failures and lag.

use std::net::SocketAddr;

use zk_proto::{CreateMode, Request, SyncRequest, Zxid};
use zk_testkit::raw::{Credentials, RawClient};
use zk_testkit::server::Config;

use crate::world::{World, create, create_as, exists, get_children, set_data};

#[test]
fn a_write_through_one_server_is_visible_through_all() {
    let mut world = World::new(3);
    let (writer, _) = world.connect(0);
    let (reader, _) = world.connect(1);
    assert_eq!(world.ask(reader, &exists("/a", true)), "EXISTS NO_NODE");
    assert_eq!(world.ask(writer, &create("/a")), "CREATE /a");
    assert_eq!(world.received(reader), ["NODE_CREATED /a"]);
    assert_eq!(world.ask(reader, &exists("/a", false)), "EXISTS OK");
}

/// Returns the answer of a server to a client that has seen a transaction.
fn resumed(world: &mut World, zxid: Zxid, session: &Credentials) -> Vec<String> {
    let conn = world.open(0);
    world.send_bytes(conn, &RawClient::resume(zxid, session));
    world.received(conn)
}

#[test]
fn servers_that_have_lost_their_data_refuse_clients_that_have_seen_it() {
    for servers in [1, 3] {
        let mut world = World::new(servers);
        let (conn, session) = world.connect(0);
        assert_eq!(world.ask(conn, &create("/a")), "CREATE /a");
        let seen = world.ensemble.zxid();
        world.ensemble.wipe(world.now);
        world.deliver();
        assert_eq!(world.received(conn), ["closed"]);
        assert_eq!(resumed(&mut world, seen, &session), ["closed"]);
        assert_eq!(resumed(&mut world, Zxid::ZERO, &session), ["expired", "closed"]);
        let (conn, next) = world.connect(0);
        assert_ne!(next.id, session.id);
        assert_eq!(world.ask(conn, &exists("/a", false)), "EXISTS NO_NODE");
    }
}

#[test]
fn servers_restored_from_a_backup_know_its_sessions() {
    let mut world = World::new(1);
    let (conn, session) = world.connect(0);
    let backup = world.ensemble.clone();
    assert_eq!(world.ask(conn, &create("/a")), "CREATE /a");
    let seen = world.ensemble.zxid();
    world.ensemble.restore(world.now, &backup);
    assert_eq!(resumed(&mut world, seen, &session), ["closed"]);
    assert_eq!(resumed(&mut world, Zxid::ZERO, &session), ["connected"]);
}

#[test]
fn a_killed_follower_loses_only_its_connections_and_catches_up_later() {
    let mut world = World::new(3);
    assert_eq!(world.ensemble.leader(), Some(2));
    let (lost, session) = world.connect(0);
    let (kept, _) = world.connect(1);
    world.ask(lost, &create_as("/e", CreateMode::EPHEMERAL));
    let epoch = world.ensemble.zxid().epoch();

    world.ensemble.kill(world.now, 0);
    world.deliver();
    assert_eq!(world.received(lost), ["closed"]);
    assert!(world.ensemble.handle_connect(0).is_none());
    assert_eq!(world.ask(kept, &create("/meanwhile")), "CREATE /meanwhile");
    assert!(world.ensemble.tree_of(0).and_then(|tree| tree.get("/meanwhile")).is_none());

    world.ensemble.restart(world.now, 0);
    let conn = world.open(0);
    world.send_bytes(conn, &RawClient::resume(world.ensemble.zxid(), &session));
    assert_eq!(world.received(conn), ["connected"]);
    assert_eq!(world.ask(conn, &exists("/meanwhile", false)), "EXISTS OK");
    assert_eq!(world.ask(conn, &exists("/e", false)), "EXISTS OK");
    assert_eq!(world.ensemble.zxid().epoch(), epoch);
}

#[test]
fn a_replaced_member_leaves_for_good_and_the_configuration_shows_the_new_one() {
    let address = |server| SocketAddr::from(([127, 0, 0, server], 2181));
    let client_addresses = (1..=3).map(address).collect();
    let mut world = World::with(Config { client_addresses, ..Config::servers(3) });
    let (lost, _) = world.connect(0);
    let (kept, _) = world.connect(1);
    world.ask(kept, &create("/before"));
    world.ask(kept, &exists("/zookeeper/config", true));
    assert_eq!(world.ensemble.replace_member(world.now, 0, address(4)), Some(3));
    world.deliver();
    assert_eq!(world.received(lost), ["closed"]);
    assert_eq!(world.received(kept), ["NODE_DATA_CHANGED /zookeeper/config"]);
    let config = world.ensemble.node("/zookeeper/config").expect("it exists");
    let text = String::from_utf8_lossy(config.data().expect("members"));
    let servers: Vec<_> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let names: Vec<_> = servers.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["server.2", "server.3", "server.4", "version"]);
    assert!(servers[2].1.ends_with(";127.0.0.4:2181") && servers[3].1 != "0", "{text}");

    world.ensemble.restart(world.now, 0);
    assert!(world.ensemble.handle_connect(0).is_none());
    assert_eq!(world.ensemble.replace_member(world.now, 0, address(5)), None);
    // The new server votes and serves.
    world.ensemble.kill(world.now, 2);
    world.deliver();
    let (conn, _) = world.connect(3);
    assert_eq!(world.ask(conn, &exists("/before", false)), "EXISTS OK");
    assert_eq!(world.ask(conn, &create("/after")), "CREATE /after");
    // The majority is of the present members.
    world.ensemble.kill(world.now, 1);
    assert_eq!(world.ensemble.leader(), None);
}

#[test]
fn a_new_leader_begins_an_epoch_and_keeps_earlier_writes() {
    let mut world = World::new(3);
    let (conn, session) = world.connect(0);
    world.ask(conn, &create_as("/e", CreateMode::EPHEMERAL));
    let before = world.ensemble.zxid();

    world.ensemble.kill(world.now, 2);
    world.deliver();
    assert_eq!(world.ensemble.leader(), Some(1));
    assert_eq!(world.ensemble.zxid(), Zxid(i64::from(before.epoch() + 1) << 32));
    assert_eq!(world.received(conn), ["closed"]);

    let conn = world.open(1);
    world.send_bytes(conn, &RawClient::resume(before, &session));
    assert_eq!(world.received(conn), ["connected"]);
    assert_eq!(world.stat(conn, "/e").ephemeral_owner, session.id);
}

#[test]
fn without_a_quorum_no_client_is_served_and_no_session_expires() {
    let mut world = World::new(3);
    let (conn, session) = world.connect(0);
    world.ensemble.kill(world.now, 1);
    world.ensemble.kill(world.now, 2);
    world.deliver();
    assert_eq!(world.received(conn), ["closed"]);
    assert_eq!(world.ensemble.leader(), None);
    assert_eq!(world.ensemble.poll_timeout(), None);

    let refused = world.open(0);
    world.send_bytes(refused, &RawClient::connect(10_000));
    assert_eq!(world.received(refused), ["closed"]);
    world.advance(core::time::Duration::from_secs(1_000));

    world.ensemble.restart(world.now, 1);
    let conn = world.open(1);
    world.send_bytes(conn, &RawClient::resume(Zxid::ZERO, &session));
    assert_eq!(world.received(conn), ["connected"]);
}

#[test]
fn a_standalone_server_restarts_with_its_nodes_and_sessions() {
    let mut world = World::new(1);
    let (conn, session) = world.connect(0);
    world.ask(conn, &create_as("/e", CreateMode::EPHEMERAL));
    let before = world.ensemble.zxid();
    world.ensemble.kill(world.now, 0);
    world.ensemble.restart(world.now, 0);
    assert_eq!(world.ensemble.zxid(), before);
    let conn = world.open(0);
    world.send_bytes(conn, &RawClient::resume(before, &session));
    assert_eq!(world.received(conn), ["connected"]);
    assert_eq!(world.stat(conn, "/e").ephemeral_owner, session.id);
}

#[test]
fn a_lagging_server_serves_stale_reads() {
    let mut world = World::new(3);
    let (writer, _) = world.connect(2);
    let (reader, _) = world.connect(0);
    world.call(reader, &get_children("/", true));
    world.ensemble.hold(0);
    world.ask(writer, &create("/a"));
    world.ask(writer, &set_data("/a", -1));
    assert_eq!(world.ask(reader, &exists("/a", false)), "EXISTS NO_NODE");
    assert!(world.ensemble.step(world.now, 0));
    world.deliver();
    assert_eq!(world.received(reader), ["NODE_CHILDREN_CHANGED /"]);
    assert_eq!(world.stat(reader, "/a").version, 0);
    world.ensemble.release(world.now, 0);
    assert_eq!(world.stat(reader, "/a").version, 1);
    assert!(!world.ensemble.step(world.now, 0));
}

#[test]
fn requests_behind_a_write_or_a_sync_wait_for_a_lagging_server() {
    let mut world = World::new(3);
    let (other, _) = world.connect(2);
    let (conn, _) = world.connect(0);
    world.ensemble.hold(0);
    world.send(conn, &create("/a"));
    world.send(conn, &exists("/a", false));
    world.send(conn, &Request::Ping(()));
    assert_eq!(world.received(conn), [""; 0]);
    assert_eq!(world.ask(other, &exists("/a", false)), "EXISTS OK");
    world.ensemble.step(world.now, 0);
    world.deliver();
    assert_eq!(world.received(conn), ["CREATE /a", "EXISTS OK", "PING OK"]);

    world.ask(other, &create("/b"));
    world.send(conn, &exists("/b", false));
    world.send(conn, &Request::Sync(SyncRequest { path: "/b" }));
    world.send(conn, &exists("/b", false));
    assert_eq!(world.received(conn), ["EXISTS NO_NODE"]);
    world.ensemble.release(world.now, 0);
    world.deliver();
    assert_eq!(world.received(conn), ["SYNC OK", "EXISTS OK"]);
}

#[test]
fn a_lagging_server_refuses_clients_that_have_seen_newer_zxids() {
    let mut world = World::new(3);
    let (conn, session) = world.connect(2);
    world.ensemble.hold(0);
    let seen = world.call(conn, &create("/a")).header.zxid;
    let moved = world.open(0);
    world.send_bytes(moved, &RawClient::resume(seen, &session));
    assert_eq!(world.received(moved), ["closed"]);
    world.ensemble.release(world.now, 0);
    let moved = world.open(0);
    world.send_bytes(moved, &RawClient::resume(seen, &session));
    assert_eq!(world.received(moved), ["connected"]);
}
