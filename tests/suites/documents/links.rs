//! Checks that every link in a document leads somewhere, and that every path in it exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{files, root};

/// Returns the text outside of code blocks.
pub(super) fn prose(text: &str) -> String {
    let mut in_code = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            prose += line;
            prose.push('\n');
        }
    }
    prose
}

/// Returns the targets of `[text](target)`.
fn links(prose: &str) -> impl Iterator<Item = &str> {
    prose.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0))
}

/// Returns the text in backticks.
pub(super) fn code_spans(prose: &str) -> impl Iterator<Item = &str> {
    prose.split('`').skip(1).step_by(2)
}

/// Returns the anchors of a document's headings, as GitHub and docs.rs make them.
fn anchors(prose: &str) -> BTreeSet<String> {
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
        let text: String = heading.trim_start_matches('#').trim().chars().filter(kept).collect();
        text.to_lowercase().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// Returns what is wrong with a link in `document`, if anything.
fn check_link(document: &Path, link: &str) -> Option<String> {
    if link.starts_with("http") {
        return None;
    }
    // The README of a crate is its front page on docs.rs, which has no files beside it.
    let is_front_page =
        document.ancestors().nth(2).is_some_and(|folder| folder.ends_with("crates"));
    if is_front_page && !link.starts_with('#') {
        return Some(format!("{link} is dead on docs.rs"));
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => document.to_path_buf(),
        file => document.parent().expect("a folder").join(file),
    };
    if !target.exists() {
        return Some(format!("{file} does not exist"));
    }
    if target.ends_with("play/index.html") {
        return check_step(&target, anchor);
    }
    let is_known = || anchors(&prose(&fs::read_to_string(&target).expect("text"))).contains(anchor);
    (!anchor.is_empty() && !is_known()).then(|| format!("{file} has no heading #{anchor}"))
}

/// Returns what is wrong with a link to a step of a story, if anything. It must be one where the story
/// stops.
fn check_step(page: &Path, anchor: &str) -> Option<String> {
    let Some((story, step)) = anchor.split_once('/') else {
        return (!anchor.is_empty()).then(|| format!("{anchor} names no step"));
    };
    let file = page.with_file_name("stories").join(story).with_extension("js");
    let text = fs::read_to_string(file).unwrap_or_default();
    let stops = text.contains(&format!("{{\"step\":{step},"));
    (!stops).then(|| format!("the page has no stop {anchor}"))
}

/// Returns whether a code span is a path of this repository that does not exist. A path may begin
/// at the root or at the document; the last parts of one are enough for a source file.
fn is_missing_path(document: &Path, span: &str, sources: &[PathBuf]) -> bool {
    let path = span.split("::").next().unwrap_or(span).trim_end_matches('/');
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let roots = ["crates/", "tests/", "docs/", "fuzz/", ".ci/"];
    let is_source = path.ends_with(".rs") || path.ends_with(".md") || path.ends_with(".sh");
    if !path.chars().all(plain) || !(is_source || roots.iter().any(|root| path.starts_with(root))) {
        return false;
    }
    // The commands beside it create it.
    let is_made = path.starts_with("fuzz/artifacts") || path.starts_with("fuzz/found");
    let beside = document.parent().expect("a folder").join(path);
    let is_known = || is_source && sources.iter().any(|source| source.ends_with(path));
    !(is_made || beside.exists() || root().join(path).exists() || is_known())
}

#[test]
fn links_and_paths_lead_somewhere() {
    let sources = files(&root());
    let documents = sources.iter().filter(|path| path.extension().is_some_and(|ext| ext == "md"));
    let (mut faults, mut checked) = (Vec::new(), 0);
    for document in documents {
        let prose = prose(&fs::read_to_string(document).expect("text"));
        let mut report = |fault: String| faults.push(format!("{}: {fault}", document.display()));
        for link in links(&prose) {
            checked += 1;
            check_link(document, link).into_iter().for_each(&mut report);
        }
        for span in code_spans(&prose) {
            checked += 1;
            if is_missing_path(document, span, &sources) {
                report(format!("`{span}` does not exist"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(checked > 1000, "only {checked} links and code spans were found");
}

#[test]
fn documents_that_comments_mention_exist() {
    let is_in_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let mut mentioned = 0;
    for source in files(&root()).iter().filter(|path| path.extension().is_some_and(|e| e == "rs")) {
        let text = fs::read_to_string(source).expect("text");
        let comments = text.lines().filter(|line| line.trim_start().starts_with("//"));
        let words = comments.flat_map(|line| line.split(|c| !is_in_path(c)));
        for name in words.filter(|word| word.starts_with("docs/") && word.ends_with(".md")) {
            assert!(root().join(name).exists(), "{} mentions {name}", source.display());
            mentioned += 1;
        }
    }
    assert!(mentioned > 5, "only {mentioned} documents were mentioned");
}

#[test]
fn faults_are_found() {
    let readme = root().join("README.md");
    assert_eq!(check_link(&readme, "docs/locks.md#guarantees"), None);
    assert!(check_link(&readme, "docs/lock.md").is_some());
    let front_page = root().join("crates/zk-recipes/README.md");
    assert_eq!(check_link(&front_page, "#interoperation"), None);
    assert!(check_link(&front_page, "../../docs/locks.md").is_some());
    assert!(check_link(&readme, "docs/locks.md#guarantee").is_some());
    for (span, missing) in [("tests/suites", false), ("tests/suite", true), ("no_such.rs", true)] {
        assert_eq!(is_missing_path(&readme, span, &[]), missing, "{span}");
    }
}

/// Packages contain what the repository has once.
#[test]
fn packages_share_their_licences_and_the_changelog() {
    for name in ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        let shared = root().join(name).canonicalize().expect("a file");
        for package in ["crates/zk-proto", "crates/zk-recipes", "crates/zk-session", "tests/server"]
        {
            let own = root().join(package).join(name);
            assert_eq!(own.canonicalize().expect("a link"), shared, "{package}");
        }
    }
}
