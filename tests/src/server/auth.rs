//! Whom a connection has proven to be.

use core::net::IpAddr;

use zk_proto::{AuthPacket, ClientInfo, DigestId};

/// One proof: the id of a connection under some scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) scheme: &'static str,
    pub(super) id: String,
}

impl Identity {
    /// What is known of everybody.
    pub(super) fn of_address(address: IpAddr) -> Self {
        Self { scheme: "ip", id: address.to_string() }
    }

    /// What these credentials prove. `None` if there is no such scheme, or they are null.
    pub(super) fn prove(packet: &AuthPacket<'_>, address: IpAddr) -> Option<Self> {
        match packet.scheme {
            "ip" => Some(Self::of_address(address)),
            // It never fails: a wrong password proves another id, which no list admits.
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

    /// As `whoAmI` tells it.
    pub(super) fn info(&self) -> ClientInfo<'_> {
        let user = match self.scheme {
            "digest" => self.id.split_once(':').map_or("", |(user, _)| user),
            _ => &self.id,
        };
        ClientInfo { auth_scheme: self.scheme, user }
    }
}

/// Whether it counts for ACLs of the scheme `auth`. An address is not proven.
pub(super) fn is_authenticated(identity: &Identity) -> bool {
    identity.scheme != "ip"
}
