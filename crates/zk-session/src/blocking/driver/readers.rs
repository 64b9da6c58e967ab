//! Decides which thread reads from the connection.
//!
//! A thread that waits for something reads by itself if no other thread does: its request takes two
//! system calls, and no other thread has to run. When it has what it waited for, the next thread
//! that waits goes on. While no thread waits, the session's own thread reads: the keeper. It leaves
//! the reading to others for as long as they come back and do read. It checks that now and then,
//! since to be woken by each of them would cost them a system call.

use alloc::collections::BTreeMap;
use core::task::Waker;

use super::connection::Connection;
use crate::dispatch::Wakers;

/// The threads that may read.
#[derive(Default)]
pub(super) struct Readers {
    /// Threads that wait for a result and could read meanwhile.
    pub(super) sleepers: BTreeMap<u64, Waker>,
    pub(super) last: u64,
    /// Counts the threads that came to wait. While it grows, the keeper reads only if no other
    /// thread does.
    pub(super) waits: u64,
    /// Counts the reads.
    pub(super) reads: u64,
    /// How many threads wait that must not read, because their result may come from elsewhere.
    pub(super) others: usize,
    pub(super) keeper: Keeper,
}

/// What the session's own thread does.
#[derive(Default)]
pub(super) enum Keeper {
    /// It looks at the session before it sleeps again.
    #[default]
    Awake,
    /// It waits for what the connection brings, and cannot be woken.
    Reading,
    /// It looks at the session by itself soon.
    Dozing(Waker),
    /// It sleeps until it is woken, or the session's next deadline.
    Asleep(Waker),
}

impl Readers {
    /// Makes sure that one thread reads: a waiting one, or else the keeper.
    pub(super) fn ensure_reader(&mut self, connection: Option<&Connection>, wakers: &mut Wakers) {
        if connection.is_some_and(|connection| connection.inbox.is_none()) {
            return;
        }
        if connection.is_some()
            && let Some((_, sleeper)) = self.sleepers.pop_first()
        {
            wakers.push(sleeper);
        } else if !self.is_keeper_near() || self.others > 0 {
            self.call_keeper(wakers);
        }
    }

    /// Records that a thread is about to wait.
    pub(super) fn expect_wait(&mut self) {
        self.waits += 1;
    }

    /// Whether the keeper looks at the session soon without being called.
    pub(super) fn is_keeper_near(&self) -> bool {
        matches!(self.keeper, Keeper::Awake | Keeper::Dozing(_))
    }

    /// Has the keeper look at the session, and says whether it can.
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
