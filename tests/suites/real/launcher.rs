//! The launcher of real servers: three servers, one of which is killed and restarted, and their transaction logs.

use std::time::Duration;

use zk_session::Client;
use zk_session::proto::{NodeKind, OpCode, Zxid};
use zk_testkit::real;
use zk_testkit::transaction_log::Logged;

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
        let written = || ensemble.transactions(server).expect("a log");
        while written().last().is_none_or(|last| last.operation != OpCode::CLOSE_SESSION) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let logged = written();
        let (first, last) = logged.split_at(logged.len() - expected.len());
        assert_eq!(first.last().map(|opened| opened.operation), Some(OpCode::CREATE_SESSION));
        assert_eq!(last, expected.map(|(zxid, operation)| Logged { zxid, operation, session }));
    }
}
