//! Leader election, and the states of candidates.

use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use zk_recipes::machine::DisconnectPolicy;
use zk_recipes::{Candidate, Event, LeaderElection, Leadership, LockError, Loss, Options};
use zk_session::{Client, End};
use zk_testkit::serve::Embedded;

use super::{
    HANG_TIMEOUT, client, delete_node, ephemerals, eventually, nothing_is_left, scenarios, start,
    watches,
};

const ELECTION: &str = "/election";

fn election(client: &Client, name: &'static str) -> LeaderElection {
    LeaderElection::with(client, ELECTION, Options::new().data(name)).expect("a valid path")
}

/// Waits until the candidate's state meets a condition.
async fn becomes(candidate: &Candidate, condition: impl Fn(&Leadership) -> bool) -> Leadership {
    let mut state = candidate.leadership();
    while !condition(&state) {
        let changed = candidate.changed(&state).timeout(HANG_TIMEOUT).await.expect("in time");
        assert_ne!(changed, state, "still a candidate");
        state = changed;
    }
    state
}

async fn names(election: &LeaderElection) -> Vec<String> {
    let participants = election.participants().await.expect("listed").into_iter();
    participants
        .map(|one| String::from_utf8_lossy(one.data.as_deref().expect("readable")).into_owned())
        .collect()
}

async fn in_line(embedded: &Embedded, count: usize) {
    eventually(embedded, "all are candidates", |embedded| ephemerals(embedded).len() == count)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_survives_the_expiry_of_its_session() {
    scenarios::a_service_survives_the_expiry_of_its_session(&start().await).await;
}

#[tokio::test]
async fn attempts_that_wait_queue_again_on_the_next_session() {
    scenarios::attempts_that_wait_queue_again_on_the_next_session(&start().await).await;
}

#[tokio::test]
async fn a_leader_works_for_one_term_and_can_stand_again_after_a_loss() {
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    let ours = election(&ours, "ours");
    let (begun, mut tokens) = tokio::sync::mpsc::unbounded_channel();
    let leader = ours.clone();
    let leading = tokio::spawn(async move {
        let mut losses = 0;
        loop {
            let term = leader.lead().run(async |term| {
                begun.send((term.node_path(), term.fencing_token().zxid())).expect("a receiver");
                if losses == 0 {
                    core::future::pending::<()>().await;
                }
            });
            match term.await {
                Err(error) if error.loss() == Some(Loss::NodeDeleted) => losses += 1,
                done => break done.map(|()| losses),
            }
        }
    });
    let (node, first) = tokens.recv().await.expect("it leads");
    let follower = election(&other, "other").stand();
    in_line(&embedded, 2).await;
    assert_eq!(names(&ours).await, ["ours", "other"], "a candidate like others");
    delete_node(&embedded, &node).await;
    let next = follower.elected().await.expect("elected");
    in_line(&embedded, 2).await;
    follower.close().await.expect("resigned");
    let (_, second) = tokens.recv().await.expect("it leads again");
    assert!(first < next.token && next.token < second);
    assert_eq!(leading.await.expect("no panic"), Ok(1));
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn candidates_lead_one_after_another() {
    scenarios::candidates_lead_one_after_another(&start().await).await;
}

#[tokio::test]
async fn candidates_in_the_middle_can_leave_and_the_others_lead_in_order() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let mut candidates = std::collections::VecDeque::new();
    for (place, name) in ["one", "two", "three", "four", "five"].into_iter().enumerate() {
        candidates.push_back(election(&client, name).stand());
        in_line(&embedded, place + 1).await;
    }
    // The candidate behind the one that leaves must find a new predecessor.
    candidates.remove(2).expect("five").close().await.expect("closed");
    assert_eq!(names(&election(&client, "")).await, ["one", "two", "four", "five"]);
    let mut token = None;
    while let Some(leader) = candidates.pop_front() {
        let term = leader.elected().await.expect("acquired");
        assert!(token < Some(term.token), "the tokens rise");
        token = Some(term.token);
        assert!(candidates.iter().all(|other| other.leadership() == Leadership::Follower));
        leader.close().await.expect("closed");
    }
    nothing_is_left(&embedded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_elected_candidate_has_published_its_state() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let (resume, paused) = mpsc::channel::<()>();
    let paused = Mutex::new(paused);
    // Delays every later report of the session's task.
    let options = Options::new().observer(move |_, event| {
        if matches!(event, Event::Enqueued { .. }) {
            let _ = paused.lock().expect("no panic").recv();
        }
    });
    let candidate = LeaderElection::with(&client, ELECTION, options).expect("valid").stand();
    eventually(&embedded, "a leader", |_| matches!(candidate.leadership(), Leadership::Leader(_)))
        .await;
    let term = candidate.elected().await.expect("elected");
    assert_eq!(candidate.leadership(), Leadership::Leader(term));
    drop(resume);
}

#[tokio::test]
async fn a_time_limit_that_has_passed_needs_no_timer() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let leader = election(&client, "one").stand();
    let follower = election(&client, "two").stand();
    let term = leader.elected().await.expect("elected");
    // The answers to the follower come first.
    assert_eq!(election(&client, "one").participants().await.expect("listed").len(), 2);
    let looks = |candidate: &Candidate| {
        let looking = pin!(candidate.elected().timeout(Duration::ZERO));
        looking.poll(&mut Context::from_waker(Waker::noop())).map_err(|error| error.reason)
    };
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| (looks(&leader), looks(&follower)));
        let (leads, follows) = looking.join().expect("no panic outside of the runtime");
        assert_eq!(leads, Poll::Ready(Ok(term)));
        assert_eq!(follows, Poll::Ready(Err(LockError::TimedOut)));
    });
}

#[tokio::test]
async fn a_leader_that_loses_its_node_queues_again() {
    scenarios::a_leader_that_loses_its_node_queues_again(&start().await).await;
}

#[tokio::test]
async fn a_follower_that_loses_its_node_queues_again() {
    let embedded = start().await;
    let (one, two) = (client(&embedded).await, client(&embedded).await);
    let leader = election(&one, "one").stand();
    leader.elected().await.expect("elected");
    let election = election(&two, "two");
    let follower = election.stand();
    eventually(&embedded, "all watches are set", |embedded| watches(embedded) == 3).await;
    let lost = election.participants().await.expect("listed").remove(1);
    delete_node(&embedded, &format!("{ELECTION}/{}", lost.node)).await;
    in_line(&embedded, 2).await;
    leader.close().await.expect("closed");
    assert!(follower.elected().await.expect("elected").token > lost.token);
    follower.close().await.expect("closed");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn an_observer_that_panics_hides_nothing() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let options = Options::new().observer(|_, _| panic!("a broken observer"));
    let election = LeaderElection::with(&client, ELECTION, options).expect("a valid path");
    let leader = election.stand();
    let elected = tokio::time::timeout(HANG_TIMEOUT, leader.elected()).await;
    elected.expect("in time").expect("elected");
    leader.close().await.expect("closed");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_leader_without_a_connection_is_suspended() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let leader = election(&client, "one").stand();
    let term = leader.elected().await.expect("elected");
    embedded.kill(0);
    let suspended = becomes(&leader, |state| matches!(state, Leadership::Suspended(_))).await;
    assert_eq!(suspended, Leadership::Suspended(term.clone()));
    embedded.restart(0).await.expect("the port is still free");
    becomes(&leader, |state| *state == Leadership::Leader(term.clone())).await;
    leader.close().await.expect("closed");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_leader_with_the_strictest_disconnect_policy_steps_down_and_queues_again() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let options = Options::new().disconnect_policy(DisconnectPolicy::WhileConnected);
    let leader = LeaderElection::with(&client, ELECTION, options).expect("valid").stand();
    let term = leader.elected().await.expect("elected");
    embedded.kill(0);
    becomes(&leader, |state| *state == Leadership::Follower).await;
    embedded.restart(0).await.expect("the port is still free");
    assert!(leader.elected().await.expect("elected again").token > term.token);
    in_line(&embedded, 1).await;
    leader.close().await.expect("closed");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn the_end_of_the_session_ends_the_candidate() {
    let embedded = start().await;
    let (one, two) = (client(&embedded).await, client(&embedded).await);
    let leader = election(&one, "one").stand();
    leader.elected().await.expect("elected");
    let follower = election(&two, "two").stand();
    in_line(&embedded, 2).await;
    assert!(embedded.expire_session(one.session_id()));
    let ended = |end| Leadership::Failed(LockError::Ended(end));
    becomes(&leader, |state| *state == ended(End::Expired)).await;
    assert_eq!(
        leader.elected().await.map_err(LockError::from),
        Err(LockError::Ended(End::Expired))
    );
    assert_eq!(leader.close().await.map_err(LockError::from), Err(LockError::Ended(End::Expired)));
    follower.elected().await.expect("elected");
    two.close().await;
    becomes(&follower, |state| *state == ended(End::Closed)).await;
    assert_eq!(follower.close().await.map_err(LockError::from), Err(LockError::Ended(End::Closed)));
}

#[tokio::test]
async fn a_candidate_can_be_closed_at_any_moment() {
    let embedded = start().await;
    let (one, two) = (client(&embedded).await, client(&embedded).await);
    let election = election(&one, "one");
    for contended in [false, true] {
        let other = contended.then(|| self::election(&two, "two").stand());
        if let Some(other) = &other {
            other.elected().await.expect("elected");
        }
        for steps in 0..30 {
            let candidate = election.stand();
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
            candidate.close().await.expect("closed");
            assert_eq!(ephemerals(&embedded).len(), usize::from(contended), "{steps} steps");
        }
    }
    nothing_is_left(&embedded).await;
}
