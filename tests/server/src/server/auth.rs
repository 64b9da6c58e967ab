//! The identities of a connection.

use core::net::IpAddr;

#[cfg(feature = "digest")]
use zk_proto::DigestId;
use zk_proto::{AuthPacket, ClientInfo};

/// A proven identity: the id of a connection under a scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) scheme: &'static str,
    pub(super) id: String,
}

impl Identity {
    /// Returns the identity that every client has.
    pub(super) fn of_address(address: IpAddr) -> Self {
        Self { scheme: "ip", id: address.to_string() }
    }

    /// Returns the identity that credentials prove, or `None` if the scheme is unknown or they are
    /// null.
    pub(super) fn prove(packet: &AuthPacket<'_>, address: IpAddr) -> Option<Self> {
        match packet.scheme {
            "ip" => Some(Self::of_address(address)),
            // This never fails: a wrong password proves another id, which no list has.
            #[cfg(feature = "digest")]
            "digest" => {
                let credentials = String::from_utf8_lossy(packet.auth?);
                Some(Self {
                    scheme: "digest",
                    id: DigestId::from_credentials(&credentials).to_string(),
                })
            }
            _ => None,
        }
    }

    /// Returns the identity as `whoAmI` reports it.
    pub(super) fn info(&self) -> ClientInfo<'_> {
        let user = match self.scheme {
            "digest" => self.id.split_once(':').map_or("", |(user, _)| user),
            _ => &self.id,
        };
        ClientInfo { auth_scheme: self.scheme, user }
    }
}

/// Returns whether the scheme `auth` of ACLs includes it. An address is not proven.
pub(super) fn is_authenticated(identity: &Identity) -> bool {
    identity.scheme != "ip"
}
