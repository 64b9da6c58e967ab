//! A lock that a thread holds.

use alloc::boxed::Box;
use core::time::Duration;
use std::time::Instant;

use super::Held;
use super::waiting::{after, wait};
use crate::error::{LockError, Loss, RecipeError, Unconfirmed};
use crate::face::Holding;
use crate::face::held::{self, not_validated};
use crate::machine::{Claim, Command};

/// # Waiting
impl Held {
    /// Returns whether the lock is lost; see [`state`](Self::state).
    pub fn is_lost(&self) -> bool {
        matches!(self.state(), Holding::Lost(_))
    }

    /// Waits until the lock is lost, for no longer than `timeout`. Returns how it was lost, or
    /// `None` if the time has passed and it is not known to be lost.
    pub fn wait_lost(&self, timeout: Duration) -> Option<Loss> {
        self.state();
        let lost = wait(self.client(), &self.handle().status, after(timeout), held::loss);
        lost.map(|loss| loss.unwrap_or(held::CLOSED))
    }

    /// Runs a callback once, when the lock is lost. It does not run when the lock is released.
    ///
    /// If the lock is lost already, the callback runs before this method returns. Otherwise it runs
    /// soon after the loss is noticed, in a thread that calls a method of the client or in one of
    /// its own. Several callbacks of one lock run in the order in which they were added. See
    /// [Callbacks](crate::blocking#callbacks) for what a callback may do.
    pub fn on_lost(&self, callback: impl FnOnce(Loss) + Send + 'static) {
        self.state();
        if let Some((callback, loss)) = self.handle().status.on_loss(Box::new(callback)) {
            callback(loss);
        }
    }

    /// Waits until another client asks for the lock, for no longer than `timeout`. Returns whether
    /// one has; always `false` for locks that are not [revocable](crate::Options::revocable).
    pub fn wait_revoked(&self, timeout: Duration) -> bool {
        let revoked = wait(self.client(), &self.handle().status, after(timeout), |report| {
            report.revoked.then_some(())
        });
        revoked.flatten().is_some()
    }

    /// Returns until when the ensemble must keep the session, and with it the lock, as far as is
    /// known here; see [`Client::lease`](zk_session::blocking::Client::lease). On a machine that
    /// can be suspended, the client needs a [clock](zk_session::ClientBuilder::clock) that does not
    /// stop, or the lease seems to last longer than it does.
    pub fn lease(&self) -> Option<Instant> {
        self.client().lease()
    }

    /// Asks a quorum of the ensemble whether the lock is still held. If this succeeds, it was held
    /// when the server answered. A connection, or a read, proves less.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when it is not, or is not to be trusted any more: without a server that
    /// is at the end of the lease, unless the lock is held [until
    /// told](crate::machine::Trust::UntilTold) otherwise. After any other error it is unknown
    /// whether the lock is held.
    pub fn validate(&self) -> Result<(), RecipeError> {
        let failed = |error| self.call("validate").failed(error);
        let lease = self.lease().map(|lease| lease.saturating_duration_since(Instant::now()));
        let in_time = self.client().with_request_timeout(lease);
        let error = match self.check(in_time.transaction()).commit() {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        match self.state() {
            Holding::Lost(loss) => Err(failed(LockError::Lost(loss))),
            // It is trusted for longer than the lease lasts.
            Holding::Suspended if lease.is_some() && self.client().lease_has_ended() => {
                let checked = self.transaction().commit();
                checked.map(drop).map_err(|error| failed(not_validated(error)))
            }
            _ => Err(failed(not_validated(error))),
        }
    }

    pub(super) fn release(self, end: Option<Instant>) -> Result<(), RecipeError> {
        let client = self.client().clone();
        let (path, status) = self.begin_release();
        let released = match wait(&client, &status, end, held::over) {
            Some(over) => held::released(over),
            None => Err(LockError::NotConfirmed(Unconfirmed::TimedOut)),
        };
        released.map_err(|error| RecipeError::new("release", &path, error))
    }

    /// Releases the lock as soon as others allow; at `end` in any case.
    pub(super) fn leave(self, end: Option<Instant>) -> Result<(), RecipeError> {
        self.handle().command(Command::Leave);
        let left = match wait(self.client(), &self.handle().status, end, held::over) {
            Some(over) => held::released(over),
            None => Err(LockError::NotConfirmed(Unconfirmed::TimedOut)),
        };
        left.map_err(|error| self.call("leave").failed(error))
    }

    /// Holds the lock with another claim. On failure it is held as before, or lost.
    pub(super) fn convert(
        &mut self,
        operation: &'static str,
        claim: Claim,
    ) -> Result<(), RecipeError> {
        self.handle().command(Command::Convert(claim));
        let converted = wait(self.client(), &self.handle().status, None, held::converted);
        self.finish_conversion(operation, converted.flatten())
    }
}

/// A type of guard: a held lock, which reports what every held lock reports, and can be released.
macro_rules! guard {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Debug)]
        #[must_use = "a guard that is dropped releases its lock"]
        pub struct $name(pub(super) $crate::blocking::Held);

        impl core::ops::Deref for $name {
            type Target = $crate::blocking::Held;

            fn deref(&self) -> &$crate::blocking::Held {
                &self.0
            }
        }

        impl $name {
            /// Releases the lock and waits until the next contender can have it. Without a server
            /// it waits until the end of the [lease](crate::blocking::Held::lease) at most.
            ///
            /// # Errors
            ///
            /// [`Lost`](crate::LockError::Lost) when it had been lost before.
            /// [`NotConfirmed`](crate::LockError::NotConfirmed) when no server has confirmed the
            /// release: the lock is no longer held here, and its node is deleted in the background
            /// or with the session.
            pub fn release(self) -> Result<(), $crate::RecipeError> {
                self.0.release(None)
            }

            /// Releases the lock like [`release`](Self::release), but waits for the confirmation no
            /// longer than `timeout`. The rest is done in the background.
            ///
            /// # Errors
            ///
            /// Those of [`release`](Self::release); when it is too late,
            /// [`NotConfirmed`](crate::LockError::NotConfirmed) with
            /// [`TimedOut`](crate::Unconfirmed::TimedOut).
            pub fn release_timeout(
                self,
                timeout: core::time::Duration,
            ) -> Result<(), $crate::RecipeError> {
                self.0.release($crate::blocking::waiting::after(timeout))
            }
        }
    };
}

pub(super) use guard;
