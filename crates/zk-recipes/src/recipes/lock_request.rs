//! A lock among several.

use alloc::string::ToString;

use super::SessionClient;
use super::mutex::Mutex;
use super::queue::{PendingAcquire, Queue};
use super::rw_lock::RwLock;
use super::semaphore::Semaphore;
use crate::machine::{Demand, LockMode, Member, WaitPolicy};

/// One of the locks that a [`MultiLock`](super::MultiLock) takes: a [`Mutex`], one side of an
/// [`RwLock`], or permits of a [`Semaphore`].
#[derive(Clone, Debug)]
pub struct LockRequest<C> {
    pub(super) queue: Queue<C>,
    /// If they are permits, how many the semaphore is to have.
    maximum: Option<u32>,
    demand: Demand,
}

impl<C: SessionClient> LockRequest<C> {
    /// Requests a read/write lock for reading.
    pub fn read(lock: &RwLock<C>) -> Self {
        Self::of(&lock.0, LockMode::Shared)
    }

    /// Requests a read/write lock for writing.
    pub fn write(lock: &RwLock<C>) -> Self {
        Self::of(&lock.0, LockMode::Exclusive)
    }

    /// Requests a number of permits of a semaphore.
    pub fn permits(semaphore: &Semaphore<C>, permits: u32) -> Self {
        let Semaphore { queue, maximum } = semaphore.clone();
        Self { queue, maximum, demand: Demand::Permits(permits) }
    }

    fn of(queue: &Queue<C>, mode: LockMode) -> Self {
        let demand = Demand::Place { scheme: queue.scheme, mode };
        Self { queue: queue.clone(), maximum: None, demand }
    }

    /// The same lock, taken in this way.
    pub(super) fn with(&self, demand: Demand) -> Self {
        Self { demand, ..self.clone() }
    }

    pub(super) fn member(&self) -> Member {
        let Queue { client, path, .. } = &self.queue;
        Member {
            session: client.session_id(),
            root: client.chroot().apply("/").into_owned(),
            path: path.to_string(),
            demand: self.demand,
        }
    }

    /// Enters the queue at once.
    pub(super) fn enter(&self, wait_policy: WaitPolicy) -> PendingAcquire<C> {
        let (queue, maximum) = (self.queue.clone(), self.maximum);
        match self.demand {
            Demand::Place { mode, .. } => queue.enter("acquire", mode, wait_policy),
            Demand::Permits(permits) => {
                Semaphore { queue, maximum }.begin("acquire", permits, wait_policy)
            }
        }
    }
}

impl<C: SessionClient> From<&Mutex<C>> for LockRequest<C> {
    fn from(mutex: &Mutex<C>) -> Self {
        Self::of(&mutex.0, LockMode::Exclusive)
    }
}
