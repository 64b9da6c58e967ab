//! A lock that is held.

#[cfg(feature = "full")]
mod full;

use alloc::boxed::Box;
use alloc::string::{String, ToString as _};
use core::fmt;
use std::time::Instant;

use zk_session::proto::{ErrorCode, Zxid};
use zk_session::{Error, RequestError, Transaction};

use super::call::Call;
use super::held_lock::{HeldLock, Releasing};
use super::pending::{Hold, Pending, Signal};
use super::report::{Holding, MachineReport};
use crate::Client;
use crate::attempt::Command;
use crate::client::SessionClient;
use crate::client::session_client::unless;
use crate::error::{LockError, Loss};
use crate::multi_lock::recipe::loss::MultiLoss;

/// A number that is greater than those of all earlier holders of a lock.
///
/// It has two parts, and the first one decides. Without
/// [local hand-over](crate::Options::local_hand_over), the second one is always 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(
    /// The transaction that created the lock node (its `czxid`).
    pub i64,
    /// Counts the holders of this process with this node, from 0.
    pub u32,
);

impl FencingToken {
    /// Returns the transaction that created the lock node.
    pub const fn zxid(self) -> Zxid {
        Zxid(self.0)
    }

    /// Returns how many holders of this process have had this node before.
    pub const fn turn(self) -> u32 {
        self.1
    }

    /// Returns both parts as one number. That of another client is its `czxid`, times 2³².
    pub const fn to_u128(self) -> u128 {
        (self.0.cast_unsigned() as u128) << 32 | self.1 as u128
    }
}

/// As a decimal number: `4294967302`, or `4294967302.0000000007` for the seventh turn after the
/// first. So it compares, as a number, with the `czxid` of another client.
impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(zxid, 0) => write!(f, "{zxid}"),
            Self(zxid, turn) => write!(f, "{zxid}.{turn:010}"),
        }
    }
}

/// A lock that is held, or permits of a semaphore. Dropped, it is released in the background.
///
/// ```no_run
/// # async fn work(token: zk_recipes::FencingToken) {}
/// # async fn example(guard: zk_recipes::Guard) {
/// tokio::select! {
///     () = work(guard.fencing_token()) => drop(guard),
///     loss = guard.lost() => eprintln!("lost: {loss}"), // The work ended at its last `await`.
/// }
/// # }
/// ```
///
/// `let _ = mutex.acquire().await?;` drops it at once. Bind it to a name, or let
/// [`Pending::run`] hold it for as long as some work lasts.
///
/// For permits, the node and the fencing token are those of the first one. One transaction creates
/// all nodes, and the loss of one permit is the loss of all. Acquire permits one by one if you
/// release them one by one.
#[doc(alias("HeldLock", "MutexGuard", "PermitGuard"))]
#[must_use = "a guard that is dropped releases its lock"]
pub struct Guard<C = Client> {
    pub(crate) held: HeldLock<C>,
}

impl<C: SessionClient> fmt::Debug for Guard<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("node", &self.node_path())
            .field("token", &self.fencing_token().0)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl<C: SessionClient> Guard<C> {
    pub(crate) const fn new(held: HeldLock<C>) -> Self {
        Self { held }
    }

    /// Returns the fencing token, which is greater than that of any earlier holder of this lock. A
    /// resource that remembers the greatest token it has seen, and refuses smaller ones, is safe
    /// from holders that have lost the lock and do not know it yet.
    ///
    /// With [local hand-over](crate::Options::local_hand_over), a resource compares both parts of
    /// it: [`to_u128`](FencingToken::to_u128) is one number, and it prints as one.
    ///
    /// After the ensemble was wiped or restored from a backup, tokens may be smaller: reset what the
    /// resource remembers before the servers start again.
    ///
    /// It is the transaction that created the lock node (its `czxid`). It compares with tokens of
    /// the same ensemble only. It does not order those that hold a lock together, as readers do.
    ///
    /// Hand out the number `.0` in decimal, as `zk-lock`, log lines and the examples do. Every
    /// language reads it, and shells compare it with `-lt`. Compare it as a number of 64 bits, not as
    /// text. A [`Zxid`] itself prints in hexadecimal, as ZooKeeper prints zxids.
    pub fn fencing_token(&self) -> FencingToken {
        let HeldLock { node, holder, .. } = &self.held;
        FencingToken(node.token.0, holder.special().map_or(0, |holder| holder.turn()))
    }

    /// Returns the current state, as far as this client knows.
    ///
    /// It compares the lease of the session with the session's clock. So by the default
    /// [policy](crate::DisconnectPolicy), the lock is reported lost as soon as the lease ends, even
    /// if the runtime is blocked or the process was stopped. Once reported lost, it stays lost.
    pub fn state(&self) -> Holding {
        self.held.holder.command(Command::CheckLease);
        self.held.holder.status.read(MachineReport::holding)
    }

    /// Returns whether the lock is lost; see [`state`](Self::state).
    pub fn is_lost(&self) -> bool {
        self.state().loss().is_some()
    }

    /// Waits until the lock is lost, and returns why. If the lock is released, it returns
    /// [`Loss::Released`], before the servers know of the release.
    ///
    /// The lock is lost when its session ends, when its node is deleted, or when the
    /// [policy](crate::Options::disconnect_policy) says so. With
    /// [`UntilServerReports`](crate::DisconnectPolicy::UntilServerReports), it never returns while
    /// there is no connection.
    ///
    /// The runtime of an async client wakes it. While that runtime is blocked,
    /// [`state`](Self::state) reports the loss sooner.
    pub fn lost(&self) -> Signal<Loss, C> {
        Signal::new(&self.held.client, self.held.losing())
    }

    /// Runs a callback once, when the lock is lost. It is dropped instead when the lock is released,
    /// here or by another guard of a [`ReentrantMutex`](crate::ReentrantMutex).
    ///
    /// If the lock is lost already, the callback runs before this method returns. Otherwise it runs
    /// soon after the loss is noticed, in a thread of the lock's own, so it may block and use the
    /// client. If the system has no thread left, it runs in one that uses the session. In a program
    /// with tokio, it may spawn tasks.
    ///
    /// The callbacks of one lock run one at a time, in the order in which they were added. If one
    /// panics, the others still run.
    pub fn on_lost(&self, callback: impl FnOnce(Loss) + Send + 'static) {
        self.state();
        let holder = &self.held.holder;
        let callback = match holder.special() {
            None => Box::new(callback),
            Some(special) => special.until_end(Box::new(callback)),
        };
        if let Some((callback, loss)) = holder.status.on_loss(callback) {
            callback(loss);
        }
    }

    /// Releases the lock and waits until the next contender can have it. Without a server it waits
    /// until the end of the session's lease at most.
    ///
    /// The release begins at the call. Dropping the returned value changes nothing.
    ///
    /// If the lock is [passed on](crate::Options::local_hand_over) within this process, or its node
    /// is still held by other readers of it, there is nothing to confirm, and nothing to wait for.
    ///
    /// # Errors
    ///
    /// [`Lost`](LockError::Lost) when the lock had been lost before.
    /// [`NotConfirmed`](LockError::NotConfirmed) when no server has confirmed the release: the lock
    /// is no longer held here, and its node is deleted in the background or with the session.
    pub fn release(self) -> Pending<(), C> {
        let HeldLock { client, path, holder, .. } = self.held;
        let state = holder.status.read(MachineReport::holding);
        match holder.end() {
            Some(handle) => Pending::release(client, Releasing::new(path, &handle)),
            None => Pending::done(Call { operation: "release", path, client }, state.loss()),
        }
    }

    /// Begins a transaction that is applied only if the lock node still exists. So none is applied
    /// once the ensemble has given the lock to another contender.
    ///
    /// The first operation of the transaction, number 0, is that check. If it fails with
    /// [`NO_NODE`](ErrorCode::NO_NODE), the lock is lost. Several permits have one check each.
    pub fn transaction(&self) -> Transaction<'_, C> {
        check(&self.held.client, &self.held.node_paths())
    }

    /// Asks a quorum of the ensemble whether the lock is still held. If this succeeds, it was held
    /// when the server answered. A connection, or a read, proves less.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock is no longer held. Without a server, it is returned when the
    /// lease ends, unless the policy is
    /// [`UntilServerReports`](crate::DisconnectPolicy::UntilServerReports). After any other error
    /// it is unknown whether the lock is held.
    pub fn validate(&self) -> Pending<(), C> {
        let (call, losing) = (self.held.call("validate"), self.held.losing());
        let (client, nodes) = (call.client.clone(), self.held.node_paths());
        Pending::within(call, async move {
            match unless(losing, C::commit(check(&client, &nodes))).await {
                Ok(checked) => checked.map(drop).map_err(not_validated),
                Err(loss) => Err(LockError::Lost(loss)),
            }
        })
    }

    /// Returns the end of the session's lease: until then the ensemble must keep the session, and
    /// with it the lock. See `lease` of the client. `None` if the lock
    /// is lost.
    ///
    /// Call this again each time: after a suspension of the machine, earlier results are too late.
    ///
    /// Other systems delay the next holder after a crash (lock-delay). Here the holder takes the time
    /// off: to let requests that take effect within `d` come before those of the next holder, begin
    /// none later than `d` before this instant.
    pub fn lease(&self) -> Option<Instant> {
        self.held.client.lease_end().filter(|_| !self.is_lost())
    }

    /// Waits until another client asks for the lock. Never returns for locks that are not
    /// [revocable](crate::Options::revocable).
    pub fn revoked(&self) -> Signal<(), C> {
        let HeldLock { client, holder, .. } = &self.held;
        let revoked = holder.status.wait(|report: &mut MachineReport| report.revoked.then_some(()));
        Signal::new(client, async {
            if revoked.await.is_none() {
                core::future::pending::<()>().await;
            }
        })
    }

    /// Returns the parent of the lock node, which is the path of most locks.
    pub fn lock_path(&self) -> &str {
        &self.held.parent
    }

    /// Returns the name of the lock node below its parent.
    pub fn node(&self) -> &str {
        &self.held.node.name
    }

    /// Returns the path of the lock node.
    pub fn node_path(&self) -> String {
        self.held.path_of(&self.held.node.name)
    }
}

impl<C: SessionClient> Hold<C> for Guard<C> {
    fn until_lost(&self) -> Signal<MultiLoss, C> {
        let (path, losing) = (self.held.path.to_string(), self.held.losing());
        Signal::new(&self.held.client, async { MultiLoss { path, loss: losing.await } })
    }

    fn end(self) -> Pending<(), C> {
        self.release()
    }
}

/// Begins a transaction with a check of each of these nodes.
pub(crate) fn check<'a, C: SessionClient>(client: &'a C, nodes: &[String]) -> Transaction<'a, C> {
    nodes.iter().fold(client.transaction(), |checks, node| checks.check(node, None))
}

/// Converts the error of a transaction that consists of checks only.
pub(crate) fn not_validated(error: RequestError) -> LockError {
    match error.reason {
        Error::Transaction { code: ErrorCode::NO_NODE, .. } => LockError::Lost(Loss::NodeDeleted),
        error => error.into(),
    }
}
