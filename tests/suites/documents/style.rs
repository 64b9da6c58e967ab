//! Checks that the sources of documents have short lines, and READMEs short sentences.

use std::fs;

use super::links::prose;
use super::{files, root};

/// The longest line of prose, in characters. Tables need longer ones.
const LINE: usize = 120;
/// The longest sentence of a README, in words.
const SENTENCE: usize = 30;

const READMES: [&str; 4] = [
    "README.md",
    "crates/zk-proto/README.md",
    "crates/zk-session/README.md",
    "crates/zk-recipes/README.md",
];

/// Returns the parts that hold sentences of their own: paragraphs, list items, and cells of tables.
fn blocks(prose: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in prose.lines() {
        let text = line.trim();
        if text.starts_with('|') {
            blocks.extend(text.split('|').map(str::to_owned));
            blocks.push(String::new());
            continue;
        }
        let is_new = text.is_empty() || text.starts_with(['#', '-', '*']) || is_numbered(text);
        if is_new {
            blocks.push(String::new());
        }
        let block = blocks.last_mut().expect("there is always one");
        *block += text;
        block.push(' ');
    }
    blocks
}

fn is_numbered(text: &str) -> bool {
    text.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

/// Returns how many words the longest sentence has.
fn longest_sentence(block: &str) -> usize {
    let (mut longest, mut words) = (0, 0);
    let is_word = |word: &&str| word.chars().any(char::is_alphanumeric);
    for word in block.split_whitespace().filter(is_word) {
        words += 1;
        longest = longest.max(words);
        if word.trim_end_matches(['*', '"', ')']).ends_with(['.', '?', '!', ':']) {
            words = 0;
        }
    }
    longest
}

#[test]
fn lines_of_prose_are_short() {
    let mut faults = Vec::new();
    for path in files(&root()).iter().filter(|path| path.extension().is_some_and(|e| e == "md")) {
        let text = prose(&fs::read_to_string(path).expect("text"));
        let is_long = |line: &&str| line.chars().count() > LINE && !line.starts_with('|');
        faults
            .extend(text.lines().filter(is_long).map(|line| format!("{}: {line}", path.display())));
    }
    assert!(faults.is_empty(), "longer than {LINE} characters:\n{}", faults.join("\n"));
}

#[test]
fn sentences_of_readmes_are_short() {
    let mut faults = Vec::new();
    for readme in READMES {
        let text = prose(&fs::read_to_string(root().join(readme)).expect("text"));
        let long = blocks(&text).into_iter().filter(|block| longest_sentence(block) > SENTENCE);
        faults.extend(long.map(|block| format!("{readme}: {block}")));
    }
    assert!(faults.is_empty(), "more than {SENTENCE} words:\n{}", faults.join("\n"));
}

#[test]
fn sentences_end_at_full_stops_items_and_cells() {
    let text = "One two three. Four\nfive.\n\n- six\n- seven eight\n\n| nine | ten eleven |\n";
    let lengths: Vec<_> = blocks(text).iter().map(|block| longest_sentence(block)).collect();
    assert_eq!(lengths.into_iter().filter(|&words| words > 0).collect::<Vec<_>>(), [3, 1, 2, 1, 2]);
}
