//! One who stands for election, fed by hand. The nodes of its second attempt are `2-9` and so on.

use super::table::{Place, check_table};
use super::*;

type Candidate = Harness<ElectionMachine>;

impl Candidate {
    fn standing() -> Self {
        Self::driving(config(), ElectionMachine::new)
    }

    /// Second in line.
    fn following() -> Self {
        let mut h = Self::standing();
        h.created(7);
        h.answer("list", children(&["a-5", "own-7"]));
        h.answer("watch own-7", ok());
        h.answer("watch a-5", ok());
        h
    }

    fn leading_with(disconnect_policy: DisconnectPolicy) -> Self {
        let mut h =
            Self::driving(AttemptConfig { disconnect_policy, ..config() }, ElectionMachine::new);
        h.created(7);
        h.answer("list", children(&["own-7"]));
        h.feed(Input::Timer);
        h.answer("watch own-7", ok());
        h
    }

    fn leading() -> Self {
        Self::leading_with(DisconnectPolicy::UntilServerReports)
    }

    /// It gave the lead up without a connection, and its node is still there.
    fn retreating() -> Self {
        let mut h = Self::leading_with(DisconnectPolicy::WhileConnected);
        h.disconnect();
        h
    }

    fn pausing() -> Self {
        let mut h = Self::leading();
        h.deleted("watch own-7");
        h
    }

    fn resigning() -> Self {
        let mut h = Self::retreating();
        h.feed(Input::Release);
        h
    }

    #[track_caller]
    fn created_again(&mut self, number: i32) {
        self.created_as("create 2", &format!("2-{number}"), czxid(number));
    }
}

#[test]
fn a_leader_that_has_lost_stands_again_with_another_guid() {
    let mut h = Candidate::leading();
    h.wanted();
    h.deleted("watch own-7");
    h.expect(&["Lost(NodeDeleted)", "timer"]);
    h.feed(Input::Timer);
    h.expect(&["create 2", "list"]);
    h.created_again(9);
    h.answer("list", children(&["a-8", "2-9"]));
    let waiting = ["Waiting behind a-8, 1 ahead", "watch 2-9", "watch a-8"];
    h.expect(&[&["Enqueued 2-9 token 109"][..], &waiting].concat());
    h.answer("watch 2-9", ok());
    h.answer("watch a-8", ok());
    h.deleted("watch a-8");
    h.expect(&["Acquired 2-9 token 109"]);
    h.feed(Input::Release);
    h.expect(&["unwatch 2-9", "delete 2-9"]);
    h.answer("delete 2-9", ok());
    h.expect_last(&["Released"]);
}

#[test]
fn a_follower_that_has_lost_its_place_stands_again_and_nobody_need_know() {
    let mut h = Candidate::following();
    h.wanted();
    h.deleted("watch own-7");
    h.expect(&["unwatch a-5", "timer"]);
    h.feed(Input::Timer);
    h.expect(&["create 2", "list"]);
}

#[test]
fn one_that_resigns_without_a_server_says_so_at_the_end_of_the_lease() {
    let mut h = Candidate::leading();
    h.feed(Input::Release);
    h.disconnect();
    h.wanted();
    h.feed(Input::LeaseEnded);
    h.expect(&["Failed: NotConfirmed(LeaseEnded)"]);
    h.reconnect();
    h.answer("delete own-7", ok());
    h.expect_last(&[]);

    // It has lost the lead already, and its node is still there.
    let mut h = Candidate::resigning();
    h.wanted();
    h.feed(Input::LeaseEnded);
    h.expect(&["Failed: NotConfirmed(LeaseEnded)"]);
    h.reconnect();
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn whatever_else_fails_ends_it() {
    let mut h = Candidate::standing();
    h.wanted();
    h.answer("create", refused(ErrorCode::NO_AUTH));
    h.expect_last(&["Failed: ErrorCode(NO_AUTH)"]);
}

#[test]
fn what_belongs_to_an_earlier_attempt_says_nothing_about_this_one() {
    let mut h = Candidate::leading();
    h.deleted("watch own-7");
    h.feed(Input::Timer);
    h.created_again(9);
    h.wanted();
    // The answer is to the first of two lists, and so by its number could be to the second.
    h.deleted("watch own-7");
    h.expect(&[]);
    h.answer("list", children(&["2-9"]));
    h.expect(&["Acquired 2-9 token 109", "timer"]);
}

#[test]
fn it_does_not_queue_again_beside_a_node_that_is_still_there() {
    let mut h = Candidate::retreating();
    h.wanted();
    h.reconnect();
    h.feed(Input::Timer);
    h.expect(&[]);
    h.answer("delete own-7", ok());
    h.expect(&["timer"]);
    h.feed(Input::Timer);
    h.expect(&["create 2", "list"]);
}

#[test]
fn one_that_stands_again_without_a_connection_knows_that() {
    let mut h = Candidate::pausing();
    h.disconnect();
    h.feed(Input::Timer);
    h.wanted();
    // The answer was there before the connection was lost.
    h.created_again(9);
    h.answer("list", children(&["2-9"]));
    h.expect(&["Enqueued 2-9 token 109", "Acquired 2-9 token 109", "Suspended"]);
}

#[test]
fn it_is_an_election_of_one_leader() {
    let config =
        AttemptConfig { mode: LockMode::Shared, wait_policy: WaitPolicy::OnlyIfFree, ..config() };
    let mut h = Candidate::driving(config, ElectionMachine::new);
    h.expect(&["create", "list"]);
    h.feed(Input::Convert(LockMode::Shared));
    h.expect(&["NotConverted: NoReaders"]);
}

#[test]
fn letting_go_ends_it_wherever_it_comes() {
    for (arrive, wants) in [
        (Candidate::following as fn() -> Candidate, &["delete own-7"][..]),
        (Candidate::leading, &["delete own-7"]),
        (Candidate::retreating, &["delete own-7"]),
        (Candidate::pausing, &[]),
    ] {
        let mut h = arrive();
        h.feed(Input::Release);
        h.reconnect();
        for line in wants {
            h.answer(line, ok());
        }
        assert_eq!(h.wanted().last().map(String::as_str), Some("Released"));
        h.expect_last(&[]);
    }
}

const PLACES: [Place<ElectionMachine>; 5] = [
    (
        Candidate::following,
        &[
            ("the contender ahead is gone", |h| h.deleted("watch a-5")),
            ("our own node is gone", |h| h.deleted("watch own-7")),
        ],
    ),
    (Candidate::leading, &[("our own node is gone", |h| h.deleted("watch own-7"))]),
    (Candidate::retreating, &[("deleted, or gone", |h| h.answer("delete own-7", ok()))]),
    (Candidate::resigning, &[("deleted, or gone", |h| h.answer("delete own-7", ok()))]),
    (Candidate::pausing, &[]),
];

#[test]
fn the_table_says_what_becomes_of_a_candidate() {
    check_table("election.md", &PLACES, |h| {
        let text = format!("{:?}", h.machine);
        let after = |what: &str| {
            let (_, rest) = text.rsplit_once(what).expect(what);
            rest.chars().take_while(|c| c.is_alphanumeric()).collect::<String>()
        };
        match after(" step: ").as_str() {
            "Contending" => format!("Contending: {}", after(" phase: ")),
            step => step.to_string(),
        }
    });
}

// ---- What its caller makes of it -----------------------------------------------------------------

fn after(events: &[Event]) -> Leadership {
    let follower = Leadership::Follower;
    events.iter().fold(follower, |leadership, event| leadership.after(event, "/election"))
}

#[test]
fn a_candidate_leads_from_when_it_is_told_so_until_it_is_told_otherwise() {
    let acquired = Event::Acquired { node: "n".into(), token: Zxid(5) };
    let term = Term { token: Zxid(5), node: "/election/n".into() };
    let enqueued = Event::Enqueued { node: "n".into(), token: Zxid(5) };
    assert_eq!(after(&[enqueued]), Leadership::Follower);
    assert_eq!(after(core::slice::from_ref(&acquired)), Leadership::Leader(term.clone()));
    let suspended = [acquired.clone(), Event::Suspended];
    assert_eq!(after(&suspended), Leadership::Suspended(term.clone()));
    let resumed = [&suspended[..], &[Event::Resumed]].concat();
    assert_eq!(after(&resumed), Leadership::Leader(term));
    let lost = |loss| [&suspended[..], &[Event::Lost(loss)]].concat();
    assert_eq!(after(&lost(Loss::NodeDeleted)), Leadership::Follower);
    let ended = LockError::Ended(End::Expired);
    assert_eq!(after(&lost(Loss::Ended(End::Expired))), Leadership::Failed(ended));
    assert_eq!(after(&[acquired, Event::Released]), Leadership::Resigned);
    assert_eq!(after(&[Event::Failed(LockError::Busy)]), Leadership::Failed(LockError::Busy));
}
