//! Operations that a task awaits, or a thread waits for.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::future::poll_fn;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::time::Instant;

use zk_session::End;

use super::acquiring::{Acquiring, Entrance};
use super::call::Call;
use super::held_lock::{HeldLock, LATE, Releasing};
use super::queue::{Attempted, Queue};
use super::report::Place;
use super::status::SharedStatus;
use crate::Client;
use crate::attempt::{LockMode, WaitPolicy};
use crate::client::SessionClient;
use crate::client::session_client::{TimeLimit, before};
use crate::error::{LockError, Loss, Reason, RecipeError, Unconfirmed};
use crate::multi_lock::recipe::loss::MultiLoss;

/// An operation of a recipe that takes time: await it in a task, or, with the feature `blocking`,
/// call `wait` in a thread.
///
/// ```no_run
/// # use std::time::Duration;
/// # use zk_recipes::{Mutex, session};
/// # async fn task(mutex: Mutex) -> Result<(), zk_recipes::RecipeError> {
/// let guard = mutex.acquire().timeout(Duration::from_secs(1)).await?;
/// # guard.release().await
/// # }
/// # fn thread(mutex: Mutex<session::blocking::Client>) -> Result<(), zk_recipes::RecipeError> {
/// let guard = mutex.acquire().timeout(Duration::from_secs(1)).wait()?;
/// # guard.release().wait()
/// # }
/// ```
///
/// It begins when it is first polled, or at `wait`. There is one exception: a release, such as
/// [`Guard::release`](crate::Guard::release) or
/// [`Candidate::close`](crate::Candidate::close), begins at the call.
///
/// # Cancellation
///
/// Dropping it cancels the operation. A node that was created for an attempt is deleted in the
/// background, even if its creation is not confirmed yet, or the connection is lost. Another
/// request that was sent may still be applied. A release continues.
#[must_use = "an operation begins when it is awaited or waited for"]
pub struct Pending<T, C = Client, E = RecipeError> {
    client: C,
    limit: TimeLimit,
    work: Work<T, C, E>,
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Begins an operation, with the end of its time limit.
type Begin<T> = Box<dyn FnOnce(Option<Instant>) -> Running<T> + Send>;

/// An operation that has begun, and for an attempt the status of its machine.
type Running<T> = (BoxFuture<T>, Option<Arc<SharedStatus>>);

/// The work, and a function that converts its result. Acquiring a lock and releasing it need no
/// allocation here.
enum Work<T, C, E> {
    Acquire(Acquiring<C>, fn(Result<HeldLock<C>, RecipeError>) -> Result<T, E>),
    Release(Releasing, fn(Result<(), RecipeError>) -> Result<T, E>),
    Begin(Begin<Result<T, E>>),
    Run(Running<Result<T, E>>),
    /// The result that [`NextPlace`] has come to, or that is known at once.
    Done(Result<T, E>),
    /// The result was returned.
    Over,
}

// No future is pinned in place.
impl<T, C, E> Unpin for Pending<T, C, E> {}

impl<T, C, E> fmt::Debug for Pending<T, C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<T, C: SessionClient, R: Reason> Pending<T, C, RecipeError<R>> {
    /// Gives up after `timeout` from now; see [`until`](Self::until).
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { limit: TimeLimit::after::<C>(timeout), ..self }
    }

    /// Gives up at `end`, an instant of the standard library or of tokio. Set it before the
    /// operation begins.
    ///
    /// An attempt asks the ensemble once, even if its time has passed already. It waits for the
    /// first answer until it is a second old, if that is later than `end`. After `end`, it waits
    /// neither for other contenders nor for a connection.
    ///
    /// # Errors
    ///
    /// At the time limit, [`TimedOut`](LockError::TimedOut) if others are in the way,
    /// [`NoAnswer`](LockError::NoAnswer) if no server has answered, or
    /// [`NoConnection`](LockError::NoConnection) if there is no connection to a quorum. For a
    /// release, [`NotConfirmed`](LockError::NotConfirmed) with
    /// [`TimedOut`](crate::Unconfirmed::TimedOut): the rest is done in the background.
    ///
    /// # Panics
    ///
    /// With the async client, when it is polled outside of a tokio runtime, whose timer it uses.
    pub fn until(self, end: impl Into<Instant>) -> Self {
        Self { limit: TimeLimit::new(Some(end.into())), ..self }
    }

    /// Names the owner, for the [`Deadlocks`](crate::Deadlocks) of the lock. Name it before the attempt
    /// begins. Recipes without that option ignore it.
    pub fn by(mut self, owner: impl Into<Arc<str>>) -> Self {
        if let Work::Acquire(Acquiring::Idle(entrance), _) = &mut self.work {
            entrance.owner = Some(owner.into());
        }
        self
    }

    /// Acquires something else with nodes in a queue.
    pub(crate) fn attempt(
        queue: &Queue<C>,
        enter: impl FnOnce(&Queue<C>) -> Attempted<C, R> + Send + 'static,
        finish: fn(HeldLock<C>) -> T,
    ) -> Self
    where
        T: 'static,
    {
        let (queue, client) = (queue.clone(), queue.client.clone());
        let begin: Begin<_> = Box::new(move |end| {
            let attempted = enter(&queue);
            let status = attempted.status();
            (Box::pin(async move { attempted.held(end).await.map(finish) }), status)
        });
        Self::with(client, Work::Begin(begin))
    }

    /// Runs requests, and fails with [`LockError::NoAnswer`] at the time limit.
    pub(crate) fn within(
        call: Call<C>,
        work: impl Future<Output = Result<T, R>> + Send + 'static,
    ) -> Self
    where
        T: Send,
    {
        Self::within_or(call, || LockError::NoAnswer, work)
    }

    /// Runs `work`, and fails with the error of `late` at the time limit.
    pub(crate) fn within_or(
        call: Call<C>,
        late: impl FnOnce() -> LockError + Send + 'static,
        work: impl Future<Output = Result<T, R>> + Send + 'static,
    ) -> Self
    where
        T: Send,
    {
        Self::new(&call.client.clone(), |end| async move {
            let result = before(&call.client, end, work).await;
            let result = result.unwrap_or_else(|| Err(late().into()));
            result.map_err(|error| call.failed(error))
        })
    }
}

impl<C: SessionClient> Pending<(), C> {
    /// Waits for the deletion of a node. `over` is `None` if the runtime was shut down.
    pub(crate) fn closing(
        call: Call<C>,
        over: impl Future<Output = Option<Result<(), LockError>>> + Send + 'static,
    ) -> Self {
        Self::new(&call.client.clone(), |end| async move {
            let over = match before(&call.client, end, over).await {
                Some(Some(over)) => over,
                Some(None) => Err(LockError::NotConfirmed(Unconfirmed::Ended(End::Closed))),
                None => Err(LATE),
            };
            over.map_err(|error| call.failed(error))
        })
    }

    /// Has nothing to wait for: another guard has the node, or the lock is lost.
    pub(crate) fn done(call: Call<C>, loss: Option<Loss>) -> Self {
        let lost = loss.map(|loss| call.failed(LockError::Lost(loss)));
        Self::with(call.client, Work::Done(lost.map_or(Ok(()), Err)))
    }

    /// Waits for the confirmation of a release.
    pub(crate) fn release(client: C, releasing: Releasing) -> Self {
        Self::with(client, Work::Release(releasing, |released| released))
    }
}

impl<T, C: SessionClient, E> Pending<T, C, E> {
    const fn with(client: C, work: Work<T, C, E>) -> Self {
        Self { client, limit: TimeLimit::new(None), work }
    }

    /// Acquires the lock of a queue.
    pub(crate) fn enter(
        queue: &Queue<C>,
        operation: &'static str,
        mode: LockMode,
        wait_policy: WaitPolicy,
        finish: fn(Result<HeldLock<C>, RecipeError>) -> Result<T, E>,
    ) -> Self {
        let (queue, client) = (queue.clone(), queue.client.clone());
        let entrance = Entrance { queue, operation, mode, wait_policy, owner: None };
        Self::with(client, Work::Acquire(Acquiring::Idle(entrance), finish))
    }

    /// An operation that `begin` starts with the end of its time limit, which it must respect.
    pub(crate) fn new<F: Future<Output = Result<T, E>> + Send + 'static>(
        client: &C,
        begin: impl FnOnce(Option<Instant>) -> F + Send + 'static,
    ) -> Self {
        let begin: Begin<_> = Box::new(|end| (Box::pin(begin(end)), None));
        Self::with(client.clone(), Work::Begin(begin))
    }

    /// Begins the operation, and polls it.
    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        let Self { client, limit, work } = self;
        if let Work::Begin(_) | Work::Done(_) = work {
            match mem::replace(work, Work::Over) {
                Work::Begin(begin) => *work = Work::Run(begin(limit.end)),
                Work::Done(result) => return Poll::Ready(result),
                _ => {}
            }
        }
        let result = match work {
            Work::Acquire(attempt, finish) => attempt.poll(limit, cx).map(*finish),
            Work::Release(releasing, finish) => releasing.poll(client, limit, cx).map(*finish),
            Work::Run((future, _)) => future.as_mut().poll(cx),
            Work::Begin(_) | Work::Done(_) | Work::Over => Poll::Pending,
        };
        if result.is_ready() {
            *work = Work::Over;
        }
        result
    }
}

impl<T, E> Pending<T, zk_session::blocking::Client, E> {
    /// Begins, and waits in this thread until it is over.
    ///
    /// # Errors
    ///
    /// Those of the method that returned this.
    pub fn wait(mut self) -> Result<T, E> {
        self.wait_for_turn();
        self.client.clone().block_on(self.limit.end, self)
    }

    /// Waits for others of this process, if the attempt takes turns with them.
    fn wait_for_turn(&mut self) {
        let Self { client, limit, work } = self;
        let Work::Acquire(attempt, finish) = work else { return };
        if !attempt.is_local() {
            return;
        }
        if let Err(refusal) = attempt.begin() {
            *work = Work::Done(finish(Err(refusal)));
        } else if let Some(attempt) = attempt.taking_turns() {
            let turn = poll_fn(|cx| attempt.poll_turn(cx));
            client.block_on(None, client.wait_for_others(limit.end, turn));
        }
    }
}

impl<T, C: SessionClient, E> Future for Pending<T, C, E> {
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        self.get_mut().poll_work(cx)
    }
}

/// What is held while work is done: a guard. It is sealed, since it has no path.
pub trait Hold<C>: Sized {
    /// Waits until it is lost.
    #[doc(hidden)]
    fn until_lost(&self) -> Signal<MultiLoss, C>;

    /// Releases it.
    #[doc(hidden)]
    fn end(self) -> Pending<(), C>;
}

impl<G: Hold<C>, C: SessionClient, E> Pending<G, C, E> {
    /// Begins the attempt, and waits for the next change of its place in the queue: first until its
    /// node is there. `None` once the attempt has succeeded or failed: await it then.
    ///
    /// ```no_run
    /// # async fn example(mutex: zk_recipes::Mutex) -> Result<(), zk_recipes::RecipeError> {
    /// let mut attempt = mutex.acquire();
    /// while let Some(place) = attempt.next_place().await {
    ///     println!("{} ahead of {}", place.ahead.unwrap_or_default(), place.node);
    /// }
    /// let guard = attempt.await?;
    /// # guard.release().await
    /// # }
    /// ```
    ///
    /// Changes in between may be missed. A place is reported when this contender lists the queue, so
    /// there is no news of contenders further ahead than the one that it waits for. A
    /// [`ReentrantMutex`](crate::ReentrantMutex), a [`MultiLock`](crate::MultiLock) and a textbook
    /// lock without a queue report none.
    ///
    /// # Cancellation
    ///
    /// Dropping the returned value changes nothing. Dropping the attempt leaves the queue.
    pub fn next_place(&mut self) -> NextPlace<'_, G, C, E> {
        NextPlace(self)
    }
}

/// Waits until the place of an attempt changes; see [`Pending::next_place`].
#[must_use = "it is awaited or waited for"]
pub struct NextPlace<'a, T, C = Client, E = RecipeError>(&'a mut Pending<T, C, E>);

impl<T, C, E> fmt::Debug for NextPlace<'_, T, C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NextPlace").field(&self.0).finish()
    }
}

impl<T, E> NextPlace<'_, T, zk_session::blocking::Client, E> {
    /// Waits in this thread until it changes.
    pub fn wait(self) -> Option<Place> {
        self.0.wait_for_turn();
        self.0.client.clone().block_on(self.0.limit.end, self)
    }
}

impl<T, C: SessionClient, E> Future for NextPlace<'_, T, C, E> {
    type Output = Option<Place>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Place>> {
        let pending = &mut *self.get_mut().0;
        // From here on, the machine wakes this task.
        if let Poll::Ready(result) = pending.poll_work(cx) {
            pending.work = Work::Done(result);
            return Poll::Ready(None);
        }
        let status = match &pending.work {
            Work::Acquire(attempt, _) => attempt.status(),
            Work::Run((_, status)) => status.clone(),
            _ => None,
        };
        let place = status.and_then(|status| status.take_place());
        place.map_or(Poll::Pending, |place| Poll::Ready(Some(place)))
    }
}

/// An event that may never come, such as the loss of a lock: await it in a task, or, with the
/// feature `blocking`, call `wait` in a thread.
///
/// Dropping it changes nothing.
#[must_use = "a signal is awaited or waited for"]
pub struct Signal<T, C = Client> {
    client: C,
    end: Option<Instant>,
    work: BoxFuture<T>,
}

impl<T, C> Unpin for Signal<T, C> {}

impl<T, C> fmt::Debug for Signal<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("end", &self.end).finish_non_exhaustive()
    }
}

impl<T: Send + 'static, C: SessionClient> Signal<T, C> {
    pub(crate) fn new(client: &C, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { client: client.clone(), end: None, work: Box::pin(work) }
    }

    /// Returns `None` if it has not come after `timeout` from now.
    pub fn timeout(self, timeout: Duration) -> Signal<Option<T>, C> {
        self.limited(TimeLimit::after::<C>(timeout).end)
    }

    /// Returns `None` if it has not come by `end`, an instant of the standard library or of tokio.
    pub fn until(self, end: impl Into<Instant>) -> Signal<Option<T>, C> {
        self.limited(Some(end.into()))
    }

    fn limited(self, end: Option<Instant>) -> Signal<Option<T>, C> {
        let Self { client, work, .. } = self;
        let waiting = client.clone();
        let work = Box::pin(async move { before(&waiting, end, work).await });
        Signal { client, end, work }
    }
}

impl<T> Signal<T, zk_session::blocking::Client> {
    /// Waits in this thread until it comes.
    pub fn wait(self) -> T {
        self.client.clone().block_on(self.end, self)
    }
}

impl<T, C> Future for Signal<T, C> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.get_mut().work.as_mut().poll(cx)
    }
}
