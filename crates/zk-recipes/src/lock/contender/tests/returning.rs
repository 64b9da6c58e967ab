//! The hint of an earlier acquisition.

use std::sync::Mutex;

use crate::tests::*;

/// The cell of a contender.
fn cell(h: &Harness) -> &dyn HintCell {
    &**h.machine.config.hint_cell.as_ref().expect("a cell")
}

#[test]
fn a_hint_is_left_at_the_release_and_completed_at_the_end() {
    let hints = Arc::new(Hints(Mutex::new(alloc::vec![Some(BEFORE)])));
    let contender = || Harness::of(|config| config.hint_cell = Some(hints.clone()));
    let all = || hints.0.lock().expect("no panic").clone();
    let mut first = contender();
    first.created(7);
    first.expect(&["create", "Enqueued own-7 token 107", "Acquired own-7 token 107", "timer"]);
    first.feed(Input::LeaseEnded);
    first.expect(&["Lost(LeaseEnded)", "delete own-7"]);
    first.answer("delete own-7", ok());
    assert_eq!(all(), [Some(BEFORE), None], "a lost lock leaves none");

    hints.set(Some(BEFORE));
    let mut first = contender();
    first.created(7);
    first.feed(Command::Release);
    let number = SequenceNumber(7);
    let own = FastPathHint { number, czxid: czxid(7), followed: 100, ..BEFORE };
    assert_eq!(hints.get(), Some(FastPathHint { is_deleted: false, ..own }));
    let mut second = contender();
    second.expect(&["create"]);
    first.feed(Input::State(CONNECTED));
    assert_eq!(all().len(), 4, "nothing has changed");
    first.answer("delete own-7", ok());
    assert_eq!(hints.get(), Some(own));
    second.created(8);
    second.expect(&["Enqueued own-8 token 108", "Acquired own-8 token 108", "timer"]);
}

fn with(hint: Option<FastPathHint>) -> Harness {
    Harness::of(|config| config.hint_cell = Hints::beginning_with(hint))
}

/// The hint of a contender that has released the lock.
fn left(h: &mut Harness) -> Option<FastPathHint> {
    h.feed(Command::Release);
    let asked = h.asked.iter().rfind(|asked| !asked.answered && asked.line.starts_with("delete"));
    let line = asked.expect("a deletion").line.clone();
    let early = cell(h).get();
    assert!(early.is_none_or(|hint| !hint.is_deleted), "it is there still");
    h.answer(&line, ok());
    assert!(h.machine.is_done());
    cell(h).get()
}

#[test]
fn after_enough_free_acquisitions_the_list_is_skipped() {
    let mut hint = None;
    for number in 1..=20 {
        let (own, token) = (format!("own-{number}"), 100 + number);
        let (enqueued, acquired) =
            (format!("Enqueued {own} token {token}"), format!("Acquired {own} token {token}"));
        let mut h = with(hint);
        // Number 1 has no hint, so 2 is the first to follow one, and 9 the eighth.
        if number <= 9 {
            h.expect(&["create", "list"]);
            h.created(number);
            h.expect(&[&*enqueued]);
            h.answer("list", children(&[&*own]));
            h.expect(&[&*acquired, "timer"]);
        } else {
            h.expect(&["create"]);
            h.created(number);
            h.expect(&[&*enqueued, &*acquired, "timer"]);
        }
        hint = left(&mut h);
        let followed = number.cast_unsigned() - 1;
        let (number, czxid) = (SequenceNumber(number), czxid(number));
        assert_eq!(hint, Some(FastPathHint { number, czxid, followed, ..BEFORE }));
    }
}

/// A contender that begins while the one before it, with number 6, is being deleted.
fn behind_a_leaving_one() -> Harness {
    let mut h = with(Some(FastPathHint { is_deleted: false, ..BEFORE }));
    h.expect(&["create"]);
    h
}

#[test]
fn a_contender_behind_one_that_leaves_skips_the_list_if_that_is_gone_in_time() {
    let mut h = behind_a_leaving_one();
    cell(&h).set(Some(BEFORE));
    h.created(7);
    h.expect(&["Enqueued own-7 token 107", "Acquired own-7 token 107", "timer"]);
}

#[test]
fn a_contender_behind_one_that_may_be_there_still_lists() {
    let other = FastPathHint { czxid: czxid(3), ..BEFORE };
    for later in [None, Some(FastPathHint { is_deleted: false, ..BEFORE }), Some(other)] {
        let mut h = behind_a_leaving_one();
        if let Some(later) = later {
            cell(&h).set(Some(later));
        }
        h.created(7);
        h.expect(&["Enqueued own-7 token 107", "list"]);
        // Too late.
        cell(&h).set(Some(BEFORE));
        h.answer("list", children(&["a-6", "own-7"]));
        h.expect(&["Waiting behind a-6, 1 ahead", "watch own-7", "watch a-6"]);
    }
}

#[test]
fn if_another_contender_came_the_list_is_requested_and_next_time_at_once() {
    let mut h = Harness::with_hint();
    h.created(8);
    h.expect(&["Enqueued own-8 token 108", "list"]);
    h.answer("list", children(&["a-7", "own-8"]));
    h.expect(&["Waiting behind a-7, 1 ahead", "watch own-8", "watch a-7"]);
    h.answer("watch own-8", ok());
    h.answer("watch a-7", ok());
    h.deleted("watch a-7");
    h.expect(&["Acquired own-8 token 108"]);
    let hint = left(&mut h);
    assert_eq!(hint.map(|hint| hint.followed), Some(0));
    with(hint).expect(&["create", "list"]);
}

#[test]
fn a_new_lock_path_may_reach_the_next_number_again() {
    let mut h = Harness::with_hint();
    h.created_as("create", "own-7", Zxid(113));
    h.expect(&["Enqueued own-7 token 113", "list"]);
}

#[test]
fn a_refused_list_is_not_needed_if_the_hint_holds() {
    let mut h = with(Some(FastPathHint { followed: 0, ..BEFORE }));
    h.expect(&["create", "list"]);
    h.answer("list", Err(QUEUE_FULL));
    h.created(7);
    h.expect(&["Enqueued own-7 token 107", "Acquired own-7 token 107", "timer"]);
}

#[test]
fn a_creation_with_an_unknown_outcome_is_searched_for_despite_a_hint() {
    let mut h = Harness::with_hint();
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
fn a_release_while_creating_deletes_the_node() {
    let mut h = Harness::with_hint();
    h.feed(Command::Release);
    h.created(7);
    h.expect(&["Enqueued own-7 token 107", "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&["Released"]);
    assert_eq!(cell(&h).get(), None);
}

#[test]
fn a_hint_is_ignored_if_unknown_nodes_count() {
    let mut h = Harness::of(|config| {
        let unknown_nodes = UnknownNodePolicy::Count;
        config.hint_cell = Hints::beginning_with(Some(FastPathHint { unknown_nodes, ..BEFORE }));
        config.unknown_nodes = unknown_nodes;
    });
    h.created(7);
    h.expect(&["create", "Enqueued own-7 token 107", "list"]);
}

#[test]
fn a_hint_of_another_policy_is_ignored() {
    let mut h = Harness::of(|config| {
        config.hint_cell = Hints::beginning_with(Some(BEFORE));
        config.unknown_nodes = UnknownNodePolicy::Refuse;
    });
    h.created(7);
    h.expect(&["create", "Enqueued own-7 token 107", "list"]);
}

#[test]
fn a_missing_lock_path_discards_the_hint() {
    let mut h = Harness::with_hint();
    h.answer("create", refused(ErrorCode::NO_NODE));
    h.expect(&["container /locks", "container /locks/printer"]);
    h.answer("container /locks", ok());
    h.answer("container /locks/printer", ok());
    h.expect(&["create", "list"]);
}

#[test]
fn a_conversion_leaves_no_hint() {
    for mode in [LockMode::Exclusive, LockMode::Shared] {
        let own = if mode == LockMode::Shared { "own-R7" } else { "own-W7" };
        let other = if mode == LockMode::Shared { LockMode::Exclusive } else { LockMode::Shared };
        let mut h = Harness::reader_or_writer(mode);
        let create = h.asked[0].line.clone();
        h.created_as(&create, own, czxid(7));
        h.answer("list", children(&[own]));
        h.feed(Command::Convert(other));
        h.feed(Command::Release);
        for asked in 0..h.asked.len() {
            if !h.asked[asked].answered {
                let line = h.asked[asked].line.clone();
                h.answer(&line, refused(ErrorCode::NO_NODE));
            }
        }
        assert!(h.machine.is_done(), "{mode:?}");
        assert_eq!(cell(&h).get(), None, "{mode:?}");
    }
}

#[test]
fn a_reader_leaves_no_hint_to_a_writer_but_a_writer_to_a_reader() {
    let second = |before, mode| {
        let scheme = READ_WRITE;
        let hint_cell = Hints::beginning_with(Some(FastPathHint { mode: before, ..BEFORE }));
        let mut h = Harness::of(|config| {
            *config = AttemptConfig { hint_cell, scheme, mode, ..config.clone() };
        });
        let create = h.wanted().remove(0);
        let label = if mode == LockMode::Shared { "own-R7" } else { "own-W7" };
        h.created_as(&create, label, czxid(7));
        h.wanted().remove(1)
    };
    assert_eq!(second(LockMode::Shared, LockMode::Exclusive), "list");
    assert_eq!(second(LockMode::Shared, LockMode::Shared), "Acquired own-R7 token 107");
    assert_eq!(second(LockMode::Exclusive, LockMode::Shared), "Acquired own-R7 token 107");
}

#[test]
fn a_hint_near_the_end_of_the_numbers_is_ignored() {
    let last = SequenceNumber(i32::MAX - 2);
    let mut h = with(Some(FastPathHint { number: last, ..BEFORE }));
    h.created_as("create", "own-2147483646", czxid(7));
    h.expect(&["create", "Enqueued own-2147483646 token 107", "list"]);
}

#[test]
fn only_a_released_holder_leaves_a_hint() {
    type End = fn(&mut Harness);
    let ends: [(&str, End); 5] = [
        ("never held", |h| {
            h.answer("list", children(&["a-5", "own-7"]));
            h.feed(Command::Release);
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
            h.feed(Command::Release);
            h.expire();
        }),
        ("could not be deleted", |h| {
            h.answer("list", children(&["own-7"]));
            h.feed(Command::Release);
            h.answer("delete own-7", refused(ErrorCode::NO_AUTH));
        }),
    ];
    for (what, end) in ends {
        let mut h = Harness::deciding();
        cell(&h).set(Some(BEFORE));
        end(&mut h);
        assert!(h.machine.is_done(), "{what}");
        assert_eq!(cell(&h).get(), None, "{what}");
    }
}
