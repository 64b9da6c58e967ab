//! Runs the compiled examples, and reads what they print.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use zk_session::blocking::Client;
use zk_session::proto::NodeKind;
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

#[test]
fn an_ensemble_serves_until_its_standard_input_ends() {
    let mut command = example(env!("CARGO_MANIFEST_DIR"), "ensemble");
    let mut ensemble =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut servers = String::new();
    let mut output = BufReader::new(ensemble.stdout.take().expect("piped"));
    output.read_line(&mut servers).expect("its addresses");
    assert_eq!(servers.split(',').count(), 3, "{servers}");
    let client = Client::connect(servers.trim()).expect("it serves");
    client.create("/a", b"", NodeKind::Ephemeral).wait().expect("a new node");
    drop(ensemble.stdin.take());
    assert!(ensemble.wait().expect("it ends").success());
}
