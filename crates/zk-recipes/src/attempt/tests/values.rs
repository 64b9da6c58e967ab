//! What an attempt is configured with, and what it has created.

use zk_session::ServerKind;
use zk_session::proto::Zxid;

use crate::attempt::node::Node;
use crate::attempt::{NodeName, Parents};
use crate::tests::*;

#[test]
fn the_name_of_a_node_is_its_text() {
    let name = Node::new("/lock/a-1", Zxid(1)).name;
    assert_eq!(&*name, "a-1");
    assert_eq!(format!("{name} {name:?}"), r#"a-1 "a-1""#);
    assert_eq!(name, NodeName::from("a-1"));
    assert_ne!(name, NodeName::from("a-2"));
}

#[test]
fn parents_are_containers_only_where_servers_have_them() {
    for (parents, server, are_containers) in [
        (Parents::Containers, ServerKind::ZooKeeper, true),
        (Parents::Containers, ServerKind::Keeper, false),
        (Parents::Persistent, ServerKind::ZooKeeper, false),
        (Parents::Persistent, ServerKind::Keeper, false),
    ] {
        assert_eq!(parents.are_containers(server), are_containers, "{parents:?} on {server:?}");
    }
}
