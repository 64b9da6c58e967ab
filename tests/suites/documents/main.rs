//! Checks the documents: their style, their links and paths, the tests that they name, the generated
//! parts of the guide, the pages for services and for users of other clients, the names of errors,
//! what `defmt` can format, and the summary of all tests.

mod answers;
mod api;
mod coming_from;
mod examples;
mod formats;
mod guide;
mod links;
mod names;
mod services;
mod style;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the files below a folder, except those of builds, version control and fuzzing.
fn files(below: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(below).expect("a folder").map(|entry| entry.expect("readable")) {
        let path = entry.path();
        let skipped = ["target", ".git", "corpus", "artifacts", "found"];
        if path.is_dir() {
            if !skipped.iter().any(|name| path.ends_with(name)) {
                found.extend(files(&path));
            }
        } else {
            found.push(path);
        }
    }
    found
}
