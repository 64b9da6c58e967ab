//! Queues whose list is longer than a reply that the client accepts.

use zk_recipes::{LockError, ModeError, Mutex, Reason, RecipeError, RwLock, Semaphore};
use zk_session::{Client, Error, Outcome};
use zk_testkit::scenarios;
use zk_testkit::serve::Embedded;

use super::{LOCK, SESSION_TIMEOUT, begun, client, eventually, lock_nodes, start};

const MAX_REPLY: usize = 4096;
/// Their list is longer than the client accepts.
const CONTENDERS: usize = 100;

async fn narrow_client(embedded: &Embedded) -> Client {
    let builder = Client::builder(&embedded.connect_string()).session_timeout(SESSION_TIMEOUT);
    builder.max_reply(MAX_REPLY).connect().await.expect("connected")
}

#[track_caller]
fn is_too_long<T>(result: Result<T, RecipeError<impl Reason>>) {
    match result.as_ref().err().and_then(RecipeError::lock_error) {
        Some(&LockError::Request(Error::ReplyTooLarge { length, limit, outcome })) => {
            assert!(length > limit, "{length}");
            assert_eq!((limit, outcome), (MAX_REPLY, Outcome::NotApplied));
        }
        other => panic!("{other:?}"),
    }
}

fn mutex(client: &Client) -> Mutex {
    Mutex::new(client, LOCK).expect("a valid path")
}

#[tokio::test]
async fn a_contender_waits_in_a_queue_that_is_longer_than_a_reply() {
    scenarios::a_contender_waits_in_a_queue_that_is_longer_than_a_reply(&start().await).await;
}

#[tokio::test]
async fn the_watch_of_a_list_that_is_too_long_is_removed() {
    scenarios::the_watch_of_a_list_that_is_too_long_is_removed(&start().await).await;
}

#[tokio::test]
async fn an_attempt_that_does_not_wait_reads_a_list_that_is_longer_than_a_reply() {
    let embedded = start().await;
    let (wide, narrow) = (client(&embedded).await, narrow_client(&embedded).await);
    let others: Vec<_> = (0..CONTENDERS).map(|_| begun(mutex(&wide).acquire())).collect();
    let all = |embedded: &Embedded| lock_nodes(embedded).len() == CONTENDERS;
    eventually(&embedded, "entered", all).await;

    let busy = mutex(&narrow).try_acquire().await.expect_err("others are there");
    assert_eq!(busy.reason, LockError::Busy);
    is_too_long(mutex(&narrow).contenders().await);
    eventually(&embedded, "no node of the contender", all).await;
    assert_eq!(narrow.statistics().connections, 1);
    drop(others);
}

#[tokio::test]
async fn a_reader_among_many_reads_the_list_for_an_upgrade_and_stays_a_reader() {
    let embedded = start().await;
    let (wide, narrow) = (client(&embedded).await, narrow_client(&embedded).await);
    let lock = |client: &Client| RwLock::new(client, LOCK).expect("a valid path");
    let reader = lock(&narrow).read().await.expect("free");
    let mut others = Vec::new();
    for _ in 0..CONTENDERS {
        others.push(lock(&wide).read().await.expect("shared"));
    }
    let (reader, error) = match reader.try_upgrade().await {
        Ok(_) => panic!("not alone"),
        Err(refused) => (refused.guard, refused.error),
    };
    assert_eq!(error.reason, ModeError::NotAlone);
    let clean = |embedded: &Embedded| lock_nodes(embedded).len() == CONTENDERS + 1;
    eventually(&embedded, "no writer's node", clean).await;
    reader.release().await.expect("held");
    assert_eq!(narrow.statistics().connections, 1);
}

#[tokio::test]
async fn a_contender_that_cannot_list_the_permits_returns_its_own() {
    let embedded = start().await;
    let (wide, narrow) = (client(&embedded).await, narrow_client(&embedded).await);
    let semaphore =
        |client: &Client| Semaphore::new(client, LOCK, 2 * CONTENDERS as u32).expect("valid");
    let many = semaphore(&wide).acquire_many(CONTENDERS as u32).await.expect("free");
    is_too_long(semaphore(&narrow).acquire().await);
    let leases = |embedded: &Embedded| {
        lock_nodes(embedded).iter().filter(|path| path.contains("-lease-")).count() == CONTENDERS
    };
    eventually(&embedded, "its permit node is gone", leases).await;
    assert_eq!(narrow.statistics().connections, 1);
    many.release().await.expect("held");
}
