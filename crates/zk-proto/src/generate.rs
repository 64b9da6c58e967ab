//! Generators of records, for the features `proptest` and `arbitrary`.
//!
//! Records and numbers get their implementations where they are declared. This module generates
//! the types of their fields.

mod replies;
#[cfg(feature = "arbitrary")]
pub(crate) mod sources;
#[cfg(feature = "proptest")]
pub(crate) mod strategies;

/// Node names of valid paths. There are few, so that requests meet the same nodes.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "n-", "\u{fc}\u{6f22}"];
