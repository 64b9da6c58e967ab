//! Clients whose limits are as small as possible: recipes work, or fail with the reason.

use std::future::Future;

use tokio::time::timeout;
use zk_recipes::{
    Barrier, DoubleBarrier, Ephemeral, LeaderElection, LockRequest, ModeError, MultiLock, Mutex,
    Owner, Reason, RecipeError, ReentrantMutex, RwLock, Semaphore, SemaphoreError, SimpleLock,
};
use zk_session::{Client, ClientBuilder};

use super::*;

const PATH: &str = "/locks/of/many/levels/so/that/they/take/more/requests/at/once";

/// Limits that were never met, or only by some recipes, and a name for each.
type Limit = (&'static str, fn(ClientBuilder<Client>) -> ClientBuilder<Client>);
const LIMITS: [Limit; 7] = [
    ("no pending request", |builder| builder.max_pending(0)),
    ("one pending request", |builder| builder.max_pending(1)),
    ("two pending requests", |builder| builder.max_pending(2)),
    ("no unsent byte", |builder| builder.max_unsent(0)),
    ("one unsent byte", |builder| builder.max_unsent(1)),
    ("replies of a byte", |builder| builder.max_reply(1)),
    ("one of each", |builder| builder.max_pending(1).max_unsent(1).max_reply(1)),
];

async fn limited(embedded: &Embedded, (_, limit): Limit) -> Client {
    let builder = Client::builder(&embedded.connect_string()).session_timeout(SESSION_TIMEOUT);
    limit(builder).connect().await.expect("connected")
}

/// Runs each recipe by itself, below a path of its own.
async fn run_each(client: &Client, other: &Client, of: &str) {
    async fn run<R: Reason>(name: &str, recipe: impl Future<Output = Result<(), RecipeError<R>>>) {
        let done = timeout(HANG_TIMEOUT, recipe).await;
        done.unwrap_or_else(|_| panic!("{name} hangs")).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let path = |recipe: &str| format!("{PATH}/{of}/{recipe}").replace(' ', "-");
    run("mutex", async {
        let lock = Mutex::new(client, &path("mutex"))?;
        lock.acquire().await?.release().await?;
        let held = Mutex::new(other, &path("mutex"))?.acquire().await?;
        let waiting = begun(lock.acquire());
        held.release().await?;
        waiting.await?.release().await?;
        lock.try_acquire().await?.release().await
    })
    .await;
    run::<ModeError>("read/write lock", async {
        let lock = RwLock::new(client, &path("rw"))?;
        let reader = lock.read().await?;
        reader.try_upgrade().await.map_err(|not| not.error)?.release().await?;
        let writer = lock.write().await?;
        Ok(writer.downgrade().await.map_err(|not| not.error)?.release().await?)
    })
    .await;
    run("reentrant mutex", async {
        ReentrantMutex::new(client, &path("reentrant"))?
            .acquire_as(Owner::unique())
            .await?
            .release()
            .await
    })
    .await;
    run::<SemaphoreError>("semaphore", async {
        let semaphore = Semaphore::new(client, &path("semaphore"), 3)?;
        semaphore.acquire_many(3).await?.release().await?;
        semaphore.acquire().await?.release().await?;
        Ok(semaphore.try_acquire().await?.release().await?)
    })
    .await;
    run::<SemaphoreError>("multi-lock", async {
        let (one, two) =
            (Mutex::new(client, &path("multi1"))?, RwLock::new(client, &path("multi2"))?);
        let both = MultiLock::new([LockRequest::from(&one), LockRequest::write(&two)]);
        Ok(both.expect("compatible locks").acquire().await?.release().await?)
    })
    .await;
    run("simple lock", async {
        SimpleLock::new(client, &path("simple"))?.acquire().await?.release().await
    })
    .await;
    run("election", async {
        let candidate = LeaderElection::new(client, &path("leader"))?.stand();
        candidate.elected().await?;
        candidate.close().await
    })
    .await;
    run("double barrier", async {
        let barrier = |client| DoubleBarrier::new(client, &path("double"), 2);
        let (one, two) = (barrier(client)?, barrier(other)?);
        let (one, two) = tokio::try_join!(one.enter(), two.enter())?;
        tokio::try_join!(one.leave(), two.leave()).map(drop)
    })
    .await;
    run("barrier", async {
        let barrier = Barrier::new(client, &path("barrier"))?;
        barrier.close().await?;
        let passing = barrier.wait();
        Barrier::new(other, &path("barrier"))?.open().await?;
        passing.await
    })
    .await;
    run("ephemeral", async {
        let node = Ephemeral::new(client, &path("ephemeral"), "")?;
        node.created().await?;
        node.close().await
    })
    .await;
}

#[tokio::test]
async fn every_recipe_works_with_any_limit_of_requests() {
    let embedded = start().await;
    for limit in LIMITS {
        let (limited, other) = (limited(&embedded, limit).await, client(&embedded).await);
        run_each(&limited, &other, limit.0).await;
        nothing_is_left(&embedded).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_does_a_lock_of_the_blocking_client() {
    let embedded = start().await;
    let at = embedded.connect_string();
    let blocking = move || {
        let builder = zk_session::blocking::Client::builder(&at).session_timeout(SESSION_TIMEOUT);
        let client = builder.max_pending(0).max_unsent(0).connect().expect("connected");
        let lock = Mutex::new(&client, PATH).expect("a valid path");
        let guard = lock.acquire().timeout(HANG_TIMEOUT).wait().expect("acquired");
        guard.release().timeout(HANG_TIMEOUT).wait().expect("released");
        let semaphore = Semaphore::new(&client, "/permits", 3).expect("a valid path");
        let guard = semaphore.acquire_many(3).timeout(HANG_TIMEOUT).wait().expect("acquired");
        guard.release().timeout(HANG_TIMEOUT).wait().expect("released");
    };
    // The calls above have time limits: the runtime waits for this thread, also after a panic.
    tokio::task::spawn_blocking(blocking).await.expect("no panic");
}

/// The replies about its nodes are longer than the limit, so the lock finds them by their stat.
#[tokio::test]
async fn a_lock_works_below_a_path_that_is_longer_than_a_reply() {
    let embedded = start().await;
    let limited = limited(&embedded, ("", |builder| builder.max_reply(1))).await;
    let path = format!("/{}", "long".repeat(200));
    let work = async {
        let lock = Mutex::new(&limited, &path).expect("a valid path");
        lock.acquire().await.expect("acquired").release().await.expect("released");
        lock.try_acquire().await.expect("acquired").release().await.expect("released");
        let node = Ephemeral::new(&limited, &format!("{path}/node"), "").expect("a valid path");
        node.created().await.expect("created");
        node.close().await.expect("closed");
    };
    timeout(HANG_TIMEOUT, work).await.expect("it hangs");
    nothing_is_left(&embedded).await;
}
