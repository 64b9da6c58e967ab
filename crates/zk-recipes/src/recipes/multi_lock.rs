//! Several locks that are acquired together.

use alloc::boxed::Box;
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::poll_fn;
use core::iter;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use std::sync::PoisonError;
use std::time::Instant;

use zk_session::threads::Mutex as StdMutex;
use zk_session::{Error, Transaction};

use super::client::{Limit, unless};
use super::held::{HeldLock, Holding, Losing, not_validated};
use super::lock_request::LockRequest;
use super::macros::methods;
use super::{MultiLoss, SessionClient};
use crate::error::{LockError, Loss, RecipeError};
use crate::machine::WaitPolicy;
use crate::machine::multi_lock::{Input, MultiAcquire, MultiLockError, Output, acquisition_order};

/// Several locks that are acquired together: all of them or none.
///
/// They are acquired one after another in the order of their paths, whatever order they are given
/// in. So two clients that acquire the same locks never wait for each other. A lock that is given
/// more than once is acquired once, for writing if any request says so. A semaphore that is given
/// more than once is acquired with the sum of the permits.
///
/// # Guarantee
///
/// That of each of the locks. The loss of a lock while another is waited for ends the attempt. With
/// a client that [renews](zk_session::ClientBuilder::renew) its session, the attempt releases its
/// locks and begins again instead, within the same time limit. Once
/// all are held, the loss of one does not release the others: [`MultiGuard::loss`] reports it, and
/// no [transaction](MultiGuard::transaction) is applied any more. All are locks of one session and
/// of one chroot.
///
/// # Cost
///
/// That of each of the locks, one after another: one round trip for each lock, if all are free. One
/// round trip releases all. A contender that waits for one lock holds those before it and blocks
/// others. So acquire few locks together, and hold them briefly.
#[doc(alias = "InterProcessMultiLock")]
#[derive(Clone, Debug)]
pub struct MultiLock<C> {
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

    #[cfg(feature = "blocking")]
    fn client(&self) -> &C {
        &self.client
    }

    fn enter(
        &self,
        limit: Limit,
    ) -> impl Future<Output = Result<MultiGuard<C>, RecipeError>> + Send + use<C> {
        let Self { client, requests } = self.clone();
        let guard = MultiGuard { client, requests, held: Vec::new() };
        let machine = MultiAcquire::new(guard.requests.len());
        let mut attempt =
            PendingLocks { pending: None, guard, machine, wait_policy: limit.wait_policy };
        // The first queue is entered at once, each other one when the lock before it is held.
        attempt.perform();
        attempt.acquire(limit.end)
    }
}

methods! { MultiLock:
    /// Waits for all the locks. It enters the queue of each lock when the one before it is held. A
    /// time limit applies to all of them together.
    ///
    /// # Errors
    ///
    /// That of the first lock that cannot be acquired, or is lost while another is waited for. The
    /// locks acquired so far are released in the background.
    enter fn acquire [acquire_until, acquire_timeout] (&self; limit)
        -> Result<MultiGuard<C>, RecipeError>
    {
        self.enter(limit)
    }
}

type Pending<C> = Pin<Box<dyn Future<Output = Result<HeldLock<C>, RecipeError>> + Send>>;

/// An attempt to acquire several locks. Dropping it stops waiting, then releases the held locks.
struct PendingLocks<C> {
    pending: Option<Pending<C>>,
    guard: MultiGuard<C>,
    machine: MultiAcquire,
    wait_policy: WaitPolicy,
}

impl<C: SessionClient> PendingLocks<C> {
    async fn acquire(mut self, end: Option<Instant>) -> Result<MultiGuard<C>, RecipeError> {
        let mut time_limit = pin!(async {
            match end {
                Some(end) => C::sleep_until(end).await,
                None => core::future::pending().await,
            }
        });
        loop {
            let mut losing = self.guard.losing();
            let next = poll_fn(|cx| match self.poll_next(&mut losing, cx) {
                Poll::Pending => time_limit.as_mut().poll(cx).map(|()| Input::TimedOut),
                input => input,
            });
            let input = next.await;
            self.machine.handle(input);
            match self.perform() {
                Some(Ok(())) => return Ok(self.guard),
                Some(Err(error)) if self.begins_again(&error) => {
                    self.machine = MultiAcquire::new(self.guard.requests.len());
                    self.perform();
                }
                Some(Err(error)) => return Err(error),
                None => {}
            }
        }
    }

    /// Returns whether the attempt begins again: it has lost a lock while it waited for another, as
    /// it does when the session expires.
    fn begins_again(&self, error: &RecipeError) -> bool {
        let waits = self.wait_policy == WaitPolicy::Queue;
        waits && self.guard.client.renews() && matches!(error.reason, LockError::Lost(_))
    }

    fn poll_next(&mut self, losing: &mut AnyLosing, cx: &mut Context<'_>) -> Poll<Input> {
        if let Poll::Ready((index, loss)) = Pin::new(losing).poll(cx) {
            return Poll::Ready(Input::Lost(index, loss));
        }
        let Some(pending) = &mut self.pending else { return Poll::Pending };
        pending.as_mut().poll(cx).map(|acquired| match acquired {
            Ok(held) => {
                self.guard.held.push(held);
                Input::Acquired
            }
            Err(error) => Input::Failed(error.reason),
        })
    }

    /// Carries out the outputs of the machine. Returns the result of the attempt, once it has one.
    fn perform(&mut self) -> Option<Result<(), RecipeError>> {
        let Self { pending, guard, machine, wait_policy } = self;
        let mut end = None;
        while let Some(output) = machine.poll_output() {
            match output {
                Output::Enter(index) => {
                    *pending = Some(Box::pin(guard.requests[index].enter(*wait_policy).held(None)));
                }
                // In reverse order. A lock that is not held yet stops waiting.
                Output::Release(index) if index < guard.held.len() => drop(guard.held.pop()),
                Output::Release(_) => *pending = None,
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
pub struct MultiGuard<C> {
    client: C,
    requests: Vec<LockRequest<C>>,
    held: Vec<HeldLock<C>>,
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
    pub fn locks(&self) -> &[HeldLock<C>] {
        &self.held
    }

    /// Returns the lock at `path`.
    pub fn lock(&self, path: &str) -> Option<&HeldLock<C>> {
        let mut locks = self.requests.iter().zip(&self.held);
        locks.find(|(request, _)| *request.queue.path == *path).map(|(_, held)| held)
    }

    /// Returns the worst state of the locks.
    pub fn state(&self) -> Holding {
        let states: Vec<_> = self.held.iter().map(HeldLock::state).collect();
        let lost = states.iter().find(|state| matches!(state, Holding::Lost(_)));
        let suspended = || states.iter().find(|state| **state == Holding::Suspended);
        lost.or_else(suspended).copied().unwrap_or(Holding::Held)
    }

    /// Returns the first of the locks that is lost, if any is.
    pub fn loss(&self) -> Option<MultiLoss> {
        self.held.iter().enumerate().find_map(|(index, held)| match held.state() {
            Holding::Lost(loss) => Some(self.loss_of(index, loss)),
            Holding::Held | Holding::Suspended => None,
        })
    }

    /// Runs a callback once, when any of the locks is lost; see [`HeldLock::on_lost`]. The end of
    /// the session, which loses all of them, is reported for one.
    pub fn on_lost(&self, callback: impl FnOnce(MultiLoss) + Send + 'static) {
        let callback = Arc::new(StdMutex::new(Some(callback)));
        for (request, held) in self.requests.iter().zip(&self.held) {
            let (callback, path) = (callback.clone(), request.queue.path.clone());
            held.on_lost(move |loss| {
                let callback = callback.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(callback) = callback {
                    callback(MultiLoss { path: path.to_string(), loss });
                }
            });
        }
    }

    /// Begins a transaction that is applied only if all the lock nodes still exist.
    ///
    /// Its first operations are checks: one for each of the [locks](Self::locks), and for a
    /// semaphore one for each permit. See [`HeldLock::transaction`].
    pub fn transaction(&self) -> Transaction<'_, C> {
        self.held.iter().fold(self.client.transaction(), |checks, held| held.check(checks))
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn client(&self) -> &C {
        &self.client
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn paths(&self) -> Vec<Arc<str>> {
        self.requests.iter().map(|request| request.queue.path.clone()).collect()
    }

    /// Waits until any of the locks is lost.
    pub(crate) fn losing(&self) -> AnyLosing {
        AnyLosing(self.held.iter().map(HeldLock::losing).collect())
    }

    pub(crate) fn loss_of(&self, index: usize, loss: Loss) -> MultiLoss {
        MultiLoss { path: self.requests[index].queue.path.to_string(), loss }
    }

    /// Returns the index of the lock that this operation of a transaction checks.
    fn checked_by(&self, operation: usize) -> usize {
        let checks = self.held.iter().enumerate();
        let mut checks = checks.flat_map(|(index, held)| iter::repeat_n(index, held.checks()));
        checks.nth(operation).unwrap_or_default()
    }

    async fn check(&self) -> Result<(), RecipeError> {
        let (index, error) = match unless(self.losing(), C::commit(self.transaction())).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => match error.reason {
                Error::Transaction { index, .. } => (self.checked_by(index), not_validated(error)),
                _ => (0, not_validated(error)),
            },
            Err((index, loss)) => (index, LockError::Lost(loss)),
        };
        Err(self.held[index].call("validate").failed(error))
    }

    fn release_all(
        mut self,
        end: Option<Instant>,
    ) -> impl Future<Output = Result<(), RecipeError>> + Send + use<C> {
        let held = core::mem::take(&mut self.held).into_iter().rev();
        // All releases are sent before the first one is awaited.
        let releasing: Vec<_> = held.map(|held| held.release(end)).collect();
        async move {
            let mut result = Ok(());
            for releasing in releasing {
                result = result.and(releasing.await);
            }
            result
        }
    }
}

methods! { MultiGuard:
    /// Asks a quorum of the ensemble whether all the locks are still held; see
    /// [`HeldLock`](super::HeldLock).
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`], with the first lock that is no longer held. Without a server, it is
    /// returned when the lease ends. After any other error it is unknown whether the locks are
    /// held. An error that concerns no particular lock names the first one.
    request fn validate [] (&self) -> Result<(), RecipeError> {
        self.check()
    }

    /// Releases all the locks in reverse order, and waits until other contenders can acquire them.
    /// Without a server it waits until the end of the session's lease at most.
    ///
    /// # Errors
    ///
    /// The first of these: [`LockError::Lost`] if a lock was lost before,
    /// [`LockError::NotConfirmed`] if no server has confirmed a release. All locks are released in
    /// any case.
    release fn release [release_until, release_timeout] (self; end) -> Result<(), RecipeError> {
        self.release_all(end)
    }
}
