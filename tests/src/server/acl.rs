//! Access control lists: checked for their form and stored. They are not enforced yet.

use alloc::sync::Arc;
use core::net::IpAddr;

use zk_proto::{Acl, ErrorCode, List, Perms};

/// One permission of a node, as it was given when the node was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What is permitted.
    pub perms: Perms,
    /// How the id is proven.
    pub scheme: String,
    /// To whom; empty for null.
    pub id: String,
}

impl Grant {
    /// Everything for everybody.
    pub(super) fn open() -> Self {
        Self::from(Acl::OPEN)
    }
}

impl From<Acl<'_>> for Grant {
    fn from(acl: Acl<'_>) -> Self {
        Self {
            perms: acl.perms,
            scheme: acl.id.scheme.into(),
            id: acl.id.id.unwrap_or_default().into(),
        }
    }
}

/// Takes over the list of a new node (`PrepRequestProcessor.fixupACL`).
pub(super) fn accept(list: List<'_, Acl<'_>>) -> Result<Arc<[Grant]>, ErrorCode> {
    if list.is_empty() || !list.iter().all(|acl| is_valid(&acl)) {
        return Err(ErrorCode::INVALID_ACL);
    }
    let mut grants: Vec<Grant> = Vec::with_capacity(list.len());
    for grant in list.iter().map(Grant::from) {
        if !grants.contains(&grant) {
            grants.push(grant);
        }
    }
    Ok(grants.into())
}

fn is_valid(acl: &Acl<'_>) -> bool {
    let id = acl.id.id.unwrap_or_default();
    match acl.id.scheme {
        "world" => id == "anyone",
        "digest" => id.split(':').count() == 2,
        "ip" => is_address(id),
        // `auth` stands for the ids of the connection, of which there are none without `auth`
        // requests; the others need a provider that is not there by default.
        _ => false,
    }
}

fn is_address(id: &str) -> bool {
    let (address, bits) = id.split_once('/').unwrap_or((id, "0"));
    match (address.parse(), bits.parse::<u8>()) {
        (Ok(IpAddr::V4(_)), Ok(bits)) => bits <= 32,
        (Ok(IpAddr::V6(_)), Ok(bits)) => bits <= 128,
        _ => false,
    }
}
