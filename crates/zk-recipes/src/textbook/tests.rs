//! Tests of the contender that watches the lock path.

use super::HerdContender;
use crate::tests::*;

fn waiting() -> Harness<HerdContender> {
    let mut h = Harness::driving(config(), HerdContender::new);
    h.created(7);
    h.answer("list", children(&["a-5", "own-7"]));
    h.wanted();
    h.answer("watch list", children(&["a-5", "own-7"]));
    h.expect(&[]);
    h
}

#[test]
fn a_herd_watches_the_lock_path() {
    let mut h = waiting();
    h.fire("watch list", EventType::NODE_CHILDREN_CHANGED);
    h.expect(&["watch list"]);
    // The predecessor has gone before the watch was set.
    h.answer("watch list", children(&["own-7"]));
    h.expect(&["unwatch list", "Acquired own-7 token 107", "timer"]);
}

#[test]
fn who_has_lost_its_place_in_the_herd_looks_for_it() {
    let mut h = waiting();
    h.fire("watch list", EventType::NODE_CHILDREN_CHANGED);
    h.expect(&["watch list"]);
    h.answer("watch list", children(&["a-5"]));
    h.expect(&["unwatch list", "list"]);
    h.answer("list", children(&["a-5"]));
    h.expect_last(&["Failed: NodeVanished"]);
}

#[test]
fn who_leaves_the_herd_deletes_its_node() {
    let mut h = waiting();
    h.feed(Command::Leave);
    h.expect(&["unwatch list", "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&["Released"]);
}
