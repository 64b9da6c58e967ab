//! The examples in `docs/examples.md` are short, its commands name them, and a test runs each.

use std::fs;
use std::path::PathBuf;

use super::{files, root};

/// What an example for one purpose may have, in lines.
const LINES: usize = 80;

/// Returns the cells of the table of examples: paths, and the command.
fn rows(page: &str) -> Vec<(Vec<&str>, &str)> {
    let is_row = |line: &&str| line.starts_with("| ") && line.contains("](");
    let rows = page.lines().filter(is_row).map(|line| {
        let (examples, command) = line.rsplit_once(" | ").expect("a command");
        let paths = examples.split("](").skip(1).filter_map(|link| link.split(')').next());
        (paths.filter(|path| path.ends_with(".rs")).collect(), command)
    });
    rows.collect()
}

#[test]
fn the_listed_examples_are_short_and_run() {
    let docs = root().join("docs");
    let page = fs::read_to_string(docs.join("examples.md")).expect("text");
    let is_test = |path: &&PathBuf| {
        path.components().any(|part| part.as_os_str() == "tests")
            && path.extension().is_some_and(|extension| extension == "rs")
    };
    let read = |path: &PathBuf| fs::read_to_string(path).expect("text");
    let tests: String = files(&root()).iter().filter(is_test).map(read).collect();
    let rows = rows(&page);
    assert!(rows.len() > 10, "{rows:?}");
    for (paths, command) in rows {
        let name = |path: &str| path.rsplit(['/', '.']).nth(1).unwrap_or_default().to_owned();
        let firmware = paths.iter().any(|path| path.contains("firmware"));
        let names_it = |path: &&str| command.contains(&format!("--example {}", name(path)));
        assert!(firmware || paths.iter().any(names_it), "{command}");
        for path in paths {
            let lines = read(&docs.join(path)).lines().count();
            let is_long = firmware || path.ends_with("no_runtime.rs");
            assert!(is_long || lines < LINES, "{path} has {lines} lines");
            let runs = [format!("\"{}\"", name(path)), format!("examples/{}.rs\"", name(path))];
            assert!(runs.iter().any(|run| tests.contains(run)), "no test runs {path}");
        }
    }
}
