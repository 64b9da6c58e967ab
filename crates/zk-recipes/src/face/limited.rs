//! Waiting for no longer than one likes: the same two ways for whatever can be waited for.

/// The methods `$until` and `$timeout`, which wait as `$wait` does, but not for ever.
macro_rules! limited {
    ($until:ident, $timeout:ident: $wait:ident($($argument:ident: $type:ty),*) -> $guard:ty) => {
        #[doc = concat!("As [`", stringify!($wait), "`](Self::", stringify!($wait), "), but waits no")]
        /// longer than until `deadline`, whatever happens; also when the network swallows everything. It
        /// is an instant of tokio's, exact to a millisecond; one of the standard library's is turned
        /// into it by `into()`.
        ///
        /// # Panics
        ///
        /// When the future is polled outside of a tokio runtime, whose timer it uses.
        ///
        /// # Errors
        ///
        /// [`LockError::TimedOut`].
        ///
        /// # Cancellation
        ///
        #[doc = concat!("As for [`", stringify!($wait), "`](Self::", stringify!($wait), "), also when it")]
        /// is too late.
        pub fn $until(
            &self,
            $($argument: $type,)*
            deadline: tokio::time::Instant,
        ) -> impl Future<Output = Result<$guard, LockError>> + Send + use<> {
            $crate::face::queue::before(deadline, self.$wait($($argument),*))
        }

        #[doc = concat!("As [`", stringify!($until), "`](Self::", stringify!($until), "), for so long from")]
        /// now.
        ///
        /// # Errors
        ///
        #[doc = concat!("As for [`", stringify!($until), "`](Self::", stringify!($until), ").")]
        pub fn $timeout(
            &self,
            $($argument: $type,)*
            timeout: core::time::Duration,
        ) -> impl Future<Output = Result<$guard, LockError>> + Send + use<> {
            $crate::face::queue::within(timeout, self.$wait($($argument),*))
        }
    };
}

pub(crate) use limited;
