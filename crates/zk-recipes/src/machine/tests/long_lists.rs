//! Lists longer than the session accepts: whoever cannot read one gives its place up.

use super::*;
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

/// What the server says about our own nodes.
fn own_nodes(labels: &[&str]) -> Result<Reply, Error> {
    let paths: Vec<_> =
        labels.iter().map(|label| format!("/locks/printer/{}", name(label))).collect();
    let mut paths: Vec<_> = paths.iter().map(String::as_str).collect();
    // Whatever else it may say, nothing else is deleted.
    paths.extend(["/locks/scanner/x", "/locks/printer/x", "/locks/printer", ""]);
    reply(OpCode::GET_EPHEMERALS, &GetEphemeralsResponse { ephemerals: paths[..].into() })
}

#[test]
fn who_cannot_read_the_list_gives_its_place_up() {
    let mut h = Harness::creating();
    h.created(7);
    h.expect(&["Enqueued own-7 token 107"]);
    h.answer("list", too_long());
    h.expect(&[&failed(), "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn who_comes_to_the_head_of_a_queue_that_became_too_long_gives_its_place_up() {
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
fn who_only_looks_says_so() {
    let config = AttemptConfig { wait_policy: WaitPolicy::OnlyIfFree, ..config() };
    let mut h = Harness::driving(config, Contender::new);
    h.feed(Input::Session(CONNECTED));
    h.expect(&["list"]);
    h.answer("list", too_long());
    h.expect_last(&[&failed()]);
}

#[test]
fn a_node_that_may_have_been_created_is_found_without_the_list_of_all_and_goes() {
    for own in [&[][..], &["own-7"], &["own-7", "own-9"]] {
        let mut h = Harness::resolving();
        h.answer("sync", ok());
        h.answer("list", too_long());
        h.expect(&["list own"]);
        h.answer("list own", own_nodes(own));
        let deletions: Vec<_> = own.iter().map(|label| format!("delete {label}")).collect();
        let failed = failed();
        let lines = deletions.iter().map(String::as_str);
        h.expect(&lines.clone().chain([failed.as_str()]).collect::<Vec<_>>());
        for deletion in &deletions {
            h.answer(deletion, ok());
        }
        h.expect_last(&[]);
    }
}

#[test]
fn a_search_for_our_own_nodes_that_fails_is_repeated_as_the_list_is() {
    let mut h = Harness::resolving();
    h.answer("sync", ok());
    h.answer("list", too_long());
    h.answer("list own", lost());
    h.expect(&["list own", "sync", "list"]);
    h.answer("sync", ok());
    // Others have left meanwhile.
    h.answer("list", children(&["own-7"]));
    h.expect(&["stat own-7"]);

    let mut h = Harness::resolving();
    h.answer("sync", ok());
    h.answer("list", too_long());
    h.answer("list own", refused(ErrorCode::UNIMPLEMENTED));
    h.expect_last(&["list own", &failed()]);
}

#[test]
fn who_is_not_wanted_any_more_cleans_up_all_the_same() {
    let mut h = Harness::resolving();
    h.feed(Input::Release);
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
    h.feed(Input::Convert(LockMode::Exclusive));
    h.wanted();
    h
}

#[test]
fn a_reader_that_cannot_read_the_list_stays_one() {
    let mut h = upgrading();
    h.created_as("create W", "own-W9", czxid(9));
    h.answer("list", too_long());
    h.expect(&["delete own-W9", &not_converted()]);
}

#[test]
fn a_writer_that_may_have_been_created_is_found_without_the_list_of_all_and_goes() {
    for (answer, expected) in [
        (own_nodes(&["own-W9"]), &["delete own-W9", "NotConverted: ConnectionLost"][..]),
        (own_nodes(&[]), &["NotConverted: ConnectionLost"]),
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
fn a_member_of_a_double_barrier_that_cannot_read_the_list_leaves() {
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
fn a_candidate_that_cannot_read_the_list_says_so_and_is_out() {
    let mut h = Harness::driving(config(), ElectionMachine::new);
    h.created(7);
    h.wanted();
    h.answer("list", too_long());
    h.expect(&[&failed(), "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

/// A creation whose answer alone is too long has been applied.
#[test]
fn a_node_whose_creation_is_confirmed_by_a_header_alone_is_looked_for() {
    let mut h = Harness::creating();
    let outcome = Outcome::Applied;
    h.answer("create", Err(Error::ReplyTooLarge { length: 200, limit: 100, outcome }));
    h.expect(&["timer"]);
    h.feed(Input::Timer);
    h.expect(&["sync", "list"]);
}
