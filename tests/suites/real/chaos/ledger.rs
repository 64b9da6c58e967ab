//! What was promised about counters, and what was seen of them.

use core::fmt;
use core::str::FromStr;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a counter holds: how often it was raised, and by which attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) count: i32,
    /// Never drawn twice.
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
    /// The attempt that made each version, as far as anybody was told.
    made_by: HashMap<i32, u64>,
    /// The newest version that was acknowledged.
    acknowledged: i32,
    /// Attempts of which nobody was told how they ended, by the version that they would make.
    unknown: HashMap<i32, Vec<u64>>,
}

#[derive(Debug, Default)]
struct Book {
    counters: Vec<Counter>,
    acknowledged: u64,
    unknown: u64,
    /// How many of the unknown ones turned out to have been applied, at the end.
    applied: u64,
    violations: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Ledger(Mutex<Book>);

impl Ledger {
    pub(super) fn new(counters: usize) -> Self {
        let counters = (0..counters).map(|_| Counter::default()).collect();
        Self(Mutex::new(Book { counters, ..Book::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn violation(&self, what: String) {
        self.lock().violations.push(what);
    }

    pub(super) fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// Returns a server has said that `entry` is what version `version` holds.
    pub(super) fn seen(&self, counter: usize, version: i32, entry: Entry) {
        self.lock().seen(counter, version, entry);
    }

    pub(super) fn acknowledged(&self, counter: usize, version: i32, entry: Entry) {
        let mut book = self.lock();
        book.acknowledged += 1;
        book.seen(counter, version, entry);
        let newest = &mut book.counters[counter].acknowledged;
        *newest = version.max(*newest);
    }

    pub(super) fn unknown(&self, counter: usize, entry: Entry) {
        let mut book = self.lock();
        book.unknown += 1;
        book.counters[counter].unknown.entry(entry.count).or_default().push(entry.attempt);
    }

    /// What is left at the end.
    pub(super) fn settle(&self, counter: usize, version: i32, data: &[u8]) {
        let mut book = self.lock();
        match str::from_utf8(data).ok().and_then(|text| text.parse().ok()) {
            Some(entry) => book.seen(counter, version, entry),
            None => book.violations.push(format!("counter {counter} holds {data:?}")),
        }
        let Counter { made_by, acknowledged, unknown } = &book.counters[counter];
        let mut violations = Vec::new();
        if *acknowledged > version {
            violations.push(format!("counter {counter}: version {acknowledged} was lost"));
        }
        let mut applied = 0;
        for version in 1..=version {
            let attempts = unknown.get(&version).map_or(&[][..], Vec::as_slice);
            match made_by.get(&version) {
                Some(attempt) => applied += u64::from(attempts.contains(attempt)),
                // Nobody has seen it, so nobody can have been told that it is theirs.
                None if !attempts.is_empty() => applied += 1,
                None => violations.push(format!("counter {counter}: who made {version}?")),
            }
        }
        book.applied += applied;
        book.violations.append(&mut violations);
    }
}

impl Book {
    fn seen(&mut self, counter: usize, version: i32, entry: Entry) {
        if entry.count != version {
            self.violations.push(format!("counter {counter}: version {version} holds {entry}"));
        }
        let made_by = &mut self.counters[counter].made_by;
        let attempt = *made_by.entry(version).or_insert(entry.attempt);
        if attempt != entry.attempt {
            let violation = format!("counter {counter}: version {version} was made twice");
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

    const ONE: Entry = Entry { count: 1, attempt: 10 };
    const TWO: Entry = Entry { count: 2, attempt: 20 };

    #[test]
    fn what_was_promised_is_no_violation() {
        let ledger = Ledger::new(1);
        ledger.acknowledged(0, 1, ONE);
        ledger.unknown(0, TWO);
        ledger.settle(0, 2, b"2 20");
        assert_eq!(ledger.violations(), [""; 0]);
        let ledger = Ledger::new(1);
        ledger.acknowledged(0, 1, ONE);
        ledger.unknown(0, TWO);
        ledger.settle(0, 1, b"1 10");
        assert_eq!(ledger.violations(), [""; 0]);
    }

    #[test]
    fn a_lost_write_is_noticed() {
        let ledger = Ledger::new(1);
        ledger.acknowledged(0, 1, ONE);
        ledger.acknowledged(0, 2, TWO);
        ledger.settle(0, 1, b"1 10");
        assert_eq!(ledger.violations(), ["counter 0: version 2 was lost"]);
    }

    #[test]
    fn a_write_over_another_and_one_by_nobody_are_noticed() {
        let ledger = Ledger::new(1);
        ledger.acknowledged(0, 1, ONE);
        ledger.settle(0, 3, b"2 20");
        assert_eq!(
            ledger.violations(),
            ["counter 0: version 3 holds 2 20", "counter 0: who made 2?"]
        );
        let ledger = Ledger::new(1);
        ledger.acknowledged(0, 1, ONE);
        ledger.seen(0, 1, Entry { count: 1, attempt: 11 });
        assert_eq!(ledger.violations(), ["counter 0: version 1 was made twice"]);
    }
}
