//! Where the program can panic: `tests/firmware/panics.txt` argues each place.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::image::{LOCK, Program};

/// Returns the places that the list argues.
fn argued() -> BTreeSet<String> {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("firmware/panics.txt");
    let list = std::fs::read_to_string(list).expect("the list");
    let rows = list.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| row.split_once("  ").expect("a place and a reason").0.to_owned()).collect()
}

/// Returns the places in a program. `None` if nothing was tested.
fn found(program: Program) -> Option<BTreeSet<String>> {
    let image = program.build_or_skip()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("firmware/panics.py");
    let output = Command::new("python3").arg(script).arg(image).output().expect("Python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let places = String::from_utf8(output.stdout).expect("text");
    Some(places.lines().map(str::to_owned).collect())
}

#[test]
fn every_place_that_can_panic_is_argued() {
    let Some(found) = found(LOCK) else { return };
    let new: Vec<_> = found.difference(&argued()).cloned().collect();
    assert_eq!(new, Vec::<String>::new(), "remove it, or argue it in tests/firmware/panics.txt");
}

#[test]
#[ignore = "links the lock with all features"]
fn every_place_that_is_argued_can_panic() {
    let Some(least) = found(LOCK) else { return };
    let Some(most) = found(Program { features: "lock,zk-recipes/full", ..LOCK }) else { return };
    let found: BTreeSet<_> = least.union(&most).cloned().collect();
    assert_eq!(found, argued());
}
