//! Ids of the scheme `digest`.

use core::fmt;

use base64ct::{Base64, Encoding as _};
use sha1::{Digest as _, Sha1};

/// An [`Id`](crate::Id) of the scheme `digest`: a user and a hash of its password.
///
/// Use it in access control lists. To gain access, a client sends the credentials themselves in an
/// [`AuthPacket`](crate::AuthPacket).
///
/// ```
/// use zk_proto::{Acl, DigestId, Id, Perms};
///
/// let id = DigestId::from_credentials("u:p").to_string();
/// assert_eq!(id, "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=");
/// let acl = Acl { perms: Perms::ALL, id: Id { scheme: "digest", id: Some(&id) } };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestId<'a> {
    user: &'a str,
    hash: [u8; 20],
}

impl<'a> DigestId<'a> {
    /// Returns the id for the credentials `user:password`.
    ///
    /// The user ends at the first colon. The hash is SHA-1, which servers use unless they are
    /// configured otherwise (`DigestAuthenticationProvider.generateDigest`). SHA-1 is weak, but the
    /// protocol prescribes it.
    pub fn from_credentials(credentials: &'a str) -> Self {
        let user = credentials.split_once(':').map_or(credentials, |(user, _)| user);
        Self { user, hash: Sha1::digest(credentials).into() }
    }
}

impl fmt::Display for DigestId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0; 28];
        let hash = Base64::encode(&self.hash, &mut digits).map_err(|_| fmt::Error)?;
        write!(f, "{}:{hash}", self.user)
    }
}

formatted_by_debug! {
    [] DigestId<'_>;
}

#[cfg(test)]
mod tests;
