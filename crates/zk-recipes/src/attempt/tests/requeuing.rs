//! A waiter that queues again. The nodes of its second attempt are `2-9` and so on,
//! and `2'-9` on the next session.

use crate::tests::*;

type Waiter = Harness<Requeuing<Contender>>;

impl Waiter {
    fn of_client(renews: bool) -> Self {
        Self::driving(config(), |config| Requeuing::new(Contender::new(config), renews))
    }

    fn creating() -> Self {
        Self::of_client(true)
    }

    fn waiting() -> Self {
        let mut h = Self::creating();
        h.created(7);
        h.answer("list", children(&["a-5", "own-7"]));
        h.answer("watch own-7", ok());
        h.answer("watch a-5", ok());
        h
    }

    fn held() -> Self {
        let mut h = Self::creating();
        h.created(7);
        h.answer("list", children(&["own-7"]));
        h
    }

    fn pausing() -> Self {
        let mut h = Self::waiting();
        h.deleted("watch own-7");
        h
    }

    /// The session has expired. Its requests have no replies.
    fn renew(&mut self) {
        self.feed(Input::State(State::Suspended));
        self.wanted();
        self.asked.iter_mut().for_each(|asked| asked.answered = true);
        self.feed(Input::State(State::Renewing));
    }

    fn begin_session(&mut self) {
        self.feed(Input::State(State::Connected { server: 0, session: NEXT }));
    }
}

#[test]
fn a_waiter_queues_again_on_the_next_session() {
    for arrive in [Waiter::creating as fn() -> Waiter, Waiter::waiting, Waiter::pausing] {
        let mut h = arrive();
        h.reconnect();
        assert!(h.machine.outlives_session());
        h.renew();
        assert!(h.wanted().iter().all(|line| line.starts_with("unwatch")));
        // Neither the timer of the old attempt nor a server without a quorum begins another.
        h.feed(Input::Timer);
        h.feed(Input::State(READ_ONLY));
        h.expect(&[]);
        h.begin_session();
        h.expect(&["create 2'", "list"]);
        h.created_as("create 2'", "2'-9", czxid(9));
        h.answer("list", children(&["2'-9"]));
        assert_eq!(h.wanted()[..2], ["Enqueued 2'-9 token 109", "Acquired 2'-9 token 109"]);
    }
}

#[test]
fn the_node_of_the_next_session_is_found_again() {
    let mut h = Waiter::waiting();
    h.renew();
    h.begin_session();
    h.wanted();
    h.disconnect();
    h.expect(&["sync", "list"]);
    h.begin_session();
    h.answer("sync", ok());
    h.answer("list", children(&["2'-9"]));
    h.expect(&["stat 2'-9"]);
    h.answer("stat 2'-9", stat(NEXT, 9));
    assert_eq!(h.wanted()[0], "Enqueued 2'-9 token 109");
}

#[test]
fn a_waiter_whose_node_was_deleted_queues_again_after_a_moment() {
    let mut h = Waiter::waiting();
    h.wanted();
    h.deleted("watch own-7");
    h.expect(&["unwatch a-5", "timer"]);
    h.feed(Input::Timer);
    h.expect(&["create 2", "list"]);
    // A late reply to the first attempt.
    h.renewed("watch a-5", ok());
    h.expect(&[]);
}

#[test]
fn a_held_lock_is_lost_with_its_session_and_ends_the_machine() {
    let mut h = Waiter::held();
    h.renew();
    assert_eq!(h.wanted().last().map(String::as_str), Some("Lost(Ended(Expired))"));
    h.expect_last(&[]);

    let mut h = Waiter::held();
    h.feed(Input::Timer);
    h.answer("watch own-7", ok());
    h.wanted();
    h.deleted("watch own-7");
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn a_release_ends_every_step() {
    let renewing = || {
        let mut h = Waiter::waiting();
        h.renew();
        h
    };
    for arrive in [Waiter::pausing as fn() -> Waiter, renewing] {
        let mut h = arrive();
        h.wanted();
        h.feed(Command::Release);
        h.expect_last(&["Released"]);
    }
    // It was released before the session expired.
    let mut h = Waiter::waiting();
    h.feed(Command::Release);
    h.renew();
    assert_eq!(h.wanted().last().map(String::as_str), Some("Released"));
    h.expect_last(&[]);
}

#[test]
fn the_end_of_the_client_ends_every_step() {
    let renewing = || {
        let mut h = Waiter::waiting();
        h.renew();
        h
    };
    for arrive in [Waiter::creating as fn() -> Waiter, Waiter::waiting, Waiter::pausing, renewing] {
        let mut h = arrive();
        h.wanted();
        h.feed(Input::State(State::Ended(End::Closed)));
        let ended = h.wanted();
        assert_eq!(ended.last().map(String::as_str), Some("Failed: Ended(Closed)"), "{ended:?}");
        h.expect_last(&[]);
    }
}

#[test]
fn an_attempt_of_a_client_that_does_not_renew_its_session_fails() {
    let waiting = || {
        let mut h = Waiter::of_client(false);
        h.created(7);
        h.answer("list", children(&["a-5", "own-7"]));
        h.answer("watch own-7", ok());
        h.wanted();
        h
    };
    let mut h = waiting();
    assert!(!h.machine.outlives_session());
    h.expire();
    assert_eq!(h.wanted().last().map(String::as_str), Some("Failed: Ended(Expired)"));
    let mut h = waiting();
    h.deleted("watch own-7");
    assert!(h.wanted().contains(&"Failed: NodeVanished".to_string()));
    h.expect_last(&[]);
}

#[test]
fn other_failures_are_reported() {
    let mut h = Waiter::creating();
    h.wanted();
    h.answer("create", refused(ErrorCode::NO_AUTH));
    h.expect_last(&["Failed: ErrorCode(NO_AUTH)"]);
}

#[test]
fn a_session_that_is_new_when_the_attempt_begins_ends_nothing() {
    let mut h = Waiter::creating();
    h.wanted();
    h.feed(Input::State(State::Renewing));
    h.expect(&[]);
    h.created(7);
    h.expect(&["Enqueued own-7 token 107"]);
}

#[test]
fn a_held_lock_is_converted() {
    let config = AttemptConfig { scheme: READ_WRITE, ..config() };
    let mut h = Harness::driving(config, |config| Requeuing::new(Contender::new(config), true));
    h.created_as("create W", "own-W7", czxid(7));
    h.answer("list", children(&["own-W7"]));
    h.wanted();
    h.feed(Command::Convert(LockMode::Shared));
    h.expect(&["replace own-W7 by own-R7"]);
}

#[test]
fn the_next_attempt_for_permits_has_another_guid_and_the_same_path() {
    let first = SemaphoreMachine::new(PermitRequest::new(config(), 2, Some(3)));
    let submitted = |machine| match Driven::<SemaphoreMachine>::new(machine).poll_output() {
        Some(Output::Submit { operation, .. }) => operation.path(),
        output => panic!("{output:?}"),
    };
    let (next, first) = (submitted(first.restart(None)), submitted(first));
    let path = |guid| format!("/locks/printer/locks/{}", prefix(guid));
    assert_eq!((first, next), (path(OWN), path(labels::own_guid(1, SESSION))));
}
