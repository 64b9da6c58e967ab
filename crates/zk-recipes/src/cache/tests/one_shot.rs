//! Without persistent watches: on an older server, or in a session without them.

use super::*;

#[test]
fn a_server_without_persistent_watches_gets_one_shot_watches() {
    let mut world = World::new();
    world.answer("watch below /c", Err(Error::Server(ErrorCode::UNIMPLEMENTED)));
    // The reads behind it fail with the connection, which the server closes.
    world.answer("data /c", Err(Error::ConnectionLost));
    world.answer("data /c", Err(Error::ConnectionLost));
    world.feed(Input::State(State::Suspended));
    world.feed(Input::State(CONNECTED));
    world.asks(&["data /c"]);
    world.watches(&["data /c"]);
    assert!(!world.machine.is_persistent());
}

#[test]
fn each_node_has_two_one_shot_watches() {
    let mut world = World::one_shot();
    world.read("/c", 1, 1, 1);
    world.list("/c", &["a"]);
    world.read("/c/a", 2, 2, 0);
    // A leaf is listed, too, because nothing else reports its first child.
    world.list("/c/a", &[]);
    world.expect(&["+/c@1", "+/c/a@2", "Ready"]);
    assert!(!world.machine.tree().is_empty());
    world.watches(&["data /c", "children /c", "data /c/a", "children /c/a"]);

    world.fires(CHANGED, "data /c/a");
    world.read("/c/a", 2, 5, 0);
    world.fires(CHILDREN, "children /c");
    world.list("/c", &["a", "b"]);
    world.read("/c/b", 6, 6, 0);
    world.list("/c/b", &[]);
    world.expect(&["=/c/a@5", "+/c/b@6"]);

    world.fires(DELETED, "data /c/a");
    world.fires(CHILDREN, "children /c");
    world.list("/c", &["b"]);
    world.expect(&["-/c/a"]);
    world.watches(&["data /c", "data /c/b", "children /c/b", "children /c"]);
    world.asks(&[]);
}

/// To drop a watch takes time in proportion to their number, so a walk must not do it for each
/// node.
#[test]
fn one_shot_watches_from_before_a_gap_are_forgotten() {
    let mut world = World::one_shot();
    let walk = |world: &mut World| {
        world.read("/c", 1, 1, 1);
        world.list("/c", &["a"]);
        world.read("/c/a", 2, 2, 0);
        world.list("/c/a", &[]);
    };
    walk(&mut world);
    world.feed(Input::State(State::Suspended));
    world.watches(&[]);
    world.feed(Input::State(CONNECTED));
    walk(&mut world);
    world.expect(&["+/c@1", "+/c/a@2", "Ready", "Reset", "Ready"]);
    world.watches(&["data /c", "children /c", "data /c/a", "children /c/a"]);
    assert_eq!(world.dropped_in_vain, 0);
}

#[test]
fn a_missing_root_is_watched_for_its_creation() {
    let mut world = World::one_shot();
    world.answer("data /c", Err(NO_NODE));
    world.answer("exists /c", Err(NO_NODE));
    world.expect(&["Ready"]);
    world.watches(&["exists /c"]);
    world.fires(CREATED, "exists /c");
    world.read("/c", 3, 3, 0);
    world.list("/c", &[]);
    world.expect(&["+/c@3"]);
    world.fires(DELETED, "data /c");
    // It was created right before this.
    let stat = Stat { czxid: Zxid(5), ..Stat::default() };
    world.answer("exists /c", reply(OpCode::EXISTS, &ExistsResponse { stat }));
    world.read("/c", 5, 5, 0);
    world.list("/c", &[]);
    world.expect(&["-/c", "+/c@5"]);
    world.watches(&["data /c", "children /c"]);
}

#[test]
fn a_child_that_a_list_lacks_is_removed_with_all_below() {
    let mut world = World::one_shot();
    world.read("/c", 1, 1, 1);
    world.list("/c", &["a"]);
    world.read("/c/a", 2, 2, 1);
    world.list("/c/a", &["x"]);
    world.read("/c/a/x", 3, 3, 0);
    world.list("/c/a/x", &[]);
    world.lines.clear();
    world.fires(CHILDREN, "children /c");
    world.list("/c", &[]);
    world.expect(&["-/c/a/x", "-/c/a"]);
    world.watches(&["data /c", "children /c"]);
}

#[test]
fn a_read_of_a_node_that_was_deleted_meanwhile_leaves_no_watch() {
    let mut world = World::one_shot();
    world.read("/c", 1, 1, 1);
    world.list("/c", &["a"]);
    world.read("/c/a", 2, 2, 0);
    world.list("/c/a", &[]);
    world.fires(CHANGED, "data /c/a");
    world.fires(DELETED, "children /c/a");
    world.watches(&["data /c", "children /c", "data /c/a"]);
    world.read("/c/a", 2, 5, 0);
    world.watches(&["data /c", "children /c"]);
}

/// The read after a change finds another node, whose deletion the fired watch could not report.
#[test]
fn a_read_that_finds_another_node_replaces_it() {
    let mut world = World::one_shot();
    world.read("/c", 1, 1, 0);
    world.list("/c", &[]);
    world.lines.clear();
    world.fires(CHANGED, "data /c");
    world.read("/c", 8, 8, 0);
    world.expect(&["-/c", "+/c@8"]);
    world.list("/c", &[]);
    world.watches(&["data /c", "children /c"]);
}

#[test]
fn a_session_without_persistent_watches_sets_one_shot_watches() {
    let mut world = World::with(|_| {});
    world.answer("watch below /c", Err(Invalid::Reserved(OpCode::ADD_WATCH).into()));
    // The first walk read it without a watch.
    world.read("/c", 1, 1, 0);
    world.watches(&["data /c"]);
    world.read("/c", 1, 1, 0);
    world.list("/c", &[]);
    world.watches(&["data /c", "children /c"]);
    assert_eq!(*world.machine.state(), CacheState::Ready, "{:?}", world.lines);
}
