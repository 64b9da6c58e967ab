//! How tasks wait for a lock.

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;

use tokio::time::Instant;
use zk_session::{Client, State};

use crate::error::{LockError, Loss, RecipeError};
use crate::face::held::{self, not_validated};
use crate::face::{Call, Entrance, Held};
use crate::machine::{Claim, Command, Entry};

impl Entrance {
    pub(crate) async fn held(self) -> Result<Held, RecipeError> {
        let acquired = self.handle.acquired().await;
        self.finish(acquired)
    }
}

/// # Waiting
impl Held {
    /// Waits until the lock is lost: its session has ended, or somebody has deleted its node, or
    /// it is [not to be trusted](crate::Options::trust) any longer. Never returns while it is
    /// held, or may be: with [`Trust::UntilTold`](crate::machine::Trust::UntilTold) that is as long
    /// as there is no connection. When it is released, it tells [`Loss::Released`].
    ///
    /// The runtime of the session wakes it, so while that runtime is blocked,
    /// [`state`](Self::state) reports the loss sooner.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let (status, attachment) = (self.handle().status.clone(), self.handle().attachment.clone());
        async move {
            let mut lost = status.wait(held::loss);
            let lost = poll_fn(|cx| {
                attachment.command(&mut Command::LookAtLease);
                Pin::new(&mut lost).poll(cx)
            });
            lost.await.unwrap_or(held::CLOSED)
        }
    }

    /// Waits until somebody asks for the lock. Never returns for locks that are not
    /// [revocable](crate::Options::revocable).
    pub fn revoked(&self) -> impl Future<Output = ()> + Send + use<> {
        let status = self.handle().status.clone();
        async move {
            if status.wait(|report| report.revoked.then_some(())).await.is_none() {
                core::future::pending::<()>().await;
            }
        }
    }

    /// Until when the ensemble is bound to keep the session, and with it the lock, as far as can
    /// be known here; see [`Client::lease`]. Where the machine can be suspended, the client needs a
    /// [clock](zk_session::ClientBuilder::clock) that goes on meanwhile, or the lease seems to last
    /// longer than it does.
    pub fn lease(&self) -> Option<Instant> {
        self.client().lease()
    }

    /// Asks the ensemble, that is a majority of its members, whether the lock is still held. It
    /// was, when the answer was given; being connected proves less, and so does reading.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when it is not, or is not to be trusted any more: without a server that
    /// is at the end of the lease, unless the lock is held [until
    /// told](crate::machine::Trust::UntilTold) otherwise. After any other error it is unknown
    /// whether the lock is held.
    ///
    /// # Cancellation
    ///
    /// Nothing happens.
    pub async fn validate(&self) -> Result<(), RecipeError> {
        let mut lost = pin!(self.lost());
        let mut checked = pin!(self.transaction().commit());
        let checked = poll_fn(|cx| match checked.as_mut().poll(cx) {
            Poll::Ready(checked) => Poll::Ready(checked.map(drop).map_err(not_validated)),
            Poll::Pending => lost.as_mut().poll(cx).map(|loss| Err(LockError::Lost(loss))),
        });
        checked.await.map_err(|error| self.call("validate").failed(error))
    }

    pub(crate) fn release(self) -> impl Future<Output = Result<(), RecipeError>> + Send + use<> {
        let (path, status) = self.begin_release();
        async move {
            let over = status.wait(held::over).await;
            held::released(over).map_err(|error| RecipeError::new("release", &path, error))
        }
    }

    /// Lets go as soon as others allow. Dropping the future releases it at once.
    pub(crate) async fn leave(self) -> Result<(), RecipeError> {
        self.handle().command(Command::Leave);
        let over = self.handle().status.wait(held::over).await;
        held::released(over).map_err(|error| self.call("leave").failed(error))
    }

    /// Holds the lock with another claim. On failure it is held as before, or lost.
    pub(crate) async fn convert(
        &mut self,
        operation: &'static str,
        claim: Claim,
    ) -> Result<(), RecipeError> {
        self.handle().command(Command::Convert(claim));
        let converted = self.handle().status.wait(held::converted).await;
        self.finish_conversion(operation, converted)
    }
}

impl Call {
    /// What comes of `work`, if it comes in time; otherwise it fails because it is `late`. The time
    /// counts whatever the network does.
    pub(crate) async fn before<T>(
        self,
        deadline: impl Into<Option<Instant>>,
        late: LockError,
        work: impl Future<Output = Result<T, RecipeError>>,
    ) -> Result<T, RecipeError> {
        let Some(deadline) = deadline.into() else { return work.await };
        let in_time = tokio::time::timeout_at(deadline, work).await;
        in_time.unwrap_or_else(|_| Err(self.failed(late)))
    }
}

/// When `timeout` from now is; never, if that is later than a clock can tell.
pub(crate) fn after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// How an attempt is made that is limited by `deadline`, and by when that has to end: one that
/// begins too late ends by itself.
pub(crate) fn entry(deadline: Option<Instant>) -> (Entry, Option<Instant>) {
    match deadline {
        Some(deadline) if deadline <= Instant::now() => (Entry::OnlyIfFirst, None),
        deadline => (Entry::Queue, deadline),
    }
}

/// What comes of `asking`, unless there is no connection to a majority, or it is lost.
pub(crate) async fn while_connected<T>(
    client: &Client,
    asking: impl Future<Output = T>,
) -> Option<T> {
    let mut states = client.states();
    // The end of the session is told to whoever asks.
    let is_lost = |state: &State| !matches!(state, State::Connected { .. } | State::Ended(_));
    let (mut losing, mut asking) = (pin!(states.wait_for(is_lost)), pin!(asking));
    poll_fn(|cx| match losing.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => asking.as_mut().poll(cx).map(Some),
    })
    .await
}

/// A type of guard: a held lock, which tells what every held lock tells, and can be released.
macro_rules! guard {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Debug)]
        #[must_use = "a guard that is dropped releases its lock"]
        pub struct $name($crate::Held);

        impl core::ops::Deref for $name {
            type Target = $crate::Held;

            fn deref(&self) -> &$crate::Held {
                &self.0
            }
        }

        impl $name {
            /// Releases the lock and waits until the next in line can have it; without a server, no
            /// longer than to the end of the [lease](crate::Held::lease).
            ///
            /// # Errors
            ///
            /// [`Lost`](crate::LockError::Lost) when it had been lost before.
            /// [`NotConfirmed`](crate::LockError::NotConfirmed) when no
            /// server has confirmed its end: the lock is not held here any more, its node is
            /// deleted in the background, or goes with the session.
            ///
            /// # Cancellation
            ///
            /// The lock is released when this method is called; dropping its future changes
            /// nothing.
            pub fn release(
                self,
            ) -> impl Future<Output = Result<(), $crate::RecipeError>> + Send + use<> {
                self.0.release()
            }

            $crate::face::limited::limited_release!(
                "release": release_until, release_timeout: release
            );
        }
    };
}

pub(crate) use guard;
