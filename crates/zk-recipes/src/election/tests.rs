//! A candidate of an election. The nodes of its second attempt are `2-9` and so on.

mod exploring;

use crate::tests::table::{Start, check_table};
use crate::tests::*;

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

    /// It resigned without a connection, and its node still exists.
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

    fn renewing() -> Self {
        let mut h = Self::following();
        h.reconnect();
        h.feed(Input::State(State::Renewing));
        h
    }

    fn resigning() -> Self {
        let mut h = Self::retreating();
        h.feed(Command::Release);
        h
    }

    #[track_caller]
    fn created_again(&mut self, number: i32) {
        self.created_as("create 2", &format!("2-{number}"), czxid(number));
    }
}

#[test]
fn a_leader_that_lost_queues_again_with_another_guid() {
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
    h.feed(Command::Release);
    h.expect(&["delete 2-9"]);
    h.deleted("watch 2-9");
    h.answer("delete 2-9", ok());
    h.expect_last(&["Released"]);
}

#[test]
fn a_waiter_that_lost_its_node_queues_again_silently() {
    let mut h = Candidate::following();
    h.wanted();
    h.deleted("watch own-7");
    h.expect(&["unwatch a-5", "timer"]);
    h.feed(Input::Timer);
    h.expect(&["create 2", "list"]);
}

#[test]
fn a_resignation_without_a_server_ends_with_the_lease() {
    let mut h = Candidate::leading();
    h.feed(Command::Release);
    h.disconnect();
    h.wanted();
    h.feed(Input::LeaseEnded);
    h.expect(&["Failed: NotConfirmed(LeaseEnded)"]);
    h.reconnect();
    h.deleted("watch own-7");
    h.answer("delete own-7", ok());
    h.expect_last(&[]);

    // It has lost the leadership, and its node still exists.
    let unconfirmed = || {
        let mut h = Candidate::resigning();
        h.wanted();
        h.feed(Input::LeaseEnded);
        h.expect(&["Failed: NotConfirmed(LeaseEnded)"]);
        h
    };
    let mut h = unconfirmed();
    h.reconnect();
    h.deleted("watch own-7");
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
    // The result was reported, so the end of the session is none.
    let mut h = unconfirmed();
    h.expire();
    h.expect_last(&[]);
}

#[test]
fn any_other_failure_ends_the_candidacy() {
    let mut h = Candidate::standing();
    h.wanted();
    h.answer("create", refused(ErrorCode::NO_AUTH));
    h.expect_last(&["Failed: ErrorCode(NO_AUTH)"]);
}

#[test]
fn inputs_of_an_earlier_attempt_are_ignored() {
    let mut h = Candidate::leading();
    h.deleted("watch own-7");
    h.feed(Input::Timer);
    h.created_again(9);
    h.wanted();
    // The reply belongs to the first of two lists, although the second has the same number.
    h.deleted("watch own-7");
    h.expect(&[]);
    h.answer("list", children(&["2-9"]));
    h.expect(&["Acquired 2-9 token 109", "timer"]);
}

#[test]
fn a_candidate_does_not_queue_beside_its_old_node() {
    let mut h = Candidate::retreating();
    h.wanted();
    h.reconnect();
    h.feed(Input::Timer);
    h.expect(&[]);
    h.deleted("watch own-7");
    h.answer("delete own-7", ok());
    h.expect(&["timer"]);
    h.feed(Input::Timer);
    h.expect(&["create 2", "list"]);
}

#[test]
fn a_candidate_that_queues_again_knows_the_connection_state() {
    let mut h = Candidate::pausing();
    h.disconnect();
    h.feed(Input::Timer);
    h.wanted();
    // The reply arrived before the disconnect.
    h.created_again(9);
    h.answer("list", children(&["2-9"]));
    h.expect(&["Enqueued 2-9 token 109", "Acquired 2-9 token 109", "Suspended"]);
}

#[test]
fn an_election_is_exclusive() {
    let config =
        AttemptConfig { mode: LockMode::Shared, wait_policy: WaitPolicy::OnlyIfFree, ..config() };
    let mut h = Candidate::driving(config, ElectionMachine::new);
    h.expect(&["create", "list"]);
    h.feed(Command::Convert(LockMode::Shared));
    h.expect(&["NotConverted: NoReaders"]);
}

#[test]
fn a_release_ends_every_step() {
    for (arrive, wants) in [
        (Candidate::following as fn() -> Candidate, &["delete own-7"][..]),
        (Candidate::leading, &["delete own-7"]),
        (Candidate::retreating, &["delete own-7"]),
        (Candidate::pausing, &[]),
    ] {
        let mut h = arrive();
        h.feed(Command::Release);
        h.reconnect();
        for line in wants {
            h.answer(line, ok());
        }
        assert_eq!(h.wanted().last().map(String::as_str), Some("Released"));
        h.expect_last(&[]);
    }
}

#[test]
fn a_candidate_of_an_expired_session_queues_again_on_the_next_one() {
    for (arrive, reports) in [
        (Candidate::standing as fn() -> Candidate, &[][..]),
        (Candidate::following, &[]),
        (Candidate::leading, &["Lost(Renewed)"]),
        (Candidate::retreating, &[]),
        (Candidate::pausing, &[]),
    ] {
        let mut h = arrive();
        h.reconnect();
        h.feed(Input::State(State::Suspended));
        h.wanted();
        // The requests of the old session have no replies.
        h.asked.iter_mut().for_each(|asked| asked.answered = true);
        h.feed(Input::State(State::Renewing));
        let lines = h.wanted();
        let is_report = |line: &&String| !line.starts_with("unwatch") && *line != "timer";
        assert_eq!(lines.iter().filter(is_report).collect::<Vec<_>>(), reports);
        h.feed(Input::Timer);
        h.expect(&[]);
        // The new session begins.
        h.reconnect();
        h.expect(&["create 2", "list"]);
        h.created_again(9);
        h.answer("list", children(&["2-9"]));
        assert_eq!(h.wanted()[..2], ["Enqueued 2-9 token 109", "Acquired 2-9 token 109"]);
    }
}

#[test]
fn a_candidate_that_resigns_does_not_enter_the_next_session() {
    for arrive in
        [Candidate::following as fn() -> Candidate, Candidate::leading, Candidate::resigning]
    {
        let mut h = arrive();
        h.reconnect();
        h.feed(Command::Release);
        h.wanted();
        h.feed(Input::State(State::Renewing));
        assert_eq!(h.wanted().last().map(String::as_str), Some("Released"));
        h.expect_last(&[]);
    }
}

fn node_deleted(h: &mut Candidate) {
    h.deleted("watch own-7");
    h.answer("delete own-7", ok());
}

const STARTS: [Start<ElectionMachine>; 6] = [
    (
        Candidate::following,
        &[
            ("the contender ahead is gone", |h| h.deleted("watch a-5")),
            ("our node is gone", |h| h.deleted("watch own-7")),
        ],
    ),
    (Candidate::leading, &[("our node is gone", |h| h.deleted("watch own-7"))]),
    (Candidate::retreating, &[("deleted, or gone", node_deleted)]),
    (Candidate::resigning, &[("deleted, or gone", node_deleted)]),
    (Candidate::pausing, &[]),
    (Candidate::renewing, &[]),
];

#[test]
fn the_table_shows_the_steps_of_a_candidate() {
    check_table("election.md", &STARTS, |h| {
        let text = format!("{:?}", h.machine);
        let after = |what: &str| {
            let (_, rest) = text.rsplit_once(what).expect(what);
            rest.chars().take_while(|c| c.is_alphanumeric()).collect::<String>()
        };
        match after(" step: ").as_str() {
            "Contending" if after(" phase: ") == "Done" => "Done".to_string(),
            "Contending" => format!("Contending: {}", after(" phase: ")),
            step => step.to_string(),
        }
    });
}

// ---- The caller's view
// ---------------------------------------------------------------------------

fn after(events: &[Event]) -> Leadership {
    let follower = Leadership::Follower;
    events.iter().fold(follower, |leadership, event| leadership.after(event, "/election"))
}

#[test]
fn leadership_follows_the_events() {
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

#[test]
fn a_resignation_that_the_end_of_the_client_interrupts_is_not_confirmed() {
    let mut h = Candidate::resigning();
    h.wanted();
    h.feed(Input::State(State::Ended(End::Closed)));
    h.expect_last(&["Failed: NotConfirmed(Ended(Closed))"]);
}
