//! What clients have with the feature `full` alone.

// The page of the client has its methods in this order.
mod persistent_watches;

mod credentials;

pub(crate) mod persistent_watch;
mod renewal;
mod timeouts;
