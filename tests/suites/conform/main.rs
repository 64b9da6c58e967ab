//! The conformance suite on both of our clients, and on the in-memory server.

use std::collections::BTreeSet;
use std::num::NonZero;

use zk_testkit::conform::{Settings, run, run_server, scenes, server_scenes};
use zk_testkit::serve::Embedded;
use zk_testkit::server::{Config, Keeper};
use zk_testkit::suite::HANG_TIMEOUT;

fn passes_every_scene(client: &str) {
    let settings = Settings {
        command: vec![env!("CARGO_BIN_EXE_conform_shim").into(), client.into()],
        limit: HANG_TIMEOUT,
        jobs: NonZero::new(16).expect("not 0"),
        is_verbose: false,
    };
    let report = run(&scenes(), &settings);
    for (outcome, why) in report.failed() {
        let transcript = outcome.transcript.join("\n");
        eprintln!("{}: {why}\n{transcript}", outcome.scene.title());
    }
    assert_eq!(report.counts(None), (scenes().len(), 0, 0), "{report}");
}

#[test]
fn the_async_client_passes_every_scene() {
    passes_every_scene("async");
}

#[test]
fn the_blocking_client_passes_every_scene() {
    passes_every_scene("blocking");
}

async fn failed_by(config: Config) -> Vec<String> {
    let ensemble = Embedded::with_config(config).await.expect("a free port");
    let address = ensemble.address(0).to_string();
    let asked = move || run_server(&server_scenes(), &address, HANG_TIMEOUT);
    let report = tokio::task::spawn_blocking(asked).await.expect("no panic");
    report.failed().map(|(outcome, _)| outcome.scene.name.clone()).collect()
}

/// It reports them, so that tests notice them.
const TRAILING: &str = "bytes behind a record are ignored";

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_in_memory_server_answers_as_a_server_must() {
    assert_eq!(failed_by(Config::servers(1)).await, [TRAILING]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_keeper_differs_in_what_it_lacks() {
    let always = [
        "a session is granted",
        "a session is resumed",
        "a session with a wrong password has expired",
        "a session that the server does not know has expired",
        "a client that has seen more than the server gets no answer",
        // A Keeper does not answer the request that ends a session.
        "ephemeral nodes end with their session",
        "an unknown operation is refused (-6), and the connection ends",
        TRAILING,
        "a four-letter word is answered: srvr Zookeeper *",
        "a four-letter word is answered: stat Zookeeper *",
    ];
    let early = [
        "create2 answers with a stat",
        "an ephemeral node shows its owner",
        "a watch that is set again for a changed node fires at once",
        "a persistent watch stays",
        "a recursive watch reports nodes below",
    ];
    for keeper in Keeper::ALL {
        let failed = failed_by(Config::servers(1).with_keeper(keeper)).await;
        let lacks = early.iter().filter(|_| keeper == Keeper::Early).chain(&always);
        let lacks: BTreeSet<_> = lacks.map(|name| (*name).to_owned()).collect();
        assert_eq!(failed.into_iter().collect::<BTreeSet<_>>(), lacks, "{keeper:?}");
    }
}

/// The table in the documentation is that of the last run.
#[test]
fn the_page_has_the_results_of_our_clients() {
    let page = include_str!("../../../docs/conformance.md");
    let count = scenes().len().to_string();
    for client in ["async", "blocking"] {
        let start = format!("| zk-session {client} ");
        let row = page.lines().find(|line| line.starts_with(&start)).expect("a row");
        assert!(row.ends_with(&format!(" | {count} |")), "{count} scenes, but {row}");
    }
}
