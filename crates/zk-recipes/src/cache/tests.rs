//! A cache, input by input.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};
use zk_session::Outcome;
use zk_session::proto::{
    Encode, EventType, ExistsResponse, GetChildren2Response, GetDataResponse, OpCode, SessionId,
    Stat, Zxid,
};
use zk_session::session::WatchedEvent;

use super::tree::TreeEntry;
use super::*;

mod one_shot;

const ROOT: &str = "/c";
const NO_NODE: Error = Error::Server(ErrorCode::NO_NODE);
const NO_AUTH: Error = Error::Server(ErrorCode::NO_AUTH);
const CONNECTED: State = State::Connected { server: 0, session: SessionId(1) };
const CREATED: EventType = EventType::NODE_CREATED;
const CHANGED: EventType = EventType::NODE_DATA_CHANGED;
const CHILDREN: EventType = EventType::NODE_CHILDREN_CHANGED;
const DELETED: EventType = EventType::NODE_DELETED;

/// A machine, its requests without a reply, its watches, and what it reports.
struct World {
    machine: CacheMachine,
    asked: Vec<(u64, String)>,
    watches: Vec<(u64, String)>,
    /// How often it has dropped a watch that is not set.
    dropped_in_vain: usize,
    lines: Vec<String>,
}

/// Shows a request as a word and a path.
fn show(request: &CacheRequest) -> (String, bool) {
    match request {
        CacheRequest::Watch(path) => (format!("watch below {path}"), true),
        CacheRequest::Data(path, watch) => (format!("data {path}"), *watch),
        CacheRequest::Children(path, watch) => (format!("children {path}"), *watch),
        CacheRequest::Existence(path) => (format!("exists {path}"), true),
    }
}

impl World {
    fn with(change: impl FnOnce(&mut CacheConfig)) -> Self {
        let mut config = CacheConfig::new(ROOT.into());
        change(&mut config);
        let machine = CacheMachine::new(config);
        let (asked, watches, lines) = (Vec::new(), Vec::new(), Vec::new());
        let mut world = Self { machine, asked, watches, dropped_in_vain: 0, lines };
        world.feed(Input::State(CONNECTED));
        world
    }

    fn new() -> Self {
        Self::with(|_| {})
    }

    fn one_shot() -> Self {
        Self::with(|config| config.is_persistent = false)
    }

    fn feed(&mut self, input: Input) {
        self.machine.handle(input);
        while let Some(output) = self.machine.poll_output() {
            match output {
                CacheOutput::Submit(tag, request) => {
                    let (shown, watches) = show(&request);
                    if watches {
                        self.watches.push((tag, shown.clone()));
                    }
                    self.asked.push((tag, shown));
                }
                CacheOutput::Unwatch(tag) => {
                    match self.watches.iter().position(|(watch, _)| *watch == tag) {
                        Some(place) => drop(self.watches.remove(place)),
                        None => self.dropped_in_vain += 1,
                    }
                }
                CacheOutput::UnwatchAll => self.watches.clear(),
                CacheOutput::SetTimer(_) => self.lines.push("timer".to_string()),
                CacheOutput::Event(event) => self.lines.push(match event {
                    CacheEvent::Added(path, node) => format!("+{path}@{}", node.stat.mzxid.0),
                    CacheEvent::Changed(path, node) => format!("={path}@{}", node.stat.mzxid.0),
                    CacheEvent::Removed(path, _) => format!("-{path}"),
                    CacheEvent::Ended(error) => format!("ended: {error}"),
                    event => format!("{event:?}"),
                }),
            }
        }
    }

    /// Answers the oldest request like this one.
    #[track_caller]
    fn answer(&mut self, asked: &str, result: Result<Reply, Error>) {
        let place = self.asked.iter().position(|(_, other)| other == asked);
        let (tag, _) = self.asked.remove(place.unwrap_or_else(|| panic!("{:?}", self.asked)));
        self.feed(Input::Reply { tag, result });
    }

    /// Answers the read of a node's data.
    #[track_caller]
    fn read(&mut self, path: &str, czxid: i64, mzxid: i64, num_children: i32) {
        let stat = Stat { czxid: Zxid(czxid), mzxid: Zxid(mzxid), num_children, ..Stat::default() };
        let response = GetDataResponse { data: Some(b"data"), stat };
        self.answer(&format!("data {path}"), reply(OpCode::GET_DATA, &response));
    }

    #[track_caller]
    fn list(&mut self, path: &str, children: &[&str]) {
        let response = GetChildren2Response { children: children.into(), stat: Stat::default() };
        self.answer(&format!("children {path}"), reply(OpCode::GET_CHILDREN2, &response));
    }

    #[track_caller]
    fn watch_is_set(&mut self) {
        self.answer("watch below /c", reply(OpCode::ADD_WATCH, &()));
    }

    /// Reports an event of the persistent watch.
    fn happens(&mut self, event_type: EventType, path: &str) {
        let tag = self.machine.watch;
        let event = WatchedEvent::new(event_type, path.into(), Zxid(-1));
        self.feed(Input::Watch { tag, event });
    }

    /// Fires one-shot watches.
    #[track_caller]
    fn fires(&mut self, event_type: EventType, watch: &str) {
        let place = self.watches.iter().position(|(_, other)| other == watch);
        let (tag, _) = self.watches.remove(place.unwrap_or_else(|| panic!("{:?}", self.watches)));
        let path = watch.split(' ').next_back().unwrap_or_default().into();
        self.feed(Input::Watch { tag, event: WatchedEvent::new(event_type, path, Zxid(-1)) });
    }

    #[track_caller]
    fn expect(&mut self, lines: &[&str]) {
        assert_eq!(core::mem::take(&mut self.lines), lines);
    }

    #[track_caller]
    fn asks(&self, requests: &[&str]) {
        assert_eq!(self.asked.iter().map(|(_, shown)| shown).collect::<Vec<_>>(), requests);
    }

    #[track_caller]
    fn watches(&self, watches: &[&str]) {
        assert_eq!(self.watches.iter().map(|(_, shown)| shown).collect::<Vec<_>>(), watches);
    }

    /// Returns a cache that is ready with the root and the child `/c/a`.
    fn ready() -> Self {
        let mut world = Self::new();
        world.watch_is_set();
        world.read("/c", 1, 1, 1);
        world.list("/c", &["a"]);
        world.read("/c/a", 2, 2, 0);
        world.expect(&["+/c@1", "+/c/a@2", "Ready"]);
        world
    }
}

fn reply(opcode: OpCode, body: &impl Encode) -> Result<Reply, Error> {
    let mut bytes = BytesMut::new();
    body.encode(&mut bytes);
    Ok(Reply::new(opcode, Zxid(1), bytes.freeze()))
}

#[test]
fn the_tree_is_read_behind_the_watch() {
    let mut world = World::new();
    world.asks(&["watch below /c", "data /c"]);
    world.watch_is_set();
    world.read("/c", 1, 1, 2);
    world.asks(&["children /c"]);
    world.list("/c", &["b", "a"]);
    world.asks(&["data /c/b", "data /c/a"]);
    assert_eq!(*world.machine.state(), CacheState::Loading);
    // A leaf is not listed.
    world.read("/c/b", 3, 3, 0);
    world.read("/c/a", 2, 2, 1);
    world.list("/c/a", &["x"]);
    world.read("/c/a/x", 4, 4, 0);
    world.expect(&["+/c@1", "+/c/b@3", "+/c/a@2", "+/c/a/x@4", "Ready"]);
    assert_eq!(*world.machine.state(), CacheState::Ready);
    let tree = world.machine.tree();
    assert_eq!(tree.children("/c").collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(tree.children("/c/a").collect::<Vec<_>>(), ["x"]);
    assert_eq!(tree.get("/c/a").map(|node| &*node.data), Some(&b"data"[..]));
    world.watches(&["watch below /c"]);
    world.asks(&[]);
}

#[test]
fn a_missing_root_is_an_empty_cache() {
    let mut world = World::new();
    world.watch_is_set();
    world.answer("data /c", Err(NO_NODE));
    world.expect(&["Ready"]);
    world.happens(CREATED, "/c");
    world.read("/c", 5, 5, 0);
    world.expect(&["+/c@5"]);
}

#[test]
fn changes_are_followed() {
    let mut world = World::ready();
    world.happens(CHANGED, "/c/a");
    world.read("/c/a", 2, 7, 0);
    world.happens(CREATED, "/c/b");
    world.read("/c/b", 8, 8, 0);
    world.happens(DELETED, "/c/a");
    world.expect(&["=/c/a@7", "+/c/b@8", "-/c/a"]);
    // A persistent watch on the same node, not ours, has sent this.
    world.happens(CHILDREN, "/c");
    world.asks(&[]);
}

#[test]
fn a_node_that_changes_while_it_is_read_is_read_again() {
    let mut world = World::ready();
    world.happens(CHANGED, "/c/a");
    world.happens(CHANGED, "/c/a");
    world.happens(CHANGED, "/c/a");
    world.asks(&["data /c/a"]);
    world.read("/c/a", 2, 7, 0);
    world.asks(&["data /c/a"]);
    world.read("/c/a", 2, 9, 0);
    world.asks(&[]);
    world.expect(&["=/c/a@7", "=/c/a@9"]);
}

#[test]
fn an_older_reply_does_not_replace_a_newer_one() {
    let mut world = World::ready();
    world.happens(CHANGED, "/c/a");
    world.read("/c/a", 2, 9, 0);
    world.happens(CHANGED, "/c/a");
    world.read("/c/a", 2, 7, 0);
    world.expect(&["=/c/a@9"]);
    assert_eq!(world.machine.tree().get("/c/a").map(|node| node.stat.mzxid), Some(Zxid(9)));
}

#[test]
fn a_read_of_the_same_data_renews_the_stat() {
    let mut world = World::ready();
    world.happens(CHANGED, "/c/a");
    world.read("/c/a", 2, 2, 5);
    world.expect(&[]);
    assert_eq!(world.machine.tree().get("/c/a").map(|node| node.stat.num_children), Some(5));
}

#[test]
fn a_reply_from_before_the_deletion_revives_no_node() {
    let mut world = World::ready();
    world.happens(CHANGED, "/c/a");
    world.happens(DELETED, "/c/a");
    world.read("/c/a", 2, 7, 0);
    world.expect(&["-/c/a"]);
    world.asks(&[]);
    assert_eq!(world.machine.tree().len(), 1);
}

#[test]
fn a_node_that_is_created_again_is_removed_and_added() {
    let mut world = World::ready();
    world.happens(CHANGED, "/c/a");
    world.happens(DELETED, "/c/a");
    world.happens(CREATED, "/c/a");
    // Nobody knows whether this is the old node or the new one.
    world.read("/c/a", 2, 7, 0);
    world.read("/c/a", 9, 9, 0);
    world.expect(&["-/c/a", "+/c/a@9"]);
}

#[test]
fn the_tree_is_read_again_after_a_gap() {
    let mut world = World::ready();
    world.happens(CREATED, "/c/lost");
    world.asked.clear();
    world.feed(Input::State(State::Suspended));
    world.expect(&["Reset"]);
    assert_eq!(*world.machine.state(), CacheState::Stale);
    assert_eq!(world.machine.tree().len(), 2);
    world.watches(&[]);
    world.feed(Input::State(CONNECTED));
    world.asks(&["watch below /c", "data /c"]);
    world.watch_is_set();
    // The child is gone, a node is new, and the root was written.
    world.read("/c", 1, 6, 1);
    world.list("/c", &["b"]);
    world.read("/c/b", 7, 7, 0);
    world.expect(&["=/c@6", "+/c/b@7", "-/c/a", "Ready"]);
}

#[test]
fn a_gap_covers_a_node_that_was_created_again() {
    let mut world = World::ready();
    world.feed(Input::State(State::Suspended));
    world.feed(Input::State(CONNECTED));
    world.watch_is_set();
    world.read("/c", 8, 8, 1);
    world.list("/c", &["a"]);
    world.read("/c/a", 9, 9, 0);
    world.expect(&["Reset", "-/c/a", "-/c", "+/c@8", "+/c/a@9", "Ready"]);
}

/// A new session may be served by a server that is behind, or restored from a backup.
#[test]
fn a_new_session_may_find_an_older_tree() {
    let mut world = World::ready();
    world.happens(CHANGED, "/c/a");
    world.read("/c/a", 2, 9, 0);
    world.feed(Input::State(State::Renewing));
    world.expect(&["=/c/a@9", "Reset"]);
    world.feed(Input::State(CONNECTED));
    world.watch_is_set();
    world.read("/c", 1, 1, 1);
    world.list("/c", &["a"]);
    world.read("/c/a", 2, 2, 0);
    world.expect(&["=/c/a@2", "Ready"]);
}

#[test]
fn replies_of_another_connection_do_not_count() {
    let mut world = World::ready();
    world.happens(CHANGED, "/c/a");
    let (old, _) = world.asked.remove(0);
    world.feed(Input::State(State::Suspended));
    world.feed(Input::State(CONNECTED));
    let stat = Stat { czxid: Zxid(2), mzxid: Zxid(99), ..Stat::default() };
    let body = GetDataResponse { data: Some(b"old"), stat };
    world.feed(Input::Reply { tag: old, result: reply(OpCode::GET_DATA, &body) });
    world.expect(&["Reset"]);
    assert_eq!(*world.machine.state(), CacheState::Stale);
}

#[test]
fn a_lost_connection_fails_requests_before_it_is_reported() {
    let mut world = World::ready();
    world.happens(CHANGED, "/c/a");
    world.answer("data /c/a", Err(Error::ConnectionLost));
    // Nothing is submitted for a connection that is gone.
    world.asks(&[]);
    world.feed(Input::State(State::Suspended));
    world.expect(&["Reset"]);
}

#[test]
fn the_walk_ends_although_a_node_changes_all_the_time() {
    let mut world = World::new();
    world.watch_is_set();
    world.read("/c", 1, 1, 1);
    world.list("/c", &["a", "b"]);
    world.happens(CHANGED, "/c/a");
    world.read("/c/a", 2, 4, 0);
    world.happens(CHANGED, "/c/a");
    world.read("/c/b", 3, 3, 0);
    world.expect(&["+/c@1", "+/c/a@4", "+/c/b@3", "Ready"]);
    world.asks(&["data /c/a"]);
}

#[test]
fn requests_under_way_are_limited() {
    let mut world = World::with(|config| config.max_requests = 2);
    world.watch_is_set();
    world.read("/c", 1, 1, 4);
    world.list("/c", &["a", "b", "d", "e"]);
    world.asks(&["data /c/a", "data /c/b"]);
    world.read("/c/a", 2, 2, 0);
    world.asks(&["data /c/b", "data /c/d"]);
    // Requests of the last connection count until they are answered.
    world.feed(Input::State(State::Suspended));
    world.feed(Input::State(CONNECTED));
    world.asks(&["data /c/b", "data /c/d", "watch below /c"]);
    world.answer("data /c/b", Err(Error::ConnectionLost));
    world.asks(&["data /c/d", "watch below /c", "data /c"]);
    // Those of the last session are never answered.
    world.asked.clear();
    world.feed(Input::State(State::Renewing));
    world.feed(Input::State(CONNECTED));
    world.asks(&["watch below /c", "data /c"]);
}

#[test]
fn a_cache_ends_at_its_limits() {
    // A node takes 192 bytes, its path and its data.
    for (nodes, bytes) in [(2, usize::MAX), (usize::MAX, 398)] {
        let mut world = World::with(|config| {
            (config.max_nodes, config.max_bytes) = (nodes, bytes);
        });
        world.watch_is_set();
        world.read("/c", 1, 1, 2);
        world.list("/c", &["a"]);
        world.read("/c/a", 2, 2, 0);
        world.expect(&["+/c@1", "+/c/a@2", "Ready"]);
        assert_eq!((world.machine.tree().len(), world.machine.tree().bytes()), (2, 398));
        // The new data replaces the old.
        world.happens(CHANGED, "/c/a");
        world.read("/c/a", 2, 3, 0);
        world.expect(&["=/c/a@3"]);
        world.happens(CREATED, "/c/b");
        world.read("/c/b", 3, 3, 0);
        world.expect(&["+/c/b@3", "ended: the nodes exceed the limits of the cache"]);
        assert!(world.machine.is_done() && world.machine.tree().is_empty());
        world.watches(&[]);
        world.feed(Input::State(CONNECTED));
        world.asks(&[]);
    }
    // Names count before they are read, except those that are being read.
    let long = "x".repeat(300);
    for (bytes, most, too_many) in [
        (usize::MAX, &["a", "b", "d"][..], &["a", "b", "d", "e"][..]),
        (303, &[&long], &["a", &long]),
    ] {
        let listed = |names| {
            let mut world = World::with(|config| {
                (config.max_nodes, config.max_requests, config.max_bytes) = (2, 1, bytes);
            });
            world.watch_is_set();
            world.read("/c", 1, 1, 4);
            world.list("/c", names);
            world
        };
        listed(most).expect(&["+/c@1"]);
        listed(too_many).expect(&["+/c@1", "ended: the nodes exceed the limits of the cache"]);
    }
}

#[test]
fn unreadable_nodes_are_left_out_but_not_the_root() {
    let mut world = World::ready();
    world.happens(CREATED, "/c/secret");
    world.answer("data /c/secret", Err(NO_AUTH));
    world.expect(&[]);
    world.happens(CHANGED, "/c");
    world.answer("data /c", Err(NO_AUTH));
    assert!(world.machine.is_done());
}

#[test]
fn a_node_whose_data_is_too_long_ends_the_cache() {
    let mut world = World::ready();
    world.happens(CHANGED, "/c/a");
    let too_large = Error::ReplyTooLarge { length: 9, limit: 8, outcome: Outcome::NotApplied };
    world.answer("data /c/a", Err(too_large.clone()));
    assert_eq!(*world.machine.state(), CacheState::Ended(LockError::Request(too_large).into()));
}

#[test]
fn a_request_that_is_refused_for_now_is_repeated_later() {
    let mut world = World::ready();
    world.happens(CHANGED, "/c/a");
    world.answer("data /c/a", Err(Error::Server(ErrorCode::THROTTLED_OP)));
    world.expect(&["timer"]);
    world.asks(&[]);
    world.feed(Input::Timer);
    world.asks(&["data /c/a"]);
    world.read("/c/a", 2, 7, 0);
    world.expect(&["=/c/a@7"]);
    // So is the watch, and the walk with it.
    let mut world = World::new();
    world.answer("watch below /c", Err(Error::Server(ErrorCode::THROTTLED_OP)));
    world.answer("data /c", Err(NO_NODE));
    world.expect(&["timer"]);
    world.feed(Input::Timer);
    world.asks(&["watch below /c", "data /c"]);
    world.watch_is_set();
    world.answer("data /c", Err(NO_NODE));
    world.expect(&["Ready"]);
    // A read that sets a one-shot watch does not repeat the walk.
    let mut world = World::one_shot();
    world.read("/c", 1, 1, 1);
    world.list("/c", &["a"]);
    world.answer("data /c/a", Err(Error::Server(ErrorCode::THROTTLED_OP)));
    world.feed(Input::Timer);
    world.asks(&["data /c/a"]);
}

#[test]
fn what_is_below_the_root_is_left_out_on_request() {
    let mut world = World::with(|config| config.is_recursive = false);
    world.watch_is_set();
    world.read("/c", 1, 1, 5);
    world.expect(&["+/c@1", "Ready"]);
    world.happens(CREATED, "/c/a");
    world.asks(&[]);
    world.happens(CHANGED, "/c");
    world.asks(&["data /c"]);
}

#[test]
fn the_end_of_the_session_ends_the_cache() {
    let mut world = World::ready();
    world.feed(Input::State(State::Ended(End::Expired)));
    assert_eq!(*world.machine.state(), CacheState::Ended(LockError::Ended(End::Expired).into()));
    let mut world = World::ready();
    world.machine.close();
    assert_eq!(*world.machine.state(), CacheState::Ended(LockError::Ended(End::Closed).into()));
}

#[test]
fn children_are_found_among_similar_names() {
    let mut tree = CacheTree::default();
    let paths = ["/", "/a", "/a-b", "/a/b", "/a/b-c", "/a/b/x", "/a/b0", "/a/c/lonely", "/a0"];
    for path in paths {
        let node = CachedNode { data: Bytes::new(), stat: Stat::default() };
        let entry = TreeEntry { node, walk: 1, data_watch: 0, child_watch: 0 };
        assert!(tree.insert(path.into(), entry).is_none());
    }
    let children = |path| tree.children(path).collect::<Vec<_>>();
    assert_eq!(children("/"), ["a", "a-b", "a0"]);
    assert_eq!(children("/a"), ["b", "b-c", "b0"]);
    assert_eq!(children("/a/b"), ["x"]);
    assert!(children("/a-b").is_empty() && children("/none").is_empty());
    let removed: Vec<_> = tree.remove("/a").into_iter().map(|(path, _)| path).collect();
    let gone = ["/a", "/a/b", "/a/b-c", "/a/b/x", "/a/b0", "/a/c/lonely"];
    assert_eq!(removed.iter().map(|path| &**path).collect::<Vec<_>>(), gone);
    assert_eq!(tree.iter().map(|(path, _)| &**path).collect::<Vec<_>>(), ["/", "/a-b", "/a0"]);
    let all = tree.bytes();
    tree.remove("/a0");
    // An entry, and its path.
    assert_eq!(tree.bytes(), all - (192 + "/a0".len()));
    tree.remove("/");
    assert_eq!((tree.len(), tree.bytes()), (0, 0));
}

#[test]
fn a_tree_that_was_replaced_during_a_gap_is_within_the_limits() {
    let mut world = World::with(|config| config.max_nodes = 3);
    world.watch_is_set();
    world.read("/c", 1, 1, 2);
    world.list("/c", &["a", "b"]);
    world.read("/c/a", 2, 2, 0);
    world.read("/c/b", 3, 3, 0);
    world.feed(Input::State(State::Suspended));
    world.asked.clear();
    world.feed(Input::State(CONNECTED));
    world.watch_is_set();
    world.read("/c", 1, 1, 2);
    world.list("/c", &["x", "y"]);
    world.read("/c/x", 12, 12, 0);
    world.read("/c/y", 13, 13, 0);
    assert_eq!(*world.machine.state(), CacheState::Ready, "{:?}", world.lines);
}

#[test]
fn nodes_that_come_and_go_do_not_fill_the_cache() {
    let mut world = World::with(|config| (config.max_nodes, config.max_requests) = (3, 1));
    world.watch_is_set();
    world.read("/c", 1, 1, 0);
    for n in 0..50 {
        world.happens(CREATED, &format!("/c/{n}"));
        world.happens(DELETED, &format!("/c/{n}"));
    }
    assert_eq!(*world.machine.state(), CacheState::Ready, "{:?}", world.lines);
}

#[test]
fn the_end_of_the_client_is_no_failed_request() {
    let mut world = World::with(|_| {});
    world.watch_is_set();
    world.read("/c", 1, 1, 0);
    world.happens(CHANGED, "/c");
    let error = Error::Ended { end: End::Closed, outcome: Outcome::NotApplied };
    world.answer("data /c", Err(error));
    assert_eq!(*world.machine.state(), CacheState::Ended(LockError::Ended(End::Closed).into()));
}
