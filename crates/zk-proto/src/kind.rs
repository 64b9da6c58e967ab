//! The kinds of nodes, and the operations that create them.

use crate::codes::{CreateMode, OpCode};
use crate::list::List;
use crate::multi::MultiOp;
use crate::operations::Request;
use crate::records::{Acl, CreateRequest, CreateTtlRequest};
use crate::ttl::Ttl;

/// The kind of a node to create, with its time to live if it has one.
///
/// It selects the operation that matches the [`CreateMode`].
///
/// ```
/// use zk_proto::{Acl, List, NodeKind, OpCode, Ttl};
///
/// let kind = NodeKind::PersistentWithTtl(Ttl::from_millis(60_000).expect("in range"));
/// let request = kind.create("/cache", Some(b"data"), List::new(&[Acl::OPEN]));
/// assert_eq!(request.opcode(), OpCode::CREATE_TTL);
/// ```
#[doc(alias = "CreateMode")]
#[doc(alias = "znode")]
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeKind {
    /// A node that stays until it is deleted. Since 3.0.
    Persistent,
    /// A node that the servers delete when its session ends. Since 3.0.
    Ephemeral,
    /// A persistent node with a [`SequenceNumber`](crate::SequenceNumber) in its name. Since 3.0.
    PersistentSequential,
    /// An ephemeral node with a [`SequenceNumber`](crate::SequenceNumber) in its name. Since 3.0.
    EphemeralSequential,
    /// A node that the server deletes some time after its last child. Since 3.5.1.
    Container,
    /// A node that the server deletes after that time without children and changes. Since 3.5.3.
    PersistentWithTtl(Ttl),
    /// A node with a time to live and a [`SequenceNumber`](crate::SequenceNumber) in its name.
    /// Since 3.5.3.
    PersistentSequentialWithTtl(Ttl),
}

impl NodeKind {
    /// Returns the mode, which is the number on the wire.
    pub fn mode(self) -> CreateMode {
        match self {
            Self::Persistent => CreateMode::PERSISTENT,
            Self::Ephemeral => CreateMode::EPHEMERAL,
            Self::PersistentSequential => CreateMode::PERSISTENT_SEQUENTIAL,
            Self::EphemeralSequential => CreateMode::EPHEMERAL_SEQUENTIAL,
            Self::Container => CreateMode::CONTAINER,
            Self::PersistentWithTtl(_) => CreateMode::PERSISTENT_WITH_TTL,
            Self::PersistentSequentialWithTtl(_) => CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL,
        }
    }

    /// Returns whether the server appends a sequence number to the name.
    pub fn is_sequential(self) -> bool {
        self.mode().is_sequential()
    }

    /// Returns the time to live, or `None` if this kind has none.
    pub fn ttl(self) -> Option<Ttl> {
        match self {
            Self::PersistentWithTtl(ttl) | Self::PersistentSequentialWithTtl(ttl) => Some(ttl),
            _ => None,
        }
    }

    /// Returns the operation that creates such a node and answers with its stat.
    ///
    /// ```
    /// use zk_proto::{NodeKind, OpCode};
    ///
    /// assert_eq!(NodeKind::EphemeralSequential.opcode(), OpCode::CREATE2);
    /// assert_eq!(NodeKind::Container.opcode(), OpCode::CREATE_CONTAINER);
    /// ```
    pub fn opcode(self) -> OpCode {
        match (self, self.ttl()) {
            (_, Some(_)) => OpCode::CREATE_TTL,
            (Self::Container, _) => OpCode::CREATE_CONTAINER,
            _ => OpCode::CREATE2,
        }
    }

    /// Returns the request that creates such a node and reads its stat.
    ///
    /// It is a `create2` (15), `createContainer` (19) or `createTTL` (21), all since 3.5.
    pub fn create<'a>(
        self,
        path: &'a str,
        data: Option<&'a [u8]>,
        acl: List<'a, Acl<'a>>,
    ) -> Request<'a> {
        let mode = self.mode();
        let plain = CreateRequest { path, data, acl, mode };
        match self.ttl() {
            Some(ttl) => {
                Request::CreateTtl(CreateTtlRequest { path, data, acl, mode, ttl: ttl.as_millis() })
            }
            None if self == Self::Container => Request::CreateContainer(plain),
            None => Request::Create2(plain),
        }
    }

    /// Returns the part of a multi that creates such a node.
    ///
    /// It uses `create` (1) in place of `create2`, because servers before 3.7.2 and 3.8.2 do not
    /// answer the latter with a stat (ZOOKEEPER-4026).
    ///
    /// ```
    /// use zk_proto::{Acl, List, MultiOp, NodeKind};
    ///
    /// let op = NodeKind::Ephemeral.create_op("/a", None, List::new(&[Acl::OPEN]));
    /// assert!(matches!(op, MultiOp::Create(_)));
    /// ```
    pub fn create_op<'a>(
        self,
        path: &'a str,
        data: Option<&'a [u8]>,
        acl: List<'a, Acl<'a>>,
    ) -> MultiOp<'a> {
        let mode = self.mode();
        let plain = CreateRequest { path, data, acl, mode };
        match self.ttl() {
            Some(ttl) => {
                MultiOp::CreateTtl(CreateTtlRequest { path, data, acl, mode, ttl: ttl.as_millis() })
            }
            None if self == Self::Container => MultiOp::CreateContainer(plain),
            None => MultiOp::Create(plain),
        }
    }
}

#[cfg(test)]
mod tests;
