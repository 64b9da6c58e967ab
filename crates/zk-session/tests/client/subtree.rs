//! Operations on several nodes, on the in-memory ensemble.

use std::sync::Arc;

use zk_session::proto::{Acl, ErrorCode, NodeKind, OpCode, Request};
use zk_session::{Client, Error};
use zk_testkit::serve::Embedded;

use crate::server::connected;

async fn client() -> (Client, Embedded) {
    let embedded = Embedded::start(1).await.unwrap();
    let client = Client::connect(&embedded.connect_string()).await.unwrap();
    (client, embedded)
}

fn paths(embedded: &Embedded) -> Vec<String> {
    let is_ours = |path: &&str| *path != "/" && !path.starts_with("/zookeeper");
    embedded.with(|ensemble| ensemble.paths().filter(is_ours).map(str::to_owned).collect())
}

#[tokio::test]
async fn missing_parents_are_created() {
    let (client, embedded) = client().await;
    client.ensure_path("/").await.unwrap();
    client.ensure_path("/a/b").await.unwrap();
    client.ensure_path("/a/b").await.unwrap();
    let (path, _) = client.create_all("/a/b/c/d", b"data", NodeKind::Ephemeral).await.unwrap();
    assert_eq!(path, "/a/b/c/d");
    let (path, _) = client.create_all("/q/", b"", NodeKind::PersistentSequential).await.unwrap();
    assert!(path.starts_with("/q/0"), "{path}");
    assert_eq!(client.get_data("/a/b/c/d").await.unwrap().0, "data");
    assert_eq!(paths(&embedded).len(), 6);

    let exists = client.create_all("/a/b", b"", NodeKind::Persistent).await;
    assert_eq!(exists.map_err(Error::from), Err(Error::Server(ErrorCode::NODE_EXISTS)));
    let below = client.create_all("/a/b/c/d/e", b"", NodeKind::Persistent).await;
    assert_eq!(
        below.map_err(Error::from),
        Err(Error::Server(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS))
    );
    assert!(matches!(client.ensure_path("a").await.unwrap_err().reason, Error::Invalid(_)));
}

#[tokio::test]
async fn the_chroot_of_a_client_can_be_created_by_that_client() {
    let (client, embedded) = client().await;
    let below = client.with_chroot("/x/y").unwrap();
    below.ensure_path("/").await.unwrap();
    assert_eq!(paths(&embedded), ["/x", "/x/y"]);
    let below = client.with_chroot("/z").unwrap();
    let (path, _) = below.create_all("/a", b"", NodeKind::Persistent).await.unwrap();
    assert_eq!(path, "/a");
    let below = client.with_chroot("/s").unwrap();
    let (path, _) = below.create_all("/", b"", NodeKind::PersistentSequential).await.unwrap();
    assert_eq!(paths(&embedded), ["/s", &format!("/s{path}"), "/x", "/x/y", "/z", "/z/a"]);
}

#[tokio::test(start_paused = true)]
async fn missing_nodes_have_the_requested_kind_and_acl() {
    let (client, mut server, _listener) = connected().await;
    let (container, acl) = (NodeKind::Container, [Acl::READ]);
    let serve = async {
        // The node, whose parent is missing, and then its ancestors.
        let opcodes = [OpCode::CREATE2, OpCode::CREATE_CONTAINER, OpCode::CREATE_CONTAINER];
        for (opcode, path) in opcodes.into_iter().zip(["/a/b/c", "/a", "/a/b"]) {
            let sent = server.expect(opcode).await;
            let (Request::Create2(body) | Request::CreateContainer(body)) = sent.request() else {
                unreachable!()
            };
            assert_eq!((body.path, body.acl.iter().collect()), (path, vec![Acl::READ]));
            server.reply(sent.xid, ErrorCode::NO_NODE, &()).await;
        }
    };
    let creation = client.create_all_with("/a/b/c", b"", NodeKind::Ephemeral, &acl, container);
    let (created, ()) = tokio::join!(creation, serve);
    assert_eq!(
        created.map_err(Error::from),
        Err(Error::Server(ErrorCode::NO_NODE)),
        "of the deepest of its ancestors"
    );
    let serve = async {
        let sent = server.expect(OpCode::CREATE_CONTAINER).await;
        server.reply(sent.xid, ErrorCode::NODE_EXISTS, &()).await;
    };
    let (ensured, ()) = tokio::join!(client.ensure_path_with("/a", container, &acl), serve);
    assert_eq!(ensured, Ok(()));
}

#[tokio::test]
async fn methods_of_several_requests_wait_for_room() {
    let embedded = Embedded::start(1).await.unwrap();
    let builder = Client::builder(&embedded.connect_string()).max_pending(2);
    let client = builder.connect().await.unwrap();
    client.ensure_path("/a/b/c/d/e/f").await.unwrap();
    for node in 0..10 {
        client.create_all(&format!("/a/{node}/x"), b"", NodeKind::Persistent).await.unwrap();
    }
    client.delete_all("/").await.unwrap();
    assert_eq!(paths(&embedded), [""; 0]);
}

#[tokio::test]
async fn delete_all_deletes_everything_below_a_node_and_nothing_else() {
    let (client, embedded) = client().await;
    for path in ["/a/b/c/d", "/a/b/e", "/a/f", "/ab/c"] {
        client.ensure_path(path).await.unwrap();
    }
    client.delete_all("/a").await.unwrap();
    assert_eq!(paths(&embedded), ["/ab", "/ab/c"]);
    client.delete_all("/a").await.unwrap();
    client.ensure_path("/g/h").await.unwrap();
    client.delete_all("/").await.unwrap();
    assert_eq!(paths(&embedded), [""; 0]);
}

#[tokio::test]
async fn delete_all_succeeds_while_others_create_and_delete_nodes() {
    let (client, embedded) = client().await;
    let client = Arc::new(client);
    let others: Vec<_> = (0..4)
        .map(|other| {
            let client = client.clone();
            tokio::spawn(async move {
                for round in 0..50 {
                    let path = format!("/a/{}/{other}/{round}", round % 3);
                    client.create_all(&path, b"", NodeKind::Persistent).await.unwrap();
                    if round % 5 == 0 {
                        client.delete_all("/a").await.unwrap();
                    }
                }
            })
        })
        .collect();
    for other in others {
        other.await.unwrap();
    }
    client.delete_all("/a").await.unwrap();
    assert_eq!(paths(&embedded), [""; 0]);
}
