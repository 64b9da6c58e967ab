//! The conformance suite on both of our clients.

use std::num::NonZero;

use zk_testkit::conform::{Settings, run, scenes};
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
