//! A real ClickHouse as a client: what each handshake leads to, and that `zk-explain` explains every
//! message.

use std::process::Command;

use tokio::task::block_in_place;
use zk_testkit::explained::Proxy;
use zk_testkit::peers::clickhouse_or_skip;
use zk_testkit::real;
use zk_testkit::serve::Embedded;
use zk_testkit::server::{Config, Keeper};

/// The settings that change the handshake: versions 10, 11 and 12.
const COMPRESSION: &str = "use_compression";
const WIDE_XIDS: &str = "use_xid_64";
const TRACING: &str = "pass_opentelemetry_tracing_context";

/// What the queries of `tests/peers/clickhouse/replicate.py` print.
const RESULTS: [&str; 18] = [
    "3", "done", "done", "done", "0", "done", "done", "done", "10 again", "again 4", "done",
    "done", "7 2", "done", "0", "done", "done", "done",
];

/// What a run did.
#[derive(Debug)]
struct Run {
    results: Vec<String>,
    /// The messages of all connections, as `zk-explain --format json` shows them.
    messages: Vec<String>,
}

impl Run {
    fn of(clickhouse: &Command, server: &str, settings: &[&str], connections: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let proxy = Proxy::with_format("json", server, connections, folder.path());
        let mut command = Command::new(clickhouse.get_program());
        command.args(clickhouse.get_args()).arg(proxy.address()).args(settings);
        let output = command.output().expect("Python runs");
        let remarks = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{settings:?}: {remarks}");
        let lines = |text: &str| text.lines().map(str::to_owned).collect();
        let results = lines(&String::from_utf8(output.stdout).expect("text"));
        let run = Self { results, messages: lines(&proxy.end()) };
        run.is_explained(settings);
        run
    }

    /// Checks that every message is known, and that every reply answers a request.
    fn is_explained(&self, settings: &[&str]) {
        for message in &self.messages {
            let unknown = ["malformed\":\"", "message\":\"opaque", "message\":\"unreadable"];
            let is_known = !unknown.iter().any(|it| message.contains(&format!("\"{it}")));
            let is_answer = !message.contains("\"message\":\"unmatched_reply\"");
            assert!(is_known && is_answer, "{settings:?}: {message}");
        }
        println!("{settings:?}: {} messages explained", self.messages.len());
    }

    fn has_worked(&self) -> bool {
        self.results == RESULTS
    }

    /// Returns whether it gave up at the first query, with this reason.
    fn has_failed(&self, reason: &str) -> bool {
        matches!(&self.results[..], [error] if error.starts_with("error") && error.contains(reason))
    }

    fn count(&self, part: &str) -> usize {
        self.messages.iter().filter(|message| message.contains(part)).count()
    }
}

/// A ZooKeeper answers every version with 0. Only compression is tried without, behind three
/// connections that fail.
fn uses_a_zookeeper(clickhouse: &Command, server: &str) {
    let run = Run::of(clickhouse, server, &[], 1);
    assert!(run.has_worked(), "{run:#?}");
    let run = Run::of(clickhouse, server, &[COMPRESSION], 4);
    assert!(run.has_worked() && run.count("protocol_version\":10") == 3, "{run:#?}");
    for (setting, version) in [(WIDE_XIDS, 11), (TRACING, 12)] {
        let run = Run::of(clickhouse, server, &[setting], 3);
        assert!(run.has_failed("Unexpected protocol version"), "{run:#?}");
        // What is behind the version moves the fields: a session to resume, which is unknown.
        let asked = format!("ConnectRequest.protocol_version\":{version},");
        let refused = "ConnectResponse.timeout\":0,\"ConnectResponse.session_id\":\"0\"";
        assert_eq!((run.count(&asked), run.count(refused)), (3, 3), "{run:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clickhouse_uses_the_in_memory_zookeeper() {
    let Some(clickhouse) = clickhouse_or_skip() else { return };
    let server = Embedded::start(1).await.expect("a free port");
    block_in_place(|| uses_a_zookeeper(&clickhouse, &server.connect_string()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clickhouse_uses_a_real_zookeeper_in_the_same_way() {
    let Some(clickhouse) = clickhouse_or_skip() else { return };
    let Some(server) = real::ensemble_or_skip(1) else { return };
    block_in_place(|| uses_a_zookeeper(&clickhouse, &server.address(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clickhouse_uses_the_in_memory_keeper_in_every_dialect() {
    let Some(clickhouse) = clickhouse_or_skip() else { return };
    for (settings, version) in [
        (&[][..], 0),
        (&[COMPRESSION], 10),
        (&[WIDE_XIDS], 11),
        (&[WIDE_XIDS, COMPRESSION], 11),
        (&[TRACING], 12),
        (&[TRACING, WIDE_XIDS, COMPRESSION], 12),
    ] {
        let config = Config::servers(1).with_keeper(Keeper::WithContainers);
        let config = Config { wide_xids: true, ..config };
        let server = Embedded::with_config(config).await.expect("a free port");
        let run = block_in_place(|| Run::of(&clickhouse, &server.connect_string(), settings, 1));
        let granted = format!("ConnectResponse.protocol_version\":{version},");
        assert!(run.has_worked() && run.count(&granted) == 1, "{run:#?}");
        assert!(run.count("\"operation\":\"MULTI_READ\"") > 10, "{run:#?}");
        let is_wide = run.count("RequestHeader.xid\":\"9223372036854775807\"") == 1;
        assert_eq!(is_wide, settings.contains(&WIDE_XIDS), "{run:#?}");
        let traced = run.count("Trace.is_traced\":false");
        assert_eq!(traced > 100, settings.contains(&TRACING), "{run:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_without_wide_xids_closes_the_connection() {
    let Some(clickhouse) = clickhouse_or_skip() else { return };
    let config = Config::servers(1).with_keeper(Keeper::WithContainers);
    let server = Embedded::with_config(config).await.expect("a free port");
    let run = block_in_place(|| Run::of(&clickhouse, &server.connect_string(), &[WIDE_XIDS], 3));
    assert!(run.has_failed("All connection tries failed"), "{run:#?}");
    assert_eq!(run.messages.len(), 3, "{run:#?}");
}
