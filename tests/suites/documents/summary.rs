//! The summary at the end of `tests/all.sh`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use zk_testkit::skipped::skip;

use crate::root;

const PRINTED: &str = "\
     Running unittests src/lib.rs (target/debug/deps/zk_recipes-1f292e002120daf2)
     Running suites/real/main.rs (target/debug/deps/real-ea0110eb1d2ac5c7)
       Suite zk-recipes zk_recipes
test machine::a ... ok
test machine::b ... ignored, some seconds
test machine::c ... ignored, a minute
test machine::long::d ... ignored, two hours
test result: ok. 1 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.10s
       Suite zk-testkit real
SKIPPED lock::d: `java` does not run
SKIPPED lock::d: kazoo is missing
SKIPPED lock::e: `java` does not run
test lock::a ... ignored, measures
test lock::b ... ignored, part of the other tests
test lock::d ... ok
test lock::e ... ok
test lock::f ... ok
test lock::g ... FAILED
test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.00s
error: zk-testkit real exited with status 101
   Doc-tests zk_proto
test crates/zk-proto/src/lib.rs - (line 7) ... FAILED
test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s
";

const SUMMARY: &str = "
==== Summary ====
failed:
    zk-testkit real: lock::g
    error: zk-testkit real exited with status 101
    zk_proto: crates/zk-proto/src/lib.rs - (line 7)
skipped:
       2  `java` does not run
       2  ignored: cargo test --release -p zk-recipes --lib -- --ignored --skip long::
       1  ignored: cargo test --release -p zk-recipes --lib -- --ignored long::
       1  ignored: cargo test -p zk-testkit --test real -- --ignored
sh tests/setup-real.sh installs what tests need; with ZK_REAL=require its absence is a failure
2 passed, 2 failed, 6 skipped
";

#[test]
fn the_summary_has_all_failures_and_the_reasons_of_skipped_tests() {
    let awk = Command::new("awk")
        .args(["-f", "tests/summary.awk"])
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut awk) = awk else { return skip("awk is not installed") };
    let mut input = awk.stdin.take().expect("piped");
    input.write_all(PRINTED.as_bytes()).expect("awk reads");
    drop(input);
    let output = awk.wait_with_output().expect("awk ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), SUMMARY);
}
