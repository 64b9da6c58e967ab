//! Mutexes, read/write locks, semaphores.

use zk_recipes::{HandOver, Mutex, Options, RecipeError, RwLock, Semaphore, SemaphoreError};
use zk_session::Client;

use super::{Others, PATH, attempt, dropped_anywhere, later, mutex, rw_lock, success};
use crate::SESSION_TIMEOUT;

#[tokio::test]
async fn mutex_futures() {
    dropped_anywhere("Mutex::acquire", async |ours, _| {
        (success(mutex(ours).acquire()), Others::idle())
    })
    .await;
    dropped_anywhere("Mutex::acquire, held", async |ours, other| {
        let guard = mutex(other).acquire().await.expect("acquired");
        (success(mutex(ours).acquire()), Others::hold(guard))
    })
    .await;
    dropped_anywhere("Mutex::acquire, held, with work", async |ours, other| {
        let guard = mutex(other).acquire().await.expect("acquired");
        let working = mutex(ours).acquire().run(async |held| held.validate().await.expect("held"));
        (success(working), Others::hold(guard))
    })
    .await;
    dropped_anywhere("Mutex::acquire, held, by places", async |ours, other| {
        let guard = mutex(other).acquire().await.expect("acquired");
        let mut attempt = mutex(ours).acquire();
        let acquired = async move {
            while attempt.next_place().await.is_some() {}
            attempt.await
        };
        (success(acquired), Others::hold(guard))
    })
    .await;
    dropped_anywhere("Mutex::acquire_timeout, held", async |ours, other| {
        let guard = mutex(other).acquire().await.expect("acquired");
        (success(mutex(ours).acquire().timeout(SESSION_TIMEOUT)), Others::hold(guard))
    })
    .await;
    dropped_anywhere("Mutex::acquire_until, held", async |ours, other| {
        let guard = mutex(other).acquire().await.expect("acquired");
        (success(mutex(ours).acquire().until(later())), Others::hold(guard))
    })
    .await;
    dropped_anywhere("Mutex::try_acquire", async |ours, _| {
        (success(mutex(ours).try_acquire()), Others::idle())
    })
    .await;
    dropped_anywhere("Mutex::contenders", async |ours, other| {
        let guard = mutex(other).acquire().await.expect("acquired");
        let mutex = mutex(ours);
        (success(async move { mutex.contenders().await }), Others::hold(guard))
    })
    .await;
    dropped_anywhere("Mutex::revoke", async |ours, other| {
        let guard = mutex(other).acquire().await.expect("acquired");
        let (mutex, node) = (mutex(ours), guard.node().to_owned());
        (success(async move { mutex.revoke(&node).await }), Others::hold(guard))
    })
    .await;
}

#[tokio::test]
async fn futures_that_share_a_node() {
    let options = || Options::new().local_hand_over(HandOver::default());
    let mutex_of = |client: &Client| Mutex::with(client, PATH, options()).expect("valid");
    dropped_anywhere("Mutex::acquire, shared", async |ours, _| {
        (success(mutex_of(ours).acquire()), Others::idle())
    })
    .await;
    dropped_anywhere("Mutex::acquire, held by a clone", async |ours, _| {
        let mutex = mutex_of(ours);
        let guard = mutex.clone().acquire().await.expect("acquired");
        (success(mutex.acquire().timeout(SESSION_TIMEOUT)), Others::hold(guard))
    })
    .await;
    dropped_anywhere("Mutex::acquire, three at once", async |ours, other| {
        let guard = mutex(other).acquire().await.expect("acquired");
        let mutex = mutex_of(ours);
        let turn = async |mutex: Mutex| mutex.acquire().await?.release().await;
        let all =
            async move { tokio::try_join!(turn(mutex.clone()), turn(mutex.clone()), turn(mutex)) };
        (success(all), Others::hold(guard))
    })
    .await;
    dropped_anywhere("RwLock, readers and a writer", async |ours, other| {
        let guard = rw_lock(other).write().await.expect("acquired");
        let lock = RwLock::with(ours, PATH, options()).expect("valid");
        let read = async |lock: RwLock| lock.read().await?.release().await;
        let write = async |lock: RwLock| lock.write().await?.release().await;
        let all = async move {
            let (first, second) = (read(lock.clone()), read(lock.clone()));
            tokio::try_join!(first, second, write(lock.clone()), read(lock))
        };
        (success(all), Others::hold(guard))
    })
    .await;
    dropped_anywhere("Mutex::acquire, of a lock that is kept", async |ours, other| {
        let kept = Mutex::with(ours, PATH, options().keep_idle(SESSION_TIMEOUT)).expect("valid");
        let cycle = async |mutex: Mutex| mutex.acquire().await?.release().await;
        let foreign = mutex(other);
        let all = async move {
            cycle(kept.clone()).await?;
            cycle(foreign).await?;
            cycle(kept.clone()).await?;
            cycle(kept).await
        };
        (success(all), Others::idle())
    })
    .await;
    dropped_anywhere("ReadGuard::try_upgrade, shared", async |ours, _| {
        let lock = RwLock::with(ours, PATH, options()).expect("valid");
        let reader = lock.read().await.expect("acquired");
        (success(reader.try_upgrade()), Others::idle())
    })
    .await;
}

#[tokio::test]
async fn guard_futures() {
    dropped_anywhere("MutexGuard::release", async |ours, _| {
        let guard = mutex(ours).acquire().await.expect("acquired");
        (success(guard.release()), Others::idle())
    })
    .await;
    dropped_anywhere("Held::validate", async |ours, _| {
        let guard = mutex(ours).acquire().await.expect("acquired");
        (success(async move { guard.validate().await }), Others::idle())
    })
    .await;
    dropped_anywhere("Held::lost", async |ours, other| {
        let guard = mutex(ours).acquire().await.expect("acquired");
        let (other, node) = (other.clone(), guard.node_path());
        let delete = async move { drop(other.delete(&node, None).await) };
        (attempt(async move { guard.lost().await }), Others::run(0, delete))
    })
    .await;
    dropped_anywhere("Held::revoked", async |ours, other| {
        let guard = mutex(ours).acquire().await.expect("acquired");
        let (mutex, node) = (mutex(other), guard.node().to_owned());
        let revoke = async move { drop(mutex.revoke(&node).await) };
        (attempt(async move { guard.revoked().await }), Others::run(0, revoke))
    })
    .await;
}

#[tokio::test]
async fn rw_lock_futures() {
    dropped_anywhere("RwLock::read", async |ours, _| {
        (success(rw_lock(ours).read()), Others::idle())
    })
    .await;
    dropped_anywhere("RwLock::read, written", async |ours, other| {
        let guard = rw_lock(other).write().await.expect("acquired");
        (success(rw_lock(ours).read()), Others::hold(guard))
    })
    .await;
    dropped_anywhere("RwLock::write, read", async |ours, other| {
        let guard = rw_lock(other).read().await.expect("acquired");
        (success(rw_lock(ours).write()), Others::hold(guard))
    })
    .await;
    dropped_anywhere("RwLock::read_until, written", async |ours, other| {
        let guard = rw_lock(other).write().await.expect("acquired");
        (success(rw_lock(ours).read().until(later())), Others::hold(guard))
    })
    .await;
    dropped_anywhere("RwLock::write_until, read", async |ours, other| {
        let guard = rw_lock(other).read().await.expect("acquired");
        (success(rw_lock(ours).write().until(later())), Others::hold(guard))
    })
    .await;
    dropped_anywhere("RwLock::try_read", async |ours, _| {
        (success(rw_lock(ours).try_read()), Others::idle())
    })
    .await;
    dropped_anywhere("RwLock::try_write", async |ours, _| {
        (success(rw_lock(ours).try_write()), Others::idle())
    })
    .await;
    dropped_anywhere("ReadGuard::release", async |ours, _| {
        let guard = rw_lock(ours).read().await.expect("acquired");
        (success(guard.release()), Others::idle())
    })
    .await;
    dropped_anywhere("ReadGuard::try_upgrade", async |ours, _| {
        let guard = rw_lock(ours).read().await.expect("acquired");
        (success(guard.try_upgrade()), Others::idle())
    })
    .await;
    dropped_anywhere("ReadGuard::try_upgrade, not alone", async |ours, other| {
        let theirs = rw_lock(other).read().await.expect("acquired");
        let guard = rw_lock(ours).read().await.expect("acquired");
        let upgrading = async { guard.try_upgrade().await.expect_err("it is not alone") };
        (attempt(upgrading), Others::hold(theirs))
    })
    .await;
    dropped_anywhere("WriteGuard::downgrade", async |ours, _| {
        let guard = rw_lock(ours).write().await.expect("acquired");
        (success(guard.downgrade()), Others::idle())
    })
    .await;
}

#[tokio::test]
async fn semaphore_futures() {
    fn semaphore(client: &Client) -> Semaphore {
        Semaphore::new(client, PATH, 2).expect("a valid path")
    }
    dropped_anywhere("Semaphore::acquire_many", async |ours, _| {
        (success(semaphore(ours).acquire_many(2)), Others::idle())
    })
    .await;
    dropped_anywhere("Semaphore::acquire_many, too few left", async |ours, other| {
        let guard = semaphore(other).acquire().await.expect("acquired");
        (success(semaphore(ours).acquire_many(2)), Others::hold(guard))
    })
    .await;
    dropped_anywhere("Semaphore::acquire_many_until, too few left", async |ours, other| {
        let guard = semaphore(other).acquire().await.expect("acquired");
        (success(semaphore(ours).acquire_many(2).until(later())), Others::hold(guard))
    })
    .await;
    dropped_anywhere("Semaphore::try_acquire_many", async |ours, _| {
        (success(semaphore(ours).try_acquire_many(2)), Others::idle())
    })
    .await;
    dropped_anywhere("Semaphore::permits, set_permits, leases, waiting", async |ours, other| {
        let (semaphore, guard) = (semaphore(ours), semaphore(other).acquire().await);
        let asking = async move {
            semaphore.set_permits(2).await?;
            semaphore.permits().await?;
            semaphore.leases().await?;
            Ok::<_, RecipeError<SemaphoreError>>(semaphore.waiting().await?)
        };
        (success(asking), Others::hold(guard.expect("acquired")))
    })
    .await;
    dropped_anywhere("PermitGuard::release", async |ours, _| {
        let guard = semaphore(ours).acquire_many(2).await.expect("acquired");
        (success(guard.release()), Others::idle())
    })
    .await;
}
