//! What a recorder of the process receives. One test, because the recorder is that of the process.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use zk_recipes::session::metrics::{Kind, METRICS as OF_SESSIONS, Metric};
use zk_recipes::session::proto::NodeKind;
use zk_recipes::session::{Client, State, blocking};
use zk_recipes::{Ephemeral, LeaderElection, Mutex, RwLock, metrics};
use zk_testkit::serve::Embedded;
use zk_testkit::suite::{eventually, watches};

/// Longer than any step here takes.
const LONG: Duration = Duration::from_secs(20);

/// Everything recorded so far.
struct Page {
    snapshotter: Snapshotter,
    /// The sums so far. A snapshot sets every value back to zero.
    values: BTreeMap<String, f64>,
    /// The kind and the labels of each metric.
    seen: BTreeMap<String, (MetricKind, BTreeSet<String>)>,
}

impl Page {
    /// Returns the values by name and labels, as in `zk_lock_held{recipe=mutex}`. That of a
    /// histogram is the number of its values.
    fn values(&mut self) -> &BTreeMap<String, f64> {
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let (kind, key) = key.into_parts();
            let labels: Vec<_> = key.labels().collect();
            let names = labels.iter().map(|label| label.key().to_owned()).collect();
            self.seen.insert(key.name().to_owned(), (kind, names));
            let labels: Vec<_> =
                labels.iter().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let name = match labels.is_empty() {
                true => key.name().to_owned(),
                false => format!("{}{{{}}}", key.name(), labels.join(",")),
            };
            *self.values.entry(name).or_default() += match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(change) => change.0,
                DebugValue::Histogram(values) => values.len() as f64,
            };
        }
        &self.values
    }

    /// Waits until these values are recorded. The recorder runs after the session is unlocked, so
    /// mostly a moment after the caller has its reply.
    fn shows(&mut self, expected: &[(&str, f64)]) {
        let start = Instant::now();
        loop {
            let values = self.values();
            let differs = |(name, value): &&(&str, f64)| values.get(*name) != Some(value);
            let Some(different) = expected.iter().find(differs) else { return };
            assert!(start.elapsed() < LONG, "not {different:?}: {values:#?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn every_metric_is_recorded_as_the_runbook_describes_it() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().expect("the first one");
    metrics::describe();
    let mut page = Page { snapshotter, values: BTreeMap::new(), seen: BTreeMap::new() };

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let embedded = runtime.block_on(Embedded::start(1)).expect("started");
    runtime.block_on(async_clients(&embedded, &mut page));
    threads_that_block(&embedded, &mut page);

    // Each metric is listed, with its kind and its labels, and each that is listed was recorded.
    let listed = |metric: &Metric| {
        let kind = match metric.kind {
            Kind::Counter => MetricKind::Counter,
            Kind::Gauge => MetricKind::Gauge,
            Kind::Histogram => MetricKind::Histogram,
        };
        let labels = metric.labels.iter().map(|label| (*label).to_owned()).collect();
        (metric.name.to_owned(), (kind, labels))
    };
    let listed: BTreeMap<_, _> = OF_SESSIONS.iter().chain(metrics::METRICS).map(listed).collect();
    assert_eq!(page.seen, listed);
}

async fn async_clients(embedded: &Embedded, page: &mut Page) {
    let connect = |servers: String| async move {
        Client::builder(&servers).renew(true).connect().await.expect("connected")
    };
    let server = embedded.address(0);
    let [first, last] = [format!("{server},127.0.0.1:1"), format!("127.0.0.1:1,{server}")];
    let [one, two] = [connect(first.clone()).await, connect(server.to_string()).await];
    let connections = format!("zk_client_connections_total{{server={server}}}");
    page.shows(&[("zk_client_connected", 2.0), (&connections, 2.0)]);

    // What has not happened yet is 0, so that an alert sees the first time.
    let unused = "{server=127.0.0.1:1}";
    page.shows(&[
        (&format!("zk_client_connections_total{unused}"), 0.0),
        ("zk_client_reconnects_total", 0.0),
        ("zk_client_expiries_total", 0.0),
        ("zk_client_renewals_total", 0.0),
        ("zk_client_watches", 0.0),
        ("zk_client_watch_events_total", 0.0),
    ]);
    let failures = |server: &str| format!("zk_client_connection_failures_total{{server={server}}}");
    assert!(page.values().contains_key(&failures("127.0.0.1:1")));
    assert_eq!(page.values()[&failures(&server.to_string())], 0.0);
    assert!(page.values().keys().all(|name| !name.starts_with("zk_lock_")));
    RwLock::new(&one, "/lock").expect("valid");
    page.shows(&[
        ("zk_lock_held{recipe=rw_lock}", 0.0),
        ("zk_lock_waiting{recipe=rw_lock}", 0.0),
        ("zk_lock_cleanups_pending{recipe=rw_lock}", 0.0),
        ("zk_lock_lost_total{recipe=rw_lock}", 0.0),
    ]);

    // Another place in the list is no other connection.
    for servers in [last, first, server.to_string()] {
        one.set_servers(&servers).expect("valid");
        one.sync("/").await.expect("connected");
    }
    page.shows(&[("zk_client_connected", 2.0), (&connections, 2.0)]);

    // A lock, from one holder to the next, who loses it.
    let lock = |client| RwLock::new(client, "/lock").expect("valid");
    let first = lock(&one).write().await.expect("acquired");
    page.shows(&[
        ("zk_lock_held{recipe=rw_lock}", 1.0),
        ("zk_lock_waiting{recipe=rw_lock}", 0.0),
        ("zk_lock_wait_seconds{recipe=rw_lock}", 1.0),
    ]);
    eventually(embedded, "the holder watches its node", |embedded| watches(embedded) == 1).await;
    let next = tokio::spawn({
        let lock = lock(&two);
        async move { lock.write().await.expect("acquired") }
    });
    // Only then does an event end the wait.
    eventually(embedded, "the next one watches it", |embedded| watches(embedded) > 1).await;
    page.shows(&[("zk_lock_waiting{recipe=rw_lock}", 1.0)]);
    first.release().await.expect("released");
    let next = next.await.expect("finished");
    page.shows(&[
        ("zk_lock_held{recipe=rw_lock}", 1.0),
        ("zk_lock_waiting{recipe=rw_lock}", 0.0),
        ("zk_lock_wait_seconds{recipe=rw_lock}", 2.0),
        ("zk_lock_handover_seconds{recipe=rw_lock}", 1.0),
        ("zk_lock_hold_seconds{recipe=rw_lock}", 1.0),
        ("zk_lock_cleanups_pending{recipe=rw_lock}", 0.0),
    ]);
    one.delete(&next.node_path(), None).await.expect("deleted");
    next.lost().await;
    page.shows(&[
        ("zk_lock_held{recipe=rw_lock}", 0.0),
        ("zk_lock_lost_total{recipe=rw_lock}", 1.0),
        ("zk_lock_hold_seconds{recipe=rw_lock}", 2.0),
        ("zk_lock_cleanups_pending{recipe=rw_lock}", 0.0),
    ]);
    drop(next);

    // An attempt that is dropped while it waits.
    let held = lock(&one).write().await.expect("acquired");
    lock(&two).write().timeout(Duration::from_millis(20)).await.expect_err("held");
    held.release().await.expect("released");
    page.shows(&[
        ("zk_lock_waiting{recipe=rw_lock}", 0.0),
        ("zk_lock_wait_seconds{recipe=rw_lock}", 3.0),
        ("zk_lock_cleanups_pending{recipe=rw_lock}", 0.0),
    ]);

    // Requests by their outcome, those of transactions included.
    one.get_data("/missing").await.expect_err("no node");
    let refused =
        one.transaction().create("/new", b"", NodeKind::Persistent).check("/missing", None);
    refused.commit().await.expect_err("no node");
    let (_, watch) = one.exists_and_watch("/watched").await.expect("watched");
    page.shows(&[("zk_client_watches", 1.0)]);
    two.create("/watched", b"", NodeKind::Persistent).await.expect("created");
    watch.await.expect("fired");
    page.shows(&[
        ("zk_client_requests_total{operation=GET_DATA,outcome=NO_NODE}", 1.0),
        ("zk_client_requests_total{operation=MULTI,outcome=rolled_back}", 1.0),
        ("zk_client_requests_total{operation=EXISTS,outcome=NO_NODE}", 1.0),
        ("zk_client_request_seconds{operation=GET_DATA}", 1.0),
        ("zk_client_watches", 0.0),
    ]);
    assert!(page.values()["zk_client_watch_events_total"] >= 2.0, "of the lock, and this one");

    // An expiry: what was held ends once, and what is kept comes back.
    let candidate = LeaderElection::new(&one, "/election").expect("valid").stand();
    let here = Ephemeral::new(&one, "/here", "").expect("valid");
    candidate.elected().await.expect("the only one");
    here.created().await.expect("created");
    assert!(embedded.expire_session(one.session_id()));
    page.shows(&[
        ("zk_client_expiries_total", 1.0),
        ("zk_client_renewals_total", 1.0),
        ("zk_lock_wait_seconds{recipe=leader_election}", 2.0),
        ("zk_lock_held{recipe=leader_election}", 1.0),
        ("zk_lock_waiting{recipe=leader_election}", 0.0),
        ("zk_lock_wait_seconds{recipe=ephemeral}", 2.0),
        ("zk_lock_held{recipe=ephemeral}", 1.0),
        ("zk_client_connected", 2.0),
        (&connections, 3.0),
    ]);

    // A server that restarts.
    embedded.kill(0);
    page.shows(&[("zk_client_connected", 0.0)]);
    embedded.restart(0).await.expect("restarted");
    page.shows(&[("zk_client_connected", 2.0), ("zk_client_reconnects_total", 2.0)]);
    let failures = format!("zk_client_connection_failures_total{{server={server}}}");
    assert!(page.values()[&failures] >= 2.0);

    // Nothing is left in the gauges.
    drop((candidate, here));
    one.close().await;
    two.close().await;
    page.shows(&[
        ("zk_client_connected", 0.0),
        ("zk_client_watches", 0.0),
        ("zk_lock_held{recipe=leader_election}", 0.0),
        ("zk_lock_held{recipe=ephemeral}", 0.0),
        ("zk_lock_cleanups_pending{recipe=leader_election}", 0.0),
        ("zk_lock_cleanups_pending{recipe=ephemeral}", 0.0),
    ]);
}

fn threads_that_block(embedded: &Embedded, page: &mut Page) {
    let client = blocking::Client::connect(&embedded.connect_string()).expect("connected");
    let mutex = Mutex::new(&client, "/blocked").expect("valid");
    let guard = mutex.acquire().wait().expect("acquired");
    page.shows(&[("zk_client_connected", 1.0), ("zk_lock_held{recipe=mutex}", 1.0)]);
    guard.release().wait().expect("released");
    client.get_data("/nothing").wait().expect_err("no node");
    page.shows(&[
        ("zk_client_requests_total{operation=GET_DATA,outcome=NO_NODE}", 2.0),
        ("zk_lock_held{recipe=mutex}", 0.0),
        ("zk_lock_wait_seconds{recipe=mutex}", 1.0),
        ("zk_lock_cleanups_pending{recipe=mutex}", 0.0),
    ]);
    // The session's own thread reports what happens while nobody waits.
    embedded.kill(0);
    page.shows(&[("zk_client_connected", 0.0)]);
    assert!(matches!(client.state(), State::Suspended));
}

#[test]
fn the_runbook_lists_the_metrics() {
    let row = |metric: &Metric| {
        let Metric { name, kind, unit, labels, help, .. } = metric;
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{name}` | {kind} | {} | {} | {help} |\n", unit.as_str(), labels.join(", "))
    };
    let rows: String = OF_SESSIONS.iter().chain(metrics::METRICS).map(row).collect();
    let runbook = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let runbook = std::fs::read_to_string(runbook).expect("readable");
    assert!(runbook.contains(&rows), "docs/operations.md needs this table:\n{rows}");
}
