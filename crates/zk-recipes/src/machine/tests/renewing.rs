//! Events that never come, found out when watches are renewed.

use super::*;

fn gone() -> Result<Reply, Error> {
    refused(ErrorCode::NO_NODE)
}

#[test]
fn a_renewed_watch_on_a_node_that_is_still_there_changes_nothing() {
    for (mut h, watches) in [
        (Harness::second(), &["watch own-7", "watch a-5"][..]),
        (Harness::third(), &["watch b-6"]),
        (Harness::held_and_watched(), &["watch own-7"]),
    ] {
        for watch in watches {
            h.renewed(watch, children(&[]));
            h.expect(&[]);
        }
    }
}

#[test]
fn a_waiter_finds_that_its_predecessor_has_gone_unnoticed() {
    for (arrive, predecessor) in [(Harness::second as fn() -> _, "a-5"), (Harness::third, "b-6")] {
        let mut h = arrive();
        h.renewed(&format!("watch {predecessor}"), gone());
        h.expect(&[&format!("unwatch {predecessor}"), "list"]);
        h.answer("list", children(&["own-7"]));
        assert_eq!(h.wanted()[0], "Acquired own-7 token 107");
    }
}

#[test]
fn a_waiter_finds_that_its_predecessor_may_not_be_read_any_more() {
    let mut h = Harness::third();
    h.renewed("watch b-6", refused(ErrorCode::NO_AUTH));
    h.expect(&["Failed: unreadable b-6", "unwatch b-6", "delete own-7"]);
}

#[test]
fn the_second_in_line_finds_that_its_own_node_has_gone_unnoticed() {
    let mut h = Harness::second();
    h.renewed("watch own-7", gone());
    h.expect(&["unwatch own-7", "Failed: NodeVanished", "unwatch a-5"]);
    h.expect_last(&[]);
}

#[test]
fn a_holder_finds_that_its_own_node_has_gone_unnoticed() {
    let mut h = Harness::held_and_watched();
    h.renewed("watch own-7", gone());
    h.expect_last(&["unwatch own-7", "Lost(NodeDeleted)"]);
}

#[test]
fn a_holder_finds_that_somebody_has_asked_for_the_lock_unnoticed() {
    let mut h = Harness::of(|config| config.revocable = true);
    h.created(7);
    h.answer("list", children(&["own-7"]));
    h.answer("watch data own-7", data(b"who"));
    h.wanted();
    h.renewed("watch data own-7", data(b"who"));
    h.expect(&[]);
    h.renewed("watch data own-7", data(AttemptConfig::REVOKE));
    h.expect(&["Revoked"]);
}

#[test]
fn a_candidate_that_has_lost_its_node_unnoticed_stands_again() {
    let mut h = Harness::driving(config(), ElectionMachine::new);
    h.created(7);
    h.answer("list", children(&["own-7"]));
    h.feed(Input::Timer);
    h.answer("watch own-7", ok());
    h.wanted();
    h.renewed("watch own-7", gone());
    h.expect(&["unwatch own-7", "Lost(NodeDeleted)", "timer"]);
}

#[test]
fn a_member_of_a_double_barrier_finds_that_all_have_come_or_gone_unnoticed() {
    let mut h = Harness::driving(config(), |config| Participant::new(config, 2));
    h.created_as("create B", "own-B7", czxid(7));
    h.answer("list", children(&["own-B7"]));
    h.answer("watch presence ready", gone());
    h.answer("list", children(&["own-B7"]));
    h.wanted();
    h.renewed("watch presence ready", gone());
    h.expect(&[]);
    let stat = Stat { mzxid: czxid(9), ..Stat::default() };
    h.renewed("watch presence ready", reply(OpCode::EXISTS, &ExistsResponse { stat }));
    h.expect(&["unwatch presence ready", "Acquired own-B7 token 107"]);
    h.feed(Input::Leave);
    h.answer("list", children(&["own-B7", "c-B8"]));
    h.answer("watch c-B8", ok());
    h.wanted();
    h.renewed("watch c-B8", children(&[]));
    h.expect(&[]);
    h.renewed("watch c-B8", gone());
    h.expect(&["unwatch c-B8", "list"]);
}
