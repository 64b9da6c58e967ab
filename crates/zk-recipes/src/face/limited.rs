//! Waiting for no longer than one likes: the same two ways for whatever can be waited for.

/// The methods `$until` and `$timeout`, which wait as `$wait` does, but not for ever.
macro_rules! limited {
    (
        $operation:literal: $until:ident, $timeout:ident:
        $wait:ident($($argument:ident: $type:ty),*) by $enter:ident($($given:expr),*) -> $guard:ty
    ) => {
        #[doc = concat!("As [`", stringify!($wait), "`](Self::", stringify!($wait), "), but waits no")]
        /// longer than until `deadline`, whatever happens; also when the network swallows everything. It
        /// is an instant of tokio's, exact to a millisecond; one of the standard library's is turned
        /// into it by `into()`.
        ///
        /// A deadline that has passed at the call asks once: it never fails because no time was left to
        /// ask, but waits neither behind others nor for a connection. It fails with
        /// [`TimedOut`](crate::LockError::TimedOut) at the answer if somebody is ahead (or, for an
        /// election or a barrier, if it is not over yet), and with
        /// [`NoConnection`](crate::LockError::NoConnection) at once where there is no connection to
        /// a majority, or when it is lost. If a server does not answer, that is when the client
        /// takes the connection for dead. Of two that ask at once, the first in the queue succeeds;
        /// where there is a `try_` method, two that try at once may both fail.
        ///
        /// # Panics
        ///
        /// When the future is polled outside of a tokio runtime, whose timer it uses.
        ///
        /// # Errors
        ///
        /// [`TimedOut`](crate::LockError::TimedOut), or
        /// [`NoConnection`](crate::LockError::NoConnection) if there is none when the time is over.
        ///
        /// # Cancellation
        ///
        #[doc = concat!("As for [`", stringify!($wait), "`](Self::", stringify!($wait), "), also when it")]
        /// is too late.
        pub fn $until(
            &self,
            $($argument: $type,)*
            deadline: tokio::time::Instant,
        ) -> impl Future<Output = Result<$guard, $crate::RecipeError>> + Send + use<> {
            let (entry, deadline) = $crate::face::waiting::entry(Some(deadline));
            let waiting = self.$enter($operation, $($given,)* entry);
            self.call($operation).before(deadline, $crate::LockError::TimedOut, waiting)
        }

        #[doc = concat!("As [`", stringify!($until), "`](Self::", stringify!($until), "), for so long from")]
        /// now. [`Duration::ZERO`](core::time::Duration::ZERO) asks once, as a deadline that has passed.
        ///
        /// # Errors
        ///
        #[doc = concat!("As for [`", stringify!($until), "`](Self::", stringify!($until), ").")]
        pub fn $timeout(
            &self,
            $($argument: $type,)*
            timeout: core::time::Duration,
        ) -> impl Future<Output = Result<$guard, $crate::RecipeError>> + Send + use<> {
            let deadline = $crate::face::waiting::after(timeout);
            let (entry, deadline) = $crate::face::waiting::entry(deadline);
            let waiting = self.$enter($operation, $($given,)* entry);
            self.call($operation).before(deadline, $crate::LockError::TimedOut, waiting)
        }
    };
}

/// The methods `$until` and `$timeout`, which give something back as `$release` does, and wait no longer
/// than the caller likes.
macro_rules! limited_release {
    ($operation:literal: $until:ident, $timeout:ident: $release:ident) => {
        #[doc = concat!("As [`", stringify!($release), "`](Self::", stringify!($release), "), but waits for")]
        /// its confirmation no longer than until `deadline`. The rest is done in the background.
        ///
        /// # Panics
        ///
        /// When the future is polled outside of a tokio runtime, whose timer it uses.
        ///
        /// # Errors
        ///
        #[doc = concat!("As for [`", stringify!($release), "`](Self::", stringify!($release), "); when it is")]
        /// too late, [`NotConfirmed`](crate::LockError::NotConfirmed) with
        /// [`TimedOut`](crate::Unconfirmed::TimedOut).
        ///
        /// # Cancellation
        ///
        #[doc = concat!("As for [`", stringify!($release), "`](Self::", stringify!($release), ").")]
        pub fn $until(
            self,
            deadline: tokio::time::Instant,
        ) -> impl Future<Output = Result<(), $crate::RecipeError>> + Send + use<> {
            let late = $crate::LockError::NotConfirmed($crate::Unconfirmed::TimedOut);
            self.call($operation).before(deadline, late, self.$release())
        }

        #[doc = concat!("As [`", stringify!($until), "`](Self::", stringify!($until), "), for so long from")]
        /// now.
        ///
        /// # Errors
        ///
        #[doc = concat!("As for [`", stringify!($until), "`](Self::", stringify!($until), ").")]
        pub fn $timeout(
            self,
            timeout: core::time::Duration,
        ) -> impl Future<Output = Result<(), $crate::RecipeError>> + Send + use<> {
            let late = $crate::LockError::NotConfirmed($crate::Unconfirmed::TimedOut);
            let deadline = $crate::face::waiting::after(timeout);
            self.call($operation).before(deadline, late, self.$release())
        }
    };
}

pub(crate) use {limited, limited_release};
