//! A participant of a double barrier for two.

mod exploring;

use crate::tests::table::{Start, check_table};
use crate::tests::*;

type ParticipantHarness = Harness<Participant>;

const WAITING: &str = "Waiting behind ready, 1 ahead";
const LOOK: &str = "watch presence ready";
const OTHER: SessionId = SessionId(0x52);
const ANNOUNCE: &str = "create ready beside own-B7, a-B5";
const RETRACT: &str = "delete ready of version 3 beside own-B7";

impl ParticipantHarness {
    fn coming() -> Self {
        Self::driving(config(), |config| Participant::new(config, 2))
    }

    fn counting() -> Self {
        let mut h = Self::coming();
        h.created_as("create B", "own-B7", czxid(7));
        h.answer("list", children(&["own-B7"]));
        h
    }

    fn waiting() -> Self {
        let mut h = Self::counting();
        h.nobody_has_told();
        h.answer("list", children(&["own-B7"]));
        h
    }

    /// Others may be inside, and have begun to leave.
    fn joining() -> Self {
        let mut h = Self::driving(config(), |config| Participant::new(config, 3));
        h.created_as("create B", "own-B7", czxid(7));
        h.answer("list", children(&["own-B7"]));
        h.ready_exists(czxid(6));
        h.answer("list", children(&["ready", "own-B7", "a-B5"]));
        h
    }

    fn announcing() -> Self {
        let mut h = Self::counting();
        h.nobody_has_told();
        h.answer("list", children(&["own-B7", "a-B5"]));
        h
    }

    fn inside() -> Self {
        let mut h = Self::announcing();
        h.answer(ANNOUNCE, announced(2, None));
        h.feed(Input::Timer);
        h.answer("watch own-B7", ok());
        h
    }

    fn listing() -> Self {
        let mut h = Self::inside();
        h.feed(Command::Leave);
        h
    }

    /// The first to come.
    fn staying() -> Self {
        let mut h = Self::listing();
        h.answer("list", children(&["ready", "own-B7", "c-B8", "b-B9"]));
        h
    }

    /// Not the first to come.
    fn getting_out() -> Self {
        let mut h = Self::driving(config_of(0xf), |config| Participant::new(config, 2));
        h.created_as("create f-B", "f-B7", czxid(7));
        h.answer("list", children(&["f-B7"]));
        h.ready_exists(czxid(8));
        h.answer("list", children(&["f-B7"]));
        h.feed(Command::Leave);
        h.answer("list", children(&["f-B7", "a-B5", "b-B9"]));
        h
    }

    fn outside() -> Self {
        let mut h = Self::getting_out();
        h.answer("delete f-B7", ok());
        h.answer("list", children(&["a-B5", "d-B10"]));
        h
    }

    fn checking() -> Self {
        let mut h = Self::listing();
        h.answer("list", children(&["own-B7", "ready"]));
        h
    }

    fn tidying() -> Self {
        let mut h = Self::checking();
        h.ready_has(3);
        h.answer("list", children(&["own-B7", "ready"]));
        h
    }

    fn nobody_has_told(&mut self) {
        self.answer(LOOK, refused(ErrorCode::NO_NODE));
    }

    fn ready_has(&mut self, version: i32) {
        let stat = Stat { version, ..Stat::default() };
        self.answer("stat ready", reply(OpCode::EXISTS, &ExistsResponse { stat }));
    }

    fn ready_exists(&mut self, mzxid: Zxid) {
        let stat = Stat { mzxid, ..Stat::default() };
        self.answer(LOOK, reply(OpCode::EXISTS, &ExistsResponse { stat }));
    }
}

fn config_of(guid: u128) -> AttemptConfig {
    AttemptConfig { guid: AttemptConfig::node_guid(Uuid::from_u128(guid), SESSION), ..config() }
}

#[test]
fn a_read_only_server_is_not_trusted_to_count() {
    let mut h = ParticipantHarness::counting();
    h.disconnect();
    h.feed(Input::State(READ_ONLY));
    h.wanted();
    h.ready_exists(czxid(8));
    h.answer("list", children(&["own-B7", "a-B5"]));
    let wanted = h.wanted();
    assert!(wanted.iter().all(|line| line == "timer" || line.starts_with("un")), "{wanted:?}");
}

#[test]
fn a_participant_that_waits_to_enter_outlasts_the_lease() {
    let mut h = ParticipantHarness::waiting();
    h.disconnect();
    h.feed(Input::LeaseEnded);
    h.wanted();
    h.reconnect();
    assert!(!h.machine.is_done());
    let mut h = ParticipantHarness::inside();
    h.wanted();
    h.disconnect();
    h.feed(Input::LeaseEnded);
    assert!(h.wanted().contains(&"Lost(LeaseEnded)".to_string()));
}

#[test]
fn a_participant_that_waits_to_leave_stops_with_the_lease() {
    let mut h = ParticipantHarness::staying();
    h.wanted();
    // The lease ends with its own node.
    h.feed(Input::LeaseEnded);
    assert!(h.wanted().contains(&"Lost(LeaseEnded)".to_string()));

    let mut h = ParticipantHarness::outside();
    h.disconnect();
    h.wanted();
    h.feed(Input::LeaseEnded);
    assert!(h.wanted().contains(&"Failed: NotConfirmed(LeaseEnded)".to_string()));
}

#[test]
fn the_last_participant_creates_ready() {
    let mut h = ParticipantHarness::counting();
    h.expect(&["create B", "list", "Enqueued own-B7 token 107", "timer", LOOK, "list"]);
    h.nobody_has_told();
    h.answer("list", children(&["own-B7", "a-B5"]));
    h.expect(&[ANNOUNCE, &format!("un{LOOK}")]);
    h.answer(ANNOUNCE, announced(2, None));
    h.expect(&["Acquired own-B7 token 107"]);
}

#[test]
fn a_participant_waits_for_ready() {
    let mut h = ParticipantHarness::waiting();
    h.wanted();
    h.fire(LOOK, EventType::NODE_CREATED);
    h.expect(&[LOOK, &format!("un{LOOK}"), "list"]);
    h.ready_exists(czxid(8));
    h.answer("list", children(&["ready", "own-B7"]));
    h.expect(&[&format!("un{LOOK}"), "Acquired own-B7 token 107"]);
}

/// It may have been gone before the others came.
#[test]
fn a_participant_without_its_node_does_not_enter() {
    let mut h = ParticipantHarness::waiting();
    h.fire(LOOK, EventType::NODE_CREATED);
    h.wanted();
    h.ready_exists(czxid(8));
    h.answer("list", children(&["ready", "a-B8", "b-B9"]));
    h.expect(&["Failed: Lost(NodeDeleted)", &format!("un{LOOK}"), "delete own-B7"]);
}

#[test]
fn a_leftover_ready_node_is_ignored() {
    let mut h = ParticipantHarness::counting();
    h.ready_exists(czxid(6));
    h.wanted();
    h.answer("list", children(&["ready", "own-B7"]));
    h.expect(&[WAITING]);
    // Another participant enters and creates `ready` again.
    h.fire(LOOK, EventType::NODE_DATA_CHANGED);
    h.ready_exists(czxid(6));
    h.wanted();
    h.answer("list", children(&["ready", "own-B7", "a-B9"]));
    h.expect(&["touch ready beside own-B7, a-B9", &format!("un{LOOK}")]);
}

#[test]
fn a_refused_announcement_counts_again() {
    for (index, code) in [
        // Another participant was faster.
        (2, ErrorCode::NODE_EXISTS),
        // The leftover `ready` was deleted.
        (2, ErrorCode::NO_NODE),
        // Another participant has left.
        (1, ErrorCode::NO_NODE),
    ] {
        let mut h = ParticipantHarness::announcing();
        h.wanted();
        h.answer(ANNOUNCE, announced(2, Some((index, code))));
        h.expect(&[LOOK, "list"]);
    }
}

#[test]
fn one_that_comes_while_others_leave_joins_one_that_is_inside() {
    let mut h = ParticipantHarness::joining();
    h.wanted();
    h.answer("stat a-B5", stat(OTHER, 5));
    h.expect(&["touch ready beside own-B7, a-B5", &format!("un{LOOK}")]);
    h.answer("touch ready beside own-B7, a-B5", announced(2, None));
    h.expect(&["Acquired own-B7 token 107"]);

    // The other has left by then.
    let mut h = ParticipantHarness::joining();
    h.answer("stat a-B5", stat(OTHER, 5));
    h.wanted();
    h.answer("touch ready beside own-B7, a-B5", announced(2, Some((1, ErrorCode::NO_NODE))));
    h.expect(&[LOOK, "list"]);
}

#[test]
fn a_leftover_ready_node_lets_nobody_join_others_that_wait() {
    // The others came after `ready` had changed, or are gone.
    for answer in [stat(OTHER, 7), refused(ErrorCode::NO_NODE)] {
        let mut h = ParticipantHarness::joining();
        h.wanted();
        h.answer("stat a-B5", answer);
        h.expect(&[WAITING]);
        h.fire(LOOK, EventType::NODE_DELETED);
        h.expect(&[LOOK, &format!("un{LOOK}"), "list"]);
    }
    // It is changed while the node is read.
    let mut h = ParticipantHarness::joining();
    h.wanted();
    h.fire(LOOK, EventType::NODE_DATA_CHANGED);
    h.expect(&[LOOK, &format!("un{LOOK}"), "list"]);
    h.answer("stat a-B5", stat(OTHER, 5));
    h.expect(&[]);
}

#[test]
fn every_participant_of_another_program_may_be_inside() {
    let mut h = ParticipantHarness::driving(config(), |config| Participant::new(config, 9));
    h.created_as("create B", "own-B7", czxid(7));
    h.answer("list", children(&["own-B7"]));
    h.ready_exists(czxid(6));
    h.wanted();
    h.answer("list", children(&["ready", "own-B7", "b-B9", "a-B5", "zz", "ab"]));
    // One of ours is enough: the first.
    h.expect(&["stat a-B5"]);
    h.answer("stat a-B5", stat(OTHER, 8));
    h.expect(&["stat zz"]);
    h.answer("stat zz", refused(ErrorCode::NO_NODE));
    h.expect(&["stat ab"]);
    h.answer("stat ab", stat(OTHER, 3));
    h.expect(&["touch ready beside own-B7, ab", &format!("un{LOOK}")]);
}

#[test]
fn the_first_stays_for_later_arrivals_and_others_do_not_wait_for_them() {
    let mut h = ParticipantHarness::staying();
    h.deleted("watch presence b-B9");
    h.wanted();
    h.answer("list", children(&["ready", "own-B7", "d-B10"]));
    h.expect(&["watch presence d-B10"]);
    h.answer("watch presence d-B10", stat(OTHER, 10));
    h.expect(&[]);

    // One that was listed, but came after the announcement. The first is gone, so nobody is inside.
    let mut h = ParticipantHarness::outside();
    h.wanted();
    h.answer("watch presence a-B5", stat(OTHER, 5));
    h.expect(&[]);
    h.deleted("watch presence a-B5");
    h.answer("list", children(&["ready", "d-B10"]));
    h.wanted();
    let mut h = ParticipantHarness::outside();
    h.wanted();
    h.answer("watch presence a-B5", stat(OTHER, 9));
    h.expect_last(&["unwatch presence a-B5", "Released"]);
}

#[test]
fn an_announcement_checks_only_as_many_as_needed() {
    let mut h = ParticipantHarness::counting();
    h.nobody_has_told();
    h.wanted();
    h.answer("list", children(&["c-B8", "own-B7", "a-B5", "b-B9"]));
    h.expect(&["create ready beside own-B7, c-B8", &format!("un{LOOK}")]);
}

#[test]
fn an_announcement_with_a_missing_result_may_have_been_made() {
    let mut h = ParticipantHarness::announcing();
    h.wanted();
    h.answer(ANNOUNCE, announced(1, None));
    h.expect(&["timer"]);
    h.feed(Input::Timer);
    assert!(h.wanted().iter().any(|line| line == LOOK));
}

#[test]
fn changes_during_the_count_are_not_missed() {
    let mut h = ParticipantHarness::counting();
    h.nobody_has_told();
    h.wanted();
    h.fire(LOOK, EventType::NODE_CREATED);
    // The list is older than that.
    h.answer("list", children(&["own-B7"]));
    h.expect(&[LOOK, &format!("un{LOOK}"), "list"]);
}

#[test]
fn a_failed_request_is_repeated() {
    for place in [
        ParticipantHarness::counting as fn() -> ParticipantHarness,
        ParticipantHarness::announcing,
        ParticipantHarness::listing,
        ParticipantHarness::checking,
    ] {
        let mut h = place();
        h.wanted();
        let asked = h.asked.iter().find(|asked| !asked.answered).expect("a request");
        let line = asked.line.clone();
        h.answer(&line, refused(ErrorCode::THROTTLED_OP));
        h.expect(&["timer"]);
        h.feed(Input::Timer);
        assert!(h.wanted().iter().any(|line| line == "list"), "{line}");
    }
}

#[test]
fn a_participant_inside_is_suspended() {
    let mut h = ParticipantHarness::announcing();
    h.wanted();
    h.disconnect();
    h.reconnect();
    h.ready_exists(czxid(8));
    h.answer("list", children(&["ready", "own-B7"]));
    let lines = h.wanted();
    let acquired = lines.iter().position(|line| line.starts_with("Acquired")).expect("it is in");
    assert_eq!(lines[acquired + 1..], ["Suspended"]);
    h.answer("watch own-B7", ok());
    h.expect(&["Resumed"]);
}

#[test]
fn a_release_ends_every_step() {
    for place in STARTS.map(|(arrive, _)| arrive) {
        let mut h = place();
        h.feed(Command::Release);
        for _ in 0..10 {
            let Some(asked) = h.asked.iter().find(|asked| !asked.answered) else { break };
            match asked.line.clone().as_str() {
                "create B" => h.created_as("create B", "own-B7", czxid(7)),
                line => h.answer(line, ok()),
            }
        }
        assert_eq!(h.wanted().last().map(String::as_str), Some("Released"));
        h.expect_last(&[]);
    }
}

const STARTS: [Start<Participant>; 12] = [
    (ParticipantHarness::coming, &[]),
    (
        ParticipantHarness::counting,
        &[
            ("ready is newer than our node; list: we are there", |h| {
                h.ready_exists(czxid(8));
                h.answer("list", children(&["ready", "own-B7"]));
            }),
            ("ready is newer than our node; list: we are missing", |h| {
                h.ready_exists(czxid(8));
                h.answer("list", children(&["ready"]));
            }),
            ("no ready; list: all", |h| {
                h.nobody_has_told();
                h.answer("list", children(&["own-B7", "a-B5"]));
            }),
            ("no ready; list: too few", |h| {
                h.nobody_has_told();
                h.answer("list", children(&["own-B7"]));
            }),
            ("ready is older than our node; list: all", |h| {
                h.ready_exists(czxid(6));
                h.answer("list", children(&["own-B7", "a-B5"]));
            }),
            ("ready is older than our node; list: we are alone", |h| {
                h.ready_exists(czxid(6));
                h.answer("list", children(&["ready", "own-B7"]));
            }),
        ],
    ),
    (
        ParticipantHarness::joining,
        &[
            ("the other is inside", |h| h.answer("stat a-B5", stat(OTHER, 5))),
            ("the other waits, too", |h| h.answer("stat a-B5", stat(OTHER, 7))),
            ("ready changes", |h| h.fire(LOOK, EventType::NODE_DATA_CHANGED)),
        ],
    ),
    (
        ParticipantHarness::waiting,
        &[
            ("ready appears", |h| h.fire(LOOK, EventType::NODE_CREATED)),
            ("our node is gone", |h| {
                h.feed(Input::Timer);
                h.answer("watch own-B7", refused(ErrorCode::NO_NODE));
            }),
        ],
    ),
    (
        ParticipantHarness::announcing,
        &[
            ("done", |h| h.answer(ANNOUNCE, announced(2, None))),
            ("another has", |h| {
                h.answer(ANNOUNCE, announced(2, Some((2, ErrorCode::NODE_EXISTS))));
            }),
            ("the other is gone", |h| {
                h.answer(ANNOUNCE, announced(2, Some((1, ErrorCode::NO_NODE))));
            }),
            ("our node is gone", |h| {
                h.answer(ANNOUNCE, announced(2, Some((0, ErrorCode::NO_NODE))));
            }),
            ("refused", |h| h.answer(ANNOUNCE, announced(2, Some((1, ErrorCode::NO_AUTH))))),
        ],
    ),
    (
        ParticipantHarness::inside,
        &[
            ("leave", |h| h.feed(Command::Leave)),
            ("our node is gone", |h| h.deleted("watch own-B7")),
        ],
    ),
    (
        ParticipantHarness::listing,
        &[
            ("list: we are first", |h| h.answer("list", children(&["own-B7", "c-B8", "b-B9"]))),
            ("list: we are alone", |h| h.answer("list", children(&["own-B7"]))),
            ("our node is gone", |h| h.deleted("watch own-B7")),
        ],
    ),
    (
        ParticipantHarness::staying,
        &[
            ("the other is gone", |h| h.deleted("watch presence b-B9")),
            ("our node is gone", |h| h.deleted("watch own-B7")),
        ],
    ),
    (ParticipantHarness::getting_out, &[("deleted, or gone", |h| h.answer("delete f-B7", ok()))]),
    (
        ParticipantHarness::outside,
        &[
            ("the other is gone", |h| h.deleted("watch presence a-B5")),
            ("the other came after we had entered", |h| {
                h.answer("watch presence a-B5", stat(OTHER, 9));
            }),
            ("all others are gone", |h| {
                h.deleted("watch presence a-B5");
                h.wanted();
                h.answer("list", children(&[]));
            }),
        ],
    ),
    (
        ParticipantHarness::checking,
        &[
            ("ready is missing; list: we are alone", |h| {
                h.answer("stat ready", refused(ErrorCode::NO_NODE));
                h.answer("list", children(&["own-B7"]));
            }),
            ("ready is there; list: we are alone", |h| {
                h.ready_has(3);
                h.answer("list", children(&["own-B7", "ready"]));
            }),
            ("list: another came", |h| {
                h.ready_has(3);
                h.answer("list", children(&["own-B7", "ready", "c-B8"]));
            }),
            ("our node is gone", |h| h.deleted("watch own-B7")),
        ],
    ),
    (
        ParticipantHarness::tidying,
        &[
            ("deleted", |h| h.answer(RETRACT, announced(1, None))),
            ("another meeting was announced", |h| {
                h.answer(RETRACT, announced(1, Some((1, ErrorCode::BAD_VERSION))));
            }),
            ("refused", |h| h.answer(RETRACT, refused(ErrorCode::NO_AUTH))),
            ("refused for now", |h| h.answer(RETRACT, refused(ErrorCode::THROTTLED_OP))),
        ],
    ),
];

#[test]
fn the_table_shows_the_steps_of_a_participant() {
    check_table("double-barrier.md", &STARTS, |h| {
        let text = format!("{:?}", h.machine);
        let after = |what: &str| {
            let (_, rest) = text.split_once(what).expect(what);
            rest.chars().take_while(|c| c.is_alphanumeric()).collect::<String>()
        };
        match after(" step: ").as_str() {
            "Leaving" if text.contains("is_in: false") => {
                format!("Leaving, out: {}", after(" task: "))
            }
            "Leaving" => format!("Leaving: {}", after(" task: ")),
            step => step.to_string(),
        }
    });
}

fn asking() -> ParticipantHarness {
    asking_by(WaitPolicy::OnlyIfFirst)
}

fn asking_by(wait_policy: WaitPolicy) -> ParticipantHarness {
    let config = AttemptConfig { wait_policy, ..config() };
    let mut h = ParticipantHarness::driving(config, |config| Participant::new(config, 2));
    h.expect(&[]);
    h.feed(Input::State(CONNECTED));
    if wait_policy == WaitPolicy::OnlyIfFree {
        h.answer("list", children(&[]));
    }
    h.created_as("create B", "own-B7", czxid(7));
    h.answer("list", children(&["own-B7"]));
    h.nobody_has_told();
    h
}

#[test]
fn only_if_first_enters_only_as_the_last_participant() {
    let mut h = asking();
    h.answer("list", children(&["own-B7", "a-B5"]));
    h.wanted();
    h.answer(ANNOUNCE, announced(2, None));
    assert_eq!(h.wanted()[0], "Acquired own-B7 token 107");

    let mut h = asking();
    h.wanted();
    h.answer("list", children(&["own-B7"]));
    let wanted = h.wanted();
    assert!(wanted.contains(&"Failed: TimedOut".to_string()), "{wanted:?}");
    h.answer("delete own-B7", ok());
    h.expect_last(&[]);
}

#[test]
fn only_if_first_and_only_if_free_do_not_wait_for_a_connection() {
    let failed = "Failed: NoConnection";
    for wait_policy in [WaitPolicy::OnlyIfFirst, WaitPolicy::OnlyIfFree] {
        let mut h = asking_by(wait_policy);
        h.wanted();
        h.disconnect();
        assert_eq!(h.wanted()[0], failed);
        h.reconnect();
        h.answer("delete own-B7", ok());
        h.expect_last(&[]);

        for state in [State::Connecting, State::Suspended, READ_ONLY] {
            let config = AttemptConfig { wait_policy, ..config() };
            let mut h = ParticipantHarness::driving(config, |config| Participant::new(config, 2));
            h.feed(Input::State(state));
            h.expect_last(&[failed]);
        }
    }
}

#[test]
fn a_list_that_cannot_be_read_ends_the_attempt() {
    for arrive in [ParticipantHarness::counting as fn() -> _, ParticipantHarness::listing] {
        let mut h: ParticipantHarness = arrive();
        h.wanted();
        // The reply is that of another operation.
        h.answer("list", ok());
        let failed = h.wanted();
        assert!(failed.iter().any(|line| line.starts_with("Failed: ")), "{failed:?}");
    }
}

#[test]
fn no_participant_is_left_where_the_path_is_missing() {
    let mut h = ParticipantHarness::counting();
    h.nobody_has_told();
    h.wanted();
    h.answer("list", refused(ErrorCode::NO_NODE));
    h.expect(&[WAITING]);
    let mut h = ParticipantHarness::listing();
    h.wanted();
    h.answer("list", refused(ErrorCode::NO_NODE));
    h.expect(&["stat ready", "list"]);
    h.answer("stat ready", refused(ErrorCode::NO_NODE));
    h.answer("list", refused(ErrorCode::NO_NODE));
    h.expect(&["delete own-B7"]);
}

#[test]
fn a_release_is_confirmed_by_the_end_of_its_session() {
    for (end, last) in
        [(End::Expired, "Released"), (End::Closed, "Failed: NotConfirmed(Ended(Closed))")]
    {
        let mut h = ParticipantHarness::inside();
        h.feed(Command::Release);
        h.wanted();
        let error = Error::Ended { end, outcome: Outcome::NotApplied };
        h.answer("delete own-B7", Err(error));
        h.expect_last(&[last]);
    }
}

#[test]
fn a_second_request_to_leave_changes_nothing() {
    let mut h = ParticipantHarness::listing();
    h.wanted();
    h.feed(Command::Leave);
    h.expect(&[]);
    #[cfg(feature = "full")]
    {
        h.feed(Command::Convert(LockMode::Exclusive));
        h.expect(&["NotConverted: NoReaders"]);
    }
}

#[test]
fn one_that_waits_for_others_leaves_at_once() {
    let mut h = Harness::waiting();
    h.wanted();
    h.feed(Command::Leave);
    h.expect(&[&format!("un{LOOK}"), "delete own-B7"]);
}

#[test]
fn an_attempt_that_does_not_wait_goes_on_until_it_is_disconnected() {
    let mut h = asking_by(WaitPolicy::OnlyIfFirst);
    h.wanted();
    h.reconnect();
    let lines = h.wanted();
    assert!(!lines.iter().any(|line| line.starts_with("Failed")), "{lines:?}");
    h.feed(Input::State(State::Suspended));
    assert!(h.wanted().contains(&"Failed: NoConnection".to_string()));
}
