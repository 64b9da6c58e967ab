//! What the trace of a run says, in the order in which it happened.

use core::fmt;
use core::time::Duration;

use super::{ClientEvent, Fault};

/// Something that happened in a run, and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// The time since the start.
    pub at: Duration,
    /// What happened.
    pub what: What,
}

/// What happened at a [`Moment`].
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A client started.
    Begun(usize),
    /// An event of a client.
    Client(usize, ClientEvent),
    /// A client crashed, or lost its session and was replaced.
    Gone(usize),
    /// A fault was injected.
    Fault(Fault),
    /// All faults ended.
    Healed,
    /// The checker found a violation of a guarantee.
    Violation(String),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begun(client) => write!(f, "client {client} begins"),
            Self::Client(client, event) => write!(f, "client {client}: {event:?}"),
            Self::Gone(client) => write!(f, "client {client} is gone"),
            Self::Fault(fault) => write!(f, "--- {fault:?}"),
            Self::Healed => write!(f, "--- all faults end"),
            Self::Violation(violation) => write!(f, "!!! {violation}"),
        }
    }
}
