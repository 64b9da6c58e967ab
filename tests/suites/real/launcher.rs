//! The launcher of real servers: three servers that are killed, cut off and without room on their
//! disks, and their transaction logs.

use zk_session::Client;
use zk_session::proto::{Acl, NodeKind, OpCode, Ttl, Zxid};
use zk_testkit::real::{self, End};
use zk_testkit::suite::until;
use zk_testkit::transaction_log::{self, Change, LogReader, Logged};

#[test]
fn a_quorum_survives_its_leader() {
    let Some(mut ensemble) = real::ensemble_or_skip(3) else { return };
    let leader = ensemble.leader().expect("a leader");
    ensemble.kill(leader).expect("a process to kill");
    assert!(ensemble.four_letter(leader, "srvr").is_err());
    ensemble.restart(leader).expect("a restarted server");
    let answer = ensemble.four_letter(leader, "mntr").expect("an answer");
    assert!(answer.contains("zk_server_state"), "{answer}");
    assert_eq!(ensemble.connect_string().split(',').count(), 3);
}

#[tokio::test]
async fn the_transaction_logs_of_all_servers_are_read() {
    let Some(ensemble) = real::ensemble_or_skip(3) else { return };
    let client = Client::connect(&ensemble.connect_string()).await.expect("a server answers");
    let session = client.session_id();
    let create = client.create("/logged", b"", NodeKind::Persistent);
    let (_, created) = create.await.expect("created");
    let changed = client.set_data("/logged", b"x", None).await.expect("set");
    client.close().await;
    let expected = [
        (created.czxid, OpCode::CREATE2),
        (changed.mzxid, OpCode::SET_DATA),
        (Zxid(changed.mzxid.0 + 1), OpCode::CLOSE_SESSION),
    ];
    for server in 0..3 {
        // A follower may write later than a majority.
        let written = || transaction_log::read(&ensemble.log_folder(server)).expect("a log");
        let is_last = |last: &Logged| last.operation == OpCode::CLOSE_SESSION;
        until("the end of the session", || written().last().is_some_and(is_last)).await;
        let logged = written();
        let (first, last) = logged.split_at(logged.len() - expected.len());
        assert_eq!(first.last().map(|opened| opened.operation), Some(OpCode::CREATE_SESSION));
        assert_eq!(last, expected.map(|(zxid, operation)| Logged { zxid, operation, session }));
    }
}

/// The golden logs of the unit tests were written in this way.
#[tokio::test]
async fn every_change_in_a_transaction_log_is_decoded() {
    let Some(ensemble) = real::ensemble_or_skip(1) else { return };
    let client = Client::connect(&ensemble.connect_string()).await.expect("a server answers");
    let ttl = Ttl::from_millis(60_000).expect("in range");
    let kinds = [
        ("/persistent", NodeKind::Persistent),
        ("/ephemeral", NodeKind::Ephemeral),
        ("/sequential-", NodeKind::PersistentSequential),
        ("/container", NodeKind::Container),
        ("/ttl", NodeKind::PersistentWithTtl(ttl)),
    ];
    for (path, kind) in kinds {
        client.create(path, b"data", kind).await.expect("created");
    }
    client.set_data("/persistent", b"", None).await.expect("set");
    client.set_acl("/persistent", &[Acl::OPEN], None).await.expect("set");
    client.delete("/ttl", None).await.expect("deleted");
    assert!(client.delete("/missing", None).await.is_err());
    let both = client.transaction().check("/ephemeral", None).set_data("/container", b"1 2", None);
    both.commit().await.expect("applied");
    let refused = client.transaction().delete("/container", None).check("/missing", None);
    assert!(refused.commit().await.is_err());
    client.close().await;

    let mut log = LogReader::open(&ensemble.log_folder(0)).expect("a log");
    let mut changes = Vec::new();
    while let Some(logged) = log.read_next().expect("a transaction") {
        let change = Change::decode(logged.operation, log.body()).expect("a change");
        changes.push(format!("{change:?}"));
    }
    let refused = "Multi([Delete { path: \"/container\" }, Failed(ErrorCode(NO_NODE))])";
    let closed = "CloseSession { paths: [\"/ephemeral\"] }";
    assert_eq!((changes.len(), &changes[11..]), (13, &[refused.into(), closed.into()][..]));
}

/// A client that reaches the old leader goes to the new one, and finds all there. What is written
/// meanwhile, the old leader learns when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_without_its_followers_is_replaced() {
    let Some(mut ensemble) = real::isolated_or_skip(3) else { return };
    let client = Client::connect(&ensemble.connect_string()).await.expect("a server answers");
    let old = ensemble.leader().expect("a leader");
    for follower in (0..3).filter(|server| *server != old) {
        ensemble.lose(End::Server(old), End::Server(follower)).expect("no route");
        ensemble.lose(End::Server(follower), End::Server(old)).expect("no route");
    }
    until("another leader", || ensemble.leader().is_some_and(|leader| leader != old)).await;
    while client.create("/cut", b"", NodeKind::Persistent).await.is_err() {}
    ensemble.heal_network().expect("all routes");
    ensemble.wait_until_all_serve().expect("three servers");
    let there = Client::connect(&ensemble.address(old)).await.expect("it serves again");
    there.sync("/").await.expect("a leader");
    assert!(there.exists("/cut").await.expect("a reply").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_room_on_its_disk_leaves_and_comes_back() {
    let Some(mut ensemble) = real::isolated_or_skip(3) else { return };
    let client = Client::connect(&ensemble.connect_string()).await.expect("a server answers");
    client.create("/large", &[0; 10_000], NodeKind::Persistent).await.expect("created");
    let follower = (ensemble.leader().expect("a leader") + 1) % 3;
    ensemble.fill_disk(follower).expect("a full disk");
    for _ in 0..3 {
        // The client may have been connected to that server.
        let _ = client.set_data("/large", &[1; 10_000], None).await;
    }
    let serves = |answer: String| answer.contains("Mode: ");
    let is_out = || !ensemble.four_letter(follower, "srvr").is_ok_and(serves);
    until("a server out of service", is_out).await;
    ensemble.extend_disk(follower).expect("room");
    ensemble.wait_until_all_serve().expect("it is back");
    let there = Client::connect(&ensemble.address(follower)).await.expect("it serves again");
    there.sync("/").await.expect("a leader");
    assert_eq!(there.get_data("/large").await.expect("a node").0[..], [1; 10_000]);
}
