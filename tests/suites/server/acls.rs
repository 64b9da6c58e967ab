//! Access control lists and authentication.

use core::net::IpAddr;

use zk_proto::{
    Acl, AuthPacket, CreateMode, CreateRequest, DigestId, ErrorCode, GetAclRequest, Id, List,
    Perms, Request, Response, SetAclRequest,
};
use zk_testkit::raw::RawClient;
use zk_testkit::server::{Config, ConnId};

use crate::world::{World, authenticate, create, delete, exists, get_children, get_data, set_data};

fn create_for<'a>(path: &'a str, acl: &'a [Acl<'a>]) -> Request<'a> {
    let mode = CreateMode::PERSISTENT;
    Request::Create(CreateRequest { path, data: None, acl: List::new(acl), mode })
}

fn acl<'a>(perms: Perms, scheme: &'a str, id: &'a str) -> Acl<'a> {
    Acl { perms, id: Id { scheme, id: Some(id) } }
}

fn ids(world: &mut World, conn: ConnId, path: &str) -> Vec<String> {
    match world.call(conn, &Request::GetAcl(GetAclRequest { path })).response() {
        Some(Response::GetAcl(got)) => {
            got.acl.iter().map(|acl| acl.id.id.unwrap_or_default().into()).collect()
        }
        other => panic!("not a list: {other:?}"),
    }
}

#[test]
fn each_permission_is_required_for_its_operations() {
    let mut world = World::new(1);
    let (owner, _) = world.connect(0);
    let (other, _) = world.connect(0);
    world.call(owner, &authenticate("u:p"));
    assert_eq!(world.ask(owner, &create_for("/mine", &[Acl::CREATOR_ALL])), "CREATE /mine");
    assert_eq!(world.ask(owner, &create("/mine/child")), "CREATE /mine/child");
    let set_acl = SetAclRequest { path: "/mine", acl: List::new(&[Acl::OPEN]), version: -1 };
    let denied = [
        (get_data("/mine", true), "GET_DATA NO_AUTH"),
        (get_children("/mine", true), "GET_CHILDREN NO_AUTH"),
        (Request::GetAcl(GetAclRequest { path: "/mine" }), "GET_ACL NO_AUTH"),
        (set_data("/mine", -1), "SET_DATA NO_AUTH"),
        (create("/mine/x"), "CREATE NO_AUTH"),
        (delete("/mine/child"), "DELETE NO_AUTH"),
        (Request::SetAcl(set_acl), "SET_ACL NO_AUTH"),
    ];
    for (request, answer) in &denied {
        assert_eq!(world.ask(other, request), *answer);
    }
    assert_eq!(world.ensemble.watches(), 0);
    assert_eq!(world.ask(other, &exists("/mine", false)), "EXISTS OK");

    world.call(other, &authenticate("u:wrong"));
    assert_eq!(world.ask(other, &get_data("/mine", false)), "GET_DATA NO_AUTH");
    world.call(other, &authenticate("u:p"));
    for (request, answer) in &denied {
        world.send(other, request);
        assert_ne!(world.received(other).last().map(String::as_str), Some(*answer));
    }
}

#[test]
fn hashes_are_hidden_from_clients_without_permission() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let id = DigestId::from_credentials("u:p").to_string();
    let list = [acl(Perms::ALL, "digest", &id), Acl::READ];
    world.call(conn, &create_for("/a", &list));
    assert_eq!(ids(&mut world, conn, "/a"), ["u:x", "anyone"]);
    world.call(conn, &authenticate("u:p"));
    assert_eq!(ids(&mut world, conn, "/a"), [id.as_str(), "anyone"]);
}

#[test]
fn an_address_is_an_identity_but_not_an_authenticated_one() {
    let mut world = World::new(1);
    let (near, _) = world.connect(0);
    let address = IpAddr::from([10, 1, 2, 3]);
    let far = world.ensemble.handle_connect_from(0, address).expect("a connection");
    world.admit(far);
    world.send_bytes(far, &RawClient::connect(10_000));
    assert_eq!(world.received(far), ["connected"]);
    world.call(near, &create_for("/net", &[acl(Perms::ALL, "ip", "10.0.0.0/8")]));
    assert_eq!(world.ask(near, &get_data("/net", false)), "GET_DATA NO_AUTH");
    assert_eq!(world.ask(far, &get_data("/net", false)), "GET_DATA OK");
    assert_eq!(world.ask(far, &create_for("/own", &[Acl::CREATOR_ALL])), "CREATE INVALID_ACL");

    world.call(far, &authenticate("u:p"));
    let info = world.call(far, &Request::WhoAmI(()));
    let Some(Response::WhoAmI(answer)) = info.response() else { panic!("{info:?}") };
    let known: Vec<_> =
        answer.client_info.iter().map(|info| (info.auth_scheme, info.user)).collect();
    assert_eq!(known, [("ip", "10.1.2.3"), ("digest", "u")]);
}

#[test]
fn malformed_ids_are_refused() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let invalid = [
        acl(Perms::ALL, "world", "someone"),
        acl(Perms::ALL, "digest", "user"),
        acl(Perms::ALL, "digest", "user:"),
        acl(Perms::ALL, "digest", "a:b:c"),
        acl(Perms::ALL, "ip", "127.0.0.1/33"),
        acl(Perms::ALL, "ip", "::1"),
        acl(Perms::ALL, "sasl", "user"),
    ];
    for list in &invalid {
        let request = create_for("/a", core::slice::from_ref(list));
        assert_eq!(world.ask(conn, &request), "CREATE INVALID_ACL", "{list:?}");
    }
    let null = Acl { id: Id { scheme: "digest", id: None }, ..Acl::OPEN };
    assert_eq!(world.ask(conn, &create_for("/a", &[null])), "CREATE MARSHALLING_ERROR");
}

#[test]
fn credentials_of_an_unknown_scheme_close_the_connection_after_the_reply() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let packet = AuthPacket { auth_type: 0, scheme: "sasl", auth: Some(b"") };
    world.send(conn, &Request::Auth(packet));
    assert_eq!(world.received(conn), [format!("AUTH {}", ErrorCode::AUTH_FAILED), "closed".into()]);
}

#[test]
fn authentication_ends_with_the_connection() {
    let mut world = World::new(1);
    let (conn, session) = world.connect(0);
    world.call(conn, &authenticate("u:p"));
    world.call(conn, &create_for("/mine", &[Acl::CREATOR_ALL]));
    let moved = world.open(0);
    world.send_bytes(moved, &RawClient::resume(world.ensemble.zxid(), &session));
    assert_eq!(world.received(moved), ["connected"]);
    assert_eq!(world.ask(moved, &get_data("/mine", false)), "GET_DATA NO_AUTH");
}

#[test]
fn connections_from_one_address_can_be_limited() {
    let mut world = World::with(Config { max_connections: Some(2), ..Config::default() });
    let first = world.open(0);
    world.open(0);
    assert!(world.ensemble.handle_connect(0).is_none());
    assert!(world.ensemble.handle_connect_from(0, IpAddr::from([10, 0, 0, 1])).is_some());
    world.ensemble.handle_disconnect(first);
    assert!(world.ensemble.handle_connect(0).is_some());
}
