use zk_session::proto::{
    Create2Response, CreateResponse, ErrorCode, EventType, MultiOp, MultiResponse, MultiResult,
    NodeKind, OpCode, Request, Stat,
};
use zk_session::{Client, TransactionResult};

use crate::server::{Listener, Server, connected_with};

async fn in_app() -> (Client, Server, Listener) {
    connected_with(Client::builder("one/app"), 1 << 16).await
}

#[tokio::test(start_paused = true)]
async fn a_created_path_is_relative_to_the_chroot() {
    for (path, kind, on_server, created, seen) in [
        ("/a", NodeKind::Persistent, "/app/a", "/app/a", "/a"),
        ("/", NodeKind::Persistent, "/app", "/app", "/"),
        ("/a-", NodeKind::EphemeralSequential, "/app/a-", "/app/a-0000000003", "/a-0000000003"),
        ("/", NodeKind::PersistentSequential, "/app/", "/app/0000000003", "/0000000003"),
        ("/a/", NodeKind::PersistentSequential, "/app/a/", "/app/a/0000000003", "/a/0000000003"),
        ("/a", NodeKind::Persistent, "/app/a", "/application", "/application"),
    ] {
        let (client, mut server, _listener) = in_app().await;
        let create = client.create(path, b"", kind);
        let sent = server.expect(OpCode::CREATE2).await;
        let Request::Create2(body) = sent.request() else { unreachable!() };
        assert_eq!((body.path, body.mode), (on_server, kind.mode()));
        let response = Create2Response { path: created, stat: Stat::default() };
        server.reply(sent.xid, ErrorCode::OK, &response).await;
        assert_eq!(create.await.unwrap().0, seen);
    }
}

#[tokio::test(start_paused = true)]
async fn paths_of_reads_and_watches_are_relative_to_the_chroot() {
    let (client, mut server, _listener) = in_app().await;
    let exists = client.exists_and_watch("/a");
    let sent = server.expect(OpCode::EXISTS).await;
    let Request::Exists(body) = sent.request() else { unreachable!() };
    assert_eq!((body.path, body.watch), ("/app/a", true));
    server.reply(sent.xid, ErrorCode::NO_NODE, &()).await;
    let (stat, watch) = exists.await.unwrap();
    assert_eq!(stat, None);
    server.notify(EventType::NODE_CREATED, "/app/a").await;
    let event = watch.await.unwrap();
    assert_eq!((event.event_type, &*event.path), (EventType::NODE_CREATED, "/a"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_on_the_chroot_reports_the_root() {
    let (client, mut server, _listener) = in_app().await;
    let children = client.get_children_and_watch("/");
    let sent = server.expect(OpCode::GET_CHILDREN2).await;
    let body = zk_session::proto::GetChildren2Response {
        children: (&["a", "b"]).into(),
        stat: Stat::default(),
    };
    server.reply(sent.xid, ErrorCode::OK, &body).await;
    let (children, _, watch) = children.await.unwrap();
    assert_eq!(children, ["a", "b"]);
    server.notify(EventType::NODE_CHILDREN_CHANGED, "/app").await;
    assert_eq!(&*watch.await.unwrap().path, "/");
}

#[tokio::test(start_paused = true)]
async fn paths_of_transactions_and_results_are_relative_to_the_chroot() {
    let (client, mut server, _listener) = in_app().await;
    let commit = client
        .transaction()
        .create("/a-", b"", NodeKind::PersistentSequential)
        .create("/c", b"", NodeKind::Container)
        .set_data("/b", b"x", Some(3))
        .check("/", None)
        .delete("/d", None)
        .commit();
    let sent = server.expect(OpCode::MULTI).await;
    let Request::Multi(body) = sent.request() else { unreachable!() };
    let paths: Vec<_> = body
        .iter()
        .map(|operation| match operation {
            MultiOp::Create(body) | MultiOp::CreateContainer(body) => body.path,
            MultiOp::SetData(body) => body.path,
            MultiOp::Check(body) => body.path,
            MultiOp::Delete(body) => body.path,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(paths, ["/app/a-", "/app/c", "/app/b", "/app", "/app/d"]);
    let stat = Stat { version: 4, ..Stat::default() };
    let results = [
        MultiResult::Create(CreateResponse { path: "/app/a-0000000000" }),
        MultiResult::Create2(Create2Response { path: "/app/c", stat }),
        MultiResult::SetData(zk_session::proto::SetDataResponse { stat }),
        MultiResult::Check(()),
        MultiResult::Delete(()),
    ];
    server.reply(sent.xid, ErrorCode::OK, &MultiResponse::new(&results)).await;
    assert_eq!(
        commit.await.unwrap(),
        [
            TransactionResult::Created { path: "/a-0000000000".into() },
            TransactionResult::Created { path: "/c".into() },
            TransactionResult::DataSet(stat),
            TransactionResult::Checked,
            TransactionResult::Deleted,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_transaction_with_an_invalid_path_sends_nothing() {
    let (client, mut server, _listener) = in_app().await;
    let commit = client.transaction().delete("/ok", None).delete("bad", None).commit();
    assert!(matches!(commit.await.unwrap_err().reason, zk_session::Error::Invalid(_)));
    drop(client.sync("/"));
    server.expect(OpCode::SYNC).await;
}
