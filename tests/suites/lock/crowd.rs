//! Many attempts of one client at once, each with a node: they share the lists of the queue.

use tokio::task::{JoinHandle, yield_now};
use zk_proto::OpCode;
use zk_recipes::{Guard, LockError, Mutex, Options, RwLock};
use zk_session::{Client, End};
use zk_testkit::serve::Embedded;

use super::frozen::Frozen;
use super::{LOCK, SESSION_TIMEOUT, begun, client, eventually, lock_nodes, start, watches};

/// How many lists are in flight before attempts wait to share one.
const AT_ONCE: usize = 4;
/// Enough attempts for lists of their own and for a shared one.
const CROWD: usize = 12;

fn lists(embedded: &Embedded) -> u64 {
    embedded.with(|ensemble| ensemble.counters().requests(OpCode::GET_CHILDREN))
}

fn mutex(client: &Client) -> Mutex {
    Mutex::new(client, LOCK).expect("a valid path")
}

type Acquiring = JoinHandle<Result<Guard, zk_recipes::RecipeError>>;

/// Begins attempts in one step, each with a lock value of its own.
fn crowd(client: &Client, count: usize) -> Vec<Acquiring> {
    (0..count).map(|_| tokio::spawn(begun(mutex(client).acquire()))).collect()
}

/// Takes each turn. The tokens must rise.
async fn take_turns(crowd: impl IntoIterator<Item = Acquiring>) {
    let mut last = None;
    for acquiring in crowd {
        let guard = acquiring.await.expect("no panic").expect("acquired");
        let token = Some(guard.fencing_token());
        assert!(last < token);
        last = token;
        guard.release().await.expect("released");
    }
}

async fn nothing_is_left(embedded: &Embedded) {
    let is_clean = |embedded: &Embedded| lock_nodes(embedded).is_empty() && watches(embedded) == 0;
    eventually(embedded, "nothing is left", is_clean).await;
}

#[tokio::test]
async fn a_few_attempts_list_alone_and_all_others_together() {
    let _frozen = Frozen::start();
    for count in [1, 2, AT_ONCE, AT_ONCE + 1, 100, 1_000] {
        let embedded = start().await;
        let (holder, ours) = (client(&embedded).await, client(&embedded).await);
        let held = mutex(&holder).acquire().await.expect("acquired");
        let (before, requests) = (lists(&embedded), ours.statistics().requests);
        let crowd = crowd(&ours, count);
        // Each watches its predecessor, by another list, and the second in line also its own node.
        // So does the third.
        let all_wait = |embedded: &Embedded| watches(embedded) == count.max(2);
        eventually(&embedded, "all wait", all_wait).await;
        let own_lists = count.min(AT_ONCE + 1);
        assert_eq!(lists(&embedded) - before, (own_lists + count + 1) as u64);
        let requests = ours.statistics().requests - requests;
        assert_eq!(requests, (count + own_lists + count + 1) as u64, "with the creations");
        held.release().await.expect("released");
        take_turns(crowd).await;
        nothing_is_left(&embedded).await;
    }
}

#[tokio::test]
async fn readers_at_once_hold_the_lock_together() {
    let _frozen = Frozen::start();
    let embedded = start().await;
    let lock = RwLock::new(&client(&embedded).await, LOCK).expect("a valid path");
    lock.write().await.expect("acquired").release().await.expect("released");
    let before = lists(&embedded);
    let readers: Vec<_> = (0..100).map(|_| tokio::spawn(begun(lock.read()))).collect();
    let writer = tokio::spawn(begun(lock.write()));
    let mut held = Vec::new();
    for reader in readers {
        held.push(reader.await.expect("no panic").expect("acquired"));
    }
    assert!(!writer.is_finished());
    eventually(&embedded, "the writer waits", |embedded| watches(embedded) > 0).await;
    assert_eq!(lists(&embedded) - before, AT_ONCE as u64 + 1 + 1, "one of them watches");
    for guard in held {
        guard.release().await.expect("released");
    }
    drop(writer.await.expect("no panic").expect("acquired"));
    nothing_is_left(&embedded).await;
}

/// Attempts that expect nobody omit the list, so they find each other at the same time.
#[tokio::test]
async fn attempts_that_expect_nobody_list_together_once_there_is_somebody() {
    let _frozen = Frozen::start();
    let embedded = start().await;
    let lock = mutex(&client(&embedded).await);
    for _ in 0..12 {
        lock.acquire().await.expect("acquired").release().await.expect("released");
    }
    let before = lists(&embedded);
    let crowd: Vec<_> = (0..100).map(|_| tokio::spawn(begun(lock.acquire()))).collect();
    let mut crowd = crowd.into_iter();
    let held = crowd.next().expect("the first").await.expect("no panic").expect("acquired");
    eventually(&embedded, "all wait", |embedded| watches(embedded) == 99).await;
    assert!(lists(&embedded) - before <= 2 * (AT_ONCE as u64 + 1) + 99 + 1);
    held.release().await.expect("released");
    take_turns(crowd).await;
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn attempts_that_try_at_once_see_each_other() {
    let embedded = start().await;
    let ours = client(&embedded).await;
    let held = mutex(&ours).acquire().await.expect("acquired");
    let tries: Vec<_> =
        (0..CROWD).map(|_| tokio::spawn(begun(mutex(&ours).try_acquire()))).collect();
    for tried in tries {
        let tried = tried.await.expect("no panic").expect_err("held");
        assert_eq!(tried.reason, LockError::Busy);
    }
    held.release().await.expect("released");
    nothing_is_left(&embedded).await;
}

/// One attempt, or all but one, give up at any moment: before, during and after the wait for a
/// list.
#[tokio::test]
async fn attempts_can_be_dropped_while_their_list_waits() {
    let embedded = start().await;
    let ours = client(&embedded).await;
    for rounds in 0..16 {
        for dropped in 0..CROWD {
            for drops_others in [false, true] {
                let mut all: Vec<_> =
                    (0..CROWD).map(|_| Some(begun(mutex(&ours).acquire()))).collect();
                for _ in 0..rounds {
                    yield_now().await;
                }
                for (place, attempt) in all.iter_mut().enumerate() {
                    if (place == dropped) != drops_others {
                        *attempt = None;
                    }
                }
                for attempt in all.into_iter().flatten() {
                    attempt.await.expect("acquired").release().await.expect("released");
                }
                nothing_is_left(&embedded).await;
            }
        }
    }
}

#[tokio::test]
async fn a_crowd_survives_lost_connections() {
    for rounds in 0..24 {
        let embedded = Embedded::start(3).await.expect("loopback");
        let ours = client(&embedded).await;
        let crowd = crowd(&ours, CROWD);
        for _ in 0..rounds {
            yield_now().await;
        }
        let zk_session::State::Connected { server, .. } = ours.state() else { panic!("connected") };
        embedded.kill(server);
        take_turns_of(crowd).await;
        nothing_is_left(&embedded).await;
    }
}

/// Takes each turn, in any order: after a lost connection, some attempts may begin anew.
async fn take_turns_of(crowd: Vec<Acquiring>) {
    for acquiring in crowd
        .into_iter()
        .map(|acquiring| {
            tokio::spawn(async move {
                let guard = acquiring.await.expect("no panic").expect("acquired");
                guard.release().await.expect("released");
            })
        })
        .collect::<Vec<_>>()
    {
        acquiring.await.expect("no panic");
    }
}

#[tokio::test]
async fn a_crowd_queues_again_on_the_next_session() {
    for rounds in 0..12 {
        let embedded = start().await;
        let builder = Client::builder(&embedded.connect_string()).session_timeout(SESSION_TIMEOUT);
        let ours = builder.renew(true).connect().await.expect("connected");
        let holder = client(&embedded).await;
        let held = mutex(&holder).acquire().await.expect("acquired");
        let crowd = crowd(&ours, CROWD);
        for _ in 0..rounds {
            yield_now().await;
        }
        assert!(embedded.expire_session(ours.session_id()));
        eventually(&embedded, "all are back", |embedded| lock_nodes(embedded).len() == CROWD + 1)
            .await;
        held.release().await.expect("released");
        take_turns_of(crowd).await;
        nothing_is_left(&embedded).await;
    }
}

#[tokio::test]
async fn a_crowd_ends_with_its_client() {
    for rounds in 0..12 {
        let embedded = start().await;
        let ours = client(&embedded).await;
        let held = mutex(&client(&embedded).await).acquire().await.expect("acquired");
        let crowd = crowd(&ours, CROWD);
        for _ in 0..rounds {
            yield_now().await;
        }
        ours.close().await;
        for acquiring in crowd {
            let error = acquiring.await.expect("no panic").expect_err("closed");
            // The event of the deletion may come before the end.
            let reasons = [LockError::Ended(End::Closed), LockError::NodeVanished];
            assert!(reasons.contains(&error.reason), "after {rounds} rounds: {error}");
        }
        held.release().await.expect("released");
        nothing_is_left(&embedded).await;
    }
}

#[tokio::test]
async fn ten_thousand_attempts_queue_with_nodes_of_their_own() {
    const TASKS: usize = 10_000;
    // On a busy machine, all of this takes longer than a lease.
    let _frozen = Frozen::start();
    let embedded = start().await;
    let (holder, ours) = (client(&embedded).await, client(&embedded).await);
    let held = mutex(&holder).acquire().await.expect("acquired");
    let before = lists(&embedded);
    let lock = Mutex::with(&ours, LOCK, Options::new()).expect("a valid path");
    let crowd: Vec<_> = (0..TASKS).map(|_| tokio::spawn(lock.acquire())).collect();
    eventually(&embedded, "all wait", |embedded| watches(embedded) >= TASKS).await;
    let lists = lists(&embedded) - before - TASKS as u64;
    println!("{TASKS} attempts, {lists} lists");
    assert!(lists < 100, "{lists} lists");
    crowd.iter().for_each(JoinHandle::abort);
    eventually(&embedded, "all have left", |embedded| lock_nodes(embedded).len() == 1).await;
    held.release().await.expect("released");
    assert_eq!(ours.statistics().connections, 1);
}
