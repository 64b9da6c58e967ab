//! The inputs that fuzzing started from and found, run through the fuzz targets on stable Rust.

#[path = "../../../crates/zk-proto/examples/fuzz_kit.rs"]
#[expect(dead_code, reason = "`main`")]
mod fuzz_kit;

use std::path::{Path, PathBuf};

use zk_testkit::fuzz::TARGETS;

/// The most bytes that all inputs may have together. Every clone and every test has them.
const LARGEST: u64 = 2_000_000;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.expect("a readable directory").file_name().into_string().expect("ASCII"))
        .collect();
    names.sort();
    names
}

#[test]
fn no_target_fails_on_its_corpus() {
    for (target, run) in TARGETS {
        let corpus = fuzz().join("corpus").join(target);
        let inputs = names(&corpus);
        assert!(inputs.len() > 5, "{target} has almost no corpus");
        for input in inputs {
            let input = corpus.join(input);
            println!("{}", input.display());
            run(&std::fs::read(&input).expect("a readable file"));
        }
    }
}

#[test]
fn every_fuzz_function_has_a_target_and_a_corpus() {
    let bodies: Vec<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let shims: Vec<_> = bodies.iter().map(|name| format!("{name}.rs")).collect();
    assert_eq!(names(&fuzz().join("fuzz_targets")), shims);
    assert_eq!(names(&fuzz().join("corpus")), bodies);
}

#[test]
fn the_corpus_is_small() {
    let (mut count, mut size) = (0, 0);
    for (target, _) in TARGETS {
        let corpus = fuzz().join("corpus").join(target);
        for input in names(&corpus) {
            count += 1;
            size += std::fs::metadata(corpus.join(input)).expect("a readable file").len();
        }
    }
    println!("{count} inputs, {size} bytes");
    assert!(size < LARGEST, "{count} inputs have {size} bytes: minimize them, as the README says");
}

#[test]
fn the_kit_has_all_records() {
    for (name, content) in fuzz_kit::files() {
        let kept = std::fs::read_to_string(fuzz().join("kit").join(name)).expect("text");
        assert!(
            kept == content,
            "{name} is old: cargo run -p zk-proto --example fuzz_kit -- fuzz/kit"
        );
    }
}
