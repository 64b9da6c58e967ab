//! Every world within bounds, step by step: breadth first, so what is found wrong is found on the
//! shortest way.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Debug, Write};
use core::hash::Hasher;
use std::collections::HashSet;
use std::hash::DefaultHasher;

/// Machines and what is around them, at one moment. What may go wrong in it is taken from a budget,
/// so there are finitely many.
pub(crate) trait World: Sized {
    /// Something that can happen.
    type Action: Copy + Debug;
    /// What is to happen somewhere in every world that is large enough for it.
    type Milestone: Copy + Debug + Ord;

    /// Stands for all that matters for what can still happen.
    fn fingerprint(&self) -> u64;

    /// What can happen by itself, and what can go wrong.
    fn actions(&self) -> (Vec<Self::Action>, Vec<Self::Action>);

    /// The world after `action`, or what is wrong with it.
    fn after(&self, action: Self::Action) -> Result<Self, String>;

    /// Nothing goes on by itself. What is wrong with that, if somebody still waits.
    fn check_end(&self) -> Result<(), String>;

    /// What has happened on the way here, and was not taken yet.
    fn take_milestones(&mut self) -> BTreeSet<Self::Milestone>;
}

struct Explored<W: World> {
    states: usize,
    milestones: BTreeSet<W::Milestone>,
    /// What is wrong, and the way there.
    violation: Option<(String, Vec<W::Action>)>,
}

fn explore<W: World>(first: W) -> Explored<W> {
    let mut known = HashSet::from([first.fingerprint()]);
    // How every state was reached, by the place of the one before it.
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

/// Nothing is ever wrong in what can become of this world, and all of this happens. The number of
/// states is here to be noticed when it changes: what is explored has changed then.
#[track_caller]
pub(crate) fn prove<W: World>(first: W, states: usize, milestones: &[W::Milestone]) {
    let explored = explore(first);
    if let Some((wrong, way)) = explored.violation {
        panic!("{wrong} after {way:#?}");
    }
    assert_eq!(explored.milestones, milestones.iter().copied().collect());
    assert_eq!(explored.states, states);
}

/// This world, which has a flaw, goes wrong, like this and on a way of so many steps.
#[track_caller]
pub(crate) fn refute<W: World>(first: W, wrong: &str, steps: usize) {
    let (found, way) = explore(first).violation.expect("the flaw is noticed");
    assert_eq!((&*found, way.len()), (wrong, steps), "{way:#?}");
}

/// Stands for the state of a machine that can write it down.
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
