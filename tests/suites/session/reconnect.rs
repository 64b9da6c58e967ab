//! Many watches are set again after a connection is cut.

use zk_session::Client;
use zk_testkit::serve::Embedded;
use zk_testkit::suite::HANG_TIMEOUT;
use zk_testkit::watchers::{Load, Watchers};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_watches_are_set_again_and_report_later_changes() {
    let embedded = Embedded::start(1).await.expect("a server");
    let at = embedded.connect_string();
    let load = Load { once: 10_000, persistent: 100, recursive: 100 };
    let mut watchers = Watchers::start(&at, load).await.expect("the server answers");
    let elapsed = watchers.cut().await.expect("the session is alive");
    println!("{load:?} are back {elapsed:?} after the connect");
    let longest = watchers.connect.tally().longest_frame;
    assert!(longest <= 128 * 1024, "a frame of {longest} bytes");
    let other = Client::connect(&at).await.expect("the server answers");
    watchers.change_everything(&other).await.expect("changed");
    tokio::time::timeout(HANG_TIMEOUT, watchers.receive_everything())
        .await
        .expect("every watch reports")
        .expect("the session is alive");
}
