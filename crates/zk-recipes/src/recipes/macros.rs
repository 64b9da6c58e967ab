//! One declaration for the methods of both clients.

/// Declares the methods of a recipe that wait: once, for both clients.
///
/// `tokio/method.rs` and `blocking/method.rs` say what becomes of each kind:
///
/// - `enter`, with the names of two variants for time limits: a request is sent at the call. The
///   body makes a future that respects `limit`.
/// - `attempt`: the same without a time limit.
/// - `release`, which takes `self`: like `enter`, with the time at which it stops waiting.
/// - `request`: one or more requests of the client, sent when the async method is awaited.
/// - `convert`, which takes `self`: like `request`; dropping the future releases the lock.
///
/// Within the declaration, `C` is the client.
macro_rules! methods {
    (
        $recipe:ident:
        $(
            $(#[$attribute:meta])*
            $kind:ident fn $name:ident $variants:tt $parameters:tt -> $output:ty $body:block
        )*
    ) => {
        #[cfg(feature = "tokio")]
        const _: () = {
            type C = zk_session::Client;

            impl $recipe<C> {
                $(
                    $crate::tokio::method! {
                        $(#[$attribute])*
                        $kind $name $variants $parameters $output, $body
                    }
                )*
            }
        };

        #[cfg(feature = "blocking")]
        const _: () = {
            type C = zk_session::blocking::Client;

            impl $recipe<C> {
                $(
                    $crate::blocking::method! {
                        $(#[$attribute])*
                        $kind $name $variants $parameters $output, $body
                    }
                )*
            }
        };
    };
}

/// The methods that every recipe with a queue has.
macro_rules! queue_methods {
    ($recipe:ident, $queue:tt) => {
        impl<C: $crate::recipes::SessionClient> $recipe<C> {
            /// Returns the path that this was made with.
            pub fn path(&self) -> &str {
                &self.$queue.path
            }

            /// Returns how many nodes of this value and its clones are no longer wanted and not yet
            /// known to be deleted. A deletion that the ensemble refuses is not pending any more:
            /// [`abandoned_nodes`](Self::abandoned_nodes) counts it.
            pub fn pending_cleanups(&self) -> usize {
                self.$queue.pending_cleanups()
            }

            /// Returns how many nodes of this value and its clones the ensemble has refused to
            /// delete, mostly because the access control list of their parent denies it.
            ///
            /// They stay until the session ends or another client deletes them, and block the
            /// contenders behind them. An attempt of this process that would wait for one fails
            /// with [`LockError::Abandoned`](crate::LockError::Abandoned). An
            /// [observer](crate::Options::observer) receives
            /// [`Event::Abandoned`](crate::Event::Abandoned) for each.
            pub fn abandoned_nodes(&self) -> usize {
                self.$queue.abandoned_nodes()
            }

            #[cfg(feature = "blocking")]
            fn client(&self) -> &C {
                &self.$queue.client
            }
        }
    };
}

/// The constructor with default options.
macro_rules! new {
    ($recipe:ident) => {
        impl<C: $crate::recipes::SessionClient> $recipe<C> {
            /// Returns the recipe at `path`, with the default options. Nothing is sent yet.
            ///
            /// # Errors
            ///
            /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
            pub fn new(client: &C, path: &str) -> Result<Self, $crate::RecipeError> {
                Self::with(client, path, $crate::Options::new())
            }
        }
    };
}

/// Lists the contenders of a lock, and asks them to release it.
macro_rules! contender_methods {
    ($recipe:ident, $queue:tt) => {
        $crate::recipes::macros::methods! { $recipe:
            /// Returns the holders of the lock and the contenders that wait for it, in the order in
            /// which their nodes were created. The list may be out of date when it arrives.
            ///
            /// Nodes are read in batches of 1,000, with as many requests under way as the session
            /// accepts, so it can list any number of contenders. A node that cannot be read is
            /// listed without its data.
            ///
            /// # Errors
            ///
            /// [`LockError::Request`](crate::LockError::Request). A lock path that does not exist
            /// has no contenders. Without a connection it waits for one, as all requests do: limit
            /// that with `with_request_timeout` of the client before the lock is made.
            request fn contenders [] (&self) -> Result<Vec<$crate::QueueEntry>, $crate::RecipeError> {
                $crate::recipes::contenders::list(&self.$queue, "contenders")
            }

            /// Asks the owner of `node` to release the lock, by the node's data, as Apache Curator
            /// does. An owner that is [revocable](crate::Options::revocable) is notified; nothing forces
            /// it to release.
            ///
            /// # Errors
            ///
            /// [`LockError::Request`](crate::LockError::Request), with `NO_NODE` when the node does
            /// not exist. Without a connection it waits for one, as
            /// [`contenders`](Self::contenders) does.
            request fn revoke [] (&self, node: &str) -> Result<(), $crate::RecipeError> {
                $crate::recipes::contenders::revoke(&self.$queue.client, self.$queue.below(node))
            }
        }
    };
}

/// A type of guard: a held lock that reports what every held lock reports, and can be released.
macro_rules! guard {
    ($(#[$attribute:meta])* $guard:ident) => {
        $(#[$attribute])*
        #[must_use = "a guard that is dropped releases its lock"]
        pub struct $guard<C>(pub(super) $crate::recipes::HeldLock<C>);

        impl<C: $crate::recipes::SessionClient> core::fmt::Debug for $guard<C> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_tuple(stringify!($guard)).field(&self.0).finish()
            }
        }

        impl<C> core::ops::Deref for $guard<C> {
            type Target = $crate::recipes::HeldLock<C>;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        $crate::recipes::macros::methods! { $guard:
            /// Releases the lock and waits until the next contender can have it. Without a server
            /// it waits until the end of the session's lease at most.
            ///
            /// # Errors
            ///
            /// [`Lost`](crate::LockError::Lost) when the lock had been lost before.
            /// [`NotConfirmed`](crate::LockError::NotConfirmed) when no server has confirmed the
            /// release: the lock is no longer held here, and its node is deleted in the background
            /// or with the session.
            release fn release [release_until, release_timeout] (self; end)
                -> Result<(), $crate::RecipeError>
            {
                self.0.release(end)
            }
        }
    };
}

/// The summary and the rules of a method that waits until a time limit.
macro_rules! limited_doc {
    ($wait:ident, $limit:literal) => {
        concat!(
            "Waits like [`", stringify!($wait), "`](Self::", stringify!($wait), "), but no longer than ",
            $limit, ", whatever the network does.\n\n",
            "A time limit that has passed at the call asks once. It waits for the server's answer, but \
             neither for other contenders nor for a connection. If a server does not answer, the attempt \
             ends when the client gives up the connection. Of two such calls at the same time, the first \
             in the queue succeeds; of two calls of a `try_` method, both may fail. Without the feature \
             `try-lock`, it always fails.\n\n",
            "# Errors\n\n",
            "Those of [`", stringify!($wait), "`](Self::", stringify!($wait), "); when it is too late, \
             [`TimedOut`](crate::LockError::TimedOut), or \
             [`NoConnection`](crate::LockError::NoConnection) if there is no connection to a quorum then.",
        )
    };
}

/// The summary of a method that waits for a confirmation until a time limit.
macro_rules! limited_release_doc {
    ($release:ident, $limit:literal) => {
        concat!(
            "Does the same as [`",
            stringify!($release),
            "`](Self::",
            stringify!($release),
            "), but waits for the confirmation no longer than ",
            $limit,
            ". The rest is done in the background.\n\n",
            "# Errors\n\n",
            "Those of [`",
            stringify!($release),
            "`](Self::",
            stringify!($release),
            "); when it is too \
             late, [`NotConfirmed`](crate::LockError::NotConfirmed) with \
             [`TimedOut`](crate::Unconfirmed::TimedOut).",
        )
    };
}

pub(crate) use {
    contender_methods, guard, limited_doc, limited_release_doc, methods, new, queue_methods,
};
