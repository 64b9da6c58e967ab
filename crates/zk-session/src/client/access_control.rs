//! Access control: the lists of nodes, and the identities of this client.

use alloc::vec::Vec;

use zk_proto::{Acl, OpCode, Request, SetAclRequest, Stat, owned};

use super::driver::Driver;
use super::read::Read;
use super::{Answer, Client, any_version, decode};
#[cfg(feature = "full")]
use super::{answer::Decode, slot};
#[cfg(feature = "full")]
use crate::error::RequestError;

/// # Access control
impl<D: Driver> Client<D> {
    /// Returns a node's access control list and its stat. Without
    /// [`Perms::ADMIN`](zk_proto::Perms::ADMIN), the server masks digests in the list.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
    #[doc(alias = "getACL")]
    pub fn get_acl(&self, path: &str) -> Answer<(Vec<owned::Acl>, Stat), D> {
        self.read(Read::AccessList, path, decode::acl)
    }

    /// Replaces a node's access control list. With a `version`, only if the list has this version
    /// ([`Stat::aversion`]). Returns the new stat.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE),
    /// [`BAD_VERSION`](zk_proto::ErrorCode::BAD_VERSION),
    /// [`INVALID_ACL`](zk_proto::ErrorCode::INVALID_ACL).
    #[doc(alias = "setACL")]
    pub fn set_acl(&self, path: &str, acl: &[Acl<'_>], version: Option<i32>) -> Answer<Stat, D> {
        Answer::of(|| {
            let path = self.server_path(OpCode::SET_ACL, path)?;
            let version = any_version(version);
            let request = SetAclRequest { path: &path, acl: acl.into(), version };
            self.send(&Request::SetAcl(request), decode::acl_set)
        })
    }

    /// Presents a credential now, and on every later connection before any other request. With
    /// the scheme `digest`, `auth` is `user:password` in plain text. A wrong password is another
    /// identity, not an error.
    ///
    /// It counts for all later requests, and may already count for those in flight: there is no
    /// need to wait for the answer, which takes a connection. The request timeout limits
    /// `wait` in a thread, but no `.await`.
    ///
    /// # Errors
    ///
    /// - [`Error::Server`](crate::Error::Server) with `AUTH_FAILED`: the server refuses the
    ///   credential, for example because it does not know the scheme. The client forgets the
    ///   credential and connects again; `last_failure` names the server.
    /// - [`Invalid::Scheme`](crate::Invalid::Scheme): no server has such a scheme.
    /// - After [`Error::DeadlinePassed`](crate::Error::DeadlinePassed) the credential is still
    ///   presented.
    ///
    /// A server may refuse on a later connection what another one has accepted, for example while
    /// passwords are changed. The client then tries the next one. Once all servers have refused
    /// in a row, the session ends with [`End::AuthFailed`](crate::End::AuthFailed).
    ///
    /// # Cancellation
    ///
    /// The credential is still presented.
    #[cfg(feature = "full")]
    #[doc(alias = "addAuthInfo")]
    pub fn add_auth(&self, scheme: &str, auth: &[u8]) -> Answer<(), D> {
        let (sender, receiver) = slot();
        let (mut sender, mut added) = (Some(sender), Ok(()));
        self.driver().act(&mut |router, _| {
            if let Some(sender) = sender.take() {
                added = router.add_auth(scheme, auth, sender);
            }
        });
        Answer::of(|| {
            added.map_err(|reason| RequestError::new(OpCode::AUTH, None, reason))?;
            let pending = self.pending(OpCode::AUTH, receiver, self.request_end());
            Ok(Answer::new(pending, Decode::Reply(decode::nothing)))
        })
    }

    /// Returns the identities that the server gives this connection: its address, and what was
    /// proven by [`add_auth`](Self::add_auth). Needs a server since 3.7.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`](crate::Error::Unsupported) from a server before 3.7, which also
    /// closes the connection.
    pub fn who_am_i(&self) -> Answer<Vec<owned::ClientInfo>, D> {
        Answer::of(|| self.read_at(Read::Identities, "", decode::identities))
    }
}
