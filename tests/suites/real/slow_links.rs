//! Slow links: replies that take longer than the session timeout keep their connections.

use std::thread;
use std::time::Duration;

use zk_session::proto::NodeKind;
use zk_session::{Client, blocking};
use zk_testkit::proxy::{Proxy, When};
use zk_testkit::real;
use zk_testkit::suite::long_or_skip;

/// The least that servers grant.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

const WATCHES: usize = 2_000;

/// A list of 177 kB at 20 kB/s takes nine seconds. Afterwards the connection is cut, and 2,000 watches
/// are set again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_list_and_many_watches_cross_a_slow_link() {
    if !long_or_skip() {
        return;
    }
    let Some(ensemble) = real::ensemble_or_skip(1) else { return };
    let at = ensemble.connect_string();
    let admin = Client::connect(&at).await.expect("the server answers");
    admin.create("/list", b"", NodeKind::Persistent).await.expect("created");
    let creates = (0..4_000).map(|n| {
        admin.create(&format!("/list/a-name-of-forty-bytes-{n:0>15}"), b"", NodeKind::Persistent)
    });
    for create in creates.collect::<Vec<_>>() {
        create.await.expect("created");
    }
    let proxy = Proxy::start(&at).expect("a free port");
    let slow = proxy.connect_string();

    let builder = || Client::builder(&slow).session_timeout(SESSION_TIMEOUT);
    let client = builder().connect().await.expect("the server answers");
    let watches = (0..WATCHES).map(|n| client.exists_and_watch(&watched("task", n)));
    let watches: Vec<_> = watches.collect();
    let mut kept = Vec::new();
    for watch in watches {
        kept.push(watch.await.expect("set").1);
    }
    let threads = blocking::Client::builder(&slow)
        .session_timeout(SESSION_TIMEOUT)
        .connect()
        .expect("the server answers");
    let others: Vec<_> = (0..WATCHES)
        .map(|n| threads.exists_and_watch(&watched("thread", n)).wait().expect("set").1)
        .collect();

    proxy.limit(Some(20_000));
    let by_threads = thread::spawn(move || {
        let (names, _) = threads.get_children("/list").wait().expect("listed");
        (names.len(), threads)
    });
    let (names, _) = client.get_children("/list").await.expect("listed");
    let (count, threads) = by_threads.join().expect("it has not panicked");
    assert_eq!((names.len(), count), (4_000, 4_000));
    let connections = (client.statistics().connections, threads.statistics().connections);
    assert_eq!(connections, (1, 1));

    // The next reads of both clients cut their connections.
    proxy.limit(Some(10_000));
    proxy.cut(When::Before, zk_session::proto::OpCode::GET_ACL, 2);
    client.get_acl("/").await.expect_err("cut");
    threads.get_acl("/").wait().expect_err("cut");
    for n in [0, WATCHES - 1] {
        admin.create(&watched("task", n), b"", NodeKind::Persistent).await.expect("created");
        admin.create(&watched("thread", n), b"", NodeKind::Persistent).await.expect("created");
    }
    for n in [WATCHES - 1, 0] {
        kept.remove(n).await.expect("it fires");
    }
    let mut others = others;
    for n in [WATCHES - 1, 0] {
        others.remove(n).wait().expect("it fires");
    }
    let connections = (client.statistics().connections, threads.statistics().connections);
    assert_eq!(connections, (2, 2));
}

fn watched(client: &str, n: usize) -> String {
    format!("/{client}-with-a-long-name-{n:0>12}")
}
