//! A semaphore: permits that contenders hold.

use alloc::vec::Vec;

use zk_session::Error;
use zk_session::proto::{ErrorCode, path};

use super::client::Limit;
use super::contenders::{self, QueueEntry};
use super::macros::{guard, methods, queue_methods};
use super::queue::{PendingAcquire, Queue};
use super::{Options, SessionClient};
use crate::error::{LockError, RecipeError};
use crate::machine::{LockMode, PermitRequest, Scheme, SemaphoreMachine, WaitPolicy};

/// A number of permits that contenders can hold, one or several at once.
///
/// Contenders stand in one queue, whatever number of permits they request, and are served in the
/// order of their arrival. Names follow Apache Curator's `InterProcessSemaphoreV2`. The node `max`
/// holds the number of permits, as Curator's `SharedCount` does, so that all clients agree on it
/// and can change it.
///
/// # Guarantee
///
/// No more permits are held than exist, as the ensemble sees it and as long as their number is not
/// lowered. A permit is lost with its session, or when its node is deleted, and is free for others
/// then. Tokens of clients that hold permits at the same time are in no order.
///
/// The node `max` and its parent stay when the semaphore is no longer used. Delete both if the
/// names of your semaphores are generated.
///
/// # Cost
///
/// Two round trips and eight requests to acquire permits that are free, however many; one round
/// trip to release them, with a request for each. A release wakes the first in the queue, which
/// takes a round trip to count the permits and wakes the next. So a hand-over costs two
/// notifications and about seven requests, with ten waiters as with a hundred.
#[doc(alias = "InterProcessSemaphoreV2")]
#[derive(Clone, Debug)]
pub struct Semaphore<C> {
    pub(super) queue: Queue<C>,
    pub(super) maximum: Option<u32>,
    pub(super) refuses_other_locks: bool,
}

queue_methods!(Semaphore, queue);

impl<C: SessionClient> Semaphore<C> {
    /// Returns the semaphore at `path`. The first acquisition creates it with this number of
    /// permits; if it exists with another number, acquiring fails. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &C, path: &str, permits: u32) -> Result<Self, RecipeError> {
        Self::with(client, path, Some(permits), Options::new())
    }

    /// Returns the semaphore at `path`, which must exist when permits are acquired, with the number
    /// of permits that it has. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn open(client: &C, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, None, Options::new())
    }

    /// Returns the semaphore at `path`, with options; the scheme has no effect. Sends nothing yet.
    ///
    /// With a number, the first acquisition creates it; see [`new`](Self::new). Without one, it
    /// must exist; see [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn with(
        client: &C,
        path: &str,
        permits: Option<u32>,
        options: Options,
    ) -> Result<Self, RecipeError> {
        let mut queue = Queue::new(client, "semaphore", path, Scheme::CURATOR_MUTEX, options)?;
        queue.scheme = Scheme::CURATOR_MUTEX;
        Ok(Self { queue, maximum: permits, refuses_other_locks: false })
    }

    /// Refuses contenders of other kinds of locks at the path of the semaphore itself:
    /// [`LockError::OtherLock`]. They would not see each other, and a mutex could be held beside
    /// permits. An attempt makes one request more, and creates nothing persistent beside such a
    /// contender.
    #[must_use]
    pub fn refuse_other_locks(self) -> Self {
        Self { refuses_other_locks: true, ..self }
    }

    /// Enters the queue at once, before the returned value is awaited.
    pub(super) fn begin(
        &self,
        operation: &'static str,
        permits: u32,
        wait_policy: WaitPolicy,
    ) -> PendingAcquire<C> {
        let config = self.queue.config(LockMode::Exclusive, wait_policy);
        let mut request = PermitRequest::new(config, permits, self.maximum);
        request.refuses_other_locks = self.refuses_other_locks;
        let machine = SemaphoreMachine::new(request);
        let machine = self.queue.requeuing(machine, wait_policy);
        let pending = self.queue.start(operation, machine, self.queue.below("leases").into());
        pending.refusing_leftovers(Scheme::CURATOR_LEASE)
    }

    fn enter(
        &self,
        operation: &'static str,
        permits: u32,
        limit: Limit,
    ) -> impl Future<Output = Result<PermitGuard<C>, RecipeError>> + Send + use<C> {
        let pending = self.begin(operation, permits, limit.wait_policy);
        async move { pending.held(limit.end).await.map(PermitGuard) }
    }

    async fn read_permits(&self) -> Result<Option<u32>, LockError> {
        match self.queue.client.get_data(&self.queue.below("max")).await {
            Ok((data, _)) => {
                PermitRequest::read_maximum(&data).map(Some).ok_or(LockError::NoMaximum)
            }
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn write_permits(&self, permits: u32) -> Result<(), LockError> {
        let too_many = LockError::TooManyPermits { maximum: i32::MAX.cast_unsigned() };
        let number = i32::try_from(permits).map_err(|_| too_many)?;
        let (path, data) = (self.queue.below("max"), number.to_be_bytes());
        let acl = &self.queue.options.parent_acl;
        // The node may be created or deleted in between, but not for ever.
        loop {
            match self.queue.client.set_data(&path, &data, None).await {
                Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {}
                answer => return Ok(answer.map(|_| ())?),
            }
            match self.queue.create_persistent(&path, &data, acl).await {
                Err(LockError::Request(Error::Server(ErrorCode::NODE_EXISTS))) => {}
                answer => return answer,
            }
        }
    }
}

methods! { Semaphore:
    /// Waits for a permit. Contenders are served in the order in which their nodes reach the
    /// server.
    ///
    /// # Errors
    ///
    /// See [`LockError`].
    enter fn acquire [acquire_until, acquire_timeout] (&self; limit)
        -> Result<PermitGuard<C>, RecipeError>
    {
        self.enter("acquire", 1, limit)
    }

    /// Waits for several permits, and acquires all of them together.
    ///
    /// # Errors
    ///
    /// See [`LockError`]; [`TooManyPermits`](LockError::TooManyPermits) for more permits than
    /// exist, also when their number was lowered, or than 65,536;
    /// [`NoPermits`](LockError::NoPermits) for none.
    enter fn acquire_many [acquire_many_until, acquire_many_timeout] (&self, permits: u32; limit)
        -> Result<PermitGuard<C>, RecipeError>
    {
        self.enter("acquire_many", permits, limit)
    }

    /// Acquires a permit if one is free and no contender waits for any. It creates nothing if it would
    /// have to wait.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], and [`LockError::NoConnection`], which it does not wait for.
    attempt fn try_acquire [] (&self) -> Result<PermitGuard<C>, RecipeError> {
        self.enter("try_acquire", 1, Limit::TRY)
    }

    /// Acquires several permits if they are free and no contender waits for any. It creates nothing
    /// if it would have to wait.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], and [`LockError::NoConnection`], which it does not wait for.
    attempt fn try_acquire_many [] (&self, permits: u32) -> Result<PermitGuard<C>, RecipeError> {
        self.enter("try_acquire_many", permits, Limit::TRY)
    }

    /// Returns the number of permits that exist. `None` if the semaphore does not exist yet.
    ///
    /// # Errors
    ///
    /// [`LockError::NoMaximum`] if the node `max` holds other data, [`LockError::Request`].
    request fn permits [] (&self) -> Result<Option<u32>, RecipeError> {
        async { self.read_permits().await.map_err(|error| self.queue.call("permits").failed(error)) }
    }

    /// Changes the number of permits for all clients, also for those that wait. Permits that are
    /// held stay held.
    ///
    /// # Errors
    ///
    /// [`LockError::TooManyPermits`] for more than 2147483647, [`LockError::Request`].
    request fn set_permits [] (&self, permits: u32) -> Result<(), RecipeError> {
        async {
            let written = self.write_permits(permits).await;
            written.map_err(|error| self.queue.call("set_permits").failed(error))
        }
    }

    /// Returns the holders, with one entry for each permit. Permits that the first contender in the
    /// queue is about to acquire may be among them.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    request fn leases [] (&self) -> Result<Vec<QueueEntry>, RecipeError> {
        async {
            let (queue, parent) = (&self.queue, self.queue.below("leases"));
            let listed = contenders::list_in(queue, "leases", &parent, Scheme::CURATOR_LEASE);
            let mut leases = listed.await?;
            leases.iter_mut().for_each(|lease| lease.waits_for = None);
            Ok(leases)
        }
    }

    /// Returns the contenders that wait for permits, in the order in which they are served.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    request fn waiting [] (&self) -> Result<Vec<QueueEntry>, RecipeError> {
        async {
            let (queue, parent) = (&self.queue, self.queue.below("locks"));
            contenders::list_in(queue, "waiting", &parent, queue.scheme).await
        }
    }

    /// Asks the owner of `lease` to release it; see [`Mutex::revoke`](super::Mutex).
    ///
    /// # Errors
    ///
    /// [`LockError::Request`], with `NO_NODE` when the node does not exist.
    request fn revoke [] (&self, lease: &str) -> Result<(), RecipeError> {
        let path = path::child(&self.queue.below("leases"), lease);
        contenders::revoke(&self.queue.client, path)
    }
}

guard! {
    /// Permits of a [`Semaphore`] that are held. Dropped, all of them are released in the
    /// background. Acquire permits one by one if you release them one by one.
    ///
    /// The node and the fencing token are those of the first permit. One transaction creates all
    /// nodes, the loss of one permit is the loss of all, and a
    /// [transaction](super::HeldLock::transaction) checks all of them.
    PermitGuard
}
