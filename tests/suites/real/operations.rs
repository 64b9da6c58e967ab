//! Every operation of both clients on a real server: one script of method names that both share.

use zk_session::proto::{
    Acl, ErrorCode, EventType, NodeKind, OpCode, ReconfigRequest, SessionId, Ttl,
};
use zk_session::{Client, Error, ReadResult, TransactionResult, WatchUpdate, blocking};
use zk_testkit::real;
use zk_testkit::suite::HANG_TIMEOUT;

/// Runs the script on a server of this version. `wait` waits for a reply, `fired` for a one-shot watch, `updated` for the next
/// update of a persistent watch.
macro_rules! play {
    ($client:expr, $version:expr, $wait:ident, $fired:ident, $updated:ident) => {{
        let client = $client;
        let server = |code| Error::Server(code);

        // Nodes of all kinds.
        $wait!(client.ensure_path("/a/b")).expect("new");
        let created = $wait!(client.create("/a/n-", b"1", NodeKind::EphemeralSequential));
        let (ephemeral, stat) = created.expect("new");
        assert_eq!((&*ephemeral, stat.version), ("/a/n-0000000001", 0));
        assert_eq!(stat.ephemeral_owner, client.session_id());
        let ttl = Ttl::from_millis(60_000).expect("in range");
        for (path, kind) in
            [("/c", NodeKind::Container), ("/a/ttl", NodeKind::PersistentWithTtl(ttl))]
        {
            let (created, stat) =
                $wait!(client.create(path, b"", kind)).expect("new");
            assert_eq!((&*created, stat.ephemeral_owner), (path, SessionId::NONE));
        }
        let exists = $wait!(client.create("/a", b"", NodeKind::Persistent));
        assert_eq!(exists.unwrap_err().reason, server(ErrorCode::NODE_EXISTS));
        let (all, _) = $wait!(client.create_all("/d/e/f", b"", NodeKind::Persistent))
            .expect("new");
        assert_eq!(all, "/d/e/f");
        $wait!(client.delete_all("/d")).expect("there");
        assert_eq!($wait!(client.exists("/d")), Ok(None));
        assert_eq!($wait!(client.delete("/a", None)).map_err(Error::from), Err(server(ErrorCode::NOT_EMPTY)));
        assert_eq!($wait!(client.count_descendants("/a")), Ok(3));
        assert_eq!($wait!(client.get_ephemerals("/")), Ok(vec![ephemeral.clone()]));
        let (mut children, _) = $wait!(client.get_children("/a")).expect("there");
        children.sort();
        assert_eq!(children, ["b", "n-0000000001", "ttl"]);

        // Data, in single requests and in multis.
        let stat = $wait!(client.set_data("/a", b"two", Some(0))).expect("the first version");
        assert_eq!((stat.version, stat.data_length), (1, 3));
        let refused = $wait!(client.set_data("/a", b"x", Some(0)));
        assert_eq!(refused.map_err(Error::from), Err(server(ErrorCode::BAD_VERSION)));
        assert_eq!($wait!(client.get_data("/a")).expect("there").0, "two");
        let read =
            $wait!(
                client.multi_read().get_data("/a").get_data("/x").get_children("/c").send()
            );
        let read = read.expect("a server since 3.6");
        assert!(matches!(&read[0], ReadResult::Data(data, _) if data == "two"), "{read:?}");
        assert_eq!(read[1..], [ReadResult::Failed(ErrorCode::NO_NODE), ReadResult::Children(vec![])]);
        let done = $wait!(client
            .transaction()
            .check("/a", Some(1))
            .create("/t", &b""[..], NodeKind::Persistent)
            .set_data("/t", &b"x"[..], Some(0))
            .delete("/t", Some(1))
            .commit())
        .expect("all of them");
        assert!(
            matches!(
                &done[..],
                [
                    TransactionResult::Checked,
                    TransactionResult::Created { path },
                    TransactionResult::DataSet(_),
                    TransactionResult::Deleted
                ] if path == "/t"
            ),
            "{done:?}"
        );
        let refused = $wait!(client.transaction().check("/a", Some(1)).delete("/x", None).commit());
        let failed = Error::Transaction { index: 1, code: ErrorCode::NO_NODE };
        assert_eq!(refused.unwrap_err().reason, failed);

        // Access control.
        $wait!(client.add_auth("digest", b"me:secret")).expect("accepted");
        let has_who_am_i = $version.serves(OpCode::WHO_AM_I);
        if has_who_am_i {
            let identities = $wait!(client.who_am_i()).expect("a server since 3.7");
            assert!(identities.iter().any(|who| who.user.as_str() == "me"), "{identities:?}");
        }
        let stat = $wait!(client.set_acl("/c", &[Acl::CREATOR_ALL], Some(0))).expect("ours");
        assert_eq!(stat.aversion, 1);
        let (acl, _) = $wait!(client.get_acl("/c")).expect("ours");
        assert_eq!((acl.len(), acl[0].id.scheme.as_str()), (1, "digest"));

        // One-shot watches.
        let (_, created) = $wait!(client.exists_and_watch("/w")).expect("an answer");
        $wait!(client.create("/w", b"", NodeKind::Persistent)).expect("new");
        assert_eq!($fired!(created).event_type, EventType::NODE_CREATED);
        let (_, _, changed) = $wait!(client.get_data_and_watch("/w")).expect("there");
        let (_, _, children) = $wait!(client.get_children_and_watch("/w")).expect("there");

        $wait!(client.set_data("/w", b"x", None)).expect("there");
        $wait!(client.create("/w/x", b"", NodeKind::Persistent)).expect("new");
        assert_eq!($fired!(changed).event_type, EventType::NODE_DATA_CHANGED);
        assert_eq!($fired!(children).event_type, EventType::NODE_CHILDREN_CHANGED);

        // Persistent watches, on other paths (ZOOKEEPER-4466).
        let mut one = $wait!(client.watch("/stays")).expect("a server since 3.6");
        let mut below = $wait!(client.watch_recursively("/r")).expect("a server since 3.6");
        $wait!(client.ensure_path("/r/x")).expect("new");
        for path in ["/r", "/r/x"] {
            let expected = (path, EventType::NODE_CREATED);
            let Ok(WatchUpdate::Event(event)) = $updated!(below) else { panic!("no event") };
            assert_eq!((&*event.path, event.event_type), expected);
        }
        $wait!(client.create("/stays", b"", NodeKind::Persistent)).expect("new");
        $wait!(client.delete("/stays", None)).expect("there");
        for expected in [EventType::NODE_CREATED, EventType::NODE_DELETED] {
            let Ok(WatchUpdate::Event(event)) = $updated!(one) else { panic!("no event") };
            assert_eq!(event.event_type, expected);
        }

        // The ensemble.
        $wait!(client.sync("/")).expect("connected");
        $wait!(client.get_config()).expect("readable by anyone");
        let change = ReconfigRequest {
            joining_servers: None,
            leaving_servers: Some("1"),
            new_members: None,
            cur_config_id: -1,
        };
        let refused = $wait!(client.reconfig(&change)).unwrap_err();
        assert_eq!(refused.reason, server(ErrorCode::RECONFIG_DISABLED));

        for path in ["/a", "/c", "/r", "/w"] {
            $wait!(client.delete_all(path)).expect("our own node");
        }
        // Last, since an unknown operation costs the connection.
        if !has_who_am_i {
            let unsupported = $wait!(client.who_am_i()).map_err(Error::from);
            let (opcode, needs) = (OpCode::WHO_AM_I, "ZooKeeper 3.7");
            assert_eq!(unsupported, Err(Error::Unsupported { opcode, needs }));
        }
    }};
}

#[tokio::test]
async fn the_async_client_has_every_operation() {
    let Some(ensemble) = real::ensemble_or_skip(1) else { return };
    let client = Client::connect(&ensemble.connect_string()).await.expect("connected");
    macro_rules! wait {
        ($answer:expr) => {
            $answer.await
        };
    }
    macro_rules! fired {
        ($watch:ident) => {
            in_time($watch).await.expect("a watch event")
        };
    }
    macro_rules! updated {
        ($watch:ident) => {
            in_time($watch.next()).await
        };
    }
    play!(&client, ensemble.version(), wait, fired, updated);
    client.close().await;
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG_TIMEOUT, future).await.expect("in time")
}

#[test]
fn the_blocking_client_has_every_operation() {
    let Some(ensemble) = real::ensemble_or_skip(1) else { return };
    let client = blocking::Client::connect(&ensemble.connect_string()).expect("connected");
    macro_rules! wait {
        ($answer:expr) => {
            $answer.wait()
        };
    }
    macro_rules! fired {
        ($watch:ident) => {{
            let mut watch = $watch;
            watch.wait_timeout(HANG_TIMEOUT).expect("no error").expect("a watch event")
        }};
    }
    macro_rules! updated {
        ($watch:ident) => {
            $watch.wait_timeout(HANG_TIMEOUT).map(|update| update.expect("in time"))
        };
    }
    play!(&client, ensemble.version(), wait, fired, updated);
    client.close();
}
