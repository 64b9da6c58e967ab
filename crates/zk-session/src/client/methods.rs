//! One declaration for the methods of both clients.

/// Declares methods of both clients.
///
/// `impl Family for Client` also declares a trait of the requests, for code that is generic over
/// the clients. Its methods return an answer to wait for. There are these kinds of methods:
///
/// - `request`: sends one request at the call. The body returns its answer.
/// - `watch`: the same with the watch that the request sets. The body returns both.
/// - `wait`: sends one request after the other. The body is a future.
/// - `get`: does not wait. The body is that of the method.
///
/// An error of the blocking client names the parameter called `path`. `tokio/method.rs` and
/// `blocking/method.rs` implement each kind.
macro_rules! methods {
    (
        $(#[$heading:meta])*
        impl $family:ident for Client {
            $(
                $(#[$attribute:meta])*
                $kind:ident fn $name:ident $parameters:tt -> $output:ty $body:block
            )*
        }
    ) => {
        /// The requests among these methods.
        pub(crate) trait $family: $crate::client::RawClient {
            $( $crate::client::methods::begin! { $kind $name $parameters $output, $body } )*
        }

        impl<C: $crate::client::RawClient> $family for C {}

        $crate::client::methods::methods! {
            $(#[$heading])*
            impl Client {
                $(
                    $(#[$attribute])*
                    $kind fn $name $parameters -> $output {
                        $crate::client::methods::forward!($kind $family $name $parameters, $body)
                    }
                )*
            }
        }
    };
    (
        $(#[$heading:meta])*
        impl $client:ty {
            $(
                $(#[$attribute:meta])*
                $kind:ident fn $name:ident $parameters:tt -> $output:ty $body:block
            )*
        }
    ) => {
        #[cfg(feature = "tokio")]
        mod for_tokio {
            #[allow(unused_imports, reason = "not every family uses all of them")]
            use {super::*, crate::client::RawClient as _, crate::client::methods::*};
            #[allow(unused_imports, reason = "not every family uses all of them")]
            use crate::tokio::{Answer, Client, PersistentWatch, Watch, method::method};

            $(#[$heading])*
            impl $client {
                $(
                    method! { $(#[$attribute])* $kind $name $parameters $output, $body }
                )*
            }
        }

        #[cfg(feature = "blocking")]
        mod for_threads {
            #[allow(unused_imports, reason = "not every family uses all of them")]
            use {super::*, crate::client::RawClient as _, crate::client::methods::*};
            #[allow(unused_imports, reason = "not every family uses all of them")]
            use crate::blocking::{Client, PersistentWatch, Watch, method::method};

            $(#[$heading])*
            impl $client {
                $(
                    method! { $(#[$attribute])* $kind $name $parameters $output, $body }
                )*
            }
        }
    };
}

/// A request, as a method of the trait of its family.
macro_rules! begin {
    (
        request $name:ident (&$self:ident $(, $argument:ident: $type:ty)* $(,)?)
        $output:ty, $body:block
    ) => {
        fn $name(
            &$self,
            $($argument: $type),*
        ) -> Result<Self::Answer<$output>, $crate::error::RequestError> $body
    };
    ($kind:ident $name:ident $parameters:tt $output:ty, $body:block) => {};
}

/// The body of a method: that of the family's trait, if there is one.
macro_rules! forward {
    (
        request $family:ident $name:ident (&$self:ident $(, $argument:ident: $type:ty)* $(,)?),
        $body:block
    ) => {
        $family::$name($self, $($argument),*)
    };
    ($kind:ident $family:ident $name:ident $parameters:tt, $body:block) => {
        $body
    };
}

pub(crate) use {begin, forward, methods};

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use zk_proto::Stat;

/// A request's return value, together with the watch that it sets.
pub(crate) trait WithWatch<W> {
    type Output;

    fn with(self, watch: W) -> Self::Output;
}

impl<W> WithWatch<W> for () {
    type Output = W;

    fn with(self, watch: W) -> W {
        watch
    }
}

impl<W> WithWatch<W> for Option<Stat> {
    type Output = (Self, W);

    fn with(self, watch: W) -> (Self, W) {
        (self, watch)
    }
}

impl<W> WithWatch<W> for (Bytes, Stat) {
    type Output = (Bytes, Stat, W);

    fn with(self, watch: W) -> Self::Output {
        (self.0, self.1, watch)
    }
}

impl<W> WithWatch<W> for (Vec<String>, Stat) {
    type Output = (Vec<String>, Stat, W);

    fn with(self, watch: W) -> Self::Output {
        (self.0, self.1, watch)
    }
}
