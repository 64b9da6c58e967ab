//! The waiting methods of the async client, which return futures.

/// One method of the async client, or three with its time limits; see `methods!`.
macro_rules! method {
    (
        $(#[$attribute:meta])*
        enter $name:ident [$until:ident, $timeout:ident]
        (&$self:ident $(, $argument:ident: $type:ty)*; $limit:ident) $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        ///
        /// # Cancellation
        ///
        /// Dropping the future gives up. A node that was created for it is deleted in the
        /// background, even if its creation is not confirmed yet, or the connection is lost.
        pub fn $name(
            &$self,
            $($argument: $type,)*
        ) -> impl Future<Output = $output> + Send + use<> {
            let $limit = $crate::recipes::client::Limit::NONE;
            $body
        }

        #[doc = $crate::recipes::macros::limited_doc!($name, "until `deadline`")]
        ///
        /// # Panics
        ///
        /// When the future is polled outside of a tokio runtime, whose timer it uses.
        ///
        /// # Cancellation
        ///
        #[doc = concat!("That of [`", stringify!($name), "`](Self::", stringify!($name), "),")]
        /// even if the time limit has passed.
        pub fn $until(
            &$self,
            $($argument: $type,)*
            deadline: tokio::time::Instant,
        ) -> impl Future<Output = $output> + Send + use<> {
            let $limit = $crate::recipes::client::Limit::until::<C>(deadline.into_std());
            $body
        }

        #[doc = $crate::recipes::macros::limited_doc!($name, "`timeout` from now")]
        ///
        /// # Panics, cancellation
        ///
        #[doc = concat!("Those of [`", stringify!($until), "`](Self::", stringify!($until), ").")]
        pub fn $timeout(
            &$self,
            $($argument: $type,)*
            timeout: core::time::Duration,
        ) -> impl Future<Output = $output> + Send + use<> {
            let $limit = $crate::recipes::client::Limit::after::<C>(timeout);
            $body
        }
    };
    (
        $(#[$attribute:meta])*
        attempt $name:ident []
        (&$self:ident $(, $argument:ident: $type:ty)*) $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        ///
        /// # Cancellation
        ///
        /// Dropping the future gives up. A node that was created for it is deleted in the background.
        #[cfg(feature = "try-lock")]
        pub fn $name(
            &$self,
            $($argument: $type,)*
        ) -> impl Future<Output = $output> + Send + use<> {
            $body
        }
    };
    (
        $(#[$attribute:meta])*
        release $name:ident [$until:ident, $timeout:ident] ($self:ident; $end:ident)
        $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        ///
        /// # Cancellation
        ///
        /// The request is on its way when this method returns; dropping the future changes nothing.
        pub fn $name($self) -> impl Future<Output = $output> + Send + use<> {
            let $end = None;
            $body
        }

        #[doc = $crate::recipes::macros::limited_release_doc!($name, "until `deadline`")]
        ///
        /// # Panics
        ///
        /// When the future is polled outside of a tokio runtime, whose timer it uses.
        ///
        /// # Cancellation
        ///
        #[doc = concat!("That of [`", stringify!($name), "`](Self::", stringify!($name), ").")]
        pub fn $until(
            $self,
            deadline: tokio::time::Instant,
        ) -> impl Future<Output = $output> + Send + use<> {
            let $end = Some(deadline.into_std());
            $body
        }

        #[doc = $crate::recipes::macros::limited_release_doc!($name, "`timeout` from now")]
        ///
        /// # Panics, cancellation
        ///
        #[doc = concat!("Those of [`", stringify!($until), "`](Self::", stringify!($until), ").")]
        pub fn $timeout(
            $self,
            timeout: core::time::Duration,
        ) -> impl Future<Output = $output> + Send + use<> {
            let $end = $crate::recipes::client::after::<C>(timeout);
            $body
        }
    };
    (
        $(#[$attribute:meta])*
        request $name:ident [] (&$self:ident $(, $argument:ident: $type:ty)*) $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        ///
        /// # Cancellation
        ///
        /// A request that was sent may still be applied.
        pub async fn $name(&$self, $($argument: $type,)*) -> $output {
            $body.await
        }
    };
    (
        $(#[$attribute:meta])*
        convert $name:ident [] ($self:ident) $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        ///
        /// # Cancellation
        ///
        /// The lock is released in the background.
        pub async fn $name($self) -> $output {
            $body.await
        }
    };
}

pub(crate) use method;
