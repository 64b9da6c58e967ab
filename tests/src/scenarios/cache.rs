//! Caches of a tree.

use std::collections::BTreeMap;

use tokio::time::timeout;
use zk_recipes::session::proto::{ErrorCode, NodeKind, Zxid, path};
use zk_recipes::{Cache, CacheChange, CacheError, CacheOptions, CacheState, CachedNode, LockError};
use zk_session::{Client, RequestError};

use super::{expire, expire_blocking};
use crate::suite::{Fixture, HANG_TIMEOUT, SESSION_TIMEOUT, client, nothing_is_left};

const ROOT: &str = "/cached";

/// What identifies the content of a node: its `czxid`, its `mzxid` and its data.
pub type Version = (Zxid, Zxid, Vec<u8>);

/// Reads a tree that does not change meanwhile. The root may be missing.
///
/// # Errors
///
/// The error of the first node that could not be read.
pub async fn tree(other: &Client, root: &str) -> Result<BTreeMap<String, Version>, RequestError> {
    let mut tree = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(node) = open.pop() {
        let (data, stat) = match other.get_data(&node).await {
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => continue,
            read => read?,
        };
        let (children, _) = other.get_children(&node).await?;
        open.extend(children.iter().map(|name| path::child(&node, name)));
        tree.insert(node, (stat.czxid, stat.mzxid, data.to_vec()));
    }
    Ok(tree)
}

/// Returns what a cache contains, as [`tree`] does.
pub fn cached(cache: &Cache) -> BTreeMap<String, Version> {
    cache.snapshot().into_iter().map(|(path, node)| (path, version(&node))).collect()
}

fn version(node: &CachedNode) -> Version {
    (node.stat.czxid, node.stat.mzxid, node.data.to_vec())
}

/// A cache follows every change, also on the next session. So does what it reports.
pub async fn a_cache_follows_a_tree(fixture: &impl Fixture) {
    for options in [CacheOptions::new(), CacheOptions::new().one_shot_watches().max_requests(2)] {
        follow(fixture, options).await;
    }
    nothing_is_left(fixture).await;
}

async fn follow(fixture: &impl Fixture, options: CacheOptions) {
    let builder = Client::builder(&fixture.connect_string()).session_timeout(SESSION_TIMEOUT);
    let service = builder.renew(true).connect().await.expect("connected");
    let other = client(fixture).await;
    let cache = Cache::with(&service, ROOT, options).expect("a valid path");
    let changes = cache.changes();
    timeout(HANG_TIMEOUT, cache.ready()).await.expect("in time").expect("it can be read");
    assert!(cache.is_empty() && cache.get(ROOT).is_none());

    let mut mirror = BTreeMap::new();
    let mut resets = 0;
    for round in 0..3_u8 {
        for node in ["/cached/a-b/x", "/cached/a/x/deep", "/cached/b"] {
            other.ensure_path(node).await.expect("created");
        }
        other.set_data("/cached/a", &[round], None).await.expect("set");
        assert_follows(&cache, &changes, &mut mirror, &mut resets, &other).await;
        assert_eq!(cache.children("/cached"), ["a", "a-b", "b"]);
        assert_eq!(*cache.get("/cached/a").expect("it is cached").data, [round]);

        // The node is another one afterwards.
        other.delete("/cached/b", None).await.expect("deleted");
        other.create("/cached/b", &[round], NodeKind::Persistent).await.expect("a new node");
        other.delete_all("/cached/a-b").await.expect("deleted");
        assert_follows(&cache, &changes, &mut mirror, &mut resets, &other).await;

        let before = resets;
        expire(fixture, || service.session_ticket()).await;
        other.set_data("/cached", &[round], None).await.expect("set");
        other.delete_all("/cached/a/x").await.expect("deleted");
        assert_follows(&cache, &changes, &mut mirror, &mut resets, &other).await;
        assert!(resets > before, "the next session covers what it has missed");
    }
    other.delete_all(ROOT).await.expect("deleted");
    assert_follows(&cache, &changes, &mut mirror, &mut resets, &other).await;
    assert!(cache.is_empty());

    // Its end is reported to those who wait.
    drop(cache);
    let end = async {
        loop {
            if let Err(error) = changes.next().await {
                break error;
            }
        }
    };
    let end = timeout(HANG_TIMEOUT, end).await.expect("in time");
    assert!(matches!(end.reason, CacheError::Lock(LockError::Ended(_))), "{end}");
}

/// Asserts that the cache, and what it reports, become equal to the tree.
async fn assert_follows(
    cache: &Cache,
    changes: &zk_recipes::CacheChanges,
    mirror: &mut BTreeMap<String, Version>,
    resets: &mut usize,
    other: &Client,
) {
    let expected = tree(other, ROOT).await.expect("it can be read");
    while *mirror != expected || cache.state() != CacheState::Ready {
        let change = timeout(HANG_TIMEOUT, changes.next()).await;
        let change = change.unwrap_or_else(|_| panic!("{mirror:?} instead of {expected:?}"));
        match change.expect("it goes on") {
            CacheChange::Added { path, node } => {
                assert_eq!(mirror.insert(path, version(&node)), None);
            }
            CacheChange::Changed { path, node } => {
                assert!(mirror.insert(path, version(&node)).is_some());
            }
            CacheChange::Removed { path, node } => {
                assert_eq!(mirror.remove(&path), Some(version(&node)));
            }
            CacheChange::Reset => *resets += 1,
            _ => {}
        }
    }
    assert_eq!(cached(cache), expected);
    assert_eq!(cache.len(), expected.len());
}

/// A cache ends at its limits, and leaves no watch. The paths are those below the chroot.
pub async fn a_cache_below_a_chroot_ends_at_its_limits(fixture: &impl Fixture) {
    let other = client(fixture).await;
    for node in ["/app/config/a", "/app/config/b"] {
        other.ensure_path(node).await.expect("created");
    }
    let at = format!("{}/app", fixture.connect_string());
    let below = Client::connect(&at).await.expect("connected");
    let cache = Cache::with(&below, "/config", CacheOptions::new().max_nodes(3));
    let cache = cache.expect("a valid path");
    timeout(HANG_TIMEOUT, cache.ready()).await.expect("in time").expect("it fits");
    assert_eq!(cache.children("/config"), ["a", "b"]);
    assert_eq!(
        cache.snapshot().into_keys().collect::<Vec<_>>(),
        ["/config", "/config/a", "/config/b"]
    );
    // Another client of the ensemble changes nothing above the limits of its own cache.
    let root = Cache::with(&below, "/config", CacheOptions::new().only_root().max_nodes(1));
    let root = root.expect("a valid path");
    timeout(HANG_TIMEOUT, root.ready()).await.expect("in time").expect("it fits");

    let changes = cache.changes();
    assert_eq!(changes.next().await.expect("it lives"), CacheChange::Reset);
    assert_eq!(changes.next().await.expect("it lives"), CacheChange::Ready);
    other.ensure_path("/app/config/c").await.expect("created");
    let end = async {
        loop {
            match changes.next().await {
                Ok(CacheChange::Added { path, .. }) => assert_eq!(path, "/config/c"),
                Ok(change) => panic!("{change:?}"),
                Err(error) => break error,
            }
        }
    };
    let end = timeout(HANG_TIMEOUT, end).await.expect("in time");
    assert_eq!(end.reason, CacheError::Full);
    assert_eq!(cache.state(), CacheState::Ended(CacheError::Full));
    assert_eq!(cache.ready().await.map_err(|error| error.reason), Err(CacheError::Full));
    assert!(cache.is_empty());
    assert_eq!(root.state(), CacheState::Ready);
    drop(root);
    other.delete_all("/app").await.expect("deleted");
    nothing_is_left(fixture).await;
}

/// The blocking cache follows every change, also on the next session, and ends with its last clone.
pub fn a_blocking_cache_follows_a_tree_across_sessions(fixture: &impl Fixture) {
    use zk_recipes::Cache;
    use zk_session::blocking::Client;

    let builder = Client::builder(&fixture.connect_string()).session_timeout(SESSION_TIMEOUT);
    let client = builder.clone().renew(true).connect().expect("connected");
    let other = builder.connect().expect("connected");
    other.ensure_path("/config/printer").wait().expect("created");
    let cache = Cache::new(&client, "/config").expect("a valid path");
    cache.ready().timeout(HANG_TIMEOUT).wait().expect("it can be read");
    assert_eq!(cache.children("/config"), ["printer"]);
    let changes = cache.changes();
    assert_eq!(changes.next().wait(), Ok(CacheChange::Reset));
    assert_eq!(changes.next().wait(), Ok(CacheChange::Ready));
    let error = changes.next().timeout(super::MOMENT).wait().expect_err("nothing changes");
    assert_eq!(error.reason, LockError::TimedOut.into());
    // A thread that waits, while another one changes the tree by the same client.
    let reader = std::thread::spawn(move || {
        let change = changes.next().timeout(HANG_TIMEOUT).wait().expect("in time");
        (change, changes)
    });
    client.set_data("/config/printer", b"on", None).wait().expect("set");
    let (change, changes) = reader.join().expect("no panic");
    assert!(matches!(change, CacheChange::Changed { node, .. } if *node.data == *b"on"));

    expire_blocking(fixture, || client.session_ticket());
    assert_eq!(changes.next().timeout(HANG_TIMEOUT).wait(), Ok(CacheChange::Reset));
    other.delete("/config/printer", None).wait().expect("deleted");
    while cache.state() != CacheState::Ready || !cache.children("/config").is_empty() {
        changes.next().timeout(HANG_TIMEOUT).wait().expect("in time");
    }
    cache.ready().wait().expect("it is");
    assert_eq!(cache.snapshot().keys().collect::<Vec<_>>(), ["/config"]);
    // The last clone ends it.
    let clone = cache.clone();
    drop(cache);
    assert_eq!(clone.state(), CacheState::Ready);
    drop(clone);
    let end = std::iter::repeat_with(|| changes.next().wait()).find_map(Result::err);
    assert!(matches!(end.map(|error| error.reason), Some(CacheError::Lock(LockError::Ended(_)))));
    client.close();
    other.close();
}
