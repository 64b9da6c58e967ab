//! Access control: the lists of nodes, and the identities of this client.

use alloc::vec::Vec;

use zk_proto::{Acl, GetAclRequest, OpCode, Request, SetAclRequest, Stat, owned};

use super::methods::methods;
use super::{any_version, decode};

methods! {
    /// # Access control
    impl AccessControl for Client {
        /// Returns a node's access control list and its stat. Without
        /// [`Perms::ADMIN`](zk_proto::Perms::ADMIN), the server masks digests in the list.
        ///
        /// # Errors
        ///
        /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
        #[doc(alias = "getACL")]
        request fn get_acl(&self, path: &str) -> (Vec<owned::Acl>, Stat) {
            let path = self.server_path(OpCode::GET_ACL, path)?;
            self.send(&Request::GetAcl(GetAclRequest { path: &path }), decode::acl)
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
        request fn set_acl(&self, path: &str, acl: &[Acl<'_>], version: Option<i32>) -> Stat {
            let path = self.server_path(OpCode::SET_ACL, path)?;
            let version = any_version(version);
            let request = SetAclRequest { path: &path, acl: acl.into(), version };
            self.send(&Request::SetAcl(request), decode::acl_set)
        }

        /// Presents a credential now, and on every later connection before any other request. With
        /// the scheme `digest`, `auth` is `user:password` in plain text. A wrong password is another
        /// identity, not an error.
        ///
        /// It counts for all later requests, and may already count for those in flight: there is no
        /// need to wait for the answer, which takes a connection. The request timeout limits the
        /// blocking client's wait, but not that of the async client.
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
        #[cfg(feature = "authentication")]
        #[doc(alias = "addAuthInfo")]
        request fn add_auth(&self, scheme: &str, auth: &[u8]) -> () {
            self.send_credential(scheme, auth)
        }

        /// Returns the identities that the server gives this connection: its address, and what was
        /// proven by [`add_auth`](Self::add_auth). Needs a server since 3.7.
        ///
        /// # Errors
        ///
        /// [`Error::Unsupported`](crate::Error::Unsupported) from a server before 3.7, which also
        /// closes the connection.
        request fn who_am_i(&self) -> Vec<owned::ClientInfo> {
            self.send(&Request::WhoAmI(()), decode::identities)
        }
    }
}
