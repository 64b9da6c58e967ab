//! The state of one connection.

use core::net::IpAddr;
use core::time::Duration;

use zk_proto::{SessionId, Xid};

use super::auth::Identity;
use super::dialect::Inbox;

/// The id of a connection. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(
    /// The number of the connection, from 0.
    pub u64,
);

#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) server: usize,
    /// The client's address.
    pub(super) address: IpAddr,
    /// The client's proven identities.
    pub(super) identities: Vec<Identity>,
    /// `None` before the handshake.
    pub(super) session: Option<SessionId>,
    /// When the client first and last sent something.
    pub(super) times: Option<(Duration, Duration)>,
    /// Received bytes that are not handled yet.
    pub(super) inbox: Inbox,
    /// Requests wait until the server has applied this many entries of the log. These include the
    /// writes and syncs of earlier requests of this connection.
    pub(super) resume_at: usize,
    /// The sync to answer then.
    pub(super) sync: Option<Sync>,
}

#[derive(Clone, Debug)]
pub(super) struct Sync {
    pub(super) xid: Xid,
    pub(super) path: String,
}

impl Connection {
    pub(super) fn new(server: usize, address: IpAddr) -> Self {
        Self {
            server,
            address,
            identities: vec![Identity::of_address(address)],
            session: None,
            times: None,
            inbox: Inbox::default(),
            resume_at: 0,
            sync: None,
        }
    }

    /// Adds an identity, unless it is known.
    pub(super) fn identify(&mut self, identity: Identity) {
        if !self.identities.contains(&identity) {
            self.identities.push(identity);
        }
    }

    /// Returns the session, or [`SessionId::NONE`].
    pub(super) fn session(&self) -> SessionId {
        self.session.unwrap_or(SessionId::NONE)
    }
}
