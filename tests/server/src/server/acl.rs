//! Access control lists: their validity, and what they permit.

use alloc::sync::Arc;
use core::net::IpAddr;

use zk_proto::{Acl, ErrorCode, Id, List, Perms};

use super::auth::{Identity, is_authenticated};
use super::version::Version;

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
    version: Version,
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
            validate(acl.id, version)?;
            grants.push(Grant::new(acl));
        }
    }
    match grants.is_empty() {
        true => Err(ErrorCode::INVALID_ACL),
        false => Ok(grants.into()),
    }
}

fn validate(id: Id<'_>, version: Version) -> Result<(), ErrorCode> {
    let is_valid: fn(&str) -> bool = match id.scheme {
        "world" => |id| id == "anyone",
        "digest" => is_user_and_hash,
        "ip" if version.knows_ipv6() => |id| parse_network(id).is_some(),
        "ip" => |id| parse_network(id).is_some_and(|(address, _)| address.is_ipv4()),
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
    let (Ok(address), Some((network, bits))) = (address.parse(), parse_network(network)) else {
        return false;
    };
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            (address.to_bits() ^ network.to_bits()).leading_zeros() >= bits
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            (address.to_bits() ^ network.to_bits()).leading_zeros() >= bits
        }
        _ => false,
    }
}

/// Parses an address and the number of bits that count.
fn parse_network(network: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = match network.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (network, None),
    };
    // Leading zeros are valid in IPv4 addresses, and dots are not in IPv6 addresses.
    let address = if address.contains('.') {
        let bytes: Result<Vec<u8>, _> = address.split('.').map(str::parse).collect();
        IpAddr::from(<[u8; 4]>::try_from(bytes.ok()?).ok()?)
    } else {
        IpAddr::V6(address.parse().ok()?)
    };
    let all = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(all), |bits| bits.parse().ok())?;
    (bits <= all).then_some((address, bits))
}
