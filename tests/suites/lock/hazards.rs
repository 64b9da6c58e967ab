//! The table of hazards in docs/locks.md: every one of them is there, and so is every test that it
//! names.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(below).expect("a directory").map(|entry| entry.expect("readable")) {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether a file of that name has a test of that name.
fn exists(sources: &[PathBuf], test: &str) -> bool {
    let (file, name) = test.split_once("::").expect("a file and a test");
    let has_test = |path: &&PathBuf| {
        let text = fs::read_to_string(path).expect("text");
        let at = text.find(&format!("fn {name}("));
        at.is_some_and(|at| {
            let before: Vec<_> = text[..at].lines().rev().take(4).collect();
            before.iter().any(|line| line.trim_start().starts_with("#[t"))
        })
    };
    sources.iter().filter(|path| path.ends_with(file)).any(|path| has_test(&path))
}

#[test]
fn every_hazard_has_a_test_or_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for below in ["crates", "tests"] {
        sources(&root.join(below), &mut files);
    }
    let text = fs::read_to_string(root.join("docs/locks.md")).expect("docs/locks.md");
    let rows: Vec<Vec<_>> = text
        .lines()
        .filter(|line| {
            line.strip_prefix("| H").is_some_and(|rest| rest.starts_with(char::is_numeric))
        })
        .map(|line| line.trim_matches(['|', ' ']).split(" | ").collect())
        .collect();
    let numbers: Vec<_> = rows.iter().map(|row| row[0].to_owned()).collect();
    let expected: Vec<_> = (1..=50).map(|number| format!("H{number}")).collect();
    assert_eq!(numbers, expected);
    for row in rows {
        let [number, hazard, answer] = row[..] else { panic!("{row:?}") };
        assert!(!hazard.is_empty() && answer.len() > 40, "{number} is not answered");
        for test in answer.split('`').filter(|word| word.contains(".rs::")) {
            assert!(exists(&files, test), "{number}: there is no {test}");
        }
    }
    assert!(!exists(&files, "hazards.rs::sources"), "that is no test");
}
