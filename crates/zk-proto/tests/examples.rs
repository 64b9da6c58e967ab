//! Runs the compiled examples, and reads what they print.

use std::env::{consts::EXE_EXTENSION, current_exe};
use std::process::Command;

#[test]
fn the_analyser_counts_the_operations_of_a_recording() {
    // `cargo test` compiles examples, unless it is limited to some tests.
    let test = current_exe().expect("this program");
    let built = test.ancestors().nth(2).expect("target/debug").join("examples");
    let mut analyser = Command::new(built.join("analyser").with_extension(EXE_EXTENSION));
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/3.8.0-kazoo-lock");
    analyser.args(["c2s", "s2c"].map(|direction| format!("{golden}.{direction}")));
    let output = analyser.output().expect("compiled by `cargo build --examples`");
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).expect("text");
    // As in `tests/golden/connections.txt`.
    let row =
        |name, count: usize, errors: usize| format!("{name:<24}{count:>9}{count:>9}{errors:>9}");
    for row in
        [row("CREATE", 9, 0), row("DELETE", 7, 0), row("EXISTS", 10, 3), row("GET_DATA", 3, 0)]
    {
        assert!(printed.contains(&row), "{row}\n{printed}");
    }
    assert!(printed.contains(" watch events, "), "{printed}");
    assert!(printed.ends_with(", 0 malformed messages\n"), "{printed}");
}
