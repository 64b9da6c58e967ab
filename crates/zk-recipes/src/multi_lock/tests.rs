//! The order of acquisition, and single attempts. `multi_lock/tests/exploring.rs` explores
//! several.

mod exploring;

use alloc::string::ToString;

use super::*;

fn spec(path: &str, mode: Mode) -> LockSpec {
    LockSpec::new(SessionId(1), "/".to_string(), path.to_string(), mode)
}

const fn lock(mode: LockMode) -> Mode {
    Mode::Lock { scheme: Scheme::CURATOR_READ_WRITE, mode }
}

const READ: Mode = lock(LockMode::Shared);
const WRITE: Mode = lock(LockMode::Exclusive);

#[test]
fn locks_are_acquired_in_the_order_of_their_paths() {
    let specs = ["/c", "/a", "/b"].map(|path| spec(path, WRITE));
    assert_eq!(acquisition_order(&specs), Ok([1, 2, 0].map(|index| (index, WRITE)).to_vec()));
}

#[test]
fn a_lock_given_twice_is_acquired_once_in_a_mode_that_satisfies_both() {
    let specs = [spec("/b", READ), spec("/a", READ), spec("/b", WRITE)];
    assert_eq!(acquisition_order(&specs), Ok([(1, READ), (0, WRITE)].to_vec()));
    let specs = [1, 2, u32::MAX].map(|permits| spec("/s", Mode::Permits(permits)));
    assert_eq!(acquisition_order(&specs[..2]), Ok([(0, Mode::Permits(3))].to_vec()));
    assert_eq!(acquisition_order(&specs), Ok([(0, Mode::Permits(u32::MAX))].to_vec()));
}

#[test]
fn locks_that_cannot_be_acquired_together_are_refused() {
    let a = spec("/a", READ);
    assert_eq!(acquisition_order(&[]), Err(MultiLockError::Empty));
    let elsewhere = LockSpec { session: SessionId(2), ..a.clone() };
    assert_eq!(acquisition_order(&[a.clone(), elsewhere]), Err(MultiLockError::Sessions));
    let below = LockSpec { root: "/app".to_string(), ..a.clone() };
    assert_eq!(acquisition_order(&[a.clone(), below]), Err(MultiLockError::Chroots));
    let mutex = Mode::Lock { scheme: Scheme::CURATOR_MUTEX, mode: LockMode::Exclusive };
    for other in [mutex, Mode::Permits(1)] {
        let refusal = Err(MultiLockError::Schemes { path: "/a".to_string() });
        assert_eq!(acquisition_order(&[a.clone(), spec("/a", other)]), refusal);
    }
}

#[test]
fn a_refusal_says_what_the_locks_do_not_share() {
    for (error, text) in [
        (MultiLockError::Empty, "there are no locks to acquire"),
        (MultiLockError::Sessions, "the locks belong to more than one session"),
        (MultiLockError::Chroots, "the locks belong to clients with different chroots"),
        (
            MultiLockError::Schemes { path: "/a".to_string() },
            "two locks at '/a' name their nodes differently",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

// ---- One attempt --------------------------------------------------------------------------------

fn outputs(machine: &mut MultiAcquire) -> Vec<Output> {
    core::iter::from_fn(|| machine.poll_output()).collect()
}

/// Returns an attempt to acquire three locks that holds this many.
fn holding(held: usize) -> MultiAcquire {
    let mut machine = MultiAcquire::new(3);
    for index in 0..held {
        assert_eq!(outputs(&mut machine), [Output::Enter(index)]);
        machine.handle(Input::Acquired);
    }
    machine
}

#[test]
fn each_lock_is_entered_when_the_one_before_it_is_held() {
    assert_eq!(outputs(&mut holding(3)), [Output::Acquired]);
}

#[test]
fn a_failure_releases_all_locks_in_reverse_order() {
    let busy = LockError::Busy;
    for (input, index, error) in [
        (Input::Failed(busy.clone().into()), 2, busy),
        (Input::TimedOut, 2, LockError::TimedOut),
        (Input::Lost(0, Loss::NodeDeleted), 0, LockError::Lost(Loss::NodeDeleted)),
    ] {
        let mut machine = holding(2);
        outputs(&mut machine);
        machine.handle(input);
        let all = [2, 1, 0].map(Output::Release);
        assert_eq!(
            outputs(&mut machine),
            [&all[..], &[Output::Failed(index, error.into())]].concat()
        );
    }
}

#[test]
fn release_releases_all_locks_in_reverse_order_and_ends_the_attempt() {
    for held in 0..=3 {
        let mut machine = holding(held);
        outputs(&mut machine);
        machine.handle(Input::Release);
        let first = held.min(2);
        let all: Vec<_> = (0..=first).rev().map(Output::Release).collect();
        assert_eq!(outputs(&mut machine), all);
        for late in [Input::Acquired, Input::TimedOut, Input::Release] {
            machine.handle(late);
        }
        assert_eq!(outputs(&mut machine), []);
    }
}

#[test]
fn held_locks_are_released_only_at_the_callers_command() {
    let mut machine = holding(3);
    outputs(&mut machine);
    for late in [Input::TimedOut, Input::Lost(1, Loss::NodeDeleted)] {
        machine.handle(late);
    }
    assert_eq!(outputs(&mut machine), []);
}
