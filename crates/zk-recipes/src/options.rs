//! The options of all recipes.

use alloc::sync::Arc;
use core::fmt;
#[cfg(feature = "full")]
use core::time::Duration;

use bytes::Bytes;
use zk_session::proto::Acl;

use crate::attempt::{AccessList, DisconnectPolicy, Event, Scheme, UnknownNodePolicy};

/// How long the attempts of one process keep a node; see
/// [`Options::local_hand_over`](Options::local_hand_over).
#[cfg(feature = "full")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandOver {
    /// The number of turns with one node. The default is 64.
    pub turns: u32,
    /// The time after which no other turn begins. The default is 100 ms.
    pub time: Duration,
}

#[cfg(feature = "full")]
impl Default for HandOver {
    fn default() -> Self {
        Self { turns: 64, time: Duration::from_millis(100) }
    }
}

#[cfg(feature = "full")]
impl HandOver {
    /// Sets the number of turns. Every node has at least one.
    #[must_use]
    pub const fn turns(self, turns: u32) -> Self {
        Self { turns, ..self }
    }

    /// Sets the time after which no other turn begins.
    #[must_use]
    pub const fn time(self, time: Duration) -> Self {
        Self { time, ..self }
    }
}

/// One attempt to acquire a lock, as an [observer](Options::observer) sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The path of the lock.
    pub path: &'a str,
    /// The number of the attempt, from 1. A lock and its clones share one count.
    pub number: usize,
}

pub(crate) type Observer = Arc<dyn Fn(Attempt<'_>, &Event) + Send + Sync>;

/// The options of a lock: its nodes, and its behaviour while disconnected.
///
/// ```
/// use zk_recipes::{Options, DisconnectPolicy};
///
/// let options = Options::new().data("host-7").disconnect_policy(DisconnectPolicy::WhileConnected);
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Options {
    pub(crate) scheme: Option<Scheme>,
    pub(crate) data: Bytes,
    pub(crate) acl: AccessList,
    pub(crate) parent_acl: AccessList,
    pub(crate) unknown_nodes: UnknownNodePolicy,
    pub(crate) disconnect_policy: DisconnectPolicy,
    pub(crate) revocable: bool,
    pub(crate) observer: Option<Observer>,
    #[cfg(feature = "full")]
    pub(crate) hand_over: Option<HandOver>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scheme,
            data,
            acl,
            parent_acl,
            unknown_nodes,
            disconnect_policy,
            revocable,
            observer: _,
            #[cfg(feature = "full")]
                hand_over: _,
        } = self;
        f.debug_struct("Options")
            .field("scheme", scheme)
            .field("data", data)
            .field("acl", acl)
            .field("parent_acl", parent_acl)
            .field("unknown_nodes", unknown_nodes)
            .field("disconnect_policy", disconnect_policy)
            .field("revocable", revocable)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Returns the defaults: names of Apache Curator, no data, access for everyone.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the names of lock nodes. All contenders of a lock must use the same scheme.
    pub fn scheme(self, scheme: Scheme) -> Self {
        Self { scheme: Some(scheme), ..self }
    }

    /// Sets the data of lock nodes, which identifies contenders to operators and tools.
    pub fn data(self, data: impl Into<Bytes>) -> Self {
        Self { data: data.into(), ..self }
    }

    /// Sets the access control list of lock nodes. Other contenders must be able to read them, or
    /// they cannot notice their deletion.
    pub fn acl(self, acl: &[Acl<'_>]) -> Self {
        Self { acl: AccessList::new(acl), ..self }
    }

    /// Sets the access control list of parent nodes that are created. Contenders must be able to
    /// create, delete and read below them. Participants of a double barrier must also be able to
    /// write its node `ready`. A client that can delete below them can break locks.
    pub fn parent_acl(self, acl: &[Acl<'_>]) -> Self {
        Self { parent_acl: AccessList::new(acl), ..self }
    }

    /// Sets what to do about unknown nodes below the lock path. By default, contenders of another
    /// kind of lock are refused.
    pub fn unknown_nodes(self, unknown_nodes: UnknownNodePolicy) -> Self {
        Self { unknown_nodes, ..self }
    }

    /// Sets how long to assume that the lock is held while the connection is lost. By default, until
    /// the lease ends.
    pub fn disconnect_policy(self, disconnect_policy: DisconnectPolicy) -> Self {
        Self { disconnect_policy, ..self }
    }

    /// Watches for other clients that ask for the lock.
    /// [`Guard::revoked`](crate::Guard::revoked) reports them. It costs a watch while the lock is
    /// held.
    pub fn revocable(self) -> Self {
        Self { revocable: true, ..self }
    }

    /// Calls `observer` for every event of every attempt. With the async client it runs in a task
    /// that uses the session, and must not block. With the blocking client it runs in a thread for
    /// callbacks, and may wait. If it panics, other observers still run.
    pub fn observer(self, observer: impl Fn(Attempt<'_>, &Event) + Send + Sync + 'static) -> Self {
        Self { observer: Some(Arc::new(observer)), ..self }
    }

    /// Lets the attempts of a [`Mutex`](crate::Mutex) or [`RwLock`](crate::RwLock), and of its
    /// clones, share one node: they queue in this process, and pass the lock on without a request.
    ///
    /// Keep the lock, and clone it: two values for one path share nothing. Other recipes, and a
    /// [`MultiLock`](crate::MultiLock), ignore it.
    ///
    /// # Guarantee
    ///
    /// At most one holds the lock, as without it. Attempts of this process are served in the order
    /// in which they were first polled. When a turn ends and the [bound](HandOver) is reached, the
    /// node is deleted, and the next attempt queues at the end. So a contender of another process
    /// waits for the bound and one turn, and not for all who wait here.
    ///
    /// A loss reaches the holder, and ends the sharing: who waits gets another node at once. A lock
    /// that is suspended or [revoked](crate::Guard::revoked) is not passed on.
    ///
    /// All holders of one node have its name and its session. So the part
    /// [`zxid`](crate::FencingToken::zxid) of their [fencing token](crate::Guard::fencing_token) is
    /// the same, and only its [`turn`](crate::FencingToken::turn) differs: a resource must compare
    /// both.
    #[cfg(feature = "full")]
    pub fn local_hand_over(self, bound: HandOver) -> Self {
        Self { hand_over: Some(bound), ..self }
    }
}
