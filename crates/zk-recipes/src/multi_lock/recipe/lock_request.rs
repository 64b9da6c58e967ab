//! The request for one lock of a multi-lock.

use alloc::string::ToString;

use crate::Client;
use crate::attempt::{LockMode, WaitPolicy};
use crate::client::SessionClient;
use crate::client::queue::{Attempted, Queue, SharedQueue};
use crate::error::SemaphoreError;
use crate::lock::recipe::Mutex;
use crate::lock::recipe::RwLock;
use crate::multi_lock::{LockSpec, Mode};

/// One of the locks that a [`MultiLock`](crate::MultiLock) takes: a [`Mutex`], one side of an
/// [`RwLock`], or permits of a [`Semaphore`](crate::Semaphore).
#[cfg_attr(not(feature = "full"), expect(dead_code))]
#[derive(Clone, Debug)]
pub struct LockRequest<C = Client> {
    pub(crate) queue: Queue<C>,
    /// For permits: the configured maximum of the semaphore.
    maximum: Option<u32>,
    refuses_other_locks: bool,
    mode: Mode,
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
    #[cfg(feature = "full")]
    pub fn permits(semaphore: &crate::Semaphore<C>, permits: u32) -> Self {
        let crate::Semaphore { queue, maximum, refuses_other_locks } = semaphore.clone();
        Self { queue, maximum, refuses_other_locks, mode: Mode::Permits(permits) }
    }

    fn of(queue: &Queue<C>, mode: LockMode) -> Self {
        let mode = Mode::Lock { scheme: queue.scheme, mode };
        Self { queue: queue.clone(), maximum: None, refuses_other_locks: false, mode }
    }

    /// Returns a request for the same lock with another mode.
    pub(crate) fn with_mode(&self, mode: Mode) -> Self {
        Self { mode, ..self.clone() }
    }

    pub(crate) fn spec(&self) -> LockSpec {
        let SharedQueue { client, path, .. } = &*self.queue;
        LockSpec {
            session: client.session_id(),
            root: client.chroot().apply("/").into_owned(),
            path: path.to_string(),
            mode: self.mode,
        }
    }

    /// Enters the queue at once.
    pub(crate) fn enter(&self) -> Attempted<C, SemaphoreError> {
        match self.mode {
            Mode::Lock { mode, .. } => self.queue.enter("acquire", mode, WaitPolicy::Queue),
            #[cfg(feature = "full")]
            Mode::Permits(permits) => {
                let Self { queue, maximum, refuses_other_locks, .. } = self.clone();
                let semaphore = crate::Semaphore { queue, maximum, refuses_other_locks };
                semaphore.begin("acquire", permits, WaitPolicy::Queue)
            }
        }
    }
}

impl<C: SessionClient> From<&Mutex<C>> for LockRequest<C> {
    fn from(mutex: &Mutex<C>) -> Self {
        Self::of(&mutex.0, LockMode::Exclusive)
    }
}
