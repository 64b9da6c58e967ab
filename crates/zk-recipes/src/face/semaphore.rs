//! A lock that a number of contenders can hold at once.

use alloc::vec::Vec;
use core::future::Future;

use zk_session::Client;
use zk_session::proto::{ErrorCode, NodeKind, path};

use crate::error::{LockError, RecipeError};
use crate::face::Call;
use crate::face::contenders::Entrant;
use crate::face::limited::limited;
use crate::face::listing;
use crate::face::options::Options;
use crate::face::waiting::guard;
use crate::face::{Entrance, Queue};
use crate::machine::{Borrower, Claim, Entry, Loan, Scheme};

/// A number of permits, that whoever needs some can borrow.
///
/// Those who want permits stand in one queue, whatever number they want, and are served in the
/// order of their arrival: who wants many is not overtaken by who wants few. Names follow Apache
/// Curator's `InterProcessSemaphoreV2`; the number of permits is kept in the node `max`, as Curator's
/// `SharedCount` keeps it, so that all can agree on it and it can be changed.
///
/// # Guarantee
///
/// No more permits are out than there are, as the ensemble sees it and as long as the number of
/// permits is not lowered; what is out then stays out. A permit is lost with its session, or when
/// somebody deletes its node, and is free for others then; see [`Held::lost`](crate::Held::lost). Tokens of those that
/// hold permits together say nothing about each other.
///
/// The node `max` stays when nobody uses the semaphore any more, and with it the directory: delete
/// both where semaphores have names that are made up.
///
/// # Cost
///
/// Two round trips and eight requests to acquire permits that are free, however many; one round
/// trip to release them, with a request for each. A release wakes one waiter, the first in the
/// queue, which takes a round trip to count and wakes the next. So a hand-over costs two
/// notifications and about seven requests, with ten waiters as with a hundred.
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
#[derive(Clone, Debug)]
pub struct Semaphore {
    pub(crate) queue: Queue,
    pub(crate) maximum: Option<u32>,
}

impl Semaphore {
    /// The semaphore at `path`, with so many permits if it does not exist yet. If it does, and has
    /// another number, acquiring fails. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &Client, path: &str, permits: u32) -> Result<Self, RecipeError> {
        Self::with(client, path, Some(permits), Options::new())
    }

    /// The semaphore at `path`, with however many permits it has. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn open(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, None, Options::new())
    }

    /// As [`new`](Self::new) or, without a number, as [`open`](Self::open); with options, of which
    /// the names do not count.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with(
        client: &Client,
        path: &str,
        permits: Option<u32>,
        options: Options,
    ) -> Result<Self, RecipeError> {
        let mut queue = Queue::new(client, path, Scheme::CURATOR_MUTEX, options)?;
        queue.scheme = Scheme::CURATOR_MUTEX;
        Ok(Self { queue, maximum: permits })
    }

    /// The path of the semaphore.
    pub fn path(&self) -> &str {
        &self.queue.path
    }

    /// Waits for a permit. Order and cancellation as for [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Errors
    ///
    /// See [`LockError`].
    pub fn acquire(&self) -> impl Future<Output = Result<PermitGuard, RecipeError>> + Send + use<> {
        self.borrow("acquire", 1, Entry::Queue)
    }

    /// Waits for so many permits: for all of them before it takes any. Order and cancellation as
    /// for [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Errors
    ///
    /// See [`LockError`]; [`TooManyPermits`](LockError::TooManyPermits) when there are not so many,
    /// or not any more, and for more than 65,536; [`NoPermits`](LockError::NoPermits) for none.
    pub fn acquire_many(
        &self,
        permits: u32,
    ) -> impl Future<Output = Result<PermitGuard, RecipeError>> + Send + use<> {
        self.borrow("acquire_many", permits, Entry::Queue)
    }

    limited!("acquire": acquire_until, acquire_timeout: acquire() by borrow(1) -> PermitGuard);
    limited!(
        "acquire_many": acquire_many_until, acquire_many_timeout:
        acquire_many(permits: u32) by borrow(permits) -> PermitGuard
    );

    /// Acquires a permit if one is free and nobody waits for any, as
    /// [`try_acquire_many`](Self::try_acquire_many) does. Without a connection it fails at once.
    ///
    /// # Errors
    ///
    /// As for [`try_acquire_many`](Self::try_acquire_many).
    pub fn try_acquire(
        &self,
    ) -> impl Future<Output = Result<PermitGuard, RecipeError>> + Send + use<> {
        self.borrow("try_acquire", 1, Entry::OnlyIfFree)
    }

    /// Acquires permits if there are so many and nobody waits for any. It looks first, and creates
    /// nothing if there are not. It does not wait for a connection either: without one it fails at
    /// once.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`]; [`LockError::NoConnection`], as for
    /// [`Mutex::try_acquire`](crate::Mutex::try_acquire).
    pub fn try_acquire_many(
        &self,
        permits: u32,
    ) -> impl Future<Output = Result<PermitGuard, RecipeError>> + Send + use<> {
        self.borrow("try_acquire_many", permits, Entry::OnlyIfFree)
    }

    fn borrow(
        &self,
        operation: &'static str,
        permits: u32,
        entry: Entry,
    ) -> impl Future<Output = Result<PermitGuard, RecipeError>> + Send + use<> {
        let borrowing = self.enter(operation, permits, entry);
        async { borrowing.held().await.map(PermitGuard) }
    }

    /// Enters the queue at once.
    pub(crate) fn enter(&self, operation: &'static str, permits: u32, entry: Entry) -> Entrance {
        let contest = self.queue.contest(Claim::Exclusive, entry);
        let loan = Loan { contest, permits, maximum: self.maximum };
        self.queue.start(operation, Borrower::new(loan), self.queue.below("leases").into())
    }

    /// How many permits there are; nothing if nobody has said so yet.
    ///
    /// # Errors
    ///
    /// [`LockError::NoMaximum`] when the node holds something else, [`LockError::Request`].
    pub async fn permits(&self) -> Result<Option<u32>, RecipeError> {
        let failed = |error| self.call("permits").failed(error);
        match self.queue.client.get_data(&self.queue.below("max")).await {
            Ok((data, _)) => match Loan::read_maximum(&data) {
                None => Err(failed(LockError::NoMaximum)),
                permits => Ok(permits),
            },
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(None),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Changes the number of permits, for everybody. Whoever waits hears of it; permits that are
    /// out stay out.
    ///
    /// # Errors
    ///
    /// [`LockError::TooManyPermits`] for more than 2147483647, [`LockError::Request`].
    ///
    /// # Cancellation
    ///
    /// The number may be changed or not.
    pub async fn set_permits(&self, permits: u32) -> Result<(), RecipeError> {
        let client = &self.queue.client;
        let failed = |error| self.call("set_permits").failed(error);
        let too_many = LockError::TooManyPermits { maximum: i32::MAX.cast_unsigned() };
        let number = i32::try_from(permits).map_err(|_| failed(too_many))?;
        let (path, data) = (self.queue.below("max"), number.to_be_bytes());
        let acl: Vec<_> = self.queue.options.parent_acl.list().iter().collect();
        let (kind, parents) = (NodeKind::Persistent, NodeKind::Container);
        // It may be created or deleted in between, but not for ever.
        loop {
            match client.set_data(&path, &data, None).await {
                Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {}
                answer => return answer.map(drop).map_err(|error| failed(error.into())),
            }
            match client.create_all_with(&path, &data, kind, &acl, parents).await {
                Err(error) if error.code() == Some(ErrorCode::NODE_EXISTS) => {}
                answer => return answer.map(drop).map_err(|error| failed(error.into())),
            }
        }
    }

    /// The leases: who holds permits, with one entry for each permit. Those of the first in the
    /// queue may be among them already.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub async fn leases(&self) -> Result<Vec<Entrant>, RecipeError> {
        let directory = self.queue.below("leases");
        let mut leases =
            listing::list_in(&self.queue, "leases", &directory, Scheme::CURATOR_LEASE).await?;
        leases.iter_mut().for_each(|lease| lease.waits_for = None);
        Ok(leases)
    }

    /// Who waits for permits, in the order in which they are served.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub async fn waiting(&self) -> Result<Vec<Entrant>, RecipeError> {
        let directory = self.queue.below("locks");
        listing::list_in(&self.queue, "waiting", &directory, self.queue.scheme).await
    }

    /// Asks whoever owns `lease` to give it back; see [`Mutex::revoke`](crate::Mutex::revoke).
    ///
    /// # Errors
    ///
    /// As for [`Mutex::revoke`](crate::Mutex::revoke).
    pub async fn revoke(&self, lease: &str) -> Result<(), RecipeError> {
        let path = path::child(&self.queue.below("leases"), lease);
        listing::revoke(&self.queue.client, &path).await
    }

    /// As [`Mutex::pending_cleanups`](crate::Mutex::pending_cleanups).
    pub fn pending_cleanups(&self) -> usize {
        self.queue.pending_cleanups()
    }

    /// How many nodes were abandoned; see [`Mutex::abandoned_nodes`](crate::Mutex::abandoned_nodes).
    pub fn abandoned_nodes(&self) -> usize {
        self.queue.abandoned_nodes()
    }

    fn call(&self, operation: &'static str) -> Call {
        self.queue.call(operation)
    }
}

guard! {
    /// Permits of a [`Semaphore`]. Dropped, they are given back in the background: all of them, so
    /// those that are to be given back one by one are better acquired one by one.
    ///
    /// What it tells of a node is about the first of its leases; all of them are created by one
    /// transaction, and the loss of any is the loss of all. A [transaction](crate::Held::transaction) checks
    /// all of them.
    PermitGuard
}
