//! Lists that are longer than the session accepts.

use crate::tests::*;
use zk_session::Outcome;

fn too_long() -> Result<Reply, Error> {
    let outcome = Outcome::NotApplied;
    Err(Error::ReplyTooLarge { length: 5_000, limit: 4_096, outcome })
}

fn failed() -> String {
    format!("Failed: {:?}", too_long().expect_err("it is one"))
}

fn not_converted() -> String {
    format!("NotConverted: {:?}", too_long().expect_err("it is one"))
}

/// The server's list of our own nodes.
fn own_nodes(labels: &[&str]) -> Result<Reply, Error> {
    let paths: Vec<_> =
        labels.iter().map(|label| format!("/locks/printer/{}", name(label))).collect();
    let mut paths: Vec<_> = paths.iter().map(String::as_str).collect();
    // Other nodes of ours are not deleted.
    paths.extend(["/locks/scanner/x", "/locks/printer/x", "/locks/printer", ""]);
    reply(OpCode::GET_EPHEMERALS, &GetEphemeralsResponse { ephemerals: paths[..].into() })
}

#[test]
fn a_list_that_is_too_long_deletes_our_node() {
    let mut h = Harness::creating();
    h.created(7);
    h.expect(&["Enqueued own-7 token 107"]);
    h.answer("list", too_long());
    h.expect(&[&failed(), "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn a_list_that_became_too_long_deletes_our_node() {
    let mut h = Harness::creating();
    h.created(7);
    h.answer("list", children(&["a-5", "b-6", "own-7"]));
    h.answer("watch b-6", ok());
    h.wanted();
    h.deleted("watch b-6");
    h.expect(&["unwatch b-6", "list"]);
    h.answer("list", too_long());
    h.expect(&[&failed(), "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn a_try_reports_a_list_that_is_too_long() {
    let config = AttemptConfig { wait_policy: WaitPolicy::OnlyIfFree, ..config() };
    let mut h = Harness::driving(config, Contender::new);
    h.feed(Input::State(CONNECTED));
    h.expect(&["list"]);
    h.answer("list", too_long());
    h.expect_last(&[&failed()]);
}

/// Fails the search for a lost create. Then the node is found among our own ones, and deleted.
fn search_fails(unread: fn() -> Result<Reply, Error>, failed: &str) {
    for own in [&[][..], &["own-7"], &["own-7", "own-9"]] {
        let mut h = Harness::resolving();
        h.answer("sync", ok());
        h.answer("list", unread());
        h.expect(&["list own"]);
        h.answer("list own", own_nodes(own));
        let deletions: Vec<_> = own.iter().map(|label| format!("delete {label}")).collect();
        let lines = deletions.iter().map(String::as_str);
        h.expect(&lines.clone().chain([failed]).collect::<Vec<_>>());
        for deletion in &deletions {
            h.answer(deletion, ok());
        }
        h.expect_last(&[]);
    }
}

#[test]
fn a_node_of_unknown_outcome_is_deleted_without_the_full_list() {
    search_fails(too_long, &failed());
}

#[test]
fn a_node_of_unknown_outcome_is_deleted_although_the_list_is_forbidden() {
    search_fails(|| refused(ErrorCode::NO_AUTH), "Failed: ErrorCode(NO_AUTH)");
}

#[test]
fn a_failed_search_for_our_own_nodes_is_repeated() {
    let mut h = Harness::resolving();
    h.answer("sync", ok());
    h.answer("list", too_long());
    h.answer("list own", lost());
    h.expect(&["list own", "sync", "list"]);
    h.answer("sync", ok());
    // Other contenders have left meanwhile.
    h.answer("list", children(&["own-7"]));
    h.expect(&["stat own-7"]);

    let mut h = Harness::resolving();
    h.answer("sync", ok());
    h.answer("list", too_long());
    h.answer("list own", refused(ErrorCode::UNIMPLEMENTED));
    h.expect_last(&["list own", &failed()]);
}

#[test]
fn a_release_cleans_up_although_the_list_is_too_long() {
    let mut h = Harness::resolving();
    h.feed(Command::Release);
    h.answer("sync", ok());
    h.answer("list", too_long());
    h.answer("list own", own_nodes(&["own-7"]));
    h.expect(&["list own", "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&["Released"]);
}

fn upgrading() -> Harness {
    let mut h = Harness::reader_or_writer(LockMode::Shared);
    h.created_as("create R", "own-R7", czxid(7));
    h.answer("list", children(&["own-R7"]));
    h.feed(Input::Timer);
    h.answer("watch own-R7", ok());
    h.feed(Command::Convert(LockMode::Exclusive));
    h.wanted();
    h
}

#[test]
fn a_reader_that_cannot_read_the_list_stays_a_reader() {
    let mut h = upgrading();
    h.created_as("create W", "own-W9", czxid(9));
    h.answer("list", too_long());
    h.expect(&["delete own-W9", &not_converted()]);
}

#[test]
fn a_writer_of_unknown_outcome_is_deleted_without_the_full_list() {
    for (answer, expected) in [
        (own_nodes(&["own-W9"]), &["delete own-W9", &not_converted()][..]),
        (own_nodes(&[]), &[&not_converted()]),
        (too_long(), &[&not_converted()]),
    ] {
        let mut h = upgrading();
        h.answer("create W", lost());
        h.expect(&["sync", "list"]);
        h.answer("list", lost());
        h.answer("sync", ok());
        h.answer("list", too_long());
        h.expect(&["list own W"]);
        h.answer("list own W", answer);
        h.expect(expected);
    }
}

#[test]
fn a_participant_that_cannot_read_the_list_leaves() {
    let mut h = Harness::driving(config(), |config| Participant::new(config, 2));
    h.created_as("create B", "own-B7", czxid(7));
    h.answer("list", children(&["own-B7"]));
    h.answer("watch presence ready", refused(ErrorCode::NO_NODE));
    h.wanted();
    h.answer("list", too_long());
    let lines = h.wanted();
    assert_eq!(lines.iter().filter(|line| **line == failed()).count(), 1, "{lines:?}");
    assert!(lines.contains(&"delete own-B7".to_string()), "{lines:?}");
    h.answer("delete own-B7", ok());
    h.expect_last(&[]);
}

#[test]
fn a_candidate_that_cannot_read_the_list_fails() {
    let mut h = Harness::driving(config(), ElectionMachine::new);
    h.created(7);
    h.wanted();
    h.answer("list", too_long());
    h.expect(&[&failed(), "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

/// A creation was applied if only its reply is too long.
#[test]
fn a_creation_with_an_empty_reply_is_searched_for() {
    let mut h = Harness::creating();
    let outcome = Outcome::Applied;
    h.answer("create", Err(Error::ReplyTooLarge { length: 200, limit: 100, outcome }));
    h.expect(&["timer"]);
    h.feed(Input::Timer);
    h.expect(&["sync", "list"]);
}
