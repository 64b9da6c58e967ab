//! Work that is done while a lock is held.

use alloc::string::String;
use core::fmt;

use zk_session::Fault;

use crate::client::pending::{Hold, Pending};
use crate::error::{LockError, Loss, Reason, RecipeError};

/// Why work under a lock was not done, or not to the end, or whether it is known to be released.
///
/// `R` is the reason for which the lock was not acquired, `T` the value of the work. If that is a
/// `Result`, an error of the work itself is in it, and none of these.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError<T, R = LockError> {
    /// The lock was not acquired, and the work has not begun.
    NotAcquired(RecipeError<R>),
    /// The lock was lost while a task worked, and the work was dropped at an `await`. What it did
    /// until then is done, the rest is not.
    Lost {
        /// The path of the lock.
        path: String,
        /// Why it is not held any more.
        loss: Loss,
    },
    /// The work came to its end, but the lock was lost meanwhile, or its release is not confirmed.
    NotReleased {
        /// What the work has returned.
        value: T,
        /// [`Lost`](LockError::Lost), so another contender may have worked at the same time, or
        /// [`NotConfirmed`](LockError::NotConfirmed).
        error: RecipeError,
    },
}

impl<T, R: Reason> RunError<T, R> {
    /// Returns the name of the variant, which does not change with the text of the message.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotAcquired(_) => "NotAcquired",
            Self::Lost { .. } => "Lost",
            Self::NotReleased { .. } => "NotReleased",
        }
    }

    /// Returns why the lock was lost during the work, if it was.
    pub fn loss(&self) -> Option<Loss> {
        match self {
            Self::Lost { loss, .. } => Some(*loss),
            Self::NotReleased { error, .. } => match error.reason {
                LockError::Lost(loss) => Some(loss),
                _ => None,
            },
            Self::NotAcquired(_) => None,
        }
    }

    /// Returns what the work has returned, if it came to its end.
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::NotReleased { value, .. } => Some(value),
            Self::NotAcquired(_) | Self::Lost { .. } => None,
        }
    }

    /// Returns whose fault it is, and so what to do.
    pub fn fault(&self) -> Fault {
        match self {
            Self::NotAcquired(error) => error.fault(),
            Self::Lost { .. } => Fault::Session,
            Self::NotReleased { error, .. } => error.fault(),
        }
    }
}

impl<T, R: Reason> fmt::Display for RunError<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAcquired(error) => write!(f, "{error}"),
            Self::Lost { path, loss } => {
                write!(f, "the work under '{}' was cut off: {loss}", path.escape_debug())
            }
            Self::NotReleased { error, .. } => write!(f, "the work is done, but {error}"),
        }
    }
}

impl<T: fmt::Debug, R: Reason> core::error::Error for RunError<T, R> {}

#[cfg(feature = "tokio")]
impl<G: Hold<zk_session::Client>, R: Reason> Pending<G, zk_session::Client, RecipeError<R>> {
    /// Acquires, works, and releases. A loss cuts the work off.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use zk_recipes::{Mutex, RunError};
    /// # async fn example(mutex: Mutex) -> Result<(), Box<dyn std::error::Error>> {
    /// let limited = mutex.acquire().timeout(Duration::from_secs(5));
    /// let pages = limited.run(async |held| print(held.fencing_token().0).await).await?;
    /// # Ok(())
    /// # }
    /// # async fn print(_: i64) -> u32 { 0 }
    /// ```
    ///
    /// It works on every attempt that returns a guard: of a mutex, a read/write lock, a semaphore,
    /// several locks, or [a term of leadership](crate::LeaderElection::lead). The time limit is that
    /// of the attempt, not of the work, nor of the release, which ends with the session's lease at
    /// the latest.
    ///
    /// # Guarantee
    ///
    /// When the loss is noticed, the work is not polled again, and is dropped. Work that does not
    /// reach an `await`, or that it has handed to other tasks, goes on: stop it by
    /// [`Guard::state`](crate::Guard::state), and fence it by the token.
    ///
    /// # Cancellation
    ///
    /// Dropping the returned future drops the work, and then releases the lock in the background. So
    /// does a panic of the work.
    ///
    /// # Errors
    ///
    /// See [`RunError`], which keeps the value of work that came to its end.
    pub async fn run<T>(self, work: impl AsyncFnOnce(&G) -> T) -> Result<T, RunError<T, R>> {
        let guard = self.await.map_err(RunError::NotAcquired)?;
        let done = crate::client::session_client::unless(guard.until_lost(), work(&guard)).await;
        let value = done.map_err(|lost| RunError::Lost { path: lost.path, loss: lost.loss })?;
        ended(value, guard.end().await)
    }
}

impl<G, R: Reason> Pending<G, zk_session::blocking::Client, RecipeError<R>>
where
    G: Hold<zk_session::blocking::Client>,
{
    /// Acquires, works in this thread, and releases.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use zk_recipes::{Mutex, RunError, session::blocking::Client};
    /// # fn example(mutex: Mutex<Client>) -> Result<(), Box<dyn std::error::Error>> {
    /// let printed = mutex.acquire().timeout(Duration::from_secs(5)).run(|held| {
    ///     (1..=9).take_while(|page| !held.is_lost() && print(*page)).count()
    /// })?;
    /// # Ok(())
    /// # }
    /// # fn print(_: u32) -> bool { true }
    /// ```
    ///
    /// It works on every attempt that returns a guard: of a mutex, a read/write lock, a semaphore,
    /// several locks, or [a term of leadership](crate::LeaderElection::lead). The time limit is that
    /// of the attempt, not of the work, nor of the release, which ends with the session's lease at
    /// the latest.
    ///
    /// A thread cannot be cut off, so long work asks `is_lost` from time to time. If it panics, the
    /// lock is released in the background.
    ///
    /// # Errors
    ///
    /// [`RunError::NotAcquired`], or [`RunError::NotReleased`] with the value of the work. After a
    /// loss that is [`LockError::Lost`].
    pub fn run<T>(self, work: impl FnOnce(&G) -> T) -> Result<T, RunError<T, R>> {
        let guard = self.wait().map_err(RunError::NotAcquired)?;
        let value = work(&guard);
        ended(value, guard.end().wait())
    }
}

/// The result of work that came to its end.
fn ended<T, R>(value: T, released: Result<(), RecipeError>) -> Result<T, RunError<T, R>> {
    match released {
        Ok(()) => Ok(value),
        Err(error) => Err(RunError::NotReleased { value, error }),
    }
}
