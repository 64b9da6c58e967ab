//! A semaphore: permits that contenders hold.

use alloc::vec::Vec;

use zk_session::Error;
use zk_session::proto::{ErrorCode, path};

use crate::Client;
use crate::attempt::{LockMode, Scheme, WaitPolicy};
use crate::client::SessionClient;
use crate::client::contenders;
use crate::client::contenders::QueueEntry;
use crate::client::guard::Guard;
use crate::client::pending::Pending;
use crate::client::queue::{Attempted, Queue};
use crate::error::{LockError, RecipeError, SemaphoreError};
use crate::options::Options;
use crate::semaphore::{PermitRequest, SemaphoreMachine};

/// A number of permits that contenders can hold, one or several at once.
///
/// ```no_run
/// use zk_recipes::{Semaphore, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let downloads = Semaphore::new(&client, "/downloads", 4)?;
/// let one = downloads.acquire().await?;
/// let two_more = downloads.acquire_many(2).await?;
/// two_more.release().await?;
/// one.release().await?;
/// # Ok(())
/// # }
/// ```
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
pub struct Semaphore<C = Client> {
    pub(crate) queue: Queue<C>,
    pub(crate) maximum: Option<u32>,
    pub(crate) refuses_other_locks: bool,
}

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
        let options = Options { scheme: None, ..options };
        let queue = Queue::new(client, "semaphore", path, Scheme::CURATOR_MUTEX, options)?;
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

    /// Waits for a permit. Contenders are served in the order in which their nodes reach the
    /// server.
    ///
    /// # Errors
    ///
    /// See [`SemaphoreError`].
    pub fn acquire(&self) -> Pending<Guard<C>, C, RecipeError<SemaphoreError>> {
        self.enter("acquire", 1, WaitPolicy::Queue)
    }

    /// Waits for several permits, and acquires all of them together.
    ///
    /// # Errors
    ///
    /// See [`SemaphoreError`]; [`TooManyPermits`](SemaphoreError::TooManyPermits) for more permits
    /// than exist, also when their number was lowered, or than 65,536;
    /// [`NoPermits`](SemaphoreError::NoPermits) for none.
    pub fn acquire_many(&self, permits: u32) -> Pending<Guard<C>, C, RecipeError<SemaphoreError>> {
        self.enter("acquire_many", permits, WaitPolicy::Queue)
    }

    /// Acquires a permit if one is free and no contender waits for any. It creates nothing if it
    /// would have to wait.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], and [`LockError::NoConnection`], which it does not wait for.
    pub fn try_acquire(&self) -> Pending<Guard<C>, C, RecipeError<SemaphoreError>> {
        self.enter("try_acquire", 1, WaitPolicy::OnlyIfFree)
    }

    /// Acquires several permits if they are free and no contender waits for any. It creates nothing
    /// if it would have to wait.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], and [`LockError::NoConnection`], which it does not wait for.
    pub fn try_acquire_many(
        &self,
        permits: u32,
    ) -> Pending<Guard<C>, C, RecipeError<SemaphoreError>> {
        self.enter("try_acquire_many", permits, WaitPolicy::OnlyIfFree)
    }

    /// Returns the number of permits that exist. `None` if the semaphore does not exist yet.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError::NoMaximum`] if the node `max` holds other data, [`LockError::Request`].
    pub fn permits(&self) -> Pending<Option<u32>, C, RecipeError<SemaphoreError>> {
        let this = self.clone();
        Pending::within(self.queue.call("permits"), async move { this.read_permits().await })
    }

    /// Changes the number of permits for all clients, also for those that wait. Permits that are
    /// held stay held.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError::TooManyPermits`] for more than 2147483647, [`LockError::Request`].
    pub fn set_permits(&self, permits: u32) -> Pending<(), C, RecipeError<SemaphoreError>> {
        let this = self.clone();
        let call = self.queue.call("set_permits");
        Pending::within(call, async move { this.write_permits(permits).await })
    }

    /// Returns the holders, with one entry for each permit. Permits that the first contender in the
    /// queue is about to acquire may be among them.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub fn leases(&self) -> Pending<Vec<QueueEntry>, C> {
        let (queue, parent) = (self.queue.clone(), self.queue.below("leases"));
        Pending::within(self.queue.call("leases"), async move {
            let mut leases = contenders::list_in(&queue, &parent, Scheme::CURATOR_LEASE).await?;
            leases.iter_mut().for_each(|lease| lease.waits_for = None);
            Ok(leases)
        })
    }

    /// Returns the contenders that wait for permits, in the order in which they are served.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub fn waiting(&self) -> Pending<Vec<QueueEntry>, C> {
        let (queue, parent) = (self.queue.clone(), self.queue.below("locks"));
        Pending::within(self.queue.call("waiting"), async move {
            contenders::list_in(&queue, &parent, queue.scheme).await
        })
    }

    /// Asks the owner of `lease` to release it; see [`Mutex::revoke`](crate::Mutex::revoke).
    ///
    /// # Errors
    ///
    /// [`LockError::Request`], with `NO_NODE` when the node does not exist.
    pub fn revoke(&self, lease: &str) -> Pending<(), C> {
        let path = path::child(&self.queue.below("leases"), lease);
        contenders::revoke(&self.queue.client, path)
    }

    /// Returns the path that this was made with.
    pub fn path(&self) -> &str {
        &self.queue.path
    }

    /// Returns how many nodes of this value and its clones are no longer wanted and not yet known
    /// to be deleted. A deletion that the ensemble refuses is not pending any more:
    /// [`abandoned_nodes`](Self::abandoned_nodes) counts it.
    pub fn pending_cleanups(&self) -> usize {
        self.queue.pending_cleanups()
    }

    /// Returns how many nodes of this value and its clones the ensemble has refused to delete,
    /// mostly because the access control list of their parent denies it.
    ///
    /// They stay until the session ends or another client deletes them, and block the contenders
    /// behind them. An attempt of this process that would wait for one fails with
    /// [`LockError::Abandoned`]. An [observer](Options::observer) receives
    /// [`Event::Abandoned`](crate::Event::Abandoned) for each.
    pub fn abandoned_nodes(&self) -> usize {
        self.queue.abandoned_nodes()
    }

    fn enter(
        &self,
        operation: &'static str,
        permits: u32,
        wait_policy: WaitPolicy,
    ) -> Pending<Guard<C>, C, RecipeError<SemaphoreError>> {
        let this = self.clone();
        let enter = move |_: &Queue<C>| this.begin(operation, permits, wait_policy);
        Pending::attempt(&self.queue, enter, Guard::new)
    }

    /// Enters the queue at once.
    pub(crate) fn begin(
        &self,
        operation: &'static str,
        permits: u32,
        wait_policy: WaitPolicy,
    ) -> Attempted<C, SemaphoreError> {
        let machine = || {
            let config = self.queue.config(LockMode::Exclusive, wait_policy);
            let mut request = PermitRequest::new(config, permits, self.maximum);
            request.refuses_other_locks = self.refuses_other_locks;
            self.queue.requeuing(SemaphoreMachine::new(request), wait_policy)
        };
        let pending = self.queue.start(operation, machine, self.queue.below("leases").into());
        pending.refusing_leftovers(Scheme::CURATOR_LEASE)
    }

    async fn read_permits(&self) -> Result<Option<u32>, SemaphoreError> {
        match self.queue.client.get_data(&self.queue.below("max")).await {
            Ok((data, _)) => {
                PermitRequest::read_maximum(&data).map(Some).ok_or(SemaphoreError::NoMaximum)
            }
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(None),
            Err(error) => Err(LockError::from(error).into()),
        }
    }

    async fn write_permits(&self, permits: u32) -> Result<(), SemaphoreError> {
        let too_many = SemaphoreError::TooManyPermits { maximum: i32::MAX.cast_unsigned() };
        let number = i32::try_from(permits).map_err(|_| too_many)?;
        let (path, data) = (self.queue.below("max"), number.to_be_bytes());
        let acl = &self.queue.options.parent_acl;
        // The node may be created or deleted in between, but not for ever.
        loop {
            match self.queue.client.set_data(&path, &data, None).await {
                Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {}
                Err(error) => return Err(LockError::from(error).into()),
                Ok(_) => return Ok(()),
            }
            match self.queue.create_persistent(&path, &data, acl).await {
                Err(LockError::Request(Error::Server(ErrorCode::NODE_EXISTS))) => {}
                answer => return Ok(answer?),
            }
        }
    }
}
