//! An ensemble inside a test: its tree, a partition, a crash, and the end of a session.

use zk_session::proto::NodeKind;
use zk_session::{Client, End, Error};
use zk_testkit::serve::Embedded;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ensemble = Embedded::start(3).await?;
    // The program under test: any client of ZooKeeper, in any language, that connects to this.
    let client = Client::connect(&ensemble.connect_string()).await?;
    client.create_all("/jobs/1", b"print", NodeKind::Ephemeral).await?;
    let reconnects = async || {
        while client.exists("/jobs/1").await.is_err_and(|it| it.reason == Error::ConnectionLost) {}
    };

    // The tree, and what the client has at the servers.
    ensemble.with(|servers| {
        for path in servers.paths().filter(|path| path.starts_with("/jobs/")) {
            let data = servers.node(path).and_then(|node| node.data()).unwrap_or_default();
            println!("{path}: {}", String::from_utf8_lossy(data));
        }
        println!("{} session, {} watches", servers.sessions().count(), servers.watches());
    });

    // A partition: the leader loses the others, which elect another.
    let leader = ensemble.with(|servers| servers.leader()).ok_or("there is no quorum")?;
    ensemble.command(|servers, now| servers.cut_off(now, leader));
    let elected = ensemble.with(|servers| servers.leader());
    println!("another leader: {}", elected.is_some_and(|elected| elected != leader));
    reconnects().await;
    ensemble.command(|servers, now| servers.reunite(now, leader));

    // A crash: the client moves to another server, and its session stays.
    let session = client.session_id();
    let server =
        ensemble.with(|servers| servers.server_of(session)).ok_or("no server serves it")?;
    ensemble.kill(server);
    reconnects().await;
    println!("the same session: {}", client.session_id() == session);
    ensemble.restart(server).await?;

    // The end of a session, which deletes its ephemeral nodes.
    ensemble.expire_session(session);
    println!("expired: {}", client.ended().await == End::Expired);
    println!("the job is gone: {}", ensemble.with(|servers| servers.node("/jobs/1").is_none()));

    // Everything stops here, where the ensemble is dropped.
    Ok(())
}
