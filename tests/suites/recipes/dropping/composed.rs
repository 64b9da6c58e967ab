//! Recipes made of locks, barriers, and textbook locks.

use zk_recipes::{
    Barrier, Cache, CacheChange, CacheChanges, CacheOptions, DoubleBarrier, Ephemeral, HerdMutex,
    LeaderElection, LockRequest, MultiLock, Mutex, Options, Owner, ReentrantMutex, RwLock,
    SimpleLock,
};
use zk_session::Client;

use super::{Others, PATH, attempt, dropped_anywhere, later, mutex, rw_lock, success};
use crate::MOMENT;

#[tokio::test]
async fn reentrant_futures() {
    fn reentrant(client: &Client) -> ReentrantMutex {
        ReentrantMutex::new(client, PATH).expect("a valid path")
    }
    dropped_anywhere("ReentrantMutex::acquire_as", async |ours, _| {
        (success(reentrant(ours).acquire_as(Owner::unique())), Others::idle())
    })
    .await;
    dropped_anywhere("ReentrantMutex::try_acquire_as", async |ours, _| {
        (success(reentrant(ours).try_acquire_as(Owner::unique())), Others::idle())
    })
    .await;
    dropped_anywhere("ReentrantMutex::acquire_as, held elsewhere", async |ours, other| {
        let guard = mutex(other).acquire().await.expect("acquired");
        (success(reentrant(ours).acquire_as(Owner::unique())), Others::hold(guard))
    })
    .await;
    dropped_anywhere("ReentrantMutex::acquire_as_until, held elsewhere", async |ours, other| {
        let guard = mutex(other).acquire().await.expect("acquired");
        let attempt = reentrant(ours).acquire_as(Owner::unique()).until(later());
        (success(attempt), Others::hold(guard))
    })
    .await;
    dropped_anywhere("ReentrantMutex::acquire_as, held in this process", async |ours, _| {
        let mutex = reentrant(ours);
        let guard = mutex.acquire_as(Owner::unique()).await.expect("acquired");
        (success(mutex.acquire_as(Owner::unique())), Others::hold(guard))
    })
    .await;
    dropped_anywhere("ReentrantMutex::acquire_as, again", async |ours, _| {
        let (mutex, owner) = (reentrant(ours), Owner::unique());
        let guard = mutex.acquire_as(owner).await.expect("acquired");
        (success(mutex.acquire_as(owner)), Others::hold(guard))
    })
    .await;
    dropped_anywhere("ReentrantMutex::revoke", async |ours, other| {
        let guard = mutex(other).acquire().await.expect("acquired");
        let (reentrant, node) = (reentrant(ours), guard.node().to_owned());
        (success(async move { reentrant.revoke(&node).await }), Others::hold(guard))
    })
    .await;
    dropped_anywhere("ReentrantGuard::release, first of two", async |ours, _| {
        let (mutex, owner) = (reentrant(ours), Owner::unique());
        let outer = mutex.acquire_as(owner).await.expect("acquired");
        let inner = mutex.acquire_as(owner).await.expect("acquired");
        (success(inner.release()), Others::hold(outer))
    })
    .await;
    dropped_anywhere("ReentrantGuard::release, last", async |ours, _| {
        let guard = reentrant(ours).acquire_as(Owner::unique()).await.expect("acquired");
        (success(guard.release()), Others::idle())
    })
    .await;
}

#[tokio::test]
async fn multi_lock_futures() {
    fn multi(client: &Client) -> MultiLock {
        // Revocable locks notice their loss at once.
        let revocable = Options::new().revocable();
        let second = RwLock::with(client, PATH, revocable.clone()).expect("a valid path");
        let first = Mutex::with(client, "/locks/a", revocable).expect("a valid path");
        MultiLock::new([LockRequest::from(&first), LockRequest::write(&second)])
            .expect("compatible locks")
    }
    dropped_anywhere("MultiLock::acquire", async |ours, _| {
        (success(multi(ours).acquire()), Others::idle())
    })
    .await;
    dropped_anywhere("MultiLock::acquire, the second is held", async |ours, other| {
        let guard = rw_lock(other).read().await.expect("acquired");
        (success(multi(ours).acquire()), Others::hold(guard))
    })
    .await;
    dropped_anywhere("MultiLock::acquire_until, the second is held", async |ours, other| {
        let guard = rw_lock(other).read().await.expect("acquired");
        (success(multi(ours).acquire().until(later())), Others::hold(guard))
    })
    .await;
    dropped_anywhere("MultiGuard::release", async |ours, _| {
        let guard = multi(ours).acquire().await.expect("acquired");
        (success(guard.release()), Others::idle())
    })
    .await;
    dropped_anywhere("MultiGuard::validate", async |ours, _| {
        let guard = multi(ours).acquire().await.expect("acquired");
        (success(async move { guard.validate().await }), Others::idle())
    })
    .await;
    dropped_anywhere("MultiGuard::lost", async |ours, other| {
        let guard = multi(ours).acquire().await.expect("acquired");
        let (other, node) = (other.clone(), guard.locks()[1].node_path());
        let delete = async move { drop(other.delete(&node, None).await) };
        (attempt(async move { guard.lost().await }), Others::run(0, delete))
    })
    .await;
}

#[tokio::test]
async fn leader_election_futures() {
    fn election(client: &Client) -> LeaderElection {
        LeaderElection::new(client, PATH).expect("a valid path")
    }
    dropped_anywhere("Candidate::elected", async |ours, _| {
        let candidate = election(ours).stand();
        (success(async move { candidate.elected().await }), Others::idle())
    })
    .await;
    dropped_anywhere("Candidate::elected, behind a leader", async |ours, other| {
        let leader = election(other).stand();
        leader.elected().await.expect("elected");
        let candidate = election(ours).stand();
        (success(async move { candidate.elected().await }), Others::hold(leader))
    })
    .await;
    dropped_anywhere("Candidate::elected_until, behind a leader", async |ours, other| {
        let leader = election(other).stand();
        leader.elected().await.expect("elected");
        let candidate = election(ours).stand();
        (success(async move { candidate.elected().until(later()).await }), Others::hold(leader))
    })
    .await;
    dropped_anywhere("Candidate::close, of a leader", async |ours, _| {
        let leader = election(ours).stand();
        leader.elected().await.expect("elected");
        (success(leader.close()), Others::idle())
    })
    .await;
    dropped_anywhere("Candidate::close, of a follower", async |ours, other| {
        let leader = election(other).stand();
        leader.elected().await.expect("elected");
        (success(election(ours).stand().close()), Others::hold(leader))
    })
    .await;
    dropped_anywhere("LeaderElection::leader", async |ours, other| {
        let leader = election(other).stand();
        leader.elected().await.expect("elected");
        let election = election(ours);
        (success(async move { election.leader().await }), Others::hold(leader))
    })
    .await;
}

#[tokio::test]
async fn barrier_futures() {
    fn barrier(client: &Client) -> Barrier {
        Barrier::new(client, PATH).expect("a valid path")
    }
    dropped_anywhere("Barrier::wait, closed", async |ours, other| {
        let (barrier, theirs) = (barrier(ours), barrier(other));
        theirs.close().await.expect("closed");
        let open = async move { drop(theirs.open().await) };
        (success(async move { barrier.wait().await }), Others::run(0, open))
    })
    .await;
    dropped_anywhere("Barrier::wait_until, closed", async |ours, other| {
        let (barrier, theirs) = (barrier(ours), barrier(other));
        theirs.close().await.expect("closed");
        let open = async move { drop(theirs.open().await) };
        (success(barrier.wait().until(later())), Others::run(0, open))
    })
    .await;
    dropped_anywhere("Barrier::close, is_closed, open", async |ours, _| {
        let barrier = barrier(ours);
        let asking = async move {
            barrier.close().await?;
            assert_eq!(barrier.is_closed().await, Ok(true));
            barrier.open().await
        };
        (success(asking), Others::idle())
    })
    .await;

    fn double(client: &Client) -> DoubleBarrier {
        DoubleBarrier::new(client, "/barriers/dropped", 2).expect("a valid path")
    }
    dropped_anywhere("DoubleBarrier::enter", async |ours, other| {
        let theirs = double(other);
        // Our participant may have been dropped by then.
        let enter = async move { drop(theirs.enter().timeout(MOMENT).await) };
        (success(double(ours).enter()), Others::run(0, enter))
    })
    .await;
    dropped_anywhere("DoubleBarrier::enter_until", async |ours, other| {
        let theirs = double(other);
        let enter = async move { drop(theirs.enter().timeout(MOMENT).await) };
        (success(double(ours).enter().until(later())), Others::run(0, enter))
    })
    .await;
    dropped_anywhere("BarrierGuard::leave", async |ours, other| {
        let (inside, theirs) = tokio::join!(double(ours).enter(), double(other).enter());
        let theirs = theirs.expect("entered");
        let leave = async move { drop(theirs.leave().await) };
        (success(inside.expect("entered").leave()), Others::run(1, leave))
    })
    .await;
}

/// A future that is dropped takes its node along.
#[tokio::test]
async fn ephemeral_futures() {
    fn ephemeral(client: &Client) -> Ephemeral {
        Ephemeral::new(client, "/here/one", "").expect("a valid path")
    }
    dropped_anywhere("Ephemeral::created", async |ours, _| {
        let here = ephemeral(ours);
        (success(async move { here.created().await }), Others::idle())
    })
    .await;
    dropped_anywhere("Ephemeral::created, owned elsewhere", async |ours, other| {
        let theirs = ephemeral(other);
        theirs.created().await.expect("created");
        let here = ephemeral(ours);
        (success(async move { here.created().await }), Others::hold(theirs))
    })
    .await;
    dropped_anywhere("Ephemeral::close", async |ours, _| {
        let here = ephemeral(ours);
        here.created().await.expect("created");
        (success(here.close()), Others::idle())
    })
    .await;
}

#[tokio::test]
async fn cache_futures() {
    for options in [CacheOptions::new(), CacheOptions::new().one_shot_watches().max_requests(1)] {
        let cache = |client: &Client| {
            Cache::with(client, "/cached", options.clone()).expect("a valid path")
        };
        async fn plant(other: &Client) {
            other.delete_all("/cached").await.expect("deleted");
            for node in ["/cached/a/b", "/cached/c"] {
                other.ensure_path(node).await.expect("created");
            }
        }
        /// Waits until a node below the root is reported.
        async fn added(cache: Cache, changes: CacheChanges, node: &str) {
            loop {
                match changes.next().await.expect("it goes on") {
                    CacheChange::Added { path, .. } if path == node => break drop(cache),
                    _ => {}
                }
            }
        }
        dropped_anywhere("Cache::ready", async |ours, other| {
            plant(other).await;
            let cache = cache(ours);
            (success(async move { cache.ready().await }), Others::idle())
        })
        .await;
        dropped_anywhere("Cache::ready_until", async |ours, other| {
            plant(other).await;
            let cache = cache(ours);
            (success(async move { cache.ready().until(later()).await }), Others::idle())
        })
        .await;
        dropped_anywhere("CacheChanges::next", async |ours, other| {
            plant(other).await;
            let cache = cache(ours);
            let changes = cache.changes();
            (attempt(added(cache, changes, "/cached/c")), Others::idle())
        })
        .await;
        dropped_anywhere("CacheChanges::next, of a node that comes later", async |ours, other| {
            plant(other).await;
            let cache = cache(ours);
            let changes = cache.changes();
            let other = other.clone();
            let create = async move { drop(other.ensure_path("/cached/a/later").await) };
            (attempt(added(cache, changes, "/cached/a/later")), Others::run(0, create))
        })
        .await;
    }
}

#[tokio::test]
async fn study_futures() {
    fn simple(client: &Client) -> SimpleLock {
        SimpleLock::new(client, "/locks/simple").expect("a valid path")
    }
    fn herd(client: &Client) -> HerdMutex {
        HerdMutex::new(client, PATH).expect("a valid path")
    }
    dropped_anywhere("SimpleLock::acquire", async |ours, _| {
        (success(simple(ours).acquire()), Others::idle())
    })
    .await;
    dropped_anywhere("SimpleLock::acquire, held", async |ours, other| {
        let guard = simple(other).acquire().await.expect("acquired");
        (success(simple(ours).acquire()), Others::hold(guard))
    })
    .await;
    dropped_anywhere("SimpleLock::acquire_until, held", async |ours, other| {
        let guard = simple(other).acquire().await.expect("acquired");
        (success(simple(ours).acquire().until(later())), Others::hold(guard))
    })
    .await;
    dropped_anywhere("SimpleGuard::release", async |ours, _| {
        let guard = simple(ours).acquire().await.expect("acquired");
        (success(guard.release()), Others::idle())
    })
    .await;
    dropped_anywhere("HerdMutex::acquire", async |ours, _| {
        (success(herd(ours).acquire()), Others::idle())
    })
    .await;
    dropped_anywhere("HerdMutex::acquire, held", async |ours, other| {
        let guard = herd(other).acquire().await.expect("acquired");
        (success(herd(ours).acquire()), Others::hold(guard))
    })
    .await;
    dropped_anywhere("HerdGuard::release", async |ours, _| {
        let guard = herd(ours).acquire().await.expect("acquired");
        (success(guard.release()), Others::idle())
    })
    .await;
}
