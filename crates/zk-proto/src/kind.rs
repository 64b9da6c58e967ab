//! What kinds of node there are, and which operation makes which.

use crate::codes::{CreateMode, OpCode};
use crate::list::List;
use crate::multi::MultiOp;
use crate::operations::Request;
use crate::records::{Acl, CreateRequest, CreateTtlRequest};

/// How long a node lives that has no children and does not change: 1 to 2^40 - 1 milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(i64);

impl Ttl {
    /// The longest: almost 35 years. Servers have 40 bits for it (`EphemeralType.java`).
    pub const MAX: Self = Self(0xff_ffff_ffff);

    /// So many milliseconds, if servers take them.
    pub const fn from_millis(milliseconds: i64) -> Option<Self> {
        match milliseconds {
            1..=0xff_ffff_ffff => Some(Self(milliseconds)),
            _ => None,
        }
    }

    /// In milliseconds, as it goes on the wire.
    pub const fn as_millis(self) -> i64 {
        self.0
    }
}

/// What kind of node to create: a [`CreateMode`], with a time to live where there must be one and
/// nowhere else, and the operation that takes it.
///
/// ```
/// use zk_proto::{Acl, List, NodeKind, OpCode, Ttl};
///
/// let kind = NodeKind::PersistentWithTtl(Ttl::from_millis(60_000).expect("in range"));
/// let request = kind.create("/cache", Some(b"data"), List::new(&[Acl::OPEN]));
/// assert_eq!(request.opcode(), OpCode::CREATE_TTL);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// Stays until it is deleted. Since 3.0.
    Persistent,
    /// Is deleted when the session ends. Since 3.0.
    Ephemeral,
    /// Persistent, with a [`Sequence`](crate::Sequence) appended to its name. Since 3.0.
    PersistentSequential,
    /// Ephemeral, with a [`Sequence`](crate::Sequence) appended to its name. Since 3.0.
    EphemeralSequential,
    /// Is deleted by the server some time after its last child. Since 3.5.1.
    Container,
    /// Is deleted by the server once it has had no children and no change for so long.
    /// Since 3.5.3.
    PersistentWithTtl(Ttl),
    /// As [`PersistentWithTtl`](Self::PersistentWithTtl), with a [`Sequence`](crate::Sequence)
    /// appended to its name. Since 3.5.3.
    PersistentSequentialWithTtl(Ttl),
}

impl NodeKind {
    /// Its number on the wire.
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

    /// Whether the server appends a number to the name.
    pub fn is_sequential(self) -> bool {
        self.mode().is_sequential()
    }

    /// Its time to live, if it is of a kind that has one.
    pub fn ttl(self) -> Option<Ttl> {
        match self {
            Self::PersistentWithTtl(ttl) | Self::PersistentSequentialWithTtl(ttl) => Some(ttl),
            _ => None,
        }
    }

    /// The operation that creates such a node and answers with its stat.
    pub fn opcode(self) -> OpCode {
        match (self, self.ttl()) {
            (_, Some(_)) => OpCode::CREATE_TTL,
            (Self::Container, _) => OpCode::CREATE_CONTAINER,
            _ => OpCode::CREATE2,
        }
    }

    /// The request that creates such a node and has its stat for an answer: `create2` (15),
    /// `createContainer` (19) or `createTTL` (21), all since 3.5.
    pub fn create<'a>(
        self,
        path: &'a str,
        data: Option<&'a [u8]>,
        acl: List<'a, Acl<'a>>,
    ) -> Request<'a> {
        let mode = self.mode();
        let plain = CreateRequest { path, data, acl, mode };
        match self.ttl() {
            Some(Ttl(ttl)) => Request::CreateTtl(CreateTtlRequest { path, data, acl, mode, ttl }),
            None if self == Self::Container => Request::CreateContainer(plain),
            None => Request::Create2(plain),
        }
    }

    /// The same inside a multi, where plain `create` (1) stands for `create2`: before 3.7.2 and
    /// 3.8.2 servers do not answer the latter with a stat (ZOOKEEPER-4026).
    pub fn create_op<'a>(
        self,
        path: &'a str,
        data: Option<&'a [u8]>,
        acl: List<'a, Acl<'a>>,
    ) -> MultiOp<'a> {
        let mode = self.mode();
        let plain = CreateRequest { path, data, acl, mode };
        match self.ttl() {
            Some(Ttl(ttl)) => MultiOp::CreateTtl(CreateTtlRequest { path, data, acl, mode, ttl }),
            None if self == Self::Container => MultiOp::CreateContainer(plain),
            None => MultiOp::Create(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multi::MultiEntry;

    #[test]
    fn a_time_to_live_has_forty_bits_and_is_not_zero() {
        for milliseconds in [1, 60_000, 0xff_ffff_ffff] {
            assert_eq!(Ttl::from_millis(milliseconds).map(Ttl::as_millis), Some(milliseconds));
        }
        for milliseconds in [i64::MIN, -1, 0, 0x100_0000_0000, i64::MAX] {
            assert_eq!(Ttl::from_millis(milliseconds), None);
        }
        assert_eq!(Ttl::from_millis(0xff_ffff_ffff), Some(Ttl::MAX));
    }

    #[test]
    fn each_kind_is_created_by_the_operation_that_takes_its_mode() {
        use NodeKind::*;

        let acl = List::new(&[Acl::OPEN]);
        for (kind, number, alone, in_a_multi) in [
            (Persistent, 0, OpCode::CREATE2, OpCode::CREATE),
            (Ephemeral, 1, OpCode::CREATE2, OpCode::CREATE),
            (PersistentSequential, 2, OpCode::CREATE2, OpCode::CREATE),
            (EphemeralSequential, 3, OpCode::CREATE2, OpCode::CREATE),
            (Container, 4, OpCode::CREATE_CONTAINER, OpCode::CREATE_CONTAINER),
            (PersistentWithTtl(Ttl::MAX), 5, OpCode::CREATE_TTL, OpCode::CREATE_TTL),
            (PersistentSequentialWithTtl(Ttl::MAX), 6, OpCode::CREATE_TTL, OpCode::CREATE_TTL),
        ] {
            let request = kind.create("/a", None, acl);
            let op = kind.create_op("/a", None, acl);
            assert_eq!(kind.opcode(), alone);
            assert_eq!((request.opcode(), op.header().opcode), (alone, in_a_multi), "{kind:?}");
            let (mode, ttl) = match request {
                Request::CreateTtl(request) => (request.mode, Some(request.ttl)),
                Request::Create2(request) | Request::CreateContainer(request) => {
                    (request.mode, None)
                }
                other => panic!("{other:?} creates nothing"),
            };
            assert_eq!((mode, ttl), (CreateMode(number), kind.ttl().map(Ttl::as_millis)));
        }
    }
}
