//! A chroot that does not exist: a spelling mistake must not make another lock.

use std::future::Future;

use tokio::time::timeout;
use zk_recipes::{
    Barrier, DoubleBarrier, Ephemeral, LeaderElection, LockError, LockRequest, MultiLock, Mutex,
    Owner, Reason, RecipeError, ReentrantMutex, RwLock, Semaphore, SimpleLock,
};
use zk_session::Client;

use super::*;

fn paths(embedded: &Embedded) -> Vec<String> {
    embedded.with(|ensemble| ensemble.paths().map(String::from).collect())
}

/// Calls each recipe that would create parents, or whose result depends on a missing node.
async fn call_each(client: &Client, path: &str) -> Vec<(&'static str, Option<LockError>)> {
    async fn call<T>(
        name: &'static str,
        call: impl Future<Output = Result<T, RecipeError<impl Reason>>>,
    ) -> (&'static str, Option<LockError>) {
        let called = timeout(HANG_TIMEOUT, call).await;
        let called = called.unwrap_or_else(|_| panic!("{name} hangs"));
        (name, called.err().map(|error| error.lock_error().expect("of every lock").clone()))
    }
    let mutex = || Mutex::new(client, path).expect("a valid path");
    let rw = || RwLock::new(client, path).expect("a valid path");
    let semaphore = |permits| Semaphore::new(client, path, permits).expect("a valid path");
    let barrier = || Barrier::new(client, path).expect("a valid path");
    let multi = MultiLock::new([LockRequest::from(&mutex())]).expect("compatible locks");
    let leader = LeaderElection::new(client, path).expect("a valid path").stand();
    let mut called = vec![
        call("acquire", mutex().acquire()).await,
        call("acquire_timeout", mutex().acquire().timeout(HANG_TIMEOUT)).await,
        call("try_acquire", mutex().try_acquire()).await,
        call("read", rw().read()).await,
        call("try_write", rw().try_write()).await,
        call(
            "reentrant",
            ReentrantMutex::new(client, path).expect("valid").acquire_as(Owner::unique()),
        )
        .await,
        call("multi", multi.acquire()).await,
        call("permit", semaphore(1).acquire()).await,
        call("permits", semaphore(1).refuse_other_locks().acquire()).await,
        call("try permit", semaphore(1).try_acquire()).await,
        call("set permits", semaphore(1).set_permits(2)).await,
        call("double", DoubleBarrier::new(client, path, 1).expect("valid").enter()).await,
        call("contenders", mutex().contenders()).await,
        call("leader", leader.elected()).await,
    ];
    // At the chroot itself, their node is the chroot.
    if path != "/" {
        called.extend([
            call("simple", SimpleLock::new(client, path).expect("valid").acquire()).await,
            call("close", barrier().close()).await,
            call("wait", barrier().wait()).await,
            call("is_closed", barrier().is_closed()).await,
            call("created", Ephemeral::new(client, path, "").expect("valid").created()).await,
        ]);
    }
    called
}

#[tokio::test]
async fn no_recipe_works_below_a_chroot_that_does_not_exist() {
    let embedded = start().await;
    let before = paths(&embedded);
    for chroot in ["/staging", "/staging/app"] {
        let at = format!("{}{chroot}", embedded.connect_string());
        let wrong = Client::builder(&at).session_timeout(SESSION_TIMEOUT).connect().await;
        let wrong = wrong.expect("connected");
        for path in ["/", "/printer", "/locks/printer/one"] {
            let expected = LockError::NoChroot { chroot: chroot.into() };
            for (recipe, error) in call_each(&wrong, path).await {
                assert_eq!(error.as_ref(), Some(&expected), "{recipe} at {path}");
            }
        }
        assert_eq!(paths(&embedded), before, "nothing was created");
    }
    let error = LockError::NoChroot { chroot: "/a".into() }.to_string();
    assert!(error.starts_with("the chroot '/a' does not exist: "), "{error}");
}

#[tokio::test]
async fn a_chroot_is_created_on_request_and_locks_work_below_it() {
    let embedded = start().await;
    let client = client(&embedded).await.with_chroot("/production/app").expect("a valid path");
    client.ensure_path("/").await.expect("created");
    for path in ["/printer", "/locks/printer"] {
        let held = Mutex::new(&client, path).expect("a valid path").acquire().await;
        held.expect("acquired").release().await.expect("released");
    }
    // The lock path may be the chroot itself.
    let held = Mutex::new(&client, "/").expect("a valid path").acquire().await;
    held.expect("acquired").release().await.expect("released");
    // The chroot stays, and the lock paths go.
    let is_container = |path| {
        embedded.with(|ensemble| ensemble.node(path).is_some_and(|node| node.is_container()))
    };
    assert!(!is_container("/production/app") && is_container("/production/app/locks/printer"));
    assert!(!Barrier::new(&client, "/b").expect("valid").is_closed().await.expect("answered"));
    nothing_is_left(&embedded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_blocking_client_checks_its_chroot_too() {
    let embedded = start().await;
    let at = format!("{}/staging", embedded.connect_string());
    let locked = tokio::task::spawn_blocking(move || {
        let client = zk_session::blocking::Client::connect(&at).expect("connected");
        let lock = Mutex::new(&client, "/printer").expect("a valid path");
        let wrong = lock.acquire().wait().expect_err("the chroot is missing");
        client.ensure_path("/").wait().expect("created");
        lock.acquire().wait().expect("acquired").release().wait().expect("released");
        wrong
    });
    let wrong = locked.await.expect("no panic");
    assert_eq!(wrong.reason, LockError::NoChroot { chroot: "/staging".into() });
}
