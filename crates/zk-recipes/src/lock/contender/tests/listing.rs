//! Lists that come in pieces.

use crate::tests::harness::piece;
use crate::tests::*;

const QUEUE: [&str; 5] = ["own-7", "b-6", "c-9", "a-5", "d-8"];

fn list(labels: &[&str]) -> Reply {
    children(labels).expect("a reply")
}

fn lengths(list: &Reply) -> impl Iterator<Item = usize> {
    [1, 2, 3, 5, 59, 60, 61, list.body.len() - 1].into_iter()
}

#[test]
fn pieces_of_any_length_show_what_the_whole_list_shows() {
    for length in lengths(&list(&QUEUE)) {
        let mut h = Harness::creating();
        h.created(7);
        h.expect(&["Enqueued own-7 token 107"]);
        h.answer_in_pieces("list", &list(&QUEUE), length);
        h.expect(&["Waiting behind b-6, 2 ahead", "watch b-6"]);
    }
}

#[test]
fn a_looking_attempt_reads_pieces() {
    for (queue, expected) in [(&QUEUE[1..], "Failed: Busy"), (&["junk", "junk-2"][..], "create")] {
        for length in lengths(&list(queue)) {
            let config = AttemptConfig { wait_policy: WaitPolicy::OnlyIfFree, ..config() };
            let mut h = Harness::driving(config, Contender::new);
            h.feed(Input::State(CONNECTED));
            h.expect(&["list"]);
            h.answer_in_pieces("list", &list(queue), length);
            assert_eq!(h.wanted()[0], expected);
        }
    }
}

#[test]
fn a_search_for_a_lost_create_reads_pieces() {
    for (queue, expected) in [(&QUEUE[..], "stat own-7"), (&QUEUE[1..], "create")] {
        for length in lengths(&list(queue)) {
            let mut h = Harness::resolving();
            h.answer("sync", ok());
            h.wanted();
            h.answer_in_pieces("list", &list(queue), length);
            assert_eq!(h.wanted()[0], expected);
        }
    }
}

#[test]
fn a_list_that_is_lost_between_pieces_is_read_again_from_the_start() {
    let mut h = Harness::creating();
    h.created(7);
    h.wanted();
    let whole = list(&QUEUE);
    let op = h.op("list");
    let first = piece(&whole, whole.body.slice(..150), true);
    h.feed(Input::Reply { tag: op.tag(), result: Ok(first) });
    h.answer("list", lost());
    h.expect(&["list"]);
    h.answer_in_pieces("list", &list(&["own-7"]), 10);
    assert_eq!(h.wanted()[0], "Acquired own-7 token 107");
}

#[test]
fn pieces_that_end_too_early_fail_the_attempt() {
    let whole = list(&QUEUE);
    let cut_off = piece(&whole, whole.body.slice(..whole.body.len() - 1), false);
    let mut h = Harness::creating();
    h.created(7);
    h.wanted();
    h.answer_in_pieces("list", &cut_off, 100);
    let lines = h.wanted();
    assert!(lines[0] == "Failed: malformed", "{lines:?}");
    assert_eq!(lines[1..], ["delete own-7"]);
}

#[test]
fn a_name_in_pieces_that_is_too_long_fails_the_attempt() {
    for (length, fails) in [(255, false), (256, true)] {
        let long = "x".repeat(length);
        let own = name("own-7");
        let names = [long.as_str(), own.as_str()];
        let whole =
            reply(OpCode::GET_CHILDREN, &GetChildrenResponse { children: names[..].into() });
        let mut h = Harness::creating();
        h.created(7);
        h.wanted();
        let whole = whole.expect("a reply");
        let op = h.op("list");
        // The length of the name has arrived, and no more.
        h.feed(Input::Reply {
            tag: op.tag(),
            result: Ok(piece(&whole, whole.body.slice(..8), true)),
        });
        let lines = h.wanted();
        match fails {
            true => assert!(lines[0].starts_with("Failed: ReplyTooLarge"), "{lines:?}"),
            false => assert!(lines.is_empty(), "{lines:?}"),
        }
    }
}
