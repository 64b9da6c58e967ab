//! The tables of hazards, of what other projects test, and of what servers really do. Every row must
//! have an answer, and every test that a row names must exist.

use std::fs;
use std::path::PathBuf;

use super::{files, root};

/// Returns whether a file of this name has a test of this name.
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

/// Returns the rows of the tables in a document, without their heads.
pub(super) fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines: Vec<_> = text.lines().collect();
    let is_head = |at: usize| lines.get(at + 1).is_some_and(|line| line.starts_with("|---"));
    let is_row = |at: usize| lines[at].starts_with("| ") && !is_head(at);
    let cells = |at: usize| lines[at].trim_matches(['|', ' ']).split(" | ").collect();
    (0..lines.len()).filter(|at| is_row(*at)).map(cells).collect()
}

/// Returns the rows of a document. The last cell of each must be a sentence, or tests that exist.
fn answered(document: &str) -> Vec<Vec<String>> {
    answered_below(document, "# ")
}

/// Returns the rows below a heading, as [`answered`].
pub(super) fn answered_below(document: &str, heading: &str) -> Vec<Vec<String>> {
    let sources = files(&root());
    assert!(!exists(&sources, "answers.rs::answered"), "not a test");
    let text = fs::read_to_string(root().join(document)).expect(document);
    let (_, text) = text.split_once(heading).expect(heading);
    let check = |row: Vec<&str>| {
        let [first, .., answer] = row[..] else { panic!("{row:?}") };
        assert!(!row[..row.len().min(2)].contains(&""), "{row:?}");
        let tests: Vec<_> = answer.split('`').filter(|word| word.contains(".rs::")).collect();
        assert!(!tests.is_empty() || answer.ends_with('.'), "{first} has no answer");
        for test in tests {
            assert!(exists(&sources, test), "{first}: {test} does not exist");
        }
        row.into_iter().map(str::to_owned).collect()
    };
    rows(text).into_iter().map(check).collect()
}

#[test]
fn every_hazard_has_a_test_or_a_reason() {
    let rows = answered("docs/tables/hazards.md");
    let numbers: Vec<_> = rows.iter().map(|row| row[0].as_str()).collect();
    let expected: Vec<_> = (1..=53).map(|number| format!("H{number}")).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn every_test_of_others_has_a_test_here_or_a_reason() {
    let rows = answered("tests/suites/documents/what-others-test.txt");
    let theirs: Vec<_> = rows.iter().map(|row| row[0].as_str()).collect();
    for one in ["`testLocker`", "`TestLockACLs`", "`test_lock_cancel`", "`TestLock`", "`testlock`"]
    {
        assert!(theirs.contains(&one), "{one}");
    }
}

#[test]
fn every_fact_about_servers_has_a_test() {
    let rows = answered("docs/servers.md");
    let untested = rows.iter().filter(|row| row.last().is_some_and(|last| last.ends_with('.')));
    assert_eq!((rows.len() > 30, untested.count()), (true, 0));
}
