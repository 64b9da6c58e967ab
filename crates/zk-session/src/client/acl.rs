//! Who may do what.

use alloc::boxed::Box;
use alloc::vec::Vec;

use zk_proto::{Acl, OpCode, Stat, owned};

use super::{Answer, Client};
use crate::dispatch::Token;
use crate::driver::Answers;
use crate::error::{Error, RequestError};
use crate::face::{operations, slot};

/// # Access control
impl Client {
    /// A node's access control list and its stat. Without
    /// [`Perms::ADMIN`](zk_proto::Perms::ADMIN), digests in it are masked.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
    pub fn get_acl(&self, path: &str) -> Answer<(Vec<owned::Acl>, Stat)> {
        Answer::of(operations::get_acl(self, path))
    }

    /// Replaces a node's access control list, if that has this version
    /// ([`Stat::aversion`]), or whatever version it has.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE),
    /// [`BAD_VERSION`](zk_proto::ErrorCode::BAD_VERSION),
    /// [`INVALID_ACL`](zk_proto::ErrorCode::INVALID_ACL).
    pub fn set_acl(&self, path: &str, acl: &[Acl<'_>], version: Option<i32>) -> Answer<Stat> {
        Answer::of(operations::set_acl(self, path, acl, version))
    }

    /// Presents a credential now, and on every connection to come, before anything else is asked
    /// on it. With the scheme `digest`, `auth` is `user:password` as it is; a wrong password makes
    /// another identity, and is no error.
    ///
    /// It counts for requests made from now on, and may already for those under way. There is no
    /// need to await the answer first; it comes with a connection, and knows no request timeout.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] with [`End::AuthFailed`](crate::End::AuthFailed) when a member refuses it,
    /// as every other one would: that is the end of the session.
    ///
    /// # Cancellation
    ///
    /// The credential is presented all the same.
    pub fn add_auth(&self, scheme: &str, auth: &[u8]) -> Answer<()> {
        let (sender, receiver) = slot();
        let mut inner = self.shared().lock();
        let added =
            inner.hub.session_mut().add_auth(scheme, auth, Token::Caller(Answers::new(sender)));
        inner.wake_driver();
        drop(inner);
        let answer = |answer: Result<_, Error>, _: &_| answer.map(drop);
        let (operation, chroot) = (OpCode::AUTH, self.chroot.clone());
        let added = added.map_err(|reason| RequestError::new(operation, None, reason));
        Answer::of(added.map(|()| Answer::new(receiver, Box::new(answer), chroot, operation)))
    }

    /// Whom the server takes this connection for: its address, and whatever was proven by
    /// [`add_auth`](Self::add_auth). Needs a server since 3.7.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] from a server before 3.7, which also
    /// closes the connection.
    pub fn who_am_i(&self) -> Answer<Vec<owned::ClientInfo>> {
        Answer::of(operations::who_am_i(self))
    }
}
