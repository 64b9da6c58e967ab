//! The compiled examples of a crate, as its tests run them.

use std::env::{consts::EXE_SUFFIX, current_exe};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Returns the command of an example, which Cargo has compiled with the running test. `folder` is
/// that of its package.
///
/// # Panics
///
/// If it is not compiled, or was before its source changed. `cargo test` compiles examples, unless
/// it is limited to some tests.
pub fn example(folder: &str, name: &str) -> Command {
    let test = current_exe().expect("this program");
    let built = test.ancestors().nth(2).expect("target/debug").join("examples");
    let program = built.join(format!("{name}{EXE_SUFFIX}"));
    let source = Path::new(folder).join("examples").join(format!("{name}.rs"));
    let changed = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    let hint = "compile it by `cargo build --examples` with the same options";
    assert!(
        changed(&program) >= changed(&source),
        "{} is missing or old: {hint}",
        program.display()
    );
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// Runs an example, and returns the lines that it has printed.
///
/// # Panics
///
/// If it fails.
pub fn printed(command: &mut Command) -> Vec<String> {
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.lines().map(str::to_owned).collect()
}
