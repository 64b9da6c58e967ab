//! Where the records of a session go.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::io::{BufWriter, Write};
use std::sync::PoisonError;

use super::script::Script;
use crate::threads::Mutex;

pub(super) type Shared<T> = Arc<Mutex<T>>;

pub(super) enum Sink {
    /// `None` once it has failed.
    Writer(Option<BufWriter<Box<dyn Write + Send + Sync>>>),
    Ring(Shared<Parts>),
    /// Compares the records with those of a recording.
    Script(Shared<Script>),
}

/// The newest parts of a recording.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) start: Vec<u8>,
    pub(super) parts: VecDeque<Vec<u8>>,
    pub(super) kept: usize,
    pub(super) limit: usize,
}

impl Sink {
    pub(super) fn begin(&mut self, start: &[u8]) {
        match self {
            Self::Writer(_) => self.write(start),
            Self::Ring(parts) => lock(parts).start.extend_from_slice(start),
            Self::Script(_) => {}
        }
    }

    /// A part begins with the next record.
    pub(super) fn part(&mut self) {
        if let Self::Ring(parts) = self {
            let mut parts = lock(parts);
            parts.parts.push_back(Vec::new());
        }
    }

    pub(super) fn write(&mut self, record: &[u8]) {
        match self {
            Self::Writer(writer) => {
                writer.take_if(|writer| writer.write_all(record).is_err());
            }
            Self::Ring(parts) => lock(parts).push(record),
            Self::Script(script) => lock(script).compare(record),
        }
    }

    /// In a replay, returns whether the machine has observed this, and fills in the numbers.
    /// Otherwise `None`.
    pub(super) fn recorded(&self, what: u64, numbers: &mut [u64]) -> Option<bool> {
        match self {
            Self::Script(script) => Some(lock(script).has_seen(what, numbers)),
            _ => None,
        }
    }

    pub(super) fn flush(&mut self) {
        if let Self::Writer(writer) = self {
            writer.take_if(|writer| writer.flush().is_err());
        }
    }
}

impl Parts {
    fn push(&mut self, record: &[u8]) {
        if let Some(newest) = self.parts.back_mut() {
            newest.extend_from_slice(record);
        }
        self.kept += record.len();
        while self.kept > self.limit
            && self.parts.len() > 1
            && let Some(oldest) = self.parts.pop_front()
        {
            self.kept -= oldest.len();
        }
    }
}

pub(super) fn lock<T>(shared: &Shared<T>) -> crate::threads::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
