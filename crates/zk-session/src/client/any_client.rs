//! The interface of both clients, for generic code.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use zk_proto::{Acl, NodeKind, SessionId, Stat};

use super::{Answer, Client, Driver, Transaction, TransactionResult};
use crate::chroot::Chroot;
use crate::dispatch::Attached;
use crate::dispatch::attachment::Attachment;
use crate::error::{Error, RequestError};
use crate::session::{ServerKind, State};

/// A client of either kind, for code that is generic over it, such as the recipes. Other types
/// cannot implement it.
///
/// A request is sent when its method is called, and its answer is a future. The blocking client
/// runs such futures with its `block_on`.
pub trait AnyClient: Clone + Send + Sync + 'static + sealed::Sealed {
    /// The answer to a request, once it arrives.
    type Answer<T>: Future<Output = Result<T, RequestError>> + Send;

    /// Attaches a state machine to the session; see [`dispatch`](crate::dispatch).
    fn attach(&self, machine: Box<dyn Attached>) -> Attachment;

    /// Returns the id of the session.
    fn session_id(&self) -> SessionId;

    /// Returns the state of the session.
    fn state(&self) -> State;

    /// Returns the kind of the servers, as the last answer to a handshake shows it.
    fn server_kind(&self) -> ServerKind;

    /// Returns whether the client opens a new session when the old one has expired.
    fn renews(&self) -> bool;

    /// Returns 0, or for a client that has [resumed](crate::ClientBuilder::resume) a session, a
    /// number that no other client of this process has.
    #[doc(hidden)]
    fn resumption(&self) -> usize;

    /// Returns the node that is the root for this client.
    fn chroot(&self) -> &Chroot;

    /// Waits until requests are accepted.
    fn ready(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Creates a node with an access control list.
    fn create_with_acl(
        &self,
        path: &str,
        data: &[u8],
        kind: NodeKind,
        acl: &[Acl<'_>],
    ) -> Self::Answer<(String, Stat)>;

    /// Creates a node and its missing ancestors.
    fn ensure_path_with(&self, path: &str, kind: NodeKind, acl: &[Acl<'_>]) -> Self::Answer<()>;

    /// Deletes a node. With a `version`, only if the node has this version.
    fn delete(&self, path: &str, version: Option<i32>) -> Self::Answer<()>;

    /// Returns a node's stat, or `None` if there is no such node.
    fn exists(&self, path: &str) -> Self::Answer<Option<Stat>>;

    /// Returns a node's data and stat.
    fn get_data(&self, path: &str) -> Self::Answer<(Bytes, Stat)>;

    /// Replaces a node's data. With a `version`, only if the node has this version.
    fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Self::Answer<Stat>;

    /// Returns the names of a node's children, in no order, and its stat.
    fn get_children(&self, path: &str) -> Self::Answer<(Vec<String>, Stat)>;

    /// Returns the ephemeral nodes of this session whose paths begin with `path`, in no order.
    fn get_ephemerals(&self, path: &str) -> Self::Answer<Vec<String>>;

    /// Begins a transaction.
    fn transaction(&self) -> Transaction<'_, Self>;

    /// Sends a transaction.
    fn commit(transaction: Transaction<'_, Self>) -> Self::Answer<Vec<TransactionResult>>;
}

mod sealed {
    pub trait Sealed {}

    impl<D: super::Driver> Sealed for super::Client<D> {}
}

impl<D: Driver> AnyClient for Client<D> {
    type Answer<T> = Answer<T, D>;

    fn attach(&self, machine: Box<dyn Attached>) -> Attachment {
        self.driver().attach(machine)
    }

    fn session_id(&self) -> SessionId {
        Self::session_id(self)
    }

    fn state(&self) -> State {
        Self::state(self)
    }

    fn server_kind(&self) -> ServerKind {
        Self::server_kind(self)
    }

    fn renews(&self) -> bool {
        Self::renews(self)
    }

    fn resumption(&self) -> usize {
        self.with_router(|router| router.resumption)
    }

    fn chroot(&self) -> &Chroot {
        &self.chroot
    }

    async fn ready(&self) -> Result<(), Error> {
        Self::ready(self).await
    }

    fn create_with_acl(
        &self,
        path: &str,
        data: &[u8],
        kind: NodeKind,
        acl: &[Acl<'_>],
    ) -> Answer<(String, Stat), D> {
        Self::create_with_acl(self, path, data, kind, acl)
    }

    fn ensure_path_with(&self, path: &str, kind: NodeKind, acl: &[Acl<'_>]) -> Answer<(), D> {
        Self::ensure_path_with(self, path, kind, acl)
    }

    fn delete(&self, path: &str, version: Option<i32>) -> Answer<(), D> {
        Self::delete(self, path, version)
    }

    fn exists(&self, path: &str) -> Answer<Option<Stat>, D> {
        Self::exists(self, path)
    }

    fn get_data(&self, path: &str) -> Answer<(Bytes, Stat), D> {
        Self::get_data(self, path)
    }

    fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Answer<Stat, D> {
        Self::set_data(self, path, data, version)
    }

    fn get_children(&self, path: &str) -> Answer<(Vec<String>, Stat), D> {
        Self::get_children(self, path)
    }

    fn get_ephemerals(&self, path: &str) -> Answer<Vec<String>, D> {
        Self::get_ephemerals(self, path)
    }

    fn transaction(&self) -> Transaction<'_, Self> {
        Self::transaction(self)
    }

    fn commit(transaction: Transaction<'_, Self>) -> Answer<Vec<TransactionResult>, D> {
        transaction.commit()
    }
}
