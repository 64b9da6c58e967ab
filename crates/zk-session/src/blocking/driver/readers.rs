//! Decides which thread reads from the connection.
//!
//! A thread that waits reads by itself if no other thread does: its request takes two system calls,
//! and no other thread has to run. When its result has arrived, the next waiting thread takes over.
//! While no thread waits, the session's own thread reads: the keeper.
//!
//! The keeper leaves the reading to other threads as long as they keep coming and reading. It
//! checks that from time to time, since waking it would cost each of them a system call.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Waker;

use super::thread_connection::ThreadConnection;
use crate::dispatch::effects::Wakers;

/// The threads that may read.
pub(super) struct Readers {
    /// Threads that wait for a result and could read meanwhile, by numbers that rise.
    pub(super) sleepers: VecDeque<(u64, Waker)>,
    pub(super) last: u64,
    /// Counts the threads that began to wait. While it grows, the keeper reads only if no other
    /// thread does.
    pub(super) waits: u64,
    /// Counts the reads.
    pub(super) reads: u64,
    /// Waiting threads that must not read, because their result may come from elsewhere.
    pub(super) others: usize,
    /// Futures that wait in tasks, and cannot read.
    futures: Arc<AtomicUsize>,
    pub(super) keeper: Keeper,
}

/// The state of the session's own thread.
#[derive(Default)]
pub(super) enum Keeper {
    /// It looks at the session before it sleeps again.
    #[default]
    Awake,
    /// It reads from the connection, and cannot be woken.
    Reading,
    /// It looks at the session soon, without being woken.
    Dozing(Waker),
    /// It sleeps until it is woken, or the session's next deadline.
    Asleep(Waker),
}

impl Readers {
    pub(super) fn new(futures: Arc<AtomicUsize>) -> Self {
        Self {
            sleepers: VecDeque::new(),
            last: 0,
            waits: 0,
            reads: 0,
            others: 0,
            futures,
            keeper: Keeper::Awake,
        }
    }

    /// Returns whether anything waits that does not read.
    pub(super) fn has_others(&self) -> bool {
        self.others > 0 || self.futures.load(Ordering::Relaxed) > 0
    }

    /// Makes sure that one thread reads: a waiting one, or else the keeper.
    pub(super) fn ensure_reader(
        &mut self,
        connection: Option<&ThreadConnection>,
        wakers: &mut Wakers,
    ) {
        if connection.is_some_and(|connection| connection.inbox.is_none()) {
            return;
        }
        if connection.is_some()
            && let Some((_, sleeper)) = self.sleepers.pop_front()
        {
            wakers.push(sleeper);
        } else if !self.is_keeper_near() || self.has_others() {
            self.call_keeper(wakers);
        }
    }

    /// Records that a thread is about to wait.
    pub(super) fn expect_wait(&mut self) {
        self.waits += 1;
    }

    /// Returns whether the keeper looks at the session soon without being called.
    pub(super) fn is_keeper_near(&self) -> bool {
        matches!(self.keeper, Keeper::Awake | Keeper::Dozing(_))
    }

    /// Makes the keeper look at the session. Returns whether it can.
    pub(super) fn call_keeper(&mut self, wakers: &mut Wakers) -> bool {
        match core::mem::take(&mut self.keeper) {
            Keeper::Awake => {}
            Keeper::Reading => {
                self.keeper = Keeper::Reading;
                return false;
            }
            Keeper::Dozing(keeper) | Keeper::Asleep(keeper) => wakers.push(keeper),
        }
        true
    }
}
