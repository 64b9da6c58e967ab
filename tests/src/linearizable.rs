//! A checker of histories in the way of Jepsen: whether concurrent operations have an order, within
//! their times, that a [`Model`] allows.
//!
//! The search is that of Wing and Gong with the memory of Lowe: it takes operations one by one, and
//! never returns to a set of taken operations with the same state. Of equal operations of unknown
//! outcome it takes the earliest first: any order with a later one would allow that, too.

use alloc::collections::BTreeSet;
use core::fmt::Debug;
use core::hash::Hash;
use core::mem::replace;
use core::time::Duration;
use std::collections::HashSet;

/// What operations on one object do, one after another.
pub trait Model {
    /// The state of the object.
    type State: Clone + Debug + Default + Eq + Hash;

    /// Returns the state after this operation, or `None` if it cannot come next.
    fn step(&self, state: &Self::State) -> Option<Self::State>;
}

/// An operation, and when it may have taken effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation<M> {
    /// When it was submitted.
    pub from: Duration,
    /// When its success was reported. `None` if its outcome is unknown: it takes effect at any time
    /// after `from`, or never.
    pub to: Option<Duration>,
    /// What it does.
    pub what: M,
}

/// Checks that a history is linearizable.
///
/// # Errors
///
/// The operations that no order could take next, after the longest order that was found.
pub fn check<M: Model + Clone + PartialEq>(
    history: &[Operation<M>],
) -> Result<(), Vec<Operation<M>>> {
    let mut history = history.to_vec();
    history.sort_by_key(|operation| operation.from);
    let is_unknown = |place: &usize| history[*place].to.is_none();
    let unknown: Vec<_> = (0..history.len()).filter(is_unknown).collect();
    let required = history.len() - unknown.len();
    let mut known = HashSet::new();
    let (mut furthest, mut stuck) = (0, Vec::new());
    let mut open = vec![(Taken::default(), M::State::default())];
    while let Some((taken, state)) = open.pop() {
        if taken.required == required {
            return Ok(());
        }
        let next = taken.next(&history, &unknown);
        if taken.required >= furthest {
            (furthest, stuck) = (taken.required, next.clone());
        }
        // Taking a reported operation that changes nothing, as a read, is never a mistake.
        let changes_nothing = |place: &&usize| {
            let Operation { to, what, .. } = &history[**place];
            to.is_some() && what.step(&state).as_ref() == Some(&state)
        };
        let next = match next.iter().find(changes_nothing) {
            Some(place) => vec![*place],
            None => next,
        };
        // The last one is tried first: what was reported, in the order in which it ended.
        let mut next: Vec<_> = next.into_iter().map(|place| (history[place].to, place)).collect();
        next.sort_by_key(|(to, _)| core::cmp::Reverse(to.unwrap_or(Duration::MAX)));
        let mut tried: Vec<&M> = Vec::new();
        for (to, place) in next {
            let what = &history[place].what;
            let Some(state) = what.step(&state) else { continue };
            if to.is_none() && tried.contains(&what) {
                continue;
            }
            tried.extend(to.is_none().then_some(what));
            let mut taken = taken.clone();
            taken.take(place, &history);
            if known.insert((taken.clone(), state.clone())) {
                open.push((taken, state));
            }
        }
    }
    match required {
        0 => Ok(()),
        _ => Err(stuck.into_iter().map(|place| history[place].clone()).collect()),
    }
}

/// A set of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Taken {
    /// All reported operations before this place are taken.
    before: usize,
    /// Other taken operations: reported ones from there on, and unknown ones.
    others: BTreeSet<usize>,
    /// The number of reported operations that are taken.
    required: usize,
}

impl Taken {
    /// Returns the operations that began before any other one that is not taken has ended.
    fn next<M>(&self, history: &[Operation<M>], unknown: &[usize]) -> Vec<usize> {
        let is_left = |place: &usize| !self.others.contains(place);
        let mut ends = Duration::MAX;
        for operation in (self.before..history.len()).filter(is_left).map(|at| &history[at]) {
            // They are sorted by their beginning.
            if operation.from > ends {
                break;
            }
            ends = ends.min(operation.to.unwrap_or(Duration::MAX));
        }
        let has_begun = |place: &usize| history[*place].from <= ends;
        let earlier = unknown.iter().copied().take_while(|place| *place < self.before);
        let later = (self.before..history.len()).take_while(has_begun);
        earlier.chain(later).filter(is_left).collect()
    }

    fn take<M>(&mut self, place: usize, history: &[Operation<M>]) {
        self.others.insert(place);
        self.required += usize::from(history[place].to.is_some());
        while let Some(operation) = history.get(self.before)
            && (operation.to.is_none() || self.others.remove(&self.before))
        {
            self.before += 1;
        }
    }
}

/// An operation on a node whose data each write replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnRegister {
    /// Writes data. The reply reports the new version, if there is a reply.
    Write {
        /// The data, unique among all writes.
        data: String,
        /// The version after the write.
        version: Option<i32>,
    },
    /// Reads the data and its version, behind a `sync`.
    Read {
        /// The data.
        data: String,
        /// The version.
        version: i32,
    },
}

impl Model for OnRegister {
    /// The version and the data.
    type State = (i32, String);

    fn step(&self, (before, current): &Self::State) -> Option<Self::State> {
        match self {
            Self::Write { data, version } => {
                let after = before + 1;
                version.is_none_or(|version| version == after).then(|| (after, data.clone()))
            }
            Self::Read { data, version } => {
                let is_current = version == before && (*version == 0 || data == current);
                is_current.then(|| (*before, current.clone()))
            }
        }
    }
}

/// An operation on a register that refuses writes with an older fencing token than its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnFenced {
    /// The fencing token of the writer, or the one that is read with the data.
    pub token: i64,
    /// The operation.
    pub what: OnRegister,
}

impl Model for OnFenced {
    /// The token of the last write, and the register.
    type State = (i64, <OnRegister as Model>::State);

    fn step(&self, (token, register): &Self::State) -> Option<Self::State> {
        let is_allowed = match self.what {
            OnRegister::Write { .. } => self.token >= *token,
            OnRegister::Read { .. } => self.token == *token,
        };
        let register = is_allowed.then(|| self.what.step(register))?;
        Some((self.token, register?))
    }
}

/// An operation on a lock that is held by one writer or by several readers. A mutex has writers only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnLock {
    /// A writer acquires the lock with this fencing token.
    Acquire(i64),
    /// A reader acquires the lock with this fencing token.
    AcquireShared(i64),
    /// The reader with the first token becomes a writer with the second one.
    Upgrade(i64, i64),
    /// The writer with this token becomes a reader.
    Downgrade(i64),
    /// The holder with this token releases or loses it.
    Release(i64),
}

/// The holders of a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holders {
    /// The token of the writer.
    writer: Option<i64>,
    /// The tokens of the readers.
    readers: BTreeSet<i64>,
    /// The token of the last writer.
    last: i64,
}

impl Model for OnLock {
    type State = Holders;

    fn step(&self, before: &Holders) -> Option<Holders> {
        let Holders { mut writer, mut readers, mut last } = before.clone();
        let is_free = writer.is_none() && readers.is_empty();
        let is_possible = match *self {
            Self::Acquire(token) => {
                writer = Some(token);
                is_free && token > replace(&mut last, token)
            }
            Self::AcquireShared(token) => writer.is_none() && token > last && readers.insert(token),
            Self::Upgrade(reader, token) => {
                writer = Some(token);
                readers.remove(&reader) && readers.is_empty() && token > replace(&mut last, token)
            }
            Self::Downgrade(token) => writer.take() == Some(token) && readers.insert(token),
            Self::Release(token) => {
                writer.take_if(|writer| *writer == token).is_some() || readers.remove(&token)
            }
        };
        is_possible.then_some(Holders { writer, readers, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation<M>(from: u64, to: impl Into<Option<u64>>, what: M) -> Operation<M> {
        let to = to.into().map(Duration::from_secs);
        Operation { from: Duration::from_secs(from), to, what }
    }

    fn write(from: u64, to: u64, version: i32) -> Operation<OnRegister> {
        let data = version.to_string();
        operation(from, to, OnRegister::Write { data, version: Some(version) })
    }

    fn unknown(from: u64, data: &str) -> Operation<OnRegister> {
        operation(from, None, OnRegister::Write { data: data.into(), version: None })
    }

    fn read(from: u64, to: u64, data: &str, version: i32) -> Operation<OnRegister> {
        operation(from, to, OnRegister::Read { data: data.into(), version })
    }

    #[test]
    fn concurrent_operations_have_any_order() {
        let good = [write(0, 9, 2), write(1, 3, 1), read(2, 8, "1", 1), read(0, 4, "", 0)];
        assert_eq!(check(&good), Ok(()));
        assert_eq!(check::<OnRegister>(&[]), Ok(()));
    }

    #[test]
    fn a_stale_read_is_found() {
        let late = read(4, 5, "1", 1);
        let bad = [write(0, 1, 1), write(2, 3, 2), late.clone()];
        assert_eq!(check(&bad), Err(vec![late]));
        assert_eq!(check(&[write(0, 1, 1), write(2, 4, 2), read(4, 5, "1", 1)]), Ok(()));
    }

    #[test]
    fn a_lost_write_is_found() {
        assert!(check(&[write(0, 1, 1), write(2, 3, 1)]).is_err());
        assert!(check(&[write(0, 1, 1), read(2, 3, "", 0)]).is_err());
        assert!(check(&[write(0, 1, 1), read(2, 3, "other", 1)]).is_err());
    }

    #[test]
    fn writes_in_the_wrong_order_are_found() {
        assert!(check(&[write(0, 1, 2), write(2, 3, 1)]).is_err());
    }

    #[test]
    fn a_write_of_unknown_outcome_takes_effect_late_or_never_but_once() {
        assert_eq!(check(&[unknown(0, "x"), write(1, 2, 1)]), Ok(()));
        assert_eq!(check(&[unknown(0, "x"), write(1, 2, 2)]), Ok(()));
        assert_eq!(check(&[unknown(0, "x"), write(1, 2, 1), read(3, 4, "x", 2)]), Ok(()));
        assert!(check(&[unknown(0, "x"), write(1, 2, 3)]).is_err());
        assert!(check(&[unknown(3, "x"), read(1, 2, "x", 1)]).is_err());
        let twice = [unknown(0, "x"), read(1, 2, "x", 1), write(3, 4, 2), read(5, 6, "x", 3)];
        assert!(check(&twice).is_err());
    }

    #[test]
    fn many_writes_of_unknown_outcome_are_searched_in_time() {
        let lost = (0..40).map(|number| unknown(0, &format!("x{number}")));
        let written = (1..400).map(|version| write(version * 2, version * 2 + 1, version as i32));
        assert_eq!(check(&lost.chain(written).collect::<Vec<_>>()), Ok(()));
    }

    #[test]
    fn equal_writes_of_unknown_outcome_are_taken_in_order() {
        // Every second version is missing, and any of the lost writes may be behind it.
        let lost = (0..40).map(|number| unknown(number, ""));
        let written = (20..60).map(|time| write(time * 2, time * 2 + 1, (time as i32 - 19) * 2));
        let mut history: Vec<_> = lost.chain(written).collect();
        assert_eq!(check(&history), Ok(()));
        history.push(write(200, 201, 82));
        assert!(check(&history).is_err());
    }

    #[test]
    fn slow_reads_are_searched_in_time() {
        let written = (1..40).map(|version| write(version * 2, version * 2 + 1, version as i32));
        let slow = (1..40).map(|version| read(0, 100, &version.to_string(), version));
        let mut history: Vec<_> = written.chain(slow).collect();
        assert_eq!(check(&history), Ok(()));
        history.push(read(4, 100, "0", 0));
        assert!(check(&history).is_err());
    }

    #[test]
    fn a_late_write_of_an_earlier_holder_is_found() {
        let fenced = |token, register: Operation<OnRegister>| {
            let Operation { from, to, what } = register;
            Operation { from, to, what: OnFenced { token, what } }
        };
        let two = [fenced(1, write(0, 1, 1)), fenced(2, write(2, 3, 2))];
        assert_eq!(check(&two), Ok(()));
        let late = fenced(1, write(4, 5, 3));
        assert!(check(&[&two[..], &[late]].concat()).is_err());
        // Its outcome is unknown, and nothing shows that it was applied.
        let lost = fenced(1, unknown(1, "late"));
        assert_eq!(check(&[&two[..], core::slice::from_ref(&lost)].concat()), Ok(()));
        let applied = fenced(1, read(4, 5, "late", 3));
        assert!(check(&[&two[..], &[lost, applied]].concat()).is_err());
    }

    fn held(token: i64, acquired: [u64; 2], released: [u64; 2]) -> [Operation<OnLock>; 2] {
        [
            operation(acquired[0], acquired[1], OnLock::Acquire(token)),
            operation(released[0], released[1], OnLock::Release(token)),
        ]
    }

    #[test]
    fn two_holders_are_found() {
        let first = held(1, [0, 1], [5, 6]);
        let later = held(2, [2, 6], [7, 8]);
        assert_eq!(check(&[&first[..], &later[..]].concat()), Ok(()));
        let early = held(2, [2, 4], [7, 8]);
        assert!(check(&[&first[..], &early[..]].concat()).is_err());
        // The first one loses the lock and learns of it later.
        let lost = held(1, [0, 1], [1, 6]);
        assert_eq!(check(&[&lost[..], &early[..]].concat()), Ok(()));
    }

    #[test]
    fn a_token_that_does_not_rise_is_found() {
        let history = [held(2, [0, 1], [2, 3]), held(1, [4, 5], [6, 7])].concat();
        assert!(check(&history).is_err());
    }

    fn shared(token: i64, acquired: [u64; 2], released: [u64; 2]) -> [Operation<OnLock>; 2] {
        [
            operation(acquired[0], acquired[1], OnLock::AcquireShared(token)),
            operation(released[0], released[1], OnLock::Release(token)),
        ]
    }

    #[test]
    fn readers_share_a_lock_but_not_with_a_writer() {
        let readers = [shared(1, [0, 1], [6, 7]), shared(2, [2, 3], [4, 5])].concat();
        assert_eq!(check(&readers), Ok(()));
        let later = held(3, [2, 8], [9, 10]);
        assert_eq!(check(&[&readers[..], &later].concat()), Ok(()));
        let early = held(3, [2, 5], [9, 10]);
        assert!(check(&[&readers[..], &early].concat()).is_err());
        // A reader acquires the lock after a writer, with an older token than the writer's.
        assert!(check(&[shared(1, [4, 5], [6, 7]), held(2, [0, 1], [2, 3])].concat()).is_err());
    }

    #[test]
    fn a_conversion_holds_the_lock_without_a_gap() {
        let upgraded = |second: [Operation<OnLock>; 2]| {
            let [first, mut released] = shared(1, [0, 1], [8, 9]);
            released.what = OnLock::Release(3);
            let upgrade = operation(4, 5, OnLock::Upgrade(1, 3));
            check(&[&[first, upgrade, released][..], &second].concat())
        };
        assert_eq!(upgraded(shared(2, [0, 1], [2, 3])), Ok(()));
        assert_eq!(upgraded(held(4, [0, 9], [10, 11])), Ok(()));
        assert!(upgraded(shared(2, [0, 1], [6, 7])).is_err(), "not alone");
        assert!(upgraded(held(2, [1, 3], [3, 4])).is_err(), "a writer before the upgrade");

        let downgraded = |second: [Operation<OnLock>; 2]| {
            let [first, released] = held(2, [0, 1], [8, 9]);
            let downgrade = operation(4, 5, OnLock::Downgrade(2));
            check(&[&[first, downgrade, released][..], &second].concat())
        };
        assert_eq!(downgraded(shared(3, [2, 5], [6, 7])), Ok(()));
        assert!(downgraded(shared(3, [2, 3], [6, 7])).is_err(), "before the downgrade");
        assert!(downgraded(held(3, [2, 6], [7, 8])).is_err(), "a writer beside the reader");
    }

    #[test]
    fn a_holder_that_vanishes_may_hold_for_ever() {
        let [acquired, mut gone] = held(1, [0, 1], [1, 9]);
        gone.to = None;
        assert_eq!(check(&[acquired.clone(), gone.clone()]), Ok(()));
        let [next, _] = held(2, [2, 3], [4, 5]);
        assert_eq!(check(&[acquired, gone, next]), Ok(()));
    }
}
