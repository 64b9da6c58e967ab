//! An exhaustive search through the states of a world, which finds the shortest way to a violation.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Debug, Write};
use core::hash::Hasher;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::env;
use std::hash::DefaultHasher;
use std::sync::{LockResult, Mutex, OnceLock};

use rayon::{Scope, ThreadPoolBuilder};

/// The state of machines and their environment. Faults are taken from a budget, so there are
/// finitely many states.
pub(crate) trait World: Clone + Send {
    /// A step from one state to the next.
    type Action: Copy + Debug;
    /// A goal that some state of every sufficiently large world must reach.
    type Milestone: Copy + Debug + Ord + Send;

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

/// Visits all states. Returns their number and the milestones, or a violation.
///
/// Several threads visit them in another order each time. So their number may vary, unless
/// [states that are equal have equal futures](prove_equal_futures).
pub(crate) fn visit<W: World>(first: W) -> Result<(usize, BTreeSet<W::Milestone>), String> {
    let threads = env::var("ZK_THREADS").map_or(1, |it| it.parse().expect("a number of threads"));
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    let search = Search::<W>::default();
    search.is_new(&first);
    pool.scope(|scope| search.visit(first, scope));
    match search.violation.into_inner() {
        Some(wrong) => Err(wrong),
        None => Ok((
            search.known.into_iter().map(|part| unlocked(part.into_inner()).len()).sum(),
            unlocked(search.milestones.into_inner()),
        )),
    }
}

/// What the threads of a search share.
pub(crate) struct Search<W: World> {
    /// The fingerprints of all states, apart by their last bits.
    known: [Mutex<HashSet<u64>>; 64],
    milestones: Mutex<BTreeSet<W::Milestone>>,
    violation: OnceLock<String>,
}

impl<W: World> Default for Search<W> {
    fn default() -> Self {
        let known = core::array::from_fn(|_| Mutex::default());
        Self { known, milestones: Mutex::default(), violation: OnceLock::new() }
    }
}

impl<W: World> Search<W> {
    pub(crate) fn is_new(&self, world: &W) -> bool {
        let fingerprint = world.fingerprint();
        unlocked(self.known[fingerprint as usize % self.known.len()].lock()).insert(fingerprint)
    }

    /// Visits a state, then those that follow it.
    ///
    /// A thread takes the state that it found last. So it goes depth first, which keeps few of them
    /// in memory.
    pub(crate) fn visit<'s>(&'s self, world: W, scope: &Scope<'s>)
    where
        W: 's,
    {
        if self.violation.get().is_none()
            && let Err(wrong) = self.try_visit(world, scope)
        {
            // One is enough, whichever it is.
            let _ = self.violation.set(wrong);
        }
    }

    pub(crate) fn try_visit<'s>(&'s self, world: W, scope: &Scope<'s>) -> Result<(), String>
    where
        W: 's,
    {
        let (steps, faults) = world.actions();
        if steps.is_empty() {
            world.check_end()?;
        }
        for action in steps.into_iter().chain(faults) {
            let mut next = world.after(action)?;
            let mut milestones = next.take_milestones();
            if !milestones.is_empty() {
                unlocked(self.milestones.lock()).append(&mut milestones);
            }
            if self.is_new(&next) {
                scope.spawn(|scope| self.visit(next, scope));
            }
        }
        Ok(())
    }
}

pub(crate) fn unlocked<T>(value: LockResult<T>) -> T {
    value.expect("no thread has panicked")
}

/// Returns the first violation, breadth first, and the shortest way to it.
pub(crate) fn find_violation<W: World>(first: W) -> Option<(String, Vec<W::Action>)> {
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

pub(crate) fn way<A: Copy>(ways: &[(usize, Option<A>)], mut place: usize) -> Vec<A> {
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

/// Checks that states with the same fingerprint are followed by states with the same fingerprints.
///
/// Then it makes no difference which of them is visited.
#[track_caller]
pub(crate) fn prove_equal_futures<W: World>(first: W) {
    let mut known: HashMap<u64, BTreeSet<u64>> = HashMap::new();
    let mut worlds = alloc::vec![first];
    while let Some(world) = worlds.pop() {
        let (steps, faults) = world.actions();
        let actions = steps.into_iter().chain(faults);
        let after: Vec<_> = actions.map(|it| world.after(it).expect("no violation")).collect();
        let futures: BTreeSet<_> = after.iter().map(W::fingerprint).collect();
        match known.entry(world.fingerprint()) {
            Entry::Vacant(entry) => {
                entry.insert(futures);
                worlds.extend(after);
            }
            Entry::Occupied(entry) => assert_eq!(*entry.get(), futures),
        }
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
