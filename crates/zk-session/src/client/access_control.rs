//! Access control: the lists of nodes, and the identities of this client.

use alloc::vec::Vec;

use zk_proto::{Acl, OpCode, Request, SetAclRequest, Stat, owned};

use super::driver::Driver;
use super::read::Read;
use super::{Answer, Client, any_version, decode};

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
            Ok(self.send(&Request::SetAcl(request), decode::acl_set))
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
        self.read_at(Read::Identities, "", decode::identities)
    }
}
