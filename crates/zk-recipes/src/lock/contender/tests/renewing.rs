//! Lost watch events, noticed when watches are renewed.

use crate::tests::*;

fn gone() -> Result<Reply, Error> {
    refused(ErrorCode::NO_NODE)
}

#[test]
fn a_renewed_watch_on_an_existing_node_changes_nothing() {
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
fn a_waiter_notices_its_predecessors_deletion_by_renewal() {
    for (arrive, predecessor) in [(Harness::second as fn() -> _, "a-5"), (Harness::third, "b-6")] {
        let mut h = arrive();
        h.renewed(&format!("watch {predecessor}"), gone());
        h.expect(&[&format!("unwatch {predecessor}"), "list"]);
        h.answer("list", children(&["own-7"]));
        assert_eq!(h.wanted()[0], "Acquired own-7 token 107");
    }
}

#[test]
fn a_waiter_notices_an_unreadable_predecessor_by_renewal() {
    let mut h = Harness::third();
    h.renewed("watch b-6", refused(ErrorCode::NO_AUTH));
    h.expect(&["Failed: unreadable b-6", "unwatch b-6", "delete own-7"]);
}

#[test]
fn the_second_in_line_notices_its_own_deletion_by_renewal() {
    let mut h = Harness::second();
    h.renewed("watch own-7", gone());
    h.expect(&["unwatch own-7", "Failed: NodeVanished", "unwatch a-5"]);
    h.expect_last(&[]);
}

#[test]
fn a_holder_notices_its_own_deletion_by_renewal() {
    let mut h = Harness::held_and_watched();
    h.renewed("watch own-7", gone());
    h.expect_last(&["unwatch own-7", "Lost(NodeDeleted)"]);
}

#[test]
fn a_holder_notices_a_revocation_by_renewal() {
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
fn a_candidate_notices_its_own_deletion_by_renewal() {
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
fn a_participant_notices_the_others_by_renewal() {
    let mut h = Harness::driving(config(), |config| Participant::new(config, 2));
    h.created_as("create B", "own-B7", czxid(7));
    h.answer("list", children(&["own-B7"]));
    h.answer("watch presence ready", gone());
    h.answer("list", children(&["own-B7"]));
    h.wanted();
    h.renewed("watch presence ready", gone());
    h.expect(&[]);
    let stat = Stat { mzxid: czxid(9), ..Stat::default() };
    let ready = || reply(OpCode::EXISTS, &ExistsResponse { stat });
    h.renewed("watch presence ready", ready());
    h.expect(&["watch presence ready", "unwatch presence ready", "list"]);
    h.answer("watch presence ready", ready());
    h.answer("list", children(&["ready", "own-B7"]));
    h.expect(&["unwatch presence ready", "Acquired own-B7 token 107"]);
    h.feed(Command::Leave);
    h.answer("list", children(&["own-B7", "c-B8"]));
    h.answer("watch presence c-B8", ready());
    h.wanted();
    h.renewed("watch presence c-B8", ready());
    h.expect(&[]);
    h.renewed("watch presence c-B8", gone());
    h.expect(&["unwatch presence c-B8", "list"]);
}

#[test]
fn only_some_machines_outlive_their_session() {
    let contender = || Contender::new(config());
    assert!(!contender().outlives_session());
    assert!(!Requeuing::new(contender(), false).outlives_session());
    assert!(!Participant::new(config(), 2).outlives_session());
    assert!(!SemaphoreMachine::new(PermitRequest::new(config(), 1, None)).outlives_session());
    assert!(Requeuing::new(contender(), true).outlives_session());
    assert!(ElectionMachine::new(config()).outlives_session());
    assert!(EphemeralMachine::new(config()).outlives_session());
}
