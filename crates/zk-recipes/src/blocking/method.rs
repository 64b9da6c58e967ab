//! The waiting methods of the blocking client, which run futures.

/// One method of the blocking client, or three with its time limits; see `methods!`.
macro_rules! method {
    (
        $(#[$attribute:meta])*
        enter $name:ident [$until:ident, $timeout:ident]
        (&$self:ident $(, $argument:ident: $type:ty)*; $limit:ident) $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        pub fn $name(&$self, $($argument: $type,)*) -> $output {
            let $limit = $crate::recipes::client::Limit::NONE;
            $self.client().block_on(None, $body)
        }

        #[doc = $crate::recipes::macros::limited_doc!($name, "until `deadline`")]
        pub fn $until(
            &$self,
            $($argument: $type,)*
            deadline: std::time::Instant,
        ) -> $output {
            let $limit = $crate::recipes::client::Limit::until::<C>(deadline);
            $self.client().block_on($limit.end, $body)
        }

        #[doc = $crate::recipes::macros::limited_doc!($name, "`timeout`")]
        pub fn $timeout(
            &$self,
            $($argument: $type,)*
            timeout: core::time::Duration,
        ) -> $output {
            let $limit = $crate::recipes::client::Limit::after::<C>(timeout);
            $self.client().block_on($limit.end, $body)
        }
    };
    (
        $(#[$attribute:meta])*
        attempt $name:ident []
        (&$self:ident $(, $argument:ident: $type:ty)*) $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        #[cfg(feature = "try-lock")]
        pub fn $name(&$self, $($argument: $type,)*) -> $output {
            $self.client().block_on(None, $body)
        }
    };
    (
        $(#[$attribute:meta])*
        release $name:ident [$until:ident, $timeout:ident] ($self:ident; $end:ident)
        $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        pub fn $name($self) -> $output {
            let (client, $end) = ($self.client().clone(), None);
            client.block_on(None, $body)
        }

        #[doc = $crate::recipes::macros::limited_release_doc!($name, "until `deadline`")]
        pub fn $until($self, deadline: std::time::Instant) -> $output {
            let (client, $end) = ($self.client().clone(), Some(deadline));
            client.block_on($end, $body)
        }

        #[doc = $crate::recipes::macros::limited_release_doc!($name, "`timeout`")]
        pub fn $timeout($self, timeout: core::time::Duration) -> $output {
            let $end = $crate::recipes::client::after::<C>(timeout);
            let client = $self.client().clone();
            client.block_on($end, $body)
        }
    };
    (
        $(#[$attribute:meta])*
        request $name:ident [] (&$self:ident $(, $argument:ident: $type:ty)*) $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        pub fn $name(&$self, $($argument: $type,)*) -> $output {
            $self.client().block_on(None, $body)
        }
    };
    (
        $(#[$attribute:meta])*
        convert $name:ident [] ($self:ident) $output:ty, $body:block
    ) => {
        $(#[$attribute])*
        #[allow(clippy::result_large_err, reason = "the guard comes back as it was")]
        pub fn $name($self) -> $output {
            let client = $self.client().clone();
            client.block_on(None, $body)
        }
    };
}

pub(crate) use method;
