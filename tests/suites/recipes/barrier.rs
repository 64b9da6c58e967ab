//! A barrier that one client closes and opens.

use tokio::time::timeout;
use zk_proto::{Acl, Perms};
use zk_recipes::{Barrier, DoubleBarrier, LockError, Options};
use zk_session::{Client, End};

use super::{MOMENT, client, eventually, nothing_is_left, scenarios, start, watches};

fn barrier(client: &Client) -> Barrier {
    Barrier::new(client, "/barriers/test").expect("a valid path")
}

#[tokio::test]
async fn no_client_passes_a_closed_barrier() {
    scenarios::no_client_passes_a_closed_barrier(&start().await).await;
}

#[tokio::test]
async fn a_barrier_outlives_its_closer_and_a_wait_outlives_a_connection() {
    let embedded = start().await;
    let (keeper, waiter) = (client(&embedded).await, client(&embedded).await);
    barrier(&keeper).close().await.expect("closed");
    keeper.close().await;
    let waiting = tokio::spawn({
        let barrier = barrier(&waiter);
        async move { barrier.wait().await }
    });
    eventually(&embedded, "a waiter", |embedded| watches(embedded) == 1).await;
    embedded.kill(0);
    embedded.restart(0).await.expect("the port is still free");
    let keeper = client(&embedded).await;
    assert!(timeout(MOMENT, barrier(&keeper).wait()).await.is_err(), "still closed");
    barrier(&keeper).open().await.expect("opened");
    waiting.await.expect("no panic").expect("passed");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn the_end_of_the_session_ends_the_wait() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let barrier = barrier(&client);
    barrier.close().await.expect("closed");
    let (waited, ()) = tokio::join!(barrier.wait(), async {
        eventually(&embedded, "a waiter", |embedded| watches(embedded) == 1).await;
        client.clone().close().await;
    });
    assert_eq!(waited.map_err(LockError::from), Err(LockError::Ended(End::Closed)));
}

#[tokio::test]
async fn nodes_and_parents_have_the_requested_acl() {
    let embedded = start().await;
    let client = client(&embedded).await.with_chroot("/top").expect("a valid path");
    client.ensure_path("/").await.expect("created");
    let world = |perms| Acl { perms, ..Acl::OPEN };
    let (node, parent) = (Perms::READ, Perms::READ | Perms::CREATE | Perms::DELETE);
    let options = Options::new().data("host-7").acl(&[world(node)]).parent_acl(&[world(parent)]);
    let perms = |path: &str| {
        embedded.with(|ensemble| {
            let grants = ensemble.node(path).expect("the node exists").acl();
            grants.iter().map(|grant| grant.perms).collect::<Vec<_>>()
        })
    };
    let is_container =
        |path| embedded.with(|all| all.node(path).is_some_and(|it| it.is_container()));

    let barrier = Barrier::with(&client, "/app/one", options.clone()).expect("a valid path");
    barrier.close().await.expect("closed");
    assert_eq!((perms("/top/app/one"), perms("/top/app")), (vec![node], vec![parent]));
    assert!(
        is_container("/top/app") && !is_container("/top/app/one"),
        "a closed barrier stays closed"
    );
    assert_eq!(client.get_data("/app/one").await.expect("the node exists").0, "host-7");
    barrier.open().await.expect("opened");

    let double =
        DoubleBarrier::with(&client, "/app/two/participants", 1, options).expect("a valid path");
    let participant = double.enter().await.expect("entered");
    assert_eq!(perms(&format!("/top{}", participant.node_path())), [node]);
    for path in ["/top/app/two", "/top/app/two/participants", "/top/app/two/participants/ready"] {
        assert_eq!(perms(path), [parent], "{path}");
    }
    participant.leave().await.expect("left");
}
