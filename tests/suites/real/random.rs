//! Random scripts, run on the in-memory server and on a real one.
//!
//! `ZK_SCRIPTS` sets their number (60 by default), `ZK_STEPS` their length (50), and `ZK_SEED` the
//! seed of the first one (1); the others have the following seeds. A script whose results differ is
//! shrunk, and reported with its seed.

use core::cell::Cell;
use core::time::Duration;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use zk_testkit::real::{self, Settings};
use zk_testkit::serve::Embedded;
use zk_testkit::{server, suite};

use crate::generators;
use crate::player;
use crate::render::compare;

/// Longer than any run. A server's own work depends on its clock, so it is switched off.
const NEVER: Duration = Duration::from_secs(1_000_000);

#[test]
fn the_in_memory_server_answers_any_script_like_a_real_one() {
    let settings = Settings {
        properties: vec![format!("znode.container.checkIntervalMs={}", NEVER.as_millis())],
        ..Settings::default()
    };
    let Some(real) = real::ensemble_with_or_skip(settings) else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let version = real.version();
    let config = server::Config { container_check: NEVER, ..server::Config::default() }
        .with_version(version)
        .with_tick(Duration::from_millis(500));
    let embedded = runtime.block_on(Embedded::with_config(config)).expect("a server");
    let (real, embedded) = (real.address(0), embedded.connect_string());

    let number = |variable, default| suite::number(variable).unwrap_or(default);
    let (scripts, steps, first) =
        (number("ZK_SCRIPTS", 60), number("ZK_STEPS", 50), number("ZK_SEED", 1));
    let played = Cell::new(0);
    for seed in first..first + scripts {
        let result = runner(seed).run(&generators::script(steps as usize), |script| {
            played.set(played.get() + 1);
            let parent = format!("/script-{}", played.get());
            let expected = player::play(&real, version, &parent, &script);
            let actual = player::play(&embedded, version, &parent, &script);
            compare(&expected, &actual).map_err(TestCaseError::fail)
        });
        if let Err(error) = result {
            panic!("{error}\nto repeat: ZK_SEED={seed} ZK_SCRIPTS=1 ZK_STEPS={steps}");
        }
    }
}

/// Returns the runner of one script.
fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: 1,
        max_shrink_iters: 5_000,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}
