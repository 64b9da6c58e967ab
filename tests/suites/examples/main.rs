//! Runs the compiled examples, and reads what they print.

use zk_testkit::examples::{example, printed};

#[test]
fn the_example_shows_what_an_ensemble_in_a_test_can_do() {
    let lines = printed(&mut example(env!("CARGO_MANIFEST_DIR"), "test_server"));
    let expected = [
        "/jobs/1: print",
        "1 session, 0 watches",
        "another leader: true",
        "the same session: true",
        "expired: true",
        "the job is gone: true",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_service_under_chaos_gives_no_number_twice() {
    let lines = printed(&mut example(env!("CARGO_MANIFEST_DIR"), "chaos"));
    assert_eq!(lines.last().map(String::as_str), Some("180 pages, none twice"), "{lines:#?}");
}
