//! An exhaustive search through the states of a world, which finds the shortest way to a violation.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Debug, Write};
use core::hash::Hasher;
use std::collections::HashSet;
use std::hash::DefaultHasher;

/// The state of machines and their environment. Faults are taken from a budget, so there are
/// finitely many states.
pub(crate) trait World: Clone {
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

/// Visits all states, depth first, which keeps few of them in memory. Returns their number and the
/// milestones, or a violation.
fn visit<W: World>(first: W) -> Result<(usize, BTreeSet<W::Milestone>), String> {
    let mut known = HashSet::from([first.fingerprint()]);
    let mut milestones = BTreeSet::new();
    let unvisited = |world: W| {
        let (steps, faults) = world.actions();
        if steps.is_empty() {
            world.check_end()?;
        }
        Ok::<_, String>((world, steps.into_iter().chain(faults)))
    };
    let mut path = alloc::vec![unvisited(first)?];
    while let Some((world, actions)) = path.last_mut() {
        let Some(action) = actions.next() else {
            path.pop();
            continue;
        };
        let mut next = world.after(action)?;
        milestones.append(&mut next.take_milestones());
        if known.insert(next.fingerprint()) {
            path.push(unvisited(next)?);
        }
    }
    Ok((known.len(), milestones))
}

/// Returns the first violation, breadth first, and the shortest way to it.
fn find_violation<W: World>(first: W) -> Option<(String, Vec<W::Action>)> {
    let mut known = HashSet::from([first.fingerprint()]);
    // How each state was reached: the index of the state before it, and the step.
    let mut ways: Vec<(usize, Option<W::Action>)> = alloc::vec![(0, None)];
    let mut queue = VecDeque::from([(0, first)]);
    while let Some((place, world)) = queue.pop_front() {
        let (steps, faults) = world.actions();
        if steps.is_empty()
            && let Err(wrong) = world.check_end()
        {
            return Some((wrong, way(&ways, place)));
        }
        for action in steps.into_iter().chain(faults) {
            match world.after(action) {
                Ok(next) => {
                    if known.insert(next.fingerprint()) {
                        ways.push((place, Some(action)));
                        queue.push_back((ways.len() - 1, next));
                    }
                }
                Err(wrong) => {
                    let mut way = way(&ways, place);
                    way.push(action);
                    return Some((wrong, way));
                }
            }
        }
    }
    None
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
    match visit(first.clone()) {
        Ok((visited, reached)) => {
            assert_eq!(reached, milestones.iter().copied().collect());
            assert_eq!(visited, states);
        }
        Err(wrong) => panic!("{wrong}; the shortest way: {:#?}", find_violation(first)),
    }
}

/// Checks that a world with an injected bug violates this invariant after this many steps.
#[track_caller]
pub(crate) fn refute<W: World>(first: W, wrong: &str, steps: usize) {
    let (found, way) = find_violation(first).expect("the flaw is noticed");
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
