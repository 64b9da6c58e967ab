//! What goes wrong on the way, and that nothing is left behind then.

use alloc::format;
use alloc::string::String;

use zk_session::Error;
use zk_session::proto::{ErrorCode, EventType, SessionId};

use super::super::super::Input;
use super::super::super::tests::{QUEUE_FULL, SESSION, data, lost, ok, refused};
use super::harness::{Harness, children, created, maximum, stat};

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let failed = |permits, maximum| {
        let mut h = Harness::of(|loan| (loan.permits, loan.maximum) = (permits, maximum));
        let lines = h.wanted();
        h.expect_last(&[]);
        lines
    };
    assert_eq!(failed(0, Some(3)), ["Failed: NoPermits"]);
    assert_eq!(failed(4, Some(3)), ["Failed: TooManyPermits { maximum: 3 }"]);
    assert_eq!(failed(1, Some(1 << 31)), ["Failed: TooManyPermits { maximum: 2147483647 }"]);
}

#[test]
fn a_creation_of_which_nothing_is_known_is_looked_for_behind_a_sync() {
    let mut h = Harness::new().adopting();
    h.answer("stat leases/own-3", stat(SESSION));
    h.expect(&["watch leases", "timer", "timer"]);
    h.full("watch leases");
    h.expect(&[]);
    let mut h = Harness::new().resolving();
    h.answer("sync leases", ok());
    h.answer("list leases", children(&["leases/a-1"]));
    h.expect(&["create 2 leases", "watch leases"]);
}

#[test]
fn leases_that_are_adopted_are_counted_anew() {
    // The list that was sent with the creation is answered, and tells nothing of what is adopted.
    for answer in [ok(), created(&[3]), refused(ErrorCode::SYSTEM_ERROR)] {
        let mut h = Harness::new().creating();
        h.answer("create 2 leases", answer);
        h.expect(&["timer"]);
        h.answer("watch leases", children(&["leases/own-3", "leases/own-4"]));
        h.answer("watch max", maximum(3));
        h.feed(Input::Timer);
        h.expect(&["unwatch leases", "sync leases", "list leases", "watch locks/own-7"]);
        h.answer("sync leases", ok());
        h.answer("list leases", children(&["leases/own-3", "leases/own-4"]));
        h.answer("stat leases/own-3", stat(SESSION));
        h.expect(&["stat leases/own-3", "watch leases", "timer", "timer"]);
        h.answer("watch leases", children(&["leases/own-3", "leases/own-4"]));
        assert_eq!(h.wanted()[2], "Acquired leases/own-3 token 100");
    }
}

#[test]
fn leases_that_are_not_ours_or_not_all_there_are_given_back() {
    let mut h = Harness::new().adopting();
    h.answer("stat leases/own-3", stat(SessionId(0x52)));
    h.expect(&[
        "create 2 leases",
        "watch leases",
        "timer",
        "delete leases/own-3",
        "timer",
        "delete leases/own-4",
    ]);

    let mut h = Harness::new().resolving();
    h.answer("sync leases", ok());
    h.answer("list leases", children(&["leases/own-4"]));
    h.answer("stat leases/own-4", stat(SESSION));
    assert!(h.wanted().ends_with(&["delete leases/own-4".into()]));
    // They are not taken for what comes next.
    h.answer("create 2 leases", lost());
    h.answer("delete leases/own-4", lost());
    h.wanted();
    h.answer("sync leases", ok());
    h.answer("list leases", children(&["leases/own-4"]));
    h.expect(&["create 2 leases", "watch leases"]);
}

#[test]
fn what_is_refused_for_now_is_asked_again_after_a_while_and_once() {
    for error in [QUEUE_FULL, Error::Server(ErrorCode::THROTTLED_OP), Error::NoConnection] {
        let mut h = Harness::new().creating();
        for line in ["create 2 leases", "watch leases", "watch max"] {
            h.answer(line, Err(error.clone()));
        }
        h.expect(&["timer", "unwatch leases", "unwatch max", "timer"]);
        h.feed(Input::Timer);
        h.expect(&["sync leases", "list leases", "watch max", "watch locks/own-7"]);
        h.feed(Input::Timer);
        h.expect(&[]);
        // A list without a sync tells nothing.
        h.answer("list leases", Err(error.clone()));
        h.expect(&["timer"]);
        h.answer("sync leases", Err(error.clone()));
        h.expect(&[]);
        h.feed(Input::Timer);
        h.expect(&["sync leases", "list leases"]);
    }
}

#[test]
fn what_is_refused_for_good_ends_it_and_leaves_nothing() {
    let no_auth = || refused(ErrorCode::NO_AUTH);
    let mut h = Harness::new().creating();
    h.answer("create 2 leases", no_auth());
    h.expect(&[
        "Failed: ErrorCode(NO_AUTH)",
        "unwatch leases",
        "unwatch max",
        "delete locks/own-7",
    ]);
    h.answer("delete locks/own-7", ok());
    h.expect_last(&[]);
    for line in ["watch leases", "watch max"] {
        let mut h = Harness::new().creating();
        h.answer("create 2 leases", created(&[3, 4]));
        h.wanted();
        h.answer(line, no_auth());
        let wanted = h.wanted();
        assert!(wanted.contains(&"Failed: ErrorCode(NO_AUTH)".into()), "{wanted:?}");
        for node in ["delete leases/own-3", "delete leases/own-4", "delete locks/own-7"] {
            h.answer(node, ok());
        }
        h.expect_last(&[]);
    }
}

#[test]
fn a_lease_that_may_not_be_deleted_is_told() {
    let mut h = Harness::new().leaving();
    h.answer("delete leases/own-3", refused(ErrorCode::NO_AUTH));
    h.expect(&["Failed: ErrorCode(NO_AUTH)"]);
    h.answer("delete leases/own-4", ok());
    h.expect_last(&[]);
    // While it waits, too: that one would be in its way for ever.
    let mut h = Harness::new().waiting();
    h.leases_change();
    h.answer("watch leases", children(&["leases/own-4"]));
    h.wanted();
    h.answer("delete leases/own-4", refused(ErrorCode::NO_AUTH));
    assert_eq!(h.wanted()[0], "Failed: ErrorCode(NO_AUTH)");
    h.answer("create 2 leases", created(&[5, 6]));
    h.wanted();
    h.clean_up();
    h.expect_last(&[]);
}

#[test]
fn a_maximum_that_is_absent_or_says_something_else() {
    let waiting = || Harness::new().waiting();
    let mut h = waiting();
    h.maximum_changes();
    h.answer("watch max", refused(ErrorCode::NO_NODE));
    h.expect(&["watch max", "unwatch max", "create max Some([0, 0, 0, 3])"]);
    h.answer("create max Some([0, 0, 0, 3])", refused(ErrorCode::NODE_EXISTS));
    h.expect(&["watch max"]);
    for (answer, failed) in [
        (data(b"three"), "Failed: NoMaximum"),
        (maximum(u32::MAX), "Failed: NoMaximum"),
        (maximum(1), "Failed: TooManyPermits { maximum: 1 }"),
        (ok(), "Failed: malformed"),
    ] {
        let mut h = waiting();
        h.maximum_changes();
        h.answer("watch max", answer);
        assert_eq!(h.wanted()[1], failed);
        h.clean_up();
        h.wanted();
        h.expect_last(&[]);
    }
    let mut h = Harness::of(|loan| loan.maximum = None).creating();
    h.answer("watch max", refused(ErrorCode::NO_NODE));
    assert_eq!(h.wanted()[1], "Failed: NoMaximum");
}

#[test]
fn whose_place_in_the_queue_is_gone_counts_no_more() {
    for mut h in [Harness::new().creating(), Harness::new().waiting()] {
        h.feed(Input::Timer);
        h.answer("watch locks/own-7", ok());
        h.wanted();
        h.fire("watch locks/own-7", EventType::NODE_DELETED);
        assert_eq!(h.wanted()[0], "Failed: NodeVanished");
        h.answer_if_asked("create 2 leases", created(&[3, 4]));
        h.clean_up();
        h.wanted();
        h.expect_last(&[]);
    }
    let mut h = Harness::new().held();
    h.answer("delete locks/own-7", refused(ErrorCode::NO_NODE));
    h.expect(&[]);
}

type Place = fn(Harness) -> Harness;

const PLACES: [Place; 9] = [
    Harness::queueing,
    Harness::creating,
    Harness::making_parents,
    Harness::resolving,
    Harness::adopting,
    Harness::unresolved,
    Harness::counting,
    Harness::waiting,
    Harness::held,
];

#[test]
fn who_lets_go_anywhere_leaves_nothing_and_is_told_once() {
    let troubles: [fn(&mut Harness); 3] = [
        |_| {},
        Harness::disconnect,
        |h| {
            h.disconnect();
            h.reconnect();
        },
    ];
    for place in PLACES {
        for trouble in troubles {
            for first in [true, false] {
                let mut h = place(Harness::new());
                if first {
                    h.feed(Input::LetGo);
                    trouble(&mut h);
                } else {
                    trouble(&mut h);
                    h.feed(Input::LetGo);
                }
                h.reconnect();
                for _ in 0..3 {
                    h.clean_up();
                    h.feed(Input::Timer);
                }
                let wanted = h.wanted();
                let watched = |line: &&String| line.starts_with("watch ");
                for watch in wanted.iter().filter(watched) {
                    let count = |line: &str| wanted.iter().filter(|l| *l == line).count();
                    assert!(count(&format!("un{watch}")) >= count(watch), "{wanted:?}");
                }
                let released = wanted.iter().filter(|line| *line == "Released").count();
                assert_eq!(released, 1, "{wanted:?}");
                h.expect_last(&[]);
            }
        }
    }
}

#[test]
fn a_session_that_ends_anywhere_ends_it() {
    for place in PLACES {
        let mut h = place(Harness::new());
        let is_held = h.borrower.step_name() == "Held";
        h.expire();
        h.expect_last(&[if is_held { "Lost(Ended(Expired))" } else { "Failed: Ended(Expired)" }]);
        let mut h = place(Harness::new());
        h.feed(Input::LetGo);
        h.wanted();
        h.expire();
        h.expect_last(&["Released"]);
    }
}
