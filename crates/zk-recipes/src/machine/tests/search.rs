//! An exhaustive search through the states of a world: breadth first, so the shortest way to a
//! violation is found.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Debug, Write};
use core::hash::Hasher;
use std::collections::HashSet;
use std::hash::DefaultHasher;

/// The state of machines and their environment. Faults are taken from a budget, so there are
/// finitely many states.
pub(crate) trait World: Sized {
    /// A step from one state to the next.
    type Action: Copy + Debug;
    /// A goal that some state of every sufficiently large world must reach.
    type Milestone: Copy + Debug + Ord;

    /// Returns a hash of everything that determines the future.
    fn fingerprint(&self) -> u64;

    /// Returns the possible steps: those that happen by themselves, and faults.
    fn actions(&self) -> (Vec<Self::Action>, Vec<Self::Action>);

    /// Returns the state after `action`, or the violation that it causes.
    fn after(&self, action: Self::Action) -> Result<Self, String>;

    /// Checks a state in which nothing happens by itself. Returns an error if a client waits.
    fn check_end(&self) -> Result<(), String>;

    /// Returns the milestones reached since the last call.
    fn take_milestones(&mut self) -> BTreeSet<Self::Milestone>;
}

struct Explored<W: World> {
    states: usize,
    milestones: BTreeSet<W::Milestone>,
    /// The violation, and the steps that led to it.
    violation: Option<(String, Vec<W::Action>)>,
}

fn explore<W: World>(first: W) -> Explored<W> {
    let mut known = HashSet::from([first.fingerprint()]);
    // How each state was reached: the index of the state before it, and the step.
    let mut ways: Vec<(usize, Option<W::Action>)> = alloc::vec![(0, None)];
    let mut queue = VecDeque::from([(0, first)]);
    let mut milestones = BTreeSet::new();
    let mut violation = None;
    while let (Some((place, world)), None) = (queue.pop_front(), &violation) {
        let (steps, faults) = world.actions();
        if steps.is_empty()
            && let Err(wrong) = world.check_end()
        {
            violation = Some((wrong, way(&ways, place)));
        }
        for action in steps.into_iter().chain(faults) {
            match world.after(action) {
                Ok(mut next) => {
                    milestones.append(&mut next.take_milestones());
                    if known.insert(next.fingerprint()) {
                        ways.push((place, Some(action)));
                        queue.push_back((ways.len() - 1, next));
                    }
                }
                Err(wrong) => {
                    let mut way = way(&ways, place);
                    way.push(action);
                    violation = violation.or(Some((wrong, way)));
                }
            }
        }
    }
    Explored { states: known.len(), milestones, violation }
}

fn way<A: Copy>(ways: &[(usize, Option<A>)], mut place: usize) -> Vec<A> {
    let mut way = Vec::new();
    while let (before, Some(action)) = ways[place] {
        way.push(action);
        place = before;
    }
    way.reverse();
    way
}

/// Checks that no state violates an invariant, and that all milestones are reached. The number of
/// states detects an unintended change of what is explored.
#[track_caller]
pub(crate) fn prove<W: World>(first: W, states: usize, milestones: &[W::Milestone]) {
    let explored = explore(first);
    if let Some((wrong, way)) = explored.violation {
        panic!("{wrong} after {way:#?}");
    }
    assert_eq!(explored.milestones, milestones.iter().copied().collect());
    assert_eq!(explored.states, states);
}

/// Checks that a world with an injected bug violates this invariant after this many steps.
#[track_caller]
pub(crate) fn refute<W: World>(first: W, wrong: &str, steps: usize) {
    let (found, way) = explore(first).violation.expect("the flaw is noticed");
    assert_eq!((&*found, way.len()), (wrong, steps), "{way:#?}");
}

/// Returns a hash of a state, from its text.
pub(crate) fn fingerprint(write: impl FnOnce(&mut HashedText) -> fmt::Result) -> u64 {
    let mut text = HashedText(DefaultHasher::new());
    write(&mut text).expect("hashing does not fail");
    text.0.finish()
}

/// Text that is hashed while it is written.
#[derive(Debug)]
pub(crate) struct HashedText(DefaultHasher);

impl Write for HashedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}
