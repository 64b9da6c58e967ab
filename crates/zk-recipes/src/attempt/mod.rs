//! What the machines of all recipes share: the interface, the configuration of an attempt, and the
//! parts that they are built from.

mod access;
mod command;
mod config;
pub(crate) mod connection;
pub(crate) mod creation;
pub(crate) mod description;
mod event;
#[cfg_attr(not(feature = "full"), path = "no_full.rs")]
mod full;
pub(crate) mod listing;
mod machine;
pub(crate) mod name;
pub(crate) mod node;
mod observer;
mod on_session;
pub(crate) mod parents;
pub(crate) mod phase;
pub(crate) mod queue;
pub(crate) mod renewal;
pub(crate) mod requests;
pub(crate) mod requeuing;
pub(crate) mod retry_policy;
#[cfg(all(feature = "full", feature = "blocking"))]
pub(crate) mod sorted_queue;
pub(crate) mod synced_read;
pub(crate) mod transaction;
pub(crate) mod turn;
mod watches;

#[cfg(test)]
mod tests;

pub use self::access::AccessList;
pub use self::command::Command;
pub use self::config::{AttemptConfig, DisconnectPolicy, Parents, WaitPolicy};
pub use self::event::Event;
pub(crate) use self::full::{Full, OfFull};
pub(crate) use self::machine::Given;
pub use self::machine::Machine;
pub use self::name::{LockMode, Name, Scheme};
pub use self::node::NodeName;
pub use self::observer::Observer;
pub use self::on_session::OnSession;
pub use self::queue::{QueuedNode, UnknownNodePolicy, queue_order};
pub use self::renewal::Renewal;
pub use self::requeuing::{Requeuing, Restart};
pub use self::turn::Turn;
pub use self::watches::{OpId, Watches};
