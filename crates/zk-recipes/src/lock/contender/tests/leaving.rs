//! The release, the end of the session, and nodes that remain.

use zk_session::Outcome;

use crate::tests::*;

type Start = (&'static str, fn() -> Harness);

/// All phases before the lock is held, and whether the node is known in each.
const BEFORE: [(Start, bool); 7] = [
    (("creating", Harness::creating), false),
    (("making parents", Harness::making_parents), false),
    (("resolving", Harness::resolving), false),
    (("adopting", Harness::adopting), false),
    (("deciding", Harness::deciding), true),
    (("second in line", Harness::second), true),
    (("third in line", Harness::third), true),
];
const HOLDING: [Start; 3] = [
    ("held", Harness::held),
    ("held and watched", Harness::held_and_watched),
    ("suspended", Harness::suspended),
];

/// Answers every request like a server that has only our node. Returns the requests.
fn settle(h: &mut Harness, exists: bool) -> Vec<String> {
    let mut all = h.wanted();
    while let Some(asked) = h.asked.iter().find(|asked| !asked.answered) {
        let line = asked.line.clone();
        match line.as_str() {
            "create" => h.created(7),
            "list" if exists => h.answer("list", children(&["a-5", "own-7"])),
            "list" => h.answer("list", children(&["a-5"])),
            "stat own-7" => h.answer("stat own-7", stat(SESSION, 7)),
            line => h.answer(line, ok()),
        }
        all.extend(h.wanted());
    }
    all
}

fn count(lines: &[String], prefix: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(prefix)).count()
}

#[test]
fn a_release_in_any_phase_leaves_nothing() {
    for ((place, arrive), known) in BEFORE {
        let mut h = arrive();
        h.feed(Command::Release);
        let said_at_once = h.wanted();
        assert_eq!(count(&said_at_once, "delete own-7"), usize::from(known), "{place}");
        assert!(!h.machine.is_done(), "{place}");

        let exists = place != "resolving";
        let mut lines = said_at_once;
        lines.extend(settle(&mut h, exists));
        // It creates only if a creation is in flight.
        let deletions = usize::from(exists && place != "making parents");
        assert_eq!(count(&lines, "delete"), deletions, "{place}: {lines:?}");
        assert_eq!(count(&lines, "create"), 0, "{place}: {lines:?}");
        assert_eq!(count(&lines, "Acquired"), 0, "{place}: {lines:?}");
        assert_eq!(lines.last().map(String::as_str), Some("Released"), "{place}: {lines:?}");
        h.expect_last(&[]);
    }
}

#[test]
fn a_release_while_resolving_deletes_the_node() {
    let mut h = Harness::resolving();
    h.feed(Command::Release);
    let lines = settle(&mut h, true);
    let expected = ["stat own-7", "Enqueued own-7 token 107", "delete own-7", "Released"];
    assert_eq!(lines, expected);
    h.expect_last(&[]);
}

#[test]
fn a_release_while_adopting_deletes_the_other_sessions_node() {
    let mut h = Harness::adopting();
    h.feed(Command::Release);
    h.answer("stat own-7", stat(SessionId(9), 7));
    h.expect(&["delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&["Released"]);
}

#[test]
fn a_failure_after_a_release_is_not_reported() {
    let mut h = Harness::creating();
    h.feed(Command::Release);
    h.answer("create", refused(ErrorCode::NO_AUTH));
    h.expect_last(&["Released"]);

    let mut h = Harness::making_parents();
    h.feed(Command::Release);
    h.answer("container /locks", refused(ErrorCode::NO_AUTH));
    h.answer("container /locks/printer", refused(ErrorCode::NO_NODE));
    h.expect_last(&["Released"]);
}

#[test]
fn releasing_leaves_the_watch_to_fire_with_the_deletion() {
    let mut h = Harness::held();
    h.feed(Command::Release);
    h.expect(&["delete own-7"]);
    assert!(!h.machine.is_done());
    h.answer("delete own-7", ok());
    h.expect_last(&["Released"]);

    let mut h = Harness::held_and_watched();
    h.feed(Command::Release);
    h.expect(&["delete own-7"]);
    h.deleted("watch own-7");
    h.answer("delete own-7", ok());
    h.expect_last(&["Released"]);

    // Unless the server loses the event.
    let mut h = Harness::held_and_watched();
    h.feed(Command::Release);
    h.expect(&["delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&["unwatch own-7", "Released"]);

    let mut h = Harness::second();
    h.feed(Command::Release);
    h.expect(&["unwatch a-5", "delete own-7"]);
    // Too late.
    h.deleted("watch a-5");
    h.deleted("watch own-7");
    h.feed(Command::Release);
    h.feed(Input::Timer);
    h.expect(&[]);
}

#[test]
fn a_deletion_is_repeated_until_its_outcome_is_known() {
    let mut h = Harness::held();
    h.feed(Command::Release);
    h.expect(&["delete own-7"]);
    for _ in 0..3 {
        h.disconnect();
        h.expect(&["delete own-7"]);
        h.reconnect();
    }
    h.answer("delete own-7", refused(ErrorCode::NO_NODE));
    h.expect_last(&["Released"]);
}

#[test]
fn a_deletion_refused_for_now_is_repeated_later() {
    for refusal in [Err(QUEUE_FULL), refused(ErrorCode::THROTTLED_OP)] {
        let mut h = Harness::held();
        h.feed(Command::Release);
        h.expect(&["delete own-7"]);
        h.answer("delete own-7", refusal);
        h.expect(&["timer"]);
        assert!(!h.machine.is_done());
        h.feed(Input::Timer);
        h.expect(&["delete own-7"]);
        h.answer("delete own-7", ok());
        h.expect_last(&["Released"]);
    }
}

#[test]
fn a_permanently_refused_deletion_is_reported() {
    let mut h = Harness::held();
    h.feed(Command::Release);
    h.expect(&["delete own-7"]);
    h.answer("delete own-7", refused(ErrorCode::NO_AUTH));
    h.expect_last(&["Abandoned own-7: ErrorCode(NO_AUTH)", "Failed: ErrorCode(NO_AUTH)"]);

    // Unless the failure was reported before.
    let mut h = Harness::second_unconfirmed();
    h.answer("watch a-5", refused(ErrorCode::NO_AUTH));
    assert_eq!(h.wanted()[0], "Failed: unreadable a-5");
    h.answer("delete own-7", refused(ErrorCode::NO_AUTH));
    h.expect_last(&["Abandoned own-7: ErrorCode(NO_AUTH)", "unwatch own-7"]);
}

#[test]
fn every_deletion_that_is_not_repeated_is_reported() {
    for code in [ErrorCode::NO_AUTH, ErrorCode::BAD_ARGUMENTS, ErrorCode::NOT_EMPTY] {
        let mut h = Harness::held();
        h.feed(Command::Release);
        h.answer("delete own-7", refused(code));
        assert_eq!(h.wanted()[1], format!("Abandoned own-7: {code:?}"));
        assert!(h.machine.is_done());
    }
    // Repeats a request that may succeed later.
    for code in [ErrorCode::SYSTEM_ERROR, ErrorCode::THROTTLED_OP, ErrorCode(-9999)] {
        let mut h = Harness::held();
        h.feed(Command::Release);
        h.answer("delete own-7", refused(code));
        h.feed(Input::Timer);
        h.expect(&["delete own-7", "timer", "delete own-7"]);
    }
}

#[test]
fn an_abandoned_predecessor_of_this_client_fails_the_attempt() {
    let mut h = Harness::third();
    h.feed(Command::BehindAbandoned);
    h.expect(&["Failed: abandoned b-6", "unwatch b-6", "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
    // It was deleted meanwhile.
    for mut h in [Harness::deciding(), Harness::held()] {
        h.feed(Command::BehindAbandoned);
        h.expect(&[]);
    }
}

#[test]
fn the_attempt_is_over_when_every_deletion_is_settled() {
    let mut h = Harness::resolving();
    h.answer("sync", ok());
    h.answer("list", children(&["own-7", "own-8"]));
    h.expect(&["stat own-7", "delete own-8"]);
    h.feed(Command::Release);
    h.answer("stat own-7", stat(SESSION, 7));
    h.expect(&["Enqueued own-7 token 107", "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect(&[]);
    assert!(!h.machine.is_done());
    h.answer("delete own-8", lost());
    h.expect(&["delete own-8"]);
    h.answer("delete own-8", ok());
    h.expect_last(&["Released"]);
}

#[test]
fn the_end_of_the_session_ends_every_phase_once() {
    for ((place, arrive), _) in BEFORE {
        let mut h = arrive();
        h.expire();
        assert_eq!(h.wanted(), ["Failed: Ended(Expired)"], "{place}");
        h.expect_last(&[]);
    }
    for (place, arrive) in HOLDING {
        let mut h = arrive();
        h.expire();
        assert_eq!(h.wanted(), ["Lost(Ended(Expired))"], "{place}");
        h.expect_last(&[]);
    }
}

#[test]
fn a_reply_can_report_the_end_of_the_session() {
    for outcome in [Outcome::NotApplied, Outcome::Unknown] {
        let ended = || Err(Error::Ended { end: End::Closed, outcome });
        let mut h = Harness::creating();
        h.answer("list", ended());
        h.expect_last(&["Failed: Ended(Closed)"]);

        let mut h = Harness::held();
        h.feed(Input::Timer);
        h.expect(&["watch own-7"]);
        h.answer("watch own-7", ended());
        h.expect_last(&["Lost(Ended(Closed))"]);

        let mut h = Harness::held();
        h.feed(Command::Release);
        h.expect(&["delete own-7"]);
        // Its node exists until the servers end the session.
        h.answer("delete own-7", ended());
        h.expect_last(&["Failed: NotConfirmed(Ended(Closed))"]);
    }
}

#[test]
fn a_release_that_no_server_confirms_ends_with_the_lease_and_the_deletion_goes_on() {
    let mut h = Harness::held();
    h.feed(Command::Release);
    h.disconnect();
    h.expect(&["delete own-7", "delete own-7"]);
    h.feed(Input::LeaseEnded);
    h.expect(&["Failed: NotConfirmed(LeaseEnded)"]);
    h.feed(Input::LeaseEnded);
    h.disconnect();
    h.expect(&["delete own-7"]);
    assert!(!h.machine.is_done());
    h.reconnect();
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn an_attempt_released_without_a_server_ends_with_the_lease() {
    let mut h = Harness::creating();
    h.feed(Command::Release);
    h.disconnect();
    h.expect(&["sync", "list"]);
    h.feed(Input::LeaseEnded);
    h.expect(&["Failed: NotConfirmed(LeaseEnded)"]);
    h.reconnect();
    h.answer("sync", ok());
    h.answer("list", children(&["own-7"]));
    h.answer("stat own-7", stat(SESSION, 7));
    h.expect(&["stat own-7", "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn the_end_of_the_session_confirms_a_release() {
    for ((place, arrive), _) in BEFORE {
        let mut h = arrive();
        h.feed(Command::Release);
        h.wanted();
        h.expire();
        assert_eq!(h.wanted(), ["Released"], "{place}");
        h.expect_last(&[]);
    }
    for (place, arrive) in HOLDING {
        let mut h = arrive();
        h.feed(Command::Release);
        h.wanted();
        h.expire();
        assert_eq!(h.wanted(), ["Released"], "{place}");
        h.expect_last(&[]);
    }
    // A failed attempt stays failed.
    let mut h = Harness::deciding();
    h.answer("list", refused(ErrorCode::NO_AUTH));
    h.wanted();
    h.expire();
    h.expect_last(&[]);
}
