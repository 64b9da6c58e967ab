//! The options of all recipes.

use alloc::sync::Arc;
use core::fmt;

use bytes::Bytes;
use zk_session::proto::Acl;

use crate::attempt::{AccessList, DisconnectPolicy, Event, Parents, Scheme, UnknownNodePolicy};
use crate::client::local::LocalOptions;

/// One attempt to acquire a lock, as an [observer](Options::observer) sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The path of the lock.
    pub path: &'a str,
    /// The number of the attempt, from 1. A lock and its clones share one count.
    pub number: usize,
}

type Observe = dyn Fn(Attempt<'_>, &Event) + Send + Sync;

/// Receives the events of attempts.
#[derive(Clone)]
pub(crate) struct UserObserver(pub(crate) Arc<Observe>);

impl fmt::Debug for UserObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserObserver")
    }
}

/// The options of a lock: its nodes, and its behaviour while disconnected.
///
/// ```
/// use zk_recipes::{Options, DisconnectPolicy};
///
/// let options = Options::new().data("host-7").disconnect_policy(DisconnectPolicy::WhileConnected);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Options {
    pub(crate) scheme: Option<Scheme>,
    pub(crate) data: Bytes,
    pub(crate) acl: AccessList,
    pub(crate) parent_acl: AccessList,
    pub(crate) parents: Parents,
    pub(crate) unknown_nodes: UnknownNodePolicy,
    pub(crate) disconnect_policy: DisconnectPolicy,
    pub(crate) revocable: bool,
    pub(crate) observer: Option<UserObserver>,
    pub(crate) local: LocalOptions,
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

    /// Sets the kind of parent nodes that are created where they are missing. By default they are
    /// containers.
    pub fn parents(self, parents: Parents) -> Self {
        Self { parents, ..self }
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
        Self { observer: Some(UserObserver(Arc::new(observer))), ..self }
    }
}

/// # Attempts of one process
#[cfg(feature = "full")]
impl Options {
    /// Lets the attempts of a [`Mutex`](crate::Mutex) or [`RwLock`](crate::RwLock), and of its
    /// clones, share one node: they queue in this process, and pass the lock on without a request.
    ///
    /// Keep the lock, and clone it: two values for one path share nothing. Other recipes, and a
    /// [`MultiLock`](crate::MultiLock), ignore it.
    ///
    /// # Guarantee
    ///
    /// At most one holds the lock, as without it. Attempts of this process are served in the order
    /// in which they were first polled. When a turn ends and the [bound](crate::HandOver) is
    /// reached, the node is deleted, and the next attempt queues at the end. So a contender of
    /// another process waits for the bound and one turn, and not for all who wait here.
    ///
    /// A loss reaches the holder, and ends the sharing: who waits gets another node at once. A lock
    /// that is suspended or [revoked](crate::Guard::revoked) is not passed on.
    ///
    /// All holders of one node have its name and its session. So the part
    /// [`zxid`](crate::FencingToken::zxid) of their [fencing token](crate::Guard::fencing_token) is
    /// the same, and only its [`turn`](crate::FencingToken::turn) differs: a resource must compare
    /// both.
    pub fn local_hand_over(mut self, bound: crate::HandOver) -> Self {
        self.local.hand_over = Some(bound);
        self.local.start = Some(crate::lock::recipe::hand_over::SharingLock::start);
        self
    }

    /// Keeps a lock that is released while nobody waits for it: its node stays for the next attempt of
    /// this value and its clones. A lock that one client uses alone costs no request after the first.
    ///
    /// For a [`Mutex`](super::Mutex) or [`RwLock`](super::RwLock) that mostly one client uses. Other
    /// recipes, and a [`MultiLock`](super::MultiLock), ignore it.
    ///
    /// # Guarantee
    ///
    /// At most one holds the lock, as without it. Attempts of this process are served as with
    /// [`local_hand_over`](Self::local_hand_over), and a resource must compare both parts of their
    /// [fencing token](super::Guard::fencing_token). While no other contender is there, the lock is
    /// passed on without bound. An attempt that gets it asks no server, so like any holder it may not
    /// know of a loss yet: [`validate`](super::Guard::validate) asks.
    ///
    /// The client watches the queue while it has the lock. When another contender appears, or asks for
    /// the lock, a lock that is idle is given up at once. One that is in use is passed on within the
    /// bound of `local_hand_over`, counted from then, and without that not at all. An idle lock is also
    /// given up:
    ///
    /// * when it has been idle for `limit`;
    /// * when the connection is lost;
    /// * when the last clone of the lock is dropped.
    ///
    /// # Cost
    ///
    /// One request more for each node that acquires the lock: it lists the queue and watches it. While
    /// the lock is idle, this client still looks like its holder to others, who pay for that:
    ///
    /// * A contender of another client waits for one round trip more, in which it calls the lock back.
    /// * `try_acquire` of another client fails, and does not call the lock back.
    /// * If this process stops or is cut off, others wait for the end of its session.
    pub fn keep_idle(mut self, limit: core::time::Duration) -> Self {
        self.local.keep_idle = Some(limit);
        self.local.start = Some(crate::lock::recipe::hand_over::SharingLock::start);
        self
    }

    /// Looks for deadlocks between the [named](super::Pending::by) owners of this
    /// [`Mutex`](super::Mutex) or [`RwLock`](super::RwLock) and of others with the same value.
    pub fn deadlocks(mut self, deadlocks: &crate::Deadlocks) -> Self {
        self.local.deadlocks = Some(deadlocks.clone());
        self
    }
}
