//! The ledger: acknowledged increments of counters, compared with the values read.

use core::fmt;
use core::str::FromStr;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zk_testkit::linearizable::{OnRegister, Operation, check};

/// The content of a counter: its value, and the attempt that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) count: i32,
    /// The unique number of the attempt.
    pub(super) attempt: u64,
}

impl Entry {
    pub(super) const FIRST: Self = Self { count: 0, attempt: 0 };
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.count, self.attempt)
    }
}

impl FromStr for Entry {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (count, attempt) = text.split_once(' ').ok_or(())?;
        Ok(Self { count: count.parse().map_err(drop)?, attempt: attempt.parse().map_err(drop)? })
    }
}

#[derive(Debug, Default)]
struct Counter {
    /// The attempt behind each version, as far as any client knows.
    made_by: HashMap<i32, u64>,
    /// The newest acknowledged version.
    acknowledged: i32,
    /// Attempts with unknown outcome, by the version that they would make.
    unknown: HashMap<i32, Vec<u64>>,
    /// All writes, and the final read.
    history: Vec<Operation<OnRegister>>,
}

#[derive(Debug, Default)]
struct Book {
    counters: Vec<Counter>,
    acknowledged: u64,
    unknown: u64,
    /// How many unknown attempts were applied after all.
    applied: u64,
    violations: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Ledger {
    book: Mutex<Book>,
    start: Instant,
}

impl Ledger {
    pub(super) fn new(counters: usize) -> Self {
        let counters = (0..counters).map(|_| Counter::default()).collect();
        Self { book: Mutex::new(Book { counters, ..Book::default() }), start: Instant::now() }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time of an operation of a history.
    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub(super) fn violation(&self, what: String) {
        self.lock().violations.push(what);
    }

    pub(super) fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// Records that a server returned `entry` as the content of version `version`.
    pub(super) fn seen(&self, counter: usize, version: i32, entry: Entry) {
        self.lock().seen(counter, version, entry);
    }

    /// Records a write that began at `from`.
    pub(super) fn acknowledged(&self, counter: usize, from: Duration, version: i32, entry: Entry) {
        let mut book = self.lock();
        let (data, to) = (entry.to_string(), Some(self.now()));
        let what = OnRegister::Write { data, version: Some(version) };
        book.counters[counter].history.push(Operation { from, to, what });
        book.acknowledged += 1;
        book.seen(counter, version, entry);
        let newest = &mut book.counters[counter].acknowledged;
        *newest = version.max(*newest);
    }

    /// Records a write of unknown outcome that began at `from`. It demands the version before.
    pub(super) fn unknown(&self, counter: usize, from: Duration, entry: Entry) {
        let mut book = self.lock();
        let what = OnRegister::Write { data: entry.to_string(), version: Some(entry.count) };
        book.counters[counter].history.push(Operation { from, to: None, what });
        book.unknown += 1;
        book.counters[counter].unknown.entry(entry.count).or_default().push(entry.attempt);
    }

    /// Compares the ledger with the final content of a counter.
    pub(super) fn settle(&self, counter: usize, version: i32, data: &[u8]) {
        let mut book = self.lock();
        match str::from_utf8(data).ok().and_then(|text| text.parse().ok()) {
            Some(entry) => book.seen(counter, version, entry),
            None => book.violations.push(format!("counter {counter} contains {data:?}")),
        }
        let (from, to) = (self.now(), Some(self.now()));
        let what = OnRegister::Read { data: String::from_utf8_lossy(data).into(), version };
        book.counters[counter].history.push(Operation { from, to, what });
        let Counter { made_by, acknowledged, unknown, history } = &book.counters[counter];
        let mut violations = Vec::new();
        if *acknowledged > version {
            violations.push(format!("counter {counter}: version {acknowledged} was lost"));
        }
        if let Err(stuck) = check(history) {
            violations.push(format!("counter {counter}: not linearizable at {stuck:?}"));
        }
        let mut applied = 0;
        for version in 1..=version {
            let attempts = unknown.get(&version).map_or(&[][..], Vec::as_slice);
            match made_by.get(&version) {
                Some(attempt) => applied += u64::from(attempts.contains(attempt)),
                // No client has read it, so only an unknown attempt can have made it.
                None if !attempts.is_empty() => applied += 1,
                None => violations
                    .push(format!("counter {counter}: unknown author of version {version}")),
            }
        }
        book.applied += applied;
        book.violations.append(&mut violations);
    }
}

impl Book {
    fn seen(&mut self, counter: usize, version: i32, entry: Entry) {
        if entry.count != version {
            self.violations.push(format!("counter {counter}: version {version} contains {entry}"));
        }
        let made_by = &mut self.counters[counter].made_by;
        let attempt = *made_by.entry(version).or_insert(entry.attempt);
        if attempt != entry.attempt {
            let violation = format!("counter {counter}: version {version} was written twice");
            self.violations.push(violation);
        }
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Book { acknowledged, unknown, applied, .. } = &*self.lock();
        write!(
            f,
            "{acknowledged} increments acknowledged; {unknown} unknown, {applied} of them applied"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::ZERO;
    const ONE: Entry = Entry { count: 1, attempt: 10 };
    const TWO: Entry = Entry { count: 2, attempt: 20 };

    #[test]
    fn consistent_outcomes_are_no_violation() {
        let ledger = Ledger::new(1);
        ledger.acknowledged(0, SOON, 1, ONE);
        ledger.unknown(0, SOON, TWO);
        ledger.settle(0, 2, b"2 20");
        assert_eq!(ledger.violations(), [""; 0]);
        let ledger = Ledger::new(1);
        ledger.acknowledged(0, SOON, 1, ONE);
        ledger.unknown(0, SOON, TWO);
        ledger.settle(0, 1, b"1 10");
        assert_eq!(ledger.violations(), [""; 0]);
    }

    #[test]
    fn a_lost_write_is_found() {
        let ledger = Ledger::new(1);
        ledger.acknowledged(0, SOON, 1, ONE);
        ledger.acknowledged(0, SOON, 2, TWO);
        ledger.settle(0, 1, b"1 10");
        let violations = ledger.violations();
        assert_eq!(violations[0], "counter 0: version 2 was lost");
        assert!(violations[1].starts_with("counter 0: not linearizable at"), "{violations:?}");
    }

    #[test]
    fn an_overwritten_version_and_an_unknown_author_are_found() {
        let ledger = Ledger::new(1);
        ledger.acknowledged(0, SOON, 1, ONE);
        ledger.settle(0, 3, b"2 20");
        let violations = ledger.violations();
        assert_eq!(violations[0], "counter 0: version 3 contains 2 20");
        assert!(violations[1].starts_with("counter 0: not linearizable at"), "{violations:?}");
        assert_eq!(violations[2], "counter 0: unknown author of version 2");
        let ledger = Ledger::new(1);
        ledger.acknowledged(0, SOON, 1, ONE);
        ledger.seen(0, 1, Entry { count: 1, attempt: 11 });
        assert_eq!(ledger.violations(), ["counter 0: version 1 was written twice"]);
    }
}
