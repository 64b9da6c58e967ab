//! What the recipes share for any [`SessionClient`].
//!
//! Each recipe attaches a [machine](crate::machine) to the session of a client, and returns a
//! guard. Methods that take time return a [`Pending`] operation or a [`Signal`], for tasks and
//! threads.

pub(crate) mod abandoned;
pub(crate) mod acquiring;
mod blocking;
pub(crate) mod call;
pub(crate) mod contenders;
pub(crate) mod count;
#[cfg_attr(not(feature = "full"), path = "no_deadlocks.rs")]
pub(crate) mod deadlocks;
pub(crate) mod guard;
pub(crate) mod guid;
pub(crate) mod held_lock;
pub(crate) mod known;
#[cfg_attr(not(feature = "full"), path = "no_local.rs")]
pub(crate) mod local;
pub(crate) mod lookout;
pub(crate) mod observed;
pub(crate) mod once;
pub(crate) mod pending;
pub(crate) mod queue;
pub(crate) mod report;
pub(crate) mod reporter;
pub(crate) mod run;
pub(crate) mod session_client;
pub(crate) mod status;
#[cfg(test)]
mod tests;
#[cfg_attr(not(feature = "tokio"), path = "no_tokio.rs")]
mod tokio;

pub use self::contenders::QueueEntry;
pub use self::guard::{FencingToken, Guard};
pub use self::pending::{NextPlace, Pending, Signal};
pub use self::report::{Holding, Place};
pub use self::run::RunError;
pub use self::session_client::SessionClient;
pub(crate) use self::tokio::Client;
