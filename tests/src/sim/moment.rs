//! What the trace of a run says, in the order in which it happened.

use core::fmt;
use core::time::Duration;

use bytes::Bytes;

use super::{ClientEvent, Direction, Fault, LinkId};

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
    /// Bytes were sent on a connection. Only recorded runs have these and the next.
    Sent {
        /// The connection.
        link: LinkId,
        /// The client of the connection.
        client: usize,
        /// The server of the connection.
        server: usize,
        /// The direction.
        direction: Direction,
        /// The bytes.
        bytes: Bytes,
    },
    /// This many bytes arrived on a connection.
    Arrived(LinkId, Direction, usize),
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
            Self::Sent { client, server, direction, bytes, .. } => {
                let length = bytes.len();
                write!(f, "client {client}, server {server}: {length} bytes sent {direction:?}")
            }
            Self::Arrived(LinkId(link), direction, length) => {
                write!(f, "connection {link}: {length} bytes arrived {direction:?}")
            }
            Self::Violation(violation) => write!(f, "!!! {violation}"),
        }
    }
}
