//! The page about fuzzing shows what is in the repository.

use std::fs;

use super::root;

#[test]
fn the_page_shows_the_harness_which_is_short() {
    let page = fs::read_to_string(root().join("docs/fuzzing.md")).expect("the page");
    let harness = root().join("tests/examples/fuzz_server.rs");
    let harness = fs::read_to_string(harness).expect("the harness");
    assert!(page.contains(&format!("```rust\n{harness}```\n")), "the page shows another one");
    assert!(harness.lines().count() < 40);
}
