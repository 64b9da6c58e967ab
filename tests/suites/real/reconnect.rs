//! Many watches are set again after a connection is cut, on a real server.

use std::time::Duration;

use zk_session::Client;
use zk_testkit::real;
use zk_testkit::watchers::{Load, Watchers};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_watches_are_set_again_and_report_later_changes() {
    let Some(ensemble) = real::ensemble_or_skip(1) else { return };
    let at = ensemble.connect_string();
    let load = Load { once: 10_000, persistent: 100, recursive: 100 };
    let mut watchers = Watchers::start(&at, load).await.expect("the server answers");
    // The first time is the slowest.
    for _ in 0..5 {
        let elapsed = watchers.cut().await.expect("the session is alive");
        println!("{load:?} are back {elapsed:?} after the connect");
    }
    let other = Client::connect(&at).await.expect("the server answers");
    watchers.change_everything(&other).await.expect("changed");
    tokio::time::timeout(Duration::from_secs(60), watchers.receive_everything())
        .await
        .expect("every watch reports")
        .expect("the session is alive");
}
