//! Access control lists: their validity, and what they permit.

use alloc::sync::Arc;
use core::net::Ipv4Addr;

use zk_proto::{Acl, ErrorCode, Id, List, Perms};

use super::auth::{Identity, is_authenticated};

/// One entry of a node's access control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The permitted operations.
    pub perms: Perms,
    /// The authentication scheme of the id.
    pub scheme: String,
    /// The id; empty for null.
    pub id: String,
}

impl Grant {
    pub(super) fn new(acl: Acl<'_>) -> Self {
        let Id { scheme, id } = acl.id;
        Self { perms: acl.perms, scheme: scheme.into(), id: id.unwrap_or_default().into() }
    }

    /// Returns an entry for a proven identity.
    fn expanded(perms: Perms, identity: &Identity) -> Self {
        Self { perms, scheme: identity.scheme.into(), id: identity.id.clone() }
    }

    /// Returns the wire form.
    pub(super) fn as_acl(&self) -> Acl<'_> {
        Acl { perms: self.perms, id: Id { scheme: &self.scheme, id: Some(&self.id) } }
    }

    /// Returns the entry without a hash, as shown to clients that may not change the list.
    pub(super) fn masked(&self) -> Self {
        match (self.scheme.as_str(), self.id.split_once(':')) {
            ("digest", Some((user, _))) => Self { id: format!("{user}:x"), ..self.clone() },
            _ => self.clone(),
        }
    }

    fn admits(&self, identity: &Identity) -> bool {
        self.scheme == identity.scheme
            && match identity.scheme {
                "ip" => is_in_network(&identity.id, &self.id),
                _ => self.id == identity.id,
            }
    }
}

/// Returns whether a list permits any of `perms` to a client with these identities
/// (`ZooKeeperServer.checkACL`).
pub(super) fn permits(list: &[Grant], perms: Perms, identities: &[Identity]) -> bool {
    list.iter().filter(|grant| grant.perms.0 & perms.0 != 0).any(|grant| {
        (grant.scheme == "world" && grant.id == "anyone")
            || identities.iter().any(|identity| grant.admits(identity))
    })
}

/// Fails with `NO_AUTH` unless [`permits`].
pub(super) fn check(
    list: &[Grant],
    perms: Perms,
    identities: &[Identity],
) -> Result<(), ErrorCode> {
    match permits(list, perms, identities) {
        true => Ok(()),
        false => Err(ErrorCode::NO_AUTH),
    }
}

/// Validates a client's list, and replaces `auth` by the client's identities
/// (`PrepRequestProcessor.fixupACL`).
pub(super) fn accept(
    list: List<'_, Acl<'_>>,
    identities: &[Identity],
) -> Result<Arc<[Grant]>, ErrorCode> {
    let mut unique: Vec<Acl<'_>> = Vec::with_capacity(list.len());
    for acl in list.iter() {
        if !unique.contains(&acl) {
            unique.push(acl);
        }
    }
    let mut grants = Vec::with_capacity(unique.len());
    for acl in unique {
        if acl.id.scheme == "auth" {
            let proven = identities.iter().filter(|identity| is_authenticated(identity));
            let before = grants.len();
            grants.extend(proven.map(|identity| Grant::expanded(acl.perms, identity)));
            if grants.len() == before {
                return Err(ErrorCode::INVALID_ACL);
            }
        } else {
            validate(acl.id)?;
            grants.push(Grant::new(acl));
        }
    }
    match grants.is_empty() {
        true => Err(ErrorCode::INVALID_ACL),
        false => Ok(grants.into()),
    }
}

fn validate(id: Id<'_>) -> Result<(), ErrorCode> {
    let is_valid: fn(&str) -> bool = match id.scheme {
        "world" => |id| id == "anyone",
        "digest" => is_user_and_hash,
        "ip" => |id| parse_network(id).is_some(),
        // The other schemes need a provider that is not configured by default.
        _ => return Err(ErrorCode::INVALID_ACL),
    };
    match id.id {
        // A real server fails with an exception.
        None => Err(ErrorCode::MARSHALLING_ERROR),
        Some(id) if is_valid(id) => Ok(()),
        Some(_) => Err(ErrorCode::INVALID_ACL),
    }
}

/// Returns whether Java's `split` finds two parts: it drops empty ones at the end.
fn is_user_and_hash(id: &str) -> bool {
    let trimmed = id.trim_end_matches(':');
    !trimmed.is_empty() && trimmed.split(':').count() == 2
}

fn is_in_network(address: &str, network: &str) -> bool {
    match (address.parse::<Ipv4Addr>(), parse_network(network)) {
        (Ok(address), Some((network, bits))) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            address.to_bits() & mask == network.to_bits() & mask
        }
        _ => false,
    }
}

/// Parses an IPv4 address, the only kind that servers accept, and the number of bits that count.
fn parse_network(network: &str) -> Option<(Ipv4Addr, u32)> {
    let (address, bits) = network.split_once('/').unwrap_or((network, "32"));
    let bits = bits.parse().ok().filter(|bits| *bits <= 32)?;
    Some((address.parse().ok()?, bits))
}
