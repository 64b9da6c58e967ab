//! Who is willing to wait for ever.

use core::time::Duration;

use zk_recipes::{
    Barrier, DoubleBarrier, MultiLock, Mutex, Owner, Part, ReentrantMutex, RwLock, SimpleLock,
};

use super::{client, nothing_is_left, start};

const FOR_EVER: Duration = Duration::MAX;

#[tokio::test]
async fn no_patience_is_too_long() {
    let embedded = start().await;
    let client = client(&embedded).await;

    let mutex = Mutex::new(&client, "/mutex").expect("a valid path");
    drop(mutex.acquire_timeout(FOR_EVER).await.expect("acquired"));

    let rw_lock = RwLock::new(&client, "/rw").expect("a valid path");
    drop(rw_lock.read_timeout(FOR_EVER).await.expect("acquired"));
    drop(rw_lock.write_timeout(FOR_EVER).await.expect("acquired"));

    let multi = MultiLock::new([Part::from(&mutex), Part::read(&rw_lock)]).expect("they fit");
    drop(multi.acquire_timeout(FOR_EVER).await.expect("acquired"));

    let reentrant = ReentrantMutex::new(&client, "/reentrant").expect("a valid path");
    drop(reentrant.acquire_timeout(FOR_EVER).await.expect("acquired"));
    let owner = Owner::unique();
    drop(reentrant.acquire_as_timeout(owner, FOR_EVER).await.expect("acquired"));

    let simple = SimpleLock::new(&client, "/simple").expect("a valid path");
    drop(simple.acquire_timeout(FOR_EVER).await.expect("acquired"));

    let barrier = Barrier::new(&client, "/barrier").expect("a valid path");
    barrier.wait_timeout(FOR_EVER).await.expect("it is open");

    let double = DoubleBarrier::new(&client, "/double", 1).expect("a valid path");
    let member = double.enter_timeout(FOR_EVER).await.expect("all have come");
    member.leave().await.expect("all have left");
    nothing_is_left(&embedded).await;
}
