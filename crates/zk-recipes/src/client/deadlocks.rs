//! Deadlocks between owners of this process, found on request.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use std::sync::PoisonError;

use zk_session::threads::{Mutex as StdMutex, MutexGuard as StdMutexGuard};

use crate::attempt::LockMode;
use crate::client::held_lock::{HoldNode, Holder};
use crate::client::status::Handle;
use crate::numbered::Numbered;

/// Finds deadlocks between the owners of locks in this process: one waits for a lock that another
/// holds, which waits for one that the first holds.
///
/// Give it to all locks concerned by [`Options::deadlocks`](crate::Options::deadlocks), and name the
/// owner of each attempt by [`Pending::by`](crate::Pending::by). An owner does one thing at a time,
/// such as a task, a thread or a transaction.
///
/// ```no_run
/// use zk_recipes::{Deadlocks, Mutex, Options, session::Client};
///
/// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let deadlocks = Deadlocks::new(|deadlock| eprintln!("deadlock: {deadlock}"));
/// let options = || Options::new().deadlocks(&deadlocks);
/// let from = Mutex::with(&client, "/accounts/1", options())?;
/// let to = Mutex::with(&client, "/accounts/2", options())?;
/// let first = from.acquire().by("transfer 7").await?;
/// let second = to.acquire().by("transfer 7").await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantee
///
/// A deadlock is reported once, by the attempt that closes it, when that begins. Nothing else
/// happens: the attempts wait until one of them is dropped or reaches its time limit. A
/// [`MultiLock`](crate::MultiLock) prevents deadlocks.
///
/// It knows the named owners of this process only, and locks by their paths. So use one value for the
/// locks of one ensemble.
#[derive(Clone)]
pub struct Deadlocks(Arc<dyn Search>);

/// Follows who waits for whom. A trait, so that a program which never looks for deadlocks has no code
/// for it.
trait Search: Send + Sync {
    /// Adds an owner that waits. Returns its number, and the deadlock that it closes.
    fn wait(&self, entry: GraphEntry) -> (u64, Option<Deadlock>);
    fn report(&self, deadlock: &Deadlock);
    /// The owner of this number holds its lock.
    fn hold(&self, number: u64);
    /// The owner of this number has given up, or released its lock.
    fn remove(&self, number: u64);
}

struct SharedGraph {
    graph: StdMutex<Graph>,
    report: Report,
}

type Report = Box<dyn Fn(&Deadlock) + Send + Sync>;

impl fmt::Debug for Deadlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadlocks").finish_non_exhaustive()
    }
}

/// Owners that wait for each other. Each waits for the next one, and the last one for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlock {
    /// The owners, beginning with the one that has closed it, and the paths of the locks that they
    /// wait for.
    pub waits: Vec<(Arc<str>, Arc<str>)>,
}

impl Deadlock {
    /// Goes back from the last one that waits to the first.
    fn ending_with(last: usize, waiting: &[Waiting<'_>]) -> Self {
        let (mut waits, mut place) = (Vec::new(), Some(last));
        while let Some(((_, entry), before)) = place.and_then(|place| waiting.get(place)) {
            waits.push((entry.owner.clone(), entry.lock.clone()));
            place = *before;
        }
        waits.reverse();
        Self { waits }
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let next = self.waits.iter().cycle().skip(1);
        for (place, ((owner, lock), (other, _))) in self.waits.iter().zip(next).enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            write!(f, "{comma}{owner} waits for {lock} behind {other}")?;
        }
        Ok(())
    }
}

impl Deadlocks {
    /// Reports deadlocks to `report`, in the task or thread of the attempt that closes them.
    pub fn new(report: impl Fn(&Deadlock) + Send + Sync + 'static) -> Self {
        let report: Report = Box::new(report);
        Self(Arc::new(SharedGraph { graph: StdMutex::default(), report }))
    }

    /// An attempt begins.
    pub(crate) fn waits(&self, owner: Arc<str>, lock: Arc<str>, mode: LockMode) -> Mark {
        let entry = GraphEntry { owner, lock, mode, is_held: false };
        let (number, deadlock) = self.0.wait(entry);
        let mark = Mark { search: self.0.clone(), number };
        if let Some(deadlock) = deadlock {
            self.0.report(&deadlock);
        }
        mark
    }
}

impl SharedGraph {
    fn graph(&self) -> StdMutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Search for SharedGraph {
    fn wait(&self, entry: GraphEntry) -> (u64, Option<Deadlock>) {
        let mut graph = self.graph();
        let number = graph.entries.push(entry);
        (number, graph.deadlock(number))
    }

    fn report(&self, deadlock: &Deadlock) {
        (self.report)(deadlock);
    }

    fn hold(&self, number: u64) {
        if let Some(entry) = self.graph().entries.get_mut(number) {
            entry.is_held = true;
        }
    }

    fn remove(&self, number: u64) {
        self.graph().entries.remove(number);
    }
}

/// An owner that waits or holds, until it is dropped.
pub(crate) struct Mark {
    search: Arc<dyn Search>,
    number: u64,
}

impl Mark {
    /// The attempt holds the lock.
    pub(crate) fn holds(self) -> Self {
        self.search.hold(self.number);
        self
    }

    /// The attempt holds the lock with this node of its own.
    pub(crate) fn hold(self, node: Holder) -> Holder {
        Holder::Special(Box::new(Marked { node, _mark: self.holds() }))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.search.remove(self.number);
    }
}

/// The node of an owner with a name.
struct Marked {
    node: Holder,
    _mark: Mark,
}

impl HoldNode for Marked {
    fn handle(&self) -> &Handle {
        &self.node
    }

    fn end(self: Box<Self>) -> Option<Handle> {
        self.node.end()
    }
}

/// Who holds which lock, and who waits for it.
#[derive(Default)]
struct Graph {
    /// In the order in which they came.
    entries: Numbered<GraphEntry>,
}

#[derive(Clone)]
struct GraphEntry {
    owner: Arc<str>,
    lock: Arc<str>,
    mode: LockMode,
    is_held: bool,
}

/// An entry that waits, and the place of the one that waits for its owner.
type Waiting<'a> = (&'a (u64, GraphEntry), Option<usize>);

impl Graph {
    /// Returns the deadlock that this attempt closes, in time in proportion to the square of the
    /// number of entries.
    fn deadlock(&self, number: u64) -> Option<Deadlock> {
        let first = self.entries.iter().find(|(other, _)| *other == number)?;
        let mut waiting: Vec<Waiting<'_>> = vec![(first, None)];
        let mut is_followed = vec![false; self.entries.len()];
        let mut is_waiting = is_followed.clone();
        let mut place = 0;
        while let Some(&(entry, _)) = waiting.get(place) {
            for (at, ahead) in self.entries.iter().enumerate().filter(|it| is_behind(entry, it.1)) {
                if ahead.1.owner == first.1.owner {
                    return Some(Deadlock::ending_with(place, &waiting));
                }
                if core::mem::replace(&mut is_followed[at], true) {
                    continue;
                }
                for (at, other) in self.entries.iter().enumerate() {
                    let is_its = other.1.owner == ahead.1.owner && !other.1.is_held;
                    if is_its && !core::mem::replace(&mut is_waiting[at], true) {
                        waiting.push((other, Some(place)));
                    }
                }
            }
            place += 1;
        }
        None
    }
}

/// Returns whether the first one waits for the second one.
fn is_behind((number, entry): &(u64, GraphEntry), (other, ahead): &(u64, GraphEntry)) -> bool {
    let conflicts = (entry.mode, ahead.mode) != (LockMode::Shared, LockMode::Shared);
    let comes_first = other < number || ahead.is_held && other != number;
    ahead.lock == entry.lock && conflicts && comes_first
}

#[cfg(test)]
mod tests;
