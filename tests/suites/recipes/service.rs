//! The example `service`: it survives every end of its session.

use tokio::sync::mpsc;
use zk_recipes::{FencingToken, Mutex};
use zk_session::proto::NodeKind;

use super::*;
use crate::example::serve;

#[tokio::test]
async fn a_service_survives_the_end_of_its_session_at_work_and_in_the_queue() {
    let embedded = start().await;
    let at = embedded.connect_string();
    let other = client(&embedded).await;
    other.ensure_path("/settings").await.expect("created");
    other.create("/settings/colour", b"blue", NodeKind::Persistent).await.expect("created");
    let (worked, mut work) = mpsc::unbounded_channel();
    let service = serve(&at, async |token, colour, leads| {
        worked.send((token, colour, leads)).expect("the test listens");
        tokio::time::sleep(MOMENT).await;
    });
    let expire_service = || {
        let sessions = embedded.with(|ensemble| ensemble.sessions().collect::<Vec<_>>());
        for session in sessions.into_iter().filter(|id| *id != other.session_id()) {
            assert!(embedded.expire_session(session));
        }
    };
    let test = async {
        let mut last = FencingToken(0, 0);
        let mut next = async |wanted: &str| loop {
            let (token, colour, leads) = work.recv().await.expect("it goes on");
            assert!(token > last, "{token:?} after {last:?}");
            last = token;
            if colour == wanted && leads {
                break;
            }
        };
        next("blue").await;
        // At work.
        expire_service();
        other.set_data("/settings/colour", b"red", None).await.expect("set");
        next("red").await;
        // In the queue.
        let held = Mutex::new(&other, "/locks/printer").expect("a valid path").acquire().await;
        let is_lock = |node: &&String| node.starts_with("/locks/printer/");
        let is_waiting =
            |embedded: &Embedded| ephemerals(embedded).iter().filter(is_lock).count() == 2;
        eventually(&embedded, "the service waits", is_waiting).await;
        expire_service();
        other.set_data("/settings/colour", b"green", None).await.expect("set");
        held.expect("acquired").release().await.expect("released");
        next("green").await;
    };
    tokio::select! {
        ended = service => panic!("the service has ended: {ended:?}"),
        () = test => {}
    }
}

#[tokio::test]
async fn a_persistent_node_at_the_path_of_an_ephemeral_one_is_refused() {
    let embedded = start().await;
    let client = client(&embedded).await;
    client.ensure_path("/services").await.expect("created");
    for kind in [NodeKind::Persistent, NodeKind::Container] {
        client.create("/services/me", b"", kind).await.expect("created");
        let node = zk_recipes::Ephemeral::new(&client, "/services/me", "").expect("a valid path");
        let created = tokio::time::timeout(HANG_TIMEOUT, node.created()).await;
        let error = created.expect("it waits for ever").expect_err("the node may stay for ever");
        assert_eq!(error.reason, zk_recipes::LockError::UnknownNode { node: "me".into() });
        client.delete("/services/me", None).await.expect("deleted");
    }
    nothing_is_left(&embedded).await;
}
