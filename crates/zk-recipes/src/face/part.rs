//! A lock among several.

use alloc::boxed::Box;
use alloc::string::ToString;
use core::future::Future;
use core::pin::Pin;

use crate::error::RecipeError;
use crate::face::Held;
use crate::face::Queue;
use crate::face::mutex::Mutex;
use crate::face::rw_lock::RwLock;
use crate::face::semaphore::Semaphore;
use crate::machine::{Claim, Demand, Entry, Member};

/// Somebody on the way to a lock.
pub(crate) type Entering = Pin<Box<dyn Future<Output = Result<Held, RecipeError>> + Send + Sync>>;

/// One of the locks that a [`MultiLock`](crate::MultiLock) takes: a [`Mutex`], one side of an
/// [`RwLock`], or permits of a [`Semaphore`].
#[derive(Clone, Debug)]
pub struct Part {
    pub(crate) queue: Queue,
    /// If they are permits, how many the semaphore is to have.
    maximum: Option<u32>,
    demand: Demand,
}

impl Part {
    /// A read/write lock, for reading.
    pub fn read(lock: &RwLock) -> Self {
        Self::place(&lock.0, Claim::Shared)
    }

    /// A read/write lock, for writing.
    pub fn write(lock: &RwLock) -> Self {
        Self::place(&lock.0, Claim::Exclusive)
    }

    /// So many permits of a semaphore.
    pub fn permits(semaphore: &Semaphore, permits: u32) -> Self {
        let Semaphore { queue, maximum } = semaphore.clone();
        Self { queue, maximum, demand: Demand::Permits(permits) }
    }

    fn place(queue: &Queue, claim: Claim) -> Self {
        let demand = Demand::Place { scheme: queue.scheme, claim };
        Self { queue: queue.clone(), maximum: None, demand }
    }

    /// The same lock, taken in this way.
    pub(crate) fn with(&self, demand: Demand) -> Self {
        Self { demand, ..self.clone() }
    }

    /// What is wanted of it beside others.
    pub(crate) fn member(&self) -> Member {
        let Queue { client, path, .. } = &self.queue;
        Member {
            session: client.session_id(),
            root: client.chroot().apply("/").into_owned(),
            path: path.to_string(),
            demand: self.demand,
        }
    }

    /// Enters the queue at once.
    pub(crate) fn enter(&self, entry: Entry) -> Entering {
        let (queue, maximum) = (self.queue.clone(), self.maximum);
        let entrance = match self.demand {
            Demand::Place { claim, .. } => queue.enter("acquire", claim, entry),
            Demand::Permits(permits) => {
                Semaphore { queue, maximum }.enter("acquire", permits, entry)
            }
        };
        Box::pin(entrance.held())
    }
}

impl From<&Mutex> for Part {
    fn from(mutex: &Mutex) -> Self {
        Self::place(&mutex.0, Claim::Exclusive)
    }
}
