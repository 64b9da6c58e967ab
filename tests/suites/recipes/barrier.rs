//! A barrier that somebody closes and opens.

use tokio::time::timeout;
use zk_recipes::{Barrier, LockError};
use zk_session::{Client, End};

use super::{MOMENT, client, eventually, nothing_is_left, scenes, start, watches};

fn barrier(client: &Client) -> Barrier {
    Barrier::new(client, "/barriers/test").expect("a valid path")
}

#[tokio::test]
async fn nobody_passes_until_it_is_opened() {
    scenes::nobody_passes_until_it_is_opened(&start().await).await;
}

#[tokio::test]
async fn it_outlives_whoever_has_closed_it_and_those_who_wait_outlive_a_connection() {
    let embedded = start().await;
    let (keeper, waiter) = (client(&embedded).await, client(&embedded).await);
    barrier(&keeper).close().await.expect("closed");
    keeper.close().await;
    let waiting = tokio::spawn({
        let barrier = barrier(&waiter);
        async move { barrier.wait().await }
    });
    eventually(&embedded, "it waits", |embedded| watches(embedded) == 1).await;
    embedded.kill(0);
    embedded.restart(0).await.expect("the port is still free");
    let keeper = client(&embedded).await;
    assert!(timeout(MOMENT, barrier(&keeper).wait()).await.is_err(), "it is still closed");
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
        eventually(&embedded, "it waits", |embedded| watches(embedded) == 1).await;
        client.clone().close().await;
    });
    assert_eq!(waited, Err(LockError::Ended(End::Closed)));
}
