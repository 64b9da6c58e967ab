use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;
use zk_session::proto::{
    ErrorCode, ErrorResponse, EventType, ExistsResponse, GetDataResponse, MultiOp,
    MultiReadResponse, MultiReadResult, MultiResponse, MultiResult, NodeKind, OpCode, Request,
    SetDataRequest, Stat, SyncResponse, Ttl,
};
use zk_session::{Client, Error, Invalid, Outcome, RequestError, Tokio, Transaction, Watch};

use crate::server::{builder, connected, connected_with, settle};

#[test]
fn handles_and_futures_are_send() {
    fn shared<T: Send + Sync + Clone>() {}
    fn sent<T: Send>(_: impl FnOnce(&'static Client) -> T) {}
    fn future<F: Future + Send + 'static>(_: impl FnOnce(&'static Client) -> F) {}
    shared::<Client>();
    sent::<(Watch<Tokio>, Transaction<'_, Client>)>(|_| unreachable!());
    future(|c| c.create("/", b"", NodeKind::Persistent));
    future(|c| c.get_data_and_watch("/"));
    future(|c| c.get_children_and_watch("/"));
    future(|c| c.exists_and_watch("/"));
    future(|c| c.transaction().delete("/a", None).commit());
    future(|c| c.clone().close());
    future(|c| c.ended());
    future(|_| Client::connect(""));
}

#[tokio::test(start_paused = true)]
async fn requests_are_sent_in_the_order_of_the_calls_not_of_the_awaits() {
    let (client, mut server, _listener) = connected().await;
    let first = client.get_data("/first");
    let second = client.sync("/second");
    let third = client.exists("/third");
    let serve = async {
        for opcode in [OpCode::GET_DATA, OpCode::SYNC, OpCode::EXISTS] {
            let sent = server.expect(opcode).await;
            server.reply(sent.xid, ErrorCode::NO_NODE, &()).await;
        }
    };
    let (third, second, first, ()) = tokio::join!(third, second, first, serve);
    assert_eq!(third, Ok(None));
    assert_eq!(second.map_err(Error::from), Err(Error::Server(ErrorCode::NO_NODE)));
    assert_eq!(first.map_err(Error::from), Err(Error::Server(ErrorCode::NO_NODE)));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_too_long_fails_its_request_alone_and_is_skipped() {
    let (client, mut server, _listener) = connected_with(builder().max_reply(1_000), 1 << 10).await;
    let listed = client.get_children_and_watch("/");
    let (created, synced) = (client.create("/a", b"", NodeKind::Persistent), client.sync("/"));
    let serve = async {
        let list = server.expect(OpCode::GET_CHILDREN2).await;
        let create = server.expect(OpCode::CREATE2).await;
        let sync = server.expect(OpCode::SYNC).await;
        for sent in [list, create] {
            server.reply(sent.xid, ErrorCode::OK, &"x".repeat(100_000).as_str()).await;
        }
        server.reply(sync.xid, ErrorCode::OK, &SyncResponse { path: "/" }).await;
        // Removes the watch that the server has set.
        server.expect(OpCode::REMOVE_WATCHES).await;
    };
    let (listed, created, synced, ()) = tokio::join!(listed, created, synced, serve);
    let too_large = |outcome| Error::ReplyTooLarge { length: 100_020, limit: 1_000, outcome };
    assert_eq!(listed.err().map(Error::from), Some(too_large(Outcome::NotApplied)));
    assert_eq!(created.err().map(Error::from), Some(too_large(Outcome::Applied)));
    assert_eq!(synced, Ok(()));
    assert_eq!(client.statistics().connections, 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_sent_even_if_its_future_is_never_polled() {
    let (client, mut server, _listener) = connected().await;
    settle().await;
    let start = Instant::now();
    drop(client.delete("/a", Some(3)));
    server.expect(OpCode::DELETE).await;
    assert_eq!(start.elapsed(), Duration::ZERO, "at once, not when something else is due");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_future_affects_no_other() {
    let (client, mut server, _listener) = connected().await;
    let first = client.get_data("/first");
    let second = tokio::spawn(client.get_data("/second"));
    let third = client.get_data("/third");
    settle().await;
    second.abort();
    drop(first);
    for data in [&b"1"[..], b"2", b"3"] {
        let sent = server.expect(OpCode::GET_DATA).await;
        let body = GetDataResponse { data: Some(data), stat: Stat::default() };
        server.reply(sent.xid, ErrorCode::OK, &body).await;
    }
    assert_eq!(third.await.unwrap().0, &b"3"[..]);
}

#[tokio::test(start_paused = true)]
async fn answers_pass_through_a_pipe_of_a_few_bytes() {
    let (client, mut server, _listener) = connected_with(builder(), 5).await;
    let writes: Vec<_> = (0..50u8)
        .map(|n| {
            let path = format!("/{}", "x".repeat(usize::from(n) + 1));
            client.set_data(&path, &[n; 300], None)
        })
        .collect();
    let serve = async {
        for n in 0..50u8 {
            let sent = server.expect(OpCode::SET_DATA).await;
            let Request::SetData(body) = sent.request() else { unreachable!() };
            assert_eq!((body.path.len(), body.data), (usize::from(n) + 2, Some(&[n; 300][..])));
            let stat = Stat { version: n.into(), ..Stat::default() };
            server.reply(sent.xid, ErrorCode::OK, &ExistsResponse { stat }).await;
        }
    };
    let read = async {
        for (n, write) in writes.into_iter().enumerate() {
            assert_eq!(write.await.unwrap().version as usize, n);
        }
    };
    tokio::join!(serve, read);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_request_fails_alone() {
    let (client, mut server, _listener) =
        connected_with(builder().max_request(100).max_pending(1), 1 << 16).await;
    let invalid = |error: RequestError| match error.reason {
        Error::Invalid(invalid) => invalid,
        other => panic!("{other:?}"),
    };
    assert!(matches!(invalid(client.delete("a", None).await.unwrap_err()), Invalid::Path(_)));
    let too_large = client.set_data("/a", &[0; 100], None).await.unwrap_err();
    assert!(matches!(invalid(too_large), Invalid::TooLarge { length: 122, limit: 100 }));
    let fits = client.sync("/");
    assert_eq!(client.sync("/").await.map_err(Error::from), Err(Error::QueueFull { limit: 1 }));
    let sent = server.expect(OpCode::SYNC).await;
    server.reply(sent.xid, ErrorCode::OK, &SyncResponse { path: "/" }).await;
    assert_eq!(fits.await, Ok(()));
    assert_eq!(client.statistics().requests, 1);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_fails_as_a_whole_and_never_half_succeeds() {
    let error = |err| MultiResult::Error(ErrorResponse { err });
    let inconsistent = ErrorCode::RUNTIME_INCONSISTENCY;
    for (results, expected) in [
        ([error(ErrorCode::OK), error(ErrorCode::NO_NODE)], (1, ErrorCode::NO_NODE)),
        ([error(ErrorCode::BAD_VERSION), error(inconsistent)], (0, ErrorCode::BAD_VERSION)),
        // A correct server would not send this.
        ([error(ErrorCode::OK), error(inconsistent)], (0, ErrorCode::OK)),
        ([MultiResult::Check(()), error(inconsistent)], (1, inconsistent)),
    ] {
        let (client, mut server, _listener) = connected().await;
        let commit = client.transaction().check("/a", None).delete("/b", None).commit();
        let sent = server.expect(OpCode::MULTI).await;
        server.reply(sent.xid, ErrorCode::OK, &MultiResponse::new(&results)).await;
        let (index, code) = expected;
        let error = commit.await.unwrap_err();
        assert_eq!(error.reason, Error::Transaction { index, code });
        assert_eq!(error.outcome(), Outcome::NotApplied);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_number_of_results_is_an_error_of_the_server() {
    let (client, mut server, _listener) = connected().await;
    let results = [MultiResult::Delete(()); 3];
    let failed = MultiResult::Error(ErrorResponse { err: ErrorCode::NO_NODE });
    for results in [&results[..0], &results[..1], &results, &[results[0], results[0], failed]] {
        let commit = client.transaction().delete("/a", None).delete("/b", None).commit();
        let sent = server.expect(OpCode::MULTI).await;
        server.reply(sent.xid, ErrorCode::OK, &MultiResponse::new(results)).await;
        let error = commit.await.unwrap_err();
        assert_eq!(error.reason, Error::Results { asked: 2, answered: results.len() });
        assert_eq!(error.outcome(), Outcome::Unknown);
    }
    let results = [MultiReadResult::Error(ErrorResponse { err: ErrorCode::NO_NODE }); 2];
    for results in [&results[..0], &results] {
        let read = client.multi_read().get_data("/a").send();
        let sent = server.expect(OpCode::MULTI_READ).await;
        server.reply(sent.xid, ErrorCode::OK, &MultiReadResponse::new(results)).await;
        assert_eq!(
            read.await.map_err(Error::from),
            Err(Error::Results { asked: 1, answered: results.len() })
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_with_another_record_fails_its_request_alone() {
    let (client, mut server, _listener) = connected().await;
    let first = client.get_children("/");
    let second = client.sync("/");
    let sent = server.expect(OpCode::GET_CHILDREN2).await;
    server.reply(sent.xid, ErrorCode::OK, &()).await;
    let sent = server.expect(OpCode::SYNC).await;
    server.reply(sent.xid, ErrorCode::OK, &SyncResponse { path: "/" }).await;
    let error = first.await.unwrap_err();
    assert!(matches!(error.reason, Error::Reply(_)), "{error:?}");
    assert_eq!(second.await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_error_names_the_operation_and_the_path() {
    let (client, mut server, _listener) = connected_with(builder().max_pending(2), 1 << 16).await;
    let client = client.with_chroot("/app").unwrap();
    let named = |error: RequestError| (error.operation, error.path.as_deref().map(str::to_string));
    // Nothing was sent, so the path is borrowed from the caller.
    let error = client.delete("a", None).await.unwrap_err();
    assert_eq!(error.to_string(), "DELETE \"a\": a path must start with '/'");
    // The answers of pipelined requests keep their paths.
    let (read, listed) = (client.get_data("/a"), client.get_children("/a"));
    let full = client.get_data("/b").await.unwrap_err();
    assert_eq!(named(full), (OpCode::GET_DATA, Some("/b".to_string())));
    for _ in 0..2 {
        let xid = server.request().await.unwrap().xid;
        server.reply(xid, ErrorCode::NO_NODE, &()).await;
    }
    let error = read.await.unwrap_err();
    assert_eq!(error.to_string(), "GET_DATA \"/a\": the server refused the request: NO_NODE");
    assert_eq!(named(listed.await.unwrap_err()), (OpCode::GET_CHILDREN2, Some("/a".to_string())));
    // A transaction keeps its paths, and the error names the failed operation.
    let commit = client.transaction().check("/a", None).set_data("/b", b"x", Some(1)).commit();
    let xid = server.expect(OpCode::MULTI).await.xid;
    let [undone, refused] = [ErrorCode::OK, ErrorCode::BAD_VERSION]
        .map(|err| MultiResult::Error(ErrorResponse { err }));
    let results = [undone, refused];
    server.reply(xid, ErrorCode::OK, &MultiResponse::new(&results)).await;
    let error = commit.await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "SET_DATA \"/b\": operation 1 of the transaction was refused: BAD_VERSION"
    );
    // Methods that walk the tree keep theirs, too.
    let (deleted, ()) = tokio::join!(client.delete_all("/a"), async {
        let xid = server.expect(OpCode::GET_CHILDREN2).await.xid;
        server.reply(xid, ErrorCode::NO_AUTH, &()).await;
    });
    assert_eq!(named(deleted.unwrap_err()), (OpCode::GET_CHILDREN2, Some("/a".to_string())));
}

#[tokio::test(start_paused = true)]
async fn a_transaction_accepts_the_same_data_and_kinds_as_the_client() {
    let (client, mut server, _listener) = connected().await;
    let ttl = Ttl::from_millis(5).unwrap();
    let kind = NodeKind::PersistentWithTtl(ttl);
    let data = String::from("y");
    let alone = (client.create("/a", data.as_bytes(), kind), client.set_data("/a", b"x", None));
    let transaction = client.transaction().create("/a", data.as_bytes(), kind);
    let both = transaction.set_data("/a", b"x", None).commit();
    let sent = server.expect(OpCode::CREATE_TTL).await;
    let Request::CreateTtl(created) = sent.request() else { unreachable!() };
    server.expect(OpCode::SET_DATA).await;
    let sent = server.expect(OpCode::MULTI).await;
    let Request::Multi(multi) = sent.request() else { unreachable!() };
    let set = SetDataRequest { path: "/a", data: Some(b"x"), version: -1 };
    let operations: Vec<_> = multi.iter().collect();
    assert_eq!(operations, [MultiOp::CreateTtl(created), MultiOp::SetData(set)]);
    assert_eq!((created.data, created.ttl), (Some(&b"y"[..]), ttl.as_millis()));
    drop((alone, both));
}

#[tokio::test(start_paused = true)]
async fn reads_are_sent_again_if_their_connection_is_lost_and_writes_are_not() {
    let (client, mut server, mut listener) =
        connected_with(builder().retry_reads(true), 1 << 16).await;
    let read = client.get_data("/a");
    let watched = client.exists_and_watch("/b");
    let written = client.set_data("/a", b"new", None);
    let several = client.multi_read().get_data("/a").get_children("/c").send();
    for _ in 0..4 {
        server.request().await.unwrap();
    }
    drop(server);
    let mut server = listener.welcome().await;
    let failed = written.await.unwrap_err();
    assert_eq!((failed.reason, failed.path.as_deref()), (Error::ConnectionLost, Some("/a")));
    let answers = tokio::spawn(async move { (read.await, watched.await, several.await) });
    let sent = server.expect(OpCode::GET_DATA).await;
    assert_eq!(sent.request().path(), Some("/a"));
    let data = GetDataResponse { data: Some(b"old"), stat: Stat::default() };
    server.reply(sent.xid, ErrorCode::OK, &data).await;
    let sent = server.expect(OpCode::EXISTS).await;
    assert!(matches!(sent.request(), Request::Exists(body) if body.watch && body.path == "/b"));
    server.reply(sent.xid, ErrorCode::OK, &ExistsResponse { stat: Stat::default() }).await;
    let sent = server.expect(OpCode::MULTI_READ).await;
    assert!(sent.request().paths().eq(["/a", "/c"]));
    let result = || MultiReadResult::Error(ErrorResponse { err: ErrorCode::NO_NODE });
    let results = [result(), result()];
    server.reply(sent.xid, ErrorCode::OK, &MultiReadResponse::new(&results)).await;
    let (read, watched, several) = answers.await.unwrap();
    assert_eq!(read.unwrap().0, "old");
    assert_eq!(several.unwrap().len(), 2);
    server.notify(EventType::NODE_DELETED, "/b").await;
    assert_eq!(watched.unwrap().1.await.unwrap().event_type, EventType::NODE_DELETED);
}

#[tokio::test(start_paused = true)]
async fn a_read_is_sent_again_until_its_time_limit() {
    let limit = Duration::from_secs(3);
    let builder = builder().retry_reads(true).request_timeout(limit);
    let (client, mut server, mut listener) = connected_with(builder, 1 << 16).await;
    let begun = Instant::now();
    let read = tokio::spawn(client.get_data("/a"));
    server.expect(OpCode::GET_DATA).await;
    drop(server);
    let mut server = listener.welcome().await;
    server.expect(OpCode::GET_DATA).await;
    let failed = read.await.unwrap().unwrap_err();
    assert_eq!(failed.reason, Error::DeadlinePassed { outcome: Outcome::Unknown });
    assert_eq!(failed.outcome(), Outcome::NotApplied);
    assert!(begun.elapsed() < limit + Duration::from_millis(100), "{:?}", begun.elapsed());
}
