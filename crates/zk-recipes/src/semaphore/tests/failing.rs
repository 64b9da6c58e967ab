//! Failures, after which no node may remain.

use alloc::format;
use alloc::string::String;

use uuid::Uuid;
use zk_session::proto::{ErrorCode, EventType, SessionId};
use zk_session::session::Reply;
use zk_session::{Error, Outcome};

use super::super::super::tests::{QUEUE_FULL, SESSION, data, lost, ok, refused};
use super::harness::{Harness, adopt_permit_nodes, children, created, maximum, stat};
use crate::attempt::{LockMode, Scheme};
use crate::error::LockError;
use crate::tests::{Command, Input};

#[test]
fn permit_nodes_beside_another_kind_of_lock_are_refused() {
    let mut h = Harness::new().counting();
    let mutex = Scheme::CURATOR_MUTEX;
    let other =
        format!("{}0000000002", mutex.prefix(LockMode::Exclusive, Uuid::from_u128(9), SESSION));
    h.answer("watch leases", children(&["leases/own-3", "leases/own-4", "locks/9-2"]));
    let why = LockError::OtherLock { node: other, scheme: mutex.into() };
    assert_eq!(h.wanted()[0], format!("Failed: {why:?}"));
}

#[test]
fn an_attempt_begun_on_a_read_only_server_adopts_the_permit_nodes_of_its_new_session() {
    let mut h = Harness::of(|request| request.config.session = SessionId::NONE);
    h.expect(&[]);
    h.reconnect();
    let mut h = h.adopting();
    h.answer("stat leases/own-3", stat(SESSION));
    h.expect(&["watch leases", "unwatch leases", "timer", "timer"]);
}

#[test]
fn an_impossible_request_is_refused_before_anything_is_sent() {
    let failed = |permits, maximum| {
        let mut h = Harness::of(|request| (request.permits, request.maximum) = (permits, maximum));
        let lines = h.wanted();
        h.expect_last(&[]);
        lines
    };
    assert_eq!(failed(0, Some(3)), ["Refused: NoPermits"]);
    let most = Harness::of(|request| (request.permits, request.maximum) = (1, Some((1 << 31) - 1)));
    most.queueing();
    assert_eq!(failed(4, Some(3)), ["Refused: TooManyPermits { maximum: 3 }"]);
    assert_eq!(failed(1, Some(1 << 31)), ["Refused: TooManyPermits { maximum: 2147483647 }"]);
    let too_many = ["Refused: TooManyPermits { maximum: 65536 }"];
    assert_eq!(failed(65_537, Some(100_000)), too_many);
    assert_eq!(failed(u32::MAX, Some(1 << 30)), too_many);
}

/// An attempt that accepts any maximum, first in the queue.
fn first_in_the_queue(permits: u32) -> Harness {
    let mut h =
        Harness::of(|request| (request.permits, request.maximum) = (permits, None)).queueing();
    h.answer("list locks", children(&["locks/own-7"]));
    h
}

#[test]
fn a_large_request_reads_the_maximum_first() {
    for (permits, of, most) in [(100_000, 3, 3), (u32::MAX, 3, 3), (u32::MAX, 1 << 30, 65_536)] {
        let mut h = first_in_the_queue(permits);
        h.expect(&["timer", "watch max"]);
        h.answer("watch max", maximum(of));
        let failed = format!("Refused: TooManyPermits {{ maximum: {most} }}");
        h.expect(&[&failed, "unwatch max", "delete locks/own-7"]);
        h.answer("delete locks/own-7", ok());
        h.expect_last(&[]);
    }
}

#[test]
fn a_large_request_is_created_once_the_maximum_is_known() {
    let mut h = first_in_the_queue(200);
    h.expect(&["timer", "watch max"]);
    h.answer("watch max", lost());
    h.expect(&["unwatch max", "watch max"]);
    h.answer("watch max", maximum(200));
    h.expect(&["create 200 leases", "watch leases"]);

    let mut h = first_in_the_queue(200);
    h.expect(&["timer", "watch max"]);
    h.feed(Command::Release);
    h.expect(&["unwatch max", "delete locks/own-7"]);
    h.answer("delete locks/own-7", ok());
    h.expect_last(&["Released"]);
}

#[test]
fn a_creation_with_an_unknown_outcome_is_searched_for_after_a_sync() {
    let mut h = Harness::new().adopting();
    h.answer("stat leases/own-3", stat(SESSION));
    h.expect(&["watch leases", "unwatch leases", "timer", "timer"]);
    h.full("watch leases");
    h.expect(&[]);
    let mut h = Harness::new().resolving();
    h.answer("sync leases", ok());
    h.answer("list leases", children(&["leases/a-1"]));
    h.expect(&["create 2 leases", "watch leases", "unwatch leases"]);
}

#[test]
fn adopted_permit_nodes_are_counted_again() {
    // The list sent with the creation is answered, but does not apply to adopted nodes.
    for answer in [ok(), created(&[3]), refused(ErrorCode::SYSTEM_ERROR)] {
        let mut h = Harness::new().creating();
        h.answer("create 2 leases", answer);
        h.expect(&["timer"]);
        h.answer("watch leases", children(&["leases/own-3", "leases/own-4"]));
        h.answer("watch max", maximum(3));
        h.feed(Input::Timer);
        h.expect(&["watch locks/own-7", "sync leases", "list leases"]);
        h.answer("sync leases", ok());
        h.answer("list leases", children(&["leases/own-3", "leases/own-4"]));
        h.answer("stat leases/own-3", stat(SESSION));
        h.expect(&["stat leases/own-3", "watch leases", "unwatch leases", "timer", "timer"]);
        h.answer("watch leases", children(&["leases/own-3", "leases/own-4"]));
        assert_eq!(h.wanted()[3], "Acquired leases/own-3 token 100");
    }
}

#[test]
fn foreign_or_incomplete_permit_nodes_are_deleted() {
    let mut h = Harness::new().adopting();
    h.answer("stat leases/own-3", stat(SessionId(0x52)));
    h.expect(&[
        "timer",
        "timer",
        "delete leases/own-3",
        "delete leases/own-4",
        "create 2 leases",
        "watch leases",
        "unwatch leases",
    ]);

    let mut h = Harness::new().resolving();
    h.answer("sync leases", ok());
    h.answer("list leases", children(&["leases/own-4"]));
    h.answer("stat leases/own-4", stat(SESSION));
    let again = ["delete leases/own-4", "create 2 leases", "watch leases", "unwatch leases"];
    assert!(h.wanted().ends_with(&again.map(String::from)));
    // They do not count for the next attempt.
    h.answer("create 2 leases", lost());
    h.answer("delete leases/own-4", lost());
    h.wanted();
    h.answer("sync leases", ok());
    h.answer("list leases", children(&["leases/own-4"]));
    h.expect(&["create 2 leases", "watch leases", "unwatch leases"]);
}

#[test]
fn a_request_refused_for_now_is_repeated_once_after_a_delay() {
    for error in [QUEUE_FULL, Error::Server(ErrorCode::THROTTLED_OP), Error::NoConnection] {
        let mut h = Harness::new().creating();
        for line in ["create 2 leases", "watch leases", "watch max"] {
            h.answer(line, Err(error.clone()));
        }
        h.expect(&["timer", "unwatch leases", "unwatch max", "timer"]);
        h.feed(Input::Timer);
        h.expect(&["watch locks/own-7", "sync leases", "list leases", "watch max"]);
        h.feed(Input::Timer);
        h.expect(&[]);
        // A list without a sync proves nothing.
        h.answer("list leases", Err(error.clone()));
        h.expect(&["timer"]);
        h.answer("sync leases", Err(error.clone()));
        h.expect(&[]);
        h.feed(Input::Timer);
        h.expect(&["sync leases", "list leases"]);
    }
}

#[test]
fn a_permanent_refusal_fails_and_leaves_nothing() {
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
fn a_permit_node_that_cannot_be_deleted_is_reported() {
    let mut h = Harness::new().leaving();
    h.answer("delete leases/own-3", refused(ErrorCode::NO_AUTH));
    h.expect(&["Abandoned leases/own-3: ErrorCode(NO_AUTH)", "Failed: ErrorCode(NO_AUTH)"]);
    h.answer("delete leases/own-4", ok());
    h.expect_last(&[]);
    // Also while it waits: that node would block it for ever.
    let mut h = Harness::new().waiting();
    h.leases_change();
    h.answer("watch leases", children(&["leases/own-4"]));
    h.wanted();
    h.answer("delete leases/own-4", refused(ErrorCode::NO_AUTH));
    assert_eq!(h.wanted()[1], "Failed: ErrorCode(NO_AUTH)");
    h.answer("create 2 leases", created(&[5, 6]));
    h.wanted();
    h.clean_up();
    h.expect_last(&[]);
}

#[test]
fn a_missing_or_different_maximum_fails() {
    let waiting = || Harness::new().waiting();
    let mut h = waiting();
    h.maximum_changes();
    h.answer("watch max", refused(ErrorCode::NO_NODE));
    h.expect(&["watch max", "unwatch max", "create max Some([0, 0, 0, 3])"]);
    h.answer("create max Some([0, 0, 0, 3])", refused(ErrorCode::NODE_EXISTS));
    h.expect(&["watch max"]);
    for (answer, failed) in [
        (data(b"three"), "Refused: NoMaximum"),
        (maximum(u32::MAX), "Refused: NoMaximum"),
        (maximum(1), "Refused: TooManyPermits { maximum: 1 }"),
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
    let mut h = Harness::of(|request| request.maximum = None).creating();
    h.answer("watch max", refused(ErrorCode::NO_NODE));
    assert_eq!(h.wanted()[1], "Refused: NoMaximum");
}

#[test]
fn a_contender_without_its_queue_node_fails() {
    for mut h in [Harness::new().creating(), Harness::new().waiting()] {
        h.feed(Input::Timer);
        h.answer("watch locks/own-7", ok());
        h.wanted();
        h.fire_if_set("watch locks/own-7", EventType::NODE_DELETED);
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

type Start = fn(Harness) -> Harness;

const STARTS: [Start; 9] = [
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
fn a_release_at_any_step_leaves_nothing_and_is_reported_once() {
    let troubles: [fn(&mut Harness); 3] = [
        |_| {},
        Harness::disconnect,
        |h| {
            h.disconnect();
            h.reconnect();
        },
    ];
    for place in STARTS {
        for trouble in troubles {
            for first in [true, false] {
                let mut h = place(Harness::new());
                if first {
                    h.feed(Command::Release);
                    trouble(&mut h);
                } else {
                    trouble(&mut h);
                    h.feed(Command::Release);
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
fn the_end_of_the_session_ends_every_step() {
    for place in STARTS {
        let mut h = place(Harness::new());
        let is_held = h.machine.step_name() == "Held";
        h.expire();
        h.expect_last(&[if is_held { "Lost(Ended(Expired))" } else { "Failed: Ended(Expired)" }]);
        let mut h = place(Harness::new());
        h.feed(Command::Release);
        h.wanted();
        h.expire();
        h.expect_last(&["Released"]);
    }
}

#[test]
fn a_release_that_no_server_confirms_ends_with_the_lease() {
    let mut h = Harness::new().leaving();
    h.disconnect();
    h.wanted();
    h.feed(Input::LeaseEnded);
    h.expect(&["Failed: NotConfirmed(LeaseEnded)"]);
    h.reconnect();
    h.answer("delete leases/own-3", ok());
    h.answer("delete leases/own-4", ok());
    h.expect_last(&[]);
}

#[test]
fn a_waiter_without_a_server_outlasts_the_lease() {
    // The node of an earlier attempt is being deleted meanwhile.
    let mut h = Harness::new().resolving();
    h.answer("sync leases", ok());
    h.answer("list leases", children(&["leases/own-4"]));
    h.answer("stat leases/own-4", stat(SESSION));
    h.disconnect();
    h.wanted();
    h.feed(Input::LeaseEnded);
    assert!(h.wanted().iter().all(|line| !line.starts_with("Failed")));
}

fn too_long() -> Result<Reply, Error> {
    let outcome = Outcome::NotApplied;
    Err(Error::ReplyTooLarge { length: 5_000, limit: 4_096, outcome })
}

fn failed() -> String {
    format!("Failed: {:?}", LockError::from(too_long().expect_err("it is one")))
}

#[test]
fn an_unreadable_list_of_permit_nodes_returns_everything() {
    let mut h = Harness::new().creating();
    h.answer("create 2 leases", created(&[3, 4]));
    h.wanted();
    h.answer("watch leases", too_long());
    let lines = h.wanted();
    assert!(lines.contains(&failed()), "{lines:?}");
    for line in ["delete leases/own-3", "delete leases/own-4", "delete locks/own-7"] {
        assert!(lines.iter().any(|it| it == line), "{lines:?}");
        h.answer(line, ok());
    }
    h.clean_up();
}

#[test]
fn permit_nodes_of_unknown_outcome_are_deleted_without_the_full_list() {
    let mut h = Harness::new().resolving();
    h.answer("sync leases", ok());
    h.wanted();
    h.answer("list leases", too_long());
    h.expect(&["list own leases"]);
    h.answer("list own leases", adopt_permit_nodes(&["leases/own-3", "leases/own-4"]));
    let lines = h.wanted();
    assert!(lines.contains(&failed()), "{lines:?}");
    for line in ["delete leases/own-3", "delete leases/own-4", "delete locks/own-7"] {
        assert!(lines.iter().any(|it| it == line), "{lines:?}");
    }

    // Nor is the list of our own nodes repeated if it is too long.
    let mut h = Harness::new().resolving();
    h.answer("sync leases", ok());
    h.answer("list leases", too_long());
    h.wanted();
    h.answer("list own leases", too_long());
    let lines = h.wanted();
    assert!(lines.contains(&failed()), "{lines:?}");
    assert!(lines.iter().any(|line| line == "delete locks/own-7"), "{lines:?}");
}

#[test]
fn a_node_left_in_the_queue_is_reported_and_the_permits_stay() {
    let mut h = Harness::new().held();
    h.answer("delete locks/own-7", refused(ErrorCode::NO_AUTH));
    h.expect(&["Abandoned locks/own-7: ErrorCode(NO_AUTH)"]);
}

#[test]
fn an_abandoned_predecessor_of_this_client_fails_the_attempt() {
    let mut h = Harness::new().queueing();
    h.answer("list locks", children(&["locks/b-6", "locks/own-7"]));
    h.expect(&["watch locks/own-7", "watch locks/b-6", "Waiting behind locks/b-6"]);
    h.feed(Command::BehindAbandoned);
    let node = Scheme::CURATOR_MUTEX.prefix(LockMode::Exclusive, Uuid::from_u128(0xb), SESSION);
    let why = LockError::Abandoned { node: format!("{node}0000000006") };
    let failed = format!("Failed: {why:?}");
    h.expect(&["unwatch locks/b-6", "delete locks/own-7", &failed]);
    h.answer("delete locks/own-7", ok());
    h.expect_last(&["unwatch locks/own-7"]);
}
