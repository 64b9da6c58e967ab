//! What the ensemble knows of one connection.

use core::net::IpAddr;

use bytes::BytesMut;
use zk_proto::{SessionId, Xid};

use super::auth::Identity;

/// Names a connection. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(
    /// Counts from 0.
    pub u64,
);

#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) server: usize,
    /// Where it comes from.
    pub(super) address: IpAddr,
    /// Whom it has proven to be.
    pub(super) identities: Vec<Identity>,
    /// None before the handshake.
    pub(super) session: Option<SessionId>,
    /// Bytes that were received and not looked at yet.
    pub(super) inbox: BytesMut,
    /// Requests wait until the server has applied this many entries of the log: those that an
    /// earlier request of this connection wrote or asked to see.
    pub(super) resume_at: usize,
    /// The sync that is answered then.
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
            inbox: BytesMut::new(),
            resume_at: 0,
            sync: None,
        }
    }

    /// Notes a proof, which may be known already.
    pub(super) fn identify(&mut self, identity: Identity) {
        if !self.identities.contains(&identity) {
            self.identities.push(identity);
        }
    }

    /// Its session, or none.
    pub(super) fn session(&self) -> SessionId {
        self.session.unwrap_or(SessionId::NONE)
    }
}
