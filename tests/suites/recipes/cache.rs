//! Caches: what they hold and report.

use zk_recipes::{Cache, CacheChange, LockError};

use super::*;

#[tokio::test]
async fn a_cache_follows_a_tree() {
    scenarios::a_cache_follows_a_tree(&start().await).await;
}

#[tokio::test]
async fn a_cache_below_a_chroot_ends_at_its_limits() {
    scenarios::a_cache_below_a_chroot_ends_at_its_limits(&start().await).await;
}

/// A reader that is slow loses changes, and learns of it.
#[tokio::test]
async fn a_slow_reader_takes_a_snapshot() {
    const CHANGES: usize = 3000;
    let embedded = start().await;
    let client = client(&embedded).await;
    client.ensure_path("/counter").await.expect("created");
    let cache = Cache::new(&client, "/counter").expect("a valid path");
    cache.ready().await.expect("it can be read");
    let changes = cache.changes();
    assert_eq!(changes.next().await, Ok(CacheChange::Reset));
    assert_eq!(changes.next().await, Ok(CacheChange::Ready));
    for count in 1..=CHANGES {
        client.set_data("/counter", count.to_string().as_bytes(), None).await.expect("set");
    }
    let last = CHANGES.to_string();
    let is_last = |_: &Embedded| cache.get("/counter").is_some_and(|it| it.data == last);
    eventually(&embedded, "the cache has the last change", is_last).await;
    assert_eq!(changes.next().await, Ok(CacheChange::Reset));
    assert_eq!(changes.next().await, Ok(CacheChange::Ready));
    let mut unread = 0;
    while changes.next().timeout(MOMENT).await.is_ok() {
        unread += 1;
    }
    assert!(unread < 1024, "{unread}");
    let error = changes.next().timeout(MOMENT).await.expect_err("nothing changes");
    assert_eq!(error.reason, LockError::TimedOut.into());
}
