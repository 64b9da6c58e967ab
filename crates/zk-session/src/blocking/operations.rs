//! Every operation. Each waits for its answer.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use zk_proto::{Acl, NodeKind, OpCode, ReconfigRequest, Stat, owned};

use super::{Answer, Client, Watch};
use crate::dispatch::Token;
use crate::error::{Error, Outcome, RequestError};
use crate::face::{
    MultiRead, ReadResult, Transaction, TransactionResult, operations, reads, slot, transaction,
};

/// # Nodes
impl Client {
    /// Creates a node that is open to everybody. Returns its path, with a sequence number if the
    /// kind is sequential, and its stat.
    ///
    /// [`NodeKind`] says how long the node lives: until it is deleted, until the session ends, as a
    /// container until some time after its last child is deleted, or for a time to live.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] from a server before 3.5, and for a time to
    /// live from one that does not allow it (`extendedTypesEnabled`);
    /// [`NODE_EXISTS`](zk_proto::ErrorCode::NODE_EXISTS);
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE) when the parent is missing;
    /// [`NO_CHILDREN_FOR_EPHEMERALS`](zk_proto::ErrorCode::NO_CHILDREN_FOR_EPHEMERALS). After
    /// [`Error::ConnectionLost`] the node may exist; a sequential one is then only found by a name
    /// that nobody else uses.
    pub fn create(
        &self,
        path: &str,
        data: &[u8],
        kind: NodeKind,
    ) -> Result<(String, Stat), RequestError> {
        self.create_with_acl(path, data, kind, &[Acl::OPEN])
    }

    /// As [`create`](Self::create), with an access control list.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create), and [`INVALID_ACL`](zk_proto::ErrorCode::INVALID_ACL).
    pub fn create_with_acl(
        &self,
        path: &str,
        data: &[u8],
        kind: NodeKind,
        acl: &[Acl<'_>],
    ) -> Result<(String, Stat), RequestError> {
        operations::create(self, path, data, kind, acl)?.wait_at(path)
    }

    /// Deletes a node, if it has this version, or whatever version it has.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE),
    /// [`BAD_VERSION`](zk_proto::ErrorCode::BAD_VERSION),
    /// [`NOT_EMPTY`](zk_proto::ErrorCode::NOT_EMPTY).
    pub fn delete(&self, path: &str, version: Option<i32>) -> Result<(), RequestError> {
        operations::delete(self, path, version)?.wait_at(path)
    }

    /// A node's stat, or `None` if there is no such node.
    ///
    /// # Errors
    ///
    /// Those that any request can have; see [`Client`].
    pub fn exists(&self, path: &str) -> Result<Option<Stat>, RequestError> {
        operations::exists(self, path)?.wait_at(path)
    }

    /// As [`exists`](Self::exists), with a watch that fires when the node is created, changed or
    /// deleted.
    ///
    /// # Errors
    ///
    /// As [`exists`](Self::exists). No watch is left then.
    pub fn exists_and_watch(&self, path: &str) -> Result<(Option<Stat>, Watch), RequestError> {
        let (answer, watch) = operations::exists_and_watch(self, path)?;
        Ok((answer.wait_at(path)?, watch))
    }
}

/// # Data
impl Client {
    /// A node's data and stat. The data shares the memory that it was received into, along with
    /// answers that came next to it; copy what is to be kept for long.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
    pub fn get_data(&self, path: &str) -> Result<(Bytes, Stat), RequestError> {
        operations::get_data(self, path)?.wait_at(path)
    }

    /// As [`get_data`](Self::get_data), with a watch that fires when the node is changed or
    /// deleted. There is none if the node does not exist.
    ///
    /// # Errors
    ///
    /// As [`get_data`](Self::get_data). No watch is left then.
    pub fn get_data_and_watch(&self, path: &str) -> Result<(Bytes, Stat, Watch), RequestError> {
        let (answer, watch) = operations::get_data_and_watch(self, path)?;
        let (data, stat) = answer.wait_at(path)?;
        Ok((data, stat, watch))
    }

    /// Replaces a node's data, if it has this version, or whatever version it has.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE),
    /// [`BAD_VERSION`](zk_proto::ErrorCode::BAD_VERSION).
    pub fn set_data(
        &self,
        path: &str,
        data: &[u8],
        version: Option<i32>,
    ) -> Result<Stat, RequestError> {
        operations::set_data(self, path, data, version)?.wait_at(path)
    }

    /// Several reads in one request.
    pub fn multi_read(&self) -> MultiRead<'_, Self> {
        MultiRead::new(self, &self.chroot)
    }
}

/// # Children
impl Client {
    /// The names of a node's children, in no order, and its stat.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
    pub fn get_children(&self, path: &str) -> Result<(Vec<String>, Stat), RequestError> {
        operations::get_children(self, path)?.wait_at(path)
    }

    /// As [`get_children`](Self::get_children), with a watch that fires when a child is created
    /// or deleted, or the node itself is deleted.
    ///
    /// # Errors
    ///
    /// As [`get_children`](Self::get_children). No watch is left then.
    pub fn get_children_and_watch(
        &self,
        path: &str,
    ) -> Result<(Vec<String>, Stat, Watch), RequestError> {
        let (answer, watch) = operations::get_children_and_watch(self, path)?;
        let (children, stat) = answer.wait_at(path)?;
        Ok((children, stat, watch))
    }

    /// How many nodes are below a node, children of children included (`getAllChildrenNumber`).
    /// Needs a server since 3.6, which looks at every node that it has.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
    pub fn count_descendants(&self, path: &str) -> Result<usize, RequestError> {
        operations::count_descendants(self, path)?.wait_at(path)
    }

    /// The ephemeral nodes of this session whose paths begin with `path`, in no order. It is the
    /// beginning of the text that counts: `/a` has `/ab`, too. Needs a server since 3.6.
    ///
    /// # Errors
    ///
    /// Those that any request can have; see [`Client`].
    pub fn get_ephemerals(&self, path: &str) -> Result<Vec<String>, RequestError> {
        operations::get_ephemerals(self, path)?.wait_at(path)
    }
}

/// # Access control
impl Client {
    /// A node's access control list and its stat. Without
    /// [`Perms::ADMIN`](zk_proto::Perms::ADMIN), digests in it are masked.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
    pub fn get_acl(&self, path: &str) -> Result<(Vec<owned::Acl>, Stat), RequestError> {
        operations::get_acl(self, path)?.wait_at(path)
    }

    /// Replaces a node's access control list, if that has this version
    /// ([`Stat::aversion`]), or whatever version it has.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE),
    /// [`BAD_VERSION`](zk_proto::ErrorCode::BAD_VERSION),
    /// [`INVALID_ACL`](zk_proto::ErrorCode::INVALID_ACL).
    pub fn set_acl(
        &self,
        path: &str,
        acl: &[Acl<'_>],
        version: Option<i32>,
    ) -> Result<Stat, RequestError> {
        operations::set_acl(self, path, acl, version)?.wait_at(path)
    }

    /// Presents a credential now, and on every connection to come, before anything else is asked
    /// on it. With the scheme `digest`, `auth` is `user:password` as it is; a wrong password makes
    /// another identity, and is no error.
    ///
    /// It counts for requests made from now on, and may already for those under way.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] with [`End::AuthFailed`](crate::End::AuthFailed) when a member refuses it,
    /// as every other one would: that is the end of the session. After [`Error::DeadlinePassed`]
    /// it is still presented.
    pub fn add_auth(&self, scheme: &str, auth: &[u8]) -> Result<(), RequestError> {
        let (sender, receiver) = slot();
        let shared = self.shared();
        let mut inner = shared.lock();
        let failed = |reason| RequestError::new(OpCode::AUTH, None, reason);
        inner.hub.session_mut().add_auth(scheme, auth, Token::Caller(sender)).map_err(failed)?;
        inner.settle(shared);
        drop(inner);
        let read = Box::new(|answer: Result<_, Error>, _: &_| answer.map(drop));
        let chroot = self.chroot.clone();
        let answer = Answer::new(receiver, read, chroot, shared.clone(), OpCode::AUTH);
        match self.request_timeout {
            None => answer.wait(),
            Some(timeout) => {
                let late = failed(Error::DeadlinePassed { outcome: Outcome::Unknown });
                answer.wait_timeout(timeout)?.ok_or(late)
            }
        }
    }

    /// Whom the server takes this connection for: its address, and whatever was proven by
    /// [`add_auth`](Self::add_auth). Needs a server since 3.7.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] from a server before 3.7, which also
    /// closes the connection.
    pub fn who_am_i(&self) -> Result<Vec<owned::ClientInfo>, RequestError> {
        operations::who_am_i(self)?.wait()
    }
}

/// # The ensemble
impl Client {
    /// Waits until the member has caught up with what the leader had committed; reads that follow
    /// see at least that. It is not a quorum operation (ZOOKEEPER-1675).
    ///
    /// # Errors
    ///
    /// Those that any request can have; see [`Client`].
    pub fn sync(&self, path: &str) -> Result<(), RequestError> {
        operations::sync(self, path)?.wait_at(path)
    }

    /// The configuration of the ensemble, as text, and its stat; `/zookeeper/config`, whatever the
    /// [`chroot`](Self::chroot). Empty from a server that has none.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE) from servers before 3.5.
    pub fn get_config(&self) -> Result<(Bytes, Stat), RequestError> {
        operations::get_config(self)?.wait()
    }

    /// As [`get_config`](Self::get_config), with a watch that fires when it changes.
    ///
    /// # Errors
    ///
    /// As [`get_config`](Self::get_config). No watch is left then.
    pub fn get_config_and_watch(&self) -> Result<(Bytes, Stat, Watch), RequestError> {
        let (answer, watch) = operations::get_config_and_watch(self)?;
        let (data, stat) = answer.wait()?;
        Ok((data, stat, watch))
    }

    /// Changes who is a member of the ensemble: its new configuration, and the stat of that.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] from a server that is alone,
    /// [`RECONFIG_DISABLED`](zk_proto::ErrorCode::RECONFIG_DISABLED),
    /// [`BAD_VERSION`](zk_proto::ErrorCode::BAD_VERSION),
    /// [`BAD_ARGUMENTS`](zk_proto::ErrorCode::BAD_ARGUMENTS),
    /// [`NEW_CONFIG_NO_QUORUM`](zk_proto::ErrorCode::NEW_CONFIG_NO_QUORUM),
    /// [`RECONFIG_IN_PROGRESS`](zk_proto::ErrorCode::RECONFIG_IN_PROGRESS).
    pub fn reconfig(&self, change: &ReconfigRequest<'_>) -> Result<(Bytes, Stat), RequestError> {
        operations::reconfig(self, change)?.wait()
    }
}

/// # Several at once
impl Client {
    /// Several writes, all or none.
    pub fn transaction(&self) -> Transaction<'_, Self> {
        Transaction::new(self, &self.chroot)
    }
}

impl Transaction<'_, Client> {
    /// Sends the transaction and waits for what became of it.
    ///
    /// # Errors
    ///
    /// [`Error::Transaction`] names the operation that made it fail; nothing was applied then.
    pub fn commit(self) -> Result<Vec<TransactionResult>, RequestError> {
        transaction::commit(self)?.wait()
    }
}

impl MultiRead<'_, Client> {
    /// Sends the reads. There is one result for each, in their order.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] from a server before 3.6, which also
    /// closes the connection. A read that fails is no error of the whole.
    pub fn send(self) -> Result<Vec<ReadResult>, RequestError> {
        reads::send(self)?.wait()
    }
}
