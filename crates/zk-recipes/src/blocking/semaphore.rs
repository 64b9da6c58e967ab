//! A number of permits that contenders can hold.

use alloc::vec::Vec;
use std::time::Instant;

use zk_session::blocking::Client;
use zk_session::proto::{ErrorCode, NodeKind, path};

use super::held::guard;
use super::listing;
use super::waiting::limited;
use super::{Entrance, Queue};
use crate::error::{LockError, RecipeError};
use crate::face::{Entrant, Options};
use crate::machine::{Borrower, Claim, Entry, Loan, Scheme};

/// A number of permits that contenders can hold, with the names of Apache Curator's
/// `InterProcessSemaphoreV2`.
///
/// Contenders stand in one queue, whatever number of permits they request, and are served in the
/// order of their arrival. The node `max` holds the number of permits, as Curator's `SharedCount`
/// does.
///
/// # Guarantee
///
/// No more permits are held than exist, as the ensemble sees it and as long as their number is not
/// lowered. A permit is lost with its session, or when its node is deleted, and is free for others
/// then.
///
/// The node `max` and its parent stay when nobody uses the semaphore any more. Delete both if the
/// names of your semaphores are generated.
///
/// # Cost
///
/// Two round trips and eight requests to acquire permits that are free, however many; one round
/// trip to release them, with a request for each.
#[derive(Clone, Debug)]
pub struct Semaphore {
    pub(super) queue: Queue,
    pub(super) maximum: Option<u32>,
}

impl Semaphore {
    /// Returns the semaphore at `path`. The first acquisition creates it with this number of
    /// permits; if it exists with another number, acquiring fails. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &Client, path: &str, permits: u32) -> Result<Self, RecipeError> {
        Self::with(client, path, Some(permits), Options::new())
    }

    /// Returns the semaphore at `path`, which must exist when permits are acquired, with the number
    /// of permits that it has. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn open(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, None, Options::new())
    }

    /// Returns the semaphore at `path` as [`new`](Self::new) does or, without a number, as
    /// [`open`](Self::open) does; with options, of which the scheme does not count.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
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

    /// Waits for a permit.
    ///
    /// # Errors
    ///
    /// See [`LockError`].
    pub fn acquire(&self) -> Result<PermitGuard, RecipeError> {
        self.enter("acquire", 1, Entry::Queue, None)
    }

    /// Waits for several permits, and acquires all of them together.
    ///
    /// # Errors
    ///
    /// See [`LockError`]; [`TooManyPermits`](LockError::TooManyPermits) for more permits than
    /// exist, or than 65,536; [`NoPermits`](LockError::NoPermits) for none.
    pub fn acquire_many(&self, permits: u32) -> Result<PermitGuard, RecipeError> {
        self.enter("acquire_many", permits, Entry::Queue, None)
    }

    limited!("acquire": acquire_timeout: acquire() by enter(1) -> PermitGuard);
    limited!(
        "acquire_many": acquire_many_timeout:
        acquire_many(permits: u32) by enter(permits) -> PermitGuard
    );

    /// Acquires a permit if one is free and nobody waits for any.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], and [`LockError::NoConnection`], which it does not wait for.
    pub fn try_acquire(&self) -> Result<PermitGuard, RecipeError> {
        self.enter("try_acquire", 1, Entry::OnlyIfFree, None)
    }

    /// Acquires several permits if they are free and nobody waits for any. It looks first, and
    /// creates nothing if it would have to wait.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], and [`LockError::NoConnection`], which it does not wait for.
    pub fn try_acquire_many(&self, permits: u32) -> Result<PermitGuard, RecipeError> {
        self.enter("try_acquire_many", permits, Entry::OnlyIfFree, None)
    }

    fn enter(
        &self,
        operation: &'static str,
        permits: u32,
        entry: Entry,
        end: Option<Instant>,
    ) -> Result<PermitGuard, RecipeError> {
        self.begin(operation, permits, entry).held(end).map(PermitGuard)
    }

    /// Enters the queue.
    pub(super) fn begin(&self, operation: &'static str, permits: u32, entry: Entry) -> Entrance {
        let contest = self.queue.contest(Claim::Exclusive, entry);
        let machine = Borrower::new(Loan { contest, permits, maximum: self.maximum });
        self.queue.start(operation, machine, self.queue.below("leases").into())
    }

    /// Returns how many permits exist; `None` if the semaphore does not exist yet.
    ///
    /// # Errors
    ///
    /// [`LockError::NoMaximum`] when the node holds something else, [`LockError::Request`].
    pub fn permits(&self) -> Result<Option<u32>, RecipeError> {
        let failed = |error| self.queue.call("permits").failed(error);
        match self.queue.client.get_data(&self.queue.below("max")) {
            Ok((data, _)) => match Loan::read_maximum(&data) {
                None => Err(failed(LockError::NoMaximum)),
                permits => Ok(permits),
            },
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(None),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Changes the number of permits for all clients. Permits that are held stay held.
    ///
    /// # Errors
    ///
    /// [`LockError::TooManyPermits`] for more than 2147483647, [`LockError::Request`].
    pub fn set_permits(&self, permits: u32) -> Result<(), RecipeError> {
        let client = &self.queue.client;
        let failed = |error| self.queue.call("set_permits").failed(error);
        let too_many = LockError::TooManyPermits { maximum: i32::MAX.cast_unsigned() };
        let number = i32::try_from(permits).map_err(|_| failed(too_many))?;
        let (path, data) = (self.queue.below("max"), number.to_be_bytes());
        let acl: Vec<_> = self.queue.options.parent_acl.list().iter().collect();
        let (kind, parents) = (NodeKind::Persistent, NodeKind::Container);
        // It may be created or deleted in between, but not for ever.
        loop {
            match client.set_data(&path, &data, None) {
                Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {}
                answer => return answer.map(drop).map_err(|error| failed(error.into())),
            }
            match client.create_all_with(&path, &data, kind, &acl, parents) {
                Err(error) if error.code() == Some(ErrorCode::NODE_EXISTS) => {}
                answer => return answer.map(drop).map_err(|error| failed(error.into())),
            }
        }
    }

    /// Returns the holders, with one entry for each permit. Permits that the first in the queue is
    /// about to acquire may be among them.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub fn leases(&self) -> Result<Vec<Entrant>, RecipeError> {
        let parent = self.queue.below("leases");
        let mut leases = listing::list_in(&self.queue, "leases", &parent, Scheme::CURATOR_LEASE)?;
        leases.iter_mut().for_each(|lease| lease.waits_for = None);
        Ok(leases)
    }

    /// Returns the contenders that wait for permits, in the order in which they are served.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub fn waiting(&self) -> Result<Vec<Entrant>, RecipeError> {
        let parent = self.queue.below("locks");
        listing::list_in(&self.queue, "waiting", &parent, self.queue.scheme)
    }

    /// Asks the owner of `lease` to release it; see [`Mutex::revoke`](super::Mutex::revoke).
    ///
    /// # Errors
    ///
    /// [`LockError::Request`], with `NO_NODE` when it is gone already.
    pub fn revoke(&self, lease: &str) -> Result<(), RecipeError> {
        let path = path::child(&self.queue.below("leases"), lease);
        listing::revoke(&self.queue.client, &path)
    }

    /// Returns how many contenders are still to be cleaned up; see
    /// [`Mutex::pending_cleanups`](super::Mutex::pending_cleanups).
    pub fn pending_cleanups(&self) -> usize {
        self.queue.pending_cleanups()
    }

    /// Returns how many nodes were abandoned; see
    /// [`Mutex::abandoned_nodes`](super::Mutex::abandoned_nodes).
    pub fn abandoned_nodes(&self) -> usize {
        self.queue.abandoned_nodes()
    }
}

guard! {
    /// Permits of a [`Semaphore`] that are held. Dropped, all of them are released in the
    /// background.
    ///
    /// The node and the fencing token are those of its first permit. One transaction creates all
    /// nodes, and the loss of one permit is the loss of all.
    PermitGuard
}
