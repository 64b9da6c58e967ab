//! Moving a session to another client.

use zk_session::proto::NodeKind;
use zk_session::{Client, End, blocking};
use zk_testkit::serve::Embedded;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_session_continues_elsewhere_with_its_ephemerals() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let at = embedded.connect_string();
    let first = Client::connect(&at).await.expect("connected");
    let id = first.session_id();
    first.create("/mine", b"", NodeKind::Ephemeral).await.expect("created");
    let observer = first.clone();
    let resume = first.detach().await.expect("the session is alive");
    assert_eq!((resume.id, observer.ended().await), (id, End::Closed));
    drop(observer);

    let second = Client::builder(&at).resume(resume).connect().await.expect("the session is alive");
    assert_eq!(second.session_id(), id);
    let resume = second.detach().await.expect("the session is alive");
    let third = tokio::task::spawn_blocking(move || {
        let third = blocking::Client::builder(&at).resume(resume).connect().expect("still");
        let stat = third.exists("/mine").wait().expect("answered").expect("the node exists");
        assert_eq!(stat.ephemeral_owner, id);
        let resume = third.detach().expect("the session is alive");
        blocking::Client::builder(&at).resume(resume).connect().expect("still")
    });
    let last = third.await.expect("no panic");
    assert_eq!(last.session_id(), id);
    tokio::task::spawn_blocking(move || last.close()).await.expect("no panic");
    assert!(
        embedded.with(|ensemble| ensemble.node("/mine").is_none()),
        "closed by the last client"
    );
}
