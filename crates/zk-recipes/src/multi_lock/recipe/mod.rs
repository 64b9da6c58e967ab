//! Several locks that are acquired together.

mod lock_request;
pub(crate) mod loss;

use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};

use zk_session::threads::Mutex as StdMutex;
use zk_session::{Error, Transaction};

pub use self::lock_request::LockRequest;
pub use self::loss::MultiLoss;
use crate::Client;
use crate::client::SessionClient;
use crate::client::guard::{Guard, check, not_validated};
use crate::client::held_lock::Losing;
use crate::client::known::lock;
use crate::client::pending::{Hold, Pending, Signal};
use crate::client::queue::Attempted;
use crate::client::report::Holding;
use crate::client::session_client::{TimeLimit, before, unless};
use crate::error::{LockError, Loss, RecipeError, SemaphoreError};
use crate::multi_lock::{Input, MultiAcquire, MultiLockError, Output, acquisition_order};

/// Several locks that are acquired together: all of them or none.
///
/// ```no_run
/// use std::time::Duration;
/// use zk_recipes::{LockRequest, MultiLock, Mutex, RwLock, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let printer = Mutex::new(&client, "/locks/printer")?;
/// let paper = RwLock::new(&client, "/locks/paper")?;
/// let both = MultiLock::new([LockRequest::from(&printer), LockRequest::read(&paper)])?;
/// let guard = both.acquire().timeout(Duration::from_secs(5)).await?;
/// guard.transaction().set_data("/pages", b"17", None).commit().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// They are acquired one after another in the order of their paths, whatever order they are given
/// in. So two clients that acquire the same locks never wait for each other. A lock that is given
/// more than once is acquired once, for writing if any request says so. A semaphore that is given
/// more than once is acquired with the sum of the permits.
///
/// # Guarantee
///
/// That of each of the locks. The loss of a lock while another is waited for ends the attempt. With
/// the feature `full` and a client that [renews](zk_session::ClientBuilder::renew) its session, the
/// attempt releases its locks and begins again instead, within the same time limit. Once all are
/// held, the loss of one does not release the others: [`MultiGuard::loss`] reports it, and no
/// [transaction](MultiGuard::transaction) is applied any more. All are locks of one session and of
/// one chroot.
///
/// # Cost
///
/// That of each of the locks, one after another: one round trip for each lock, if all are free. One
/// round trip releases all. A contender that waits for one lock holds those before it and blocks
/// others. So acquire few locks together, and hold them briefly.
#[doc(alias = "InterProcessMultiLock")]
#[derive(Clone, Debug)]
pub struct MultiLock<C = Client> {
    client: C,
    /// In the order of acquisition.
    requests: Vec<LockRequest<C>>,
}

impl<C: SessionClient> MultiLock<C> {
    /// Returns all these locks as one. Sends nothing yet. If a lock is given twice, the options of
    /// the first request apply.
    ///
    /// # Errors
    ///
    /// [`MultiLockError`].
    pub fn new(requests: impl IntoIterator<Item = LockRequest<C>>) -> Result<Self, MultiLockError> {
        let given: Vec<_> = requests.into_iter().collect();
        let specs: Vec<_> = given.iter().map(LockRequest::spec).collect();
        let request = |(index, mode): (usize, _)| given[index].with_mode(mode);
        let requests: Vec<_> = acquisition_order(&specs)?.into_iter().map(request).collect();
        let client = requests.first().ok_or(MultiLockError::Empty)?.queue.client.clone();
        Ok(Self { client, requests })
    }

    /// Waits for all the locks. It enters the queue of each lock when the one before it is held. A
    /// time limit applies to all of them together.
    ///
    /// # Errors
    ///
    /// That of the first lock that cannot be acquired, or is lost while another is waited for. It
    /// may be one of a semaphore, and the others are in [`SemaphoreError::Lock`]. The locks
    /// acquired so far are released in the background.
    pub fn acquire(&self) -> Pending<MultiGuard<C>, C, RecipeError<SemaphoreError>> {
        let Self { client, requests } = self.clone();
        Pending::new(&self.client, |end| async move {
            let guard = MultiGuard { client, requests, held: Vec::new() };
            let machine = MultiAcquire::new(guard.requests.len());
            let limit = TimeLimit::new(end);
            PendingLocks { attempted: None, guard, machine, limit }.acquire().await
        })
    }
}

/// An attempt to acquire several locks. Dropping it stops waiting, then releases the held locks.
struct PendingLocks<C: SessionClient> {
    attempted: Option<Attempted<C, SemaphoreError>>,
    guard: MultiGuard<C>,
    machine: MultiAcquire,
    limit: TimeLimit,
}

impl<C: SessionClient> PendingLocks<C> {
    async fn acquire(mut self) -> Result<MultiGuard<C>, RecipeError<SemaphoreError>> {
        loop {
            match self.perform() {
                Some(Ok(())) => return Ok(self.guard),
                Some(Err(error)) if self.begins_again(&error) => {
                    self.machine = MultiAcquire::new(self.guard.requests.len());
                    continue;
                }
                Some(Err(error)) => return Err(error),
                None => {}
            }
            let mut losing = self.guard.losing();
            let input = poll_fn(|cx| self.poll_next(&mut losing, cx)).await;
            self.machine.handle(input);
        }
    }

    /// Returns whether the attempt begins again: it has lost a lock while it waited for another, as
    /// it does when the session expires.
    fn begins_again(&self, error: &RecipeError<SemaphoreError>) -> bool {
        let has_time = self.limit.end.is_none_or(|end| C::now() < end);
        has_time
            && self.guard.client.renews()
            && matches!(error.lock_error(), Some(LockError::Lost(_)))
    }

    fn poll_next(&mut self, losing: &mut AnyLosing, cx: &mut Context<'_>) -> Poll<Input> {
        if let Poll::Ready((index, loss)) = Pin::new(losing).poll(cx) {
            return Poll::Ready(Input::Lost(index, loss));
        }
        let Some(attempted) = &mut self.attempted else { return Poll::Pending };
        attempted.poll_held(&mut self.limit, cx).map(|acquired| match acquired {
            Ok(held) => {
                self.guard.held.push(Guard::new(held));
                Input::Acquired
            }
            Err(error) => Input::Failed(error.reason),
        })
    }

    /// Carries out the outputs of the machine. Returns the result of the attempt, once it has one.
    fn perform(&mut self) -> Option<Result<(), RecipeError<SemaphoreError>>> {
        let Self { attempted, guard, machine, .. } = self;
        let mut end = None;
        while let Some(output) = machine.poll_output() {
            match output {
                Output::Enter(index) => *attempted = Some(guard.requests[index].enter()),
                // In reverse order. A lock that is not held yet stops waiting.
                Output::Release(index) if index < guard.held.len() => drop(guard.held.pop()),
                Output::Release(_) => *attempted = None,
                Output::Acquired => end = Some(Ok(())),
                Output::Failed(index, error) => {
                    end = Some(Err(guard.requests[index].queue.call("acquire").failed(error)));
                }
            }
        }
        end
    }
}

/// Waits until one of several locks is lost.
pub(crate) struct AnyLosing(Vec<Losing>);

impl Future for AnyLosing {
    type Output = (usize, Loss);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<(usize, Loss)> {
        let losing = self.0.iter_mut().enumerate();
        let mut lost = losing.filter_map(|(index, losing)| match Pin::new(losing).poll(cx) {
            Poll::Ready(loss) => Some((index, loss)),
            Poll::Pending => None,
        });
        lost.next().map_or(Poll::Pending, Poll::Ready)
    }
}

/// Several locks that are held together. Dropping it releases them in the background.
#[must_use = "a guard that is dropped releases its locks"]
pub struct MultiGuard<C = Client> {
    client: C,
    requests: Vec<LockRequest<C>>,
    held: Vec<Guard<C>>,
}

impl<C: SessionClient> Hold<C> for MultiGuard<C> {
    fn until_lost(&self) -> Signal<MultiLoss, C> {
        self.lost()
    }

    fn end(self) -> Pending<(), C> {
        self.release()
    }
}

impl<C: SessionClient> fmt::Debug for MultiGuard<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MultiGuard").field(&self.held).finish()
    }
}

impl<C> Drop for MultiGuard<C> {
    /// Releases in reverse order: a contender woken by one release then does not wait for the next.
    fn drop(&mut self) {
        while self.held.pop().is_some() {}
    }
}

impl<C: SessionClient> MultiGuard<C> {
    /// Returns the locks, in the order of their paths; each has a fencing token of its own.
    pub fn locks(&self) -> &[Guard<C>] {
        &self.held
    }

    /// Returns the lock at `path`.
    pub fn lock(&self, path: &str) -> Option<&Guard<C>> {
        let mut locks = self.requests.iter().zip(&self.held);
        locks.find(|(request, _)| *request.queue.path == *path).map(|(_, held)| held)
    }

    /// Returns the worst state of the locks.
    pub fn state(&self) -> Holding {
        let states: Vec<_> = self.held.iter().map(Guard::state).collect();
        let lost = states.iter().find(|state| state.loss().is_some());
        let suspended = || states.iter().find(|state| **state == Holding::Suspended);
        lost.or_else(suspended).copied().unwrap_or(Holding::Held)
    }

    /// Returns the first of the locks that is lost, if any is.
    pub fn loss(&self) -> Option<MultiLoss> {
        let mut losses = self.held.iter().map(|guard| guard.state().loss()).enumerate();
        losses.find_map(|(index, loss)| Some(self.loss_of(index, loss?)))
    }

    /// Runs a callback once, when any of the locks is lost; see [`Guard::on_lost`]. The end of
    /// the session, which loses all of them, is reported for one.
    pub fn on_lost(&self, callback: impl FnOnce(MultiLoss) + Send + 'static) {
        let callback = Arc::new(StdMutex::new(Some(callback)));
        for (request, held) in self.requests.iter().zip(&self.held) {
            let (callback, path) = (callback.clone(), request.queue.path.clone());
            held.on_lost(move |loss| {
                let callback = lock(&callback).take();
                if let Some(callback) = callback {
                    callback(MultiLoss { path: path.to_string(), loss });
                }
            });
        }
    }

    /// Waits until any of the locks is lost, and returns which one; see [`Guard::lost`]. The end of
    /// the session, which loses all of them, is reported for one.
    pub fn lost(&self) -> Signal<MultiLoss, C> {
        let paths: Vec<_> =
            self.requests.iter().map(|request| request.queue.path.clone()).collect();
        let losing = self.losing();
        Signal::new(&self.client, async move {
            let (index, loss) = losing.await;
            MultiLoss { path: paths[index].to_string(), loss }
        })
    }

    /// Begins a transaction that is applied only if all the lock nodes still exist.
    ///
    /// Its first operations are checks: one for each of the [locks](Self::locks), and for a
    /// semaphore one for each permit. See [`Guard::transaction`].
    pub fn transaction(&self) -> Transaction<'_, C> {
        let nodes: Vec<_> = self.locks().iter().flat_map(|guard| guard.held.node_paths()).collect();
        check(&self.client, &nodes)
    }

    /// Asks a quorum of the ensemble whether all the locks are still held; see
    /// [`Guard::validate`].
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`], with the first lock that is no longer held. Without a server, it is
    /// returned when the lease ends. After any other error it is unknown whether the locks are
    /// held. An error that concerns no particular lock names the first one.
    pub fn validate(&self) -> Pending<(), C> {
        let (client, losing) = (self.client.clone(), self.losing());
        let calls: Vec<_> = self.held.iter().map(|guard| guard.held.call("validate")).collect();
        let nodes = self.held.iter().map(|guard| guard.held.node_paths()).enumerate();
        // The node of each check, with the lock that it belongs to.
        let (locks, nodes): (Vec<_>, Vec<_>) = nodes
            .flat_map(|(index, nodes)| nodes.into_iter().map(move |node| (index, node)))
            .unzip();
        Pending::new(&self.client, |end| async move {
            let checked = unless(losing, C::commit(check(&client, &nodes)));
            let (index, error) = match before(&client, end, checked).await {
                Some(Ok(Ok(_))) => return Ok(()),
                Some(Ok(Err(error))) => match error.reason {
                    Error::Transaction { index, .. } => {
                        (locks.get(index).copied().unwrap_or_default(), not_validated(error))
                    }
                    _ => (0, not_validated(error)),
                },
                Some(Err((index, loss))) => (index, LockError::Lost(loss)),
                None => (0, LockError::NoAnswer),
            };
            Err(calls[index].failed(error))
        })
    }

    /// Releases all the locks in reverse order, and waits until other contenders can acquire them.
    /// Without a server it waits until the end of the session's lease at most.
    ///
    /// The release begins at the call. Dropping the returned value changes nothing.
    ///
    /// # Errors
    ///
    /// The first of these: [`LockError::Lost`] if a lock was lost before,
    /// [`LockError::NotConfirmed`] if no server has confirmed a release. All locks are released in
    /// any case.
    pub fn release(mut self) -> Pending<(), C> {
        let held = core::mem::take(&mut self.held).into_iter().rev();
        // All releases are sent before the first one is awaited.
        let releasing: Vec<_> = held.map(|guard| guard.held.releasing()).collect();
        let client = self.client.clone();
        Pending::new(&self.client, |end| async move {
            let mut limit = TimeLimit::new(end);
            let mut result = Ok(());
            for mut releasing in releasing {
                result = result.and(poll_fn(|cx| releasing.poll(&client, &mut limit, cx)).await);
            }
            result
        })
    }

    /// Waits until any of the locks is lost.
    fn losing(&self) -> AnyLosing {
        AnyLosing(self.held.iter().map(|guard| guard.held.losing()).collect())
    }

    fn loss_of(&self, index: usize, loss: Loss) -> MultiLoss {
        MultiLoss { path: self.requests[index].queue.path.to_string(), loss }
    }
}
