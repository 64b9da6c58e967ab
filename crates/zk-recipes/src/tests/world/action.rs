//! The steps of a world.

use super::tree::{Index, NodeId};
use super::workload::{OutsideChange, Refusal};
use crate::attempt::Command;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// The server answers the next request of this client.
    Serve(usize),
    Refuse(usize, Refusal),
    /// The machine receives its next input.
    Receive(usize),
    /// Nothing is left for the machine to receive.
    Settle(usize),
    Timer(usize),
    Command(usize, Command),
    /// From now on, all messages to this client are lost. Later the server executes at least one of
    /// its pending writes, and the connection breaks.
    LoseReplies(usize),
    /// The connection breaks. `sent` of the unanswered requests were sent, and `applied` of those
    /// were executed.
    Cut {
        client: usize,
        sent: usize,
        applied: usize,
    },
    Resume {
        client: usize,
        server: usize,
        /// The last transaction that the server has applied by then.
        at: Index,
        /// Whether watches are set again in reverse order.
        reversed: bool,
    },
    Expire(usize),
    LeaseEnds(usize),
    /// Another client deletes a node.
    DeleteNode(NodeId),
    OutsideChange(OutsideChange),
    /// The server applies the next transaction.
    CatchUp(usize),
}

impl Action {
    /// Returns the client that acts.
    pub(crate) const fn client(self) -> Option<usize> {
        match self {
            Self::Serve(client)
            | Self::Refuse(client, _)
            | Self::Receive(client)
            | Self::Settle(client)
            | Self::Timer(client)
            | Self::Command(client, _)
            | Self::LoseReplies(client)
            | Self::Cut { client, .. }
            | Self::Resume { client, .. }
            | Self::Expire(client)
            | Self::LeaseEnds(client) => Some(client),
            Self::DeleteNode(_) | Self::OutsideChange(_) | Self::CatchUp(_) => None,
        }
    }
}
