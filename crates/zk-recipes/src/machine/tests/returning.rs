//! Contending again, when nobody has come since.

use super::*;

fn with(precedent: Option<Precedent>) -> Harness {
    Harness::of(|contest| contest.precedent = precedent)
}

/// What is left by a contender that has let go.
fn left(h: &mut Harness) -> Option<Precedent> {
    h.feed(Input::LetGo);
    let asked = h.asked.iter().rfind(|asked| !asked.answered && asked.line.starts_with("delete"));
    let line = asked.expect("a deletion").line.clone();
    assert_eq!(h.machine.precedent(), None, "it is there still");
    h.answer(&line, ok());
    assert!(h.machine.is_done());
    h.machine.precedent()
}

#[test]
fn whoever_has_seen_twice_that_nobody_comes_lists_no_more() {
    let mut h = with(None);
    h.expect(&["create", "list"]);
    h.created(5);
    h.answer("list", children(&["own-5"]));
    let precedent = left(&mut h);
    assert_eq!(
        precedent,
        Some(Precedent { number: Sequence(5), czxid: czxid(5), followed: false, ..BEFORE })
    );

    let mut h = with(precedent);
    h.expect(&["create", "list"]);
    h.created(6);
    h.expect(&["Enqueued own-6 token 106"]);
    h.answer("list", children(&["own-6"]));
    let precedent = left(&mut h);
    assert_eq!(precedent, Some(Precedent { number: Sequence(6), czxid: czxid(6), ..BEFORE }));

    let mut h = with(precedent);
    h.expect(&["create"]);
    h.created(7);
    h.expect(&["Enqueued own-7 token 107", "Acquired own-7 token 107", "timer"]);
    let precedent = left(&mut h);
    assert_eq!(precedent, Some(Precedent { number: Sequence(7), czxid: czxid(7), ..BEFORE }));
}

#[test]
fn where_somebody_has_come_the_list_is_asked_for_and_next_time_at_once() {
    let mut h = Harness::relying_on_precedent();
    h.created(8);
    h.expect(&["Enqueued own-8 token 108", "list"]);
    h.answer("list", children(&["a-7", "own-8"]));
    h.expect(&["Waiting behind a-7, 1 ahead", "watch own-8", "watch a-7"]);
    h.answer("watch own-8", ok());
    h.answer("watch a-7", ok());
    h.deleted("watch a-7");
    h.expect(&["Acquired own-8 token 108"]);
    let precedent = left(&mut h);
    assert_eq!(precedent.map(|precedent| precedent.followed), Some(false));
    with(precedent).expect(&["create", "list"]);
}

#[test]
fn a_new_directory_may_have_come_to_the_next_number_again() {
    let mut h = Harness::relying_on_precedent();
    h.created_as("create", "own-7", Zxid(113));
    h.expect(&["Enqueued own-7 token 113", "list"]);
}

#[test]
fn a_list_that_was_refused_is_not_missed_when_nobody_has_come() {
    let mut h = with(Some(Precedent { followed: false, ..BEFORE }));
    h.expect(&["create", "list"]);
    h.answer("list", Err(QUEUE_FULL));
    h.created(7);
    h.expect(&["Enqueued own-7 token 107", "Acquired own-7 token 107", "timer"]);
}

#[test]
fn a_creation_whose_outcome_is_unknown_is_looked_for_as_ever() {
    let mut h = Harness::relying_on_precedent();
    h.disconnect();
    h.reconnect();
    h.expect(&["sync", "list"]);
    h.answer("sync", ok());
    h.answer("list", children(&["own-7"]));
    h.expect(&["stat own-7"]);
    h.answer("stat own-7", stat(SESSION, 7));
    h.expect(&["Enqueued own-7 token 107", "list"]);
}

#[test]
fn letting_go_of_a_creation_deletes_the_node() {
    let mut h = Harness::relying_on_precedent();
    h.feed(Input::LetGo);
    h.created(7);
    h.expect(&["Enqueued own-7 token 107", "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&["Released"]);
    assert_eq!(h.machine.precedent(), None);
}

#[test]
fn numbers_say_nothing_where_strangers_count() {
    let mut h = Harness::of(|contest| {
        (contest.precedent, contest.foreign) = (Some(BEFORE), Foreign::Count);
    });
    h.created(7);
    h.expect(&["create", "Enqueued own-7 token 107", "list"]);
}

#[test]
fn a_reader_leaves_nothing_to_a_writer_and_a_writer_something_to_a_reader() {
    let second = |before, claim| {
        let precedent = Some(Precedent { claim: before, ..BEFORE });
        let scheme = READ_WRITE;
        let mut h = Harness::of(|contest| {
            *contest = Contest { precedent, scheme, claim, ..contest.clone() };
        });
        let create = h.wanted().remove(0);
        let label = if claim == Claim::Shared { "own-R7" } else { "own-W7" };
        h.created_as(&create, label, czxid(7));
        h.wanted().remove(1)
    };
    assert_eq!(second(Claim::Shared, Claim::Exclusive), "list");
    assert_eq!(second(Claim::Shared, Claim::Shared), "Acquired own-R7 token 107");
    assert_eq!(second(Claim::Exclusive, Claim::Shared), "Acquired own-R7 token 107");
}

#[test]
fn numbers_near_their_end_say_nothing() {
    let last = Sequence(i32::MAX - 2);
    let mut h = with(Some(Precedent { number: last, ..BEFORE }));
    h.created_as("create", "own-2147483646", czxid(7));
    h.expect(&["create", "Enqueued own-2147483646 token 107", "list"]);
}

#[test]
fn only_who_has_held_the_lock_and_has_let_go_leaves_a_precedent() {
    type End = fn(&mut Harness);
    let ends: [(&str, End); 5] = [
        ("never held", |h| {
            h.answer("list", children(&["a-5", "own-7"]));
            h.feed(Input::LetGo);
            h.answer("delete own-7", ok());
        }),
        ("deleted", |h| {
            h.answer("list", children(&["own-7"]));
            h.feed(Input::Timer);
            h.answer("watch own-7", ok());
            h.deleted("watch own-7");
        }),
        ("expired", |h| {
            h.answer("list", children(&["own-7"]));
            h.expire();
        }),
        ("expired while it let go", |h| {
            h.answer("list", children(&["own-7"]));
            h.feed(Input::LetGo);
            h.expire();
        }),
        ("could not be deleted", |h| {
            h.answer("list", children(&["own-7"]));
            h.feed(Input::LetGo);
            h.answer("delete own-7", refused(ErrorCode::NO_AUTH));
        }),
    ];
    for (what, end) in ends {
        let mut h = Harness::deciding();
        end(&mut h);
        assert!(h.machine.is_done(), "{what}");
        assert_eq!(h.machine.precedent(), None, "{what}");
    }
}
