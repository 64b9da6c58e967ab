//! The hint that one contender leaves to the next of the same lock.

use alloc::sync::Arc;
use std::sync::{Mutex as StdMutex, MutexGuard as StdMutexGuard, PoisonError};

use crate::machine::{Contender, Contest, Input, Machine, Output, Precedent};

/// Shared by the clones of a lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<StdMutex<Option<Precedent>>>);

impl Memory {
    /// A contender with the hint of the one before, which leaves its own when it is done.
    pub(crate) fn contender(&self, contest: Contest) -> Remembering {
        let contest = Contest { precedent: *self.precedent(), ..contest };
        Remembering { contender: Contender::new(contest), memory: self.clone() }
    }

    fn precedent(&self) -> StdMutexGuard<'_, Option<Precedent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A contender that leaves a precedent when it is done.
#[derive(Debug)]
pub(crate) struct Remembering {
    contender: Contender,
    memory: Memory,
}

impl Machine for Remembering {
    fn handle(&mut self, input: Input) {
        self.contender.handle(input);
        if self.contender.is_done() {
            *self.memory.precedent() = self.contender.precedent();
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.contender.poll_output()
    }

    fn is_done(&self) -> bool {
        self.contender.is_done()
    }
}
