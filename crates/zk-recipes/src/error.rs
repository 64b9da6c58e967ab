//! Why a lock was not acquired, or is not held any more.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use zk_session::proto::path::PathError;
use zk_session::{End, Error, Fault, RequestError};

use crate::attempt::name::Scheme;

zk_session::proto::named! {
    /// Why a lock was not acquired or could not be released: the reason of a [`RecipeError`].
    ///
    /// All of it can happen to a [`Mutex`](crate::machine::Contender). Recipes that can fail for
    /// other reasons, too, have a [`Reason`] of their own.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum LockError {
        /// A request failed permanently, but the session continues. Its [`outcome`](Error::outcome)
        /// says whether the request may have been applied.
        Request(Error),
        /// The session has ended. Its nodes are deleted with it.
        Ended(End),
        /// Our node was deleted while it waited in the queue.
        ///
        /// Another client deleted it. Or the session has expired or is being closed, which the
        /// server reports later.
        NodeVanished,
        /// The access control list of the node ahead of ours denies reading it. So this attempt
        /// could not notice its deletion.
        Unreadable {
            /// The name of that node.
            node: String,
        },
        /// The node ahead of ours belongs to this client, and the ensemble [refused to delete
        /// it](crate::attempt::Event::Abandoned).
        ///
        /// It stays until the session ends, so waiting would never succeed. Delete it with a client
        /// that has the permission, or close this client.
        Abandoned {
            /// The name of that node.
            node: String,
        },
        /// An earlier client of this [resumed](zk_session::ClientBuilder::resume) session has left a
        /// node behind: of a lock, of a candidate, or of a participant in a double barrier.
        ///
        /// The node stays until the session ends, and a new contender would wait for it. Delete it,
        /// if the earlier process no longer works under the lock, or close the session. Then try
        /// again.
        HeldByOwnSession {
            /// The path of that node.
            node: String,
        },
        /// The sequence numbers of the lock path are exhausted, after about 2^31 creations.
        ///
        /// The order of the contenders is unknown. Delete the lock path when it is empty.
        SequenceExhausted,
        /// The lock was lost before it was released.
        Lost(Loss),
        /// The lock was released here, but no server has confirmed that its node is deleted.
        ///
        /// Until the node is deleted, no other client acquires the lock. While the session lives,
        /// the deletion continues in the background, counted by `pending_cleanups`. Otherwise the
        /// servers delete the node with the session. The cause is the network or the servers; do
        /// not repeat the call.
        NotConfirmed(Unconfirmed),
        /// Another contender holds the lock, and the method does not wait for it.
        Busy,
        /// The time limit has passed, and other contenders are in the way: they were ahead when a
        /// server last answered.
        ///
        /// Our node in the queue is deleted in the background, counted by `pending_cleanups`.
        TimedOut,
        /// The time limit has passed, and no server has answered while the client was connected.
        /// Nothing was acquired, and it is unknown whether other contenders are in the way.
        ///
        /// The cause is the network or the servers, which may have done what was asked. A node that
        /// the attempt may have created is deleted in the background, counted by
        /// `pending_cleanups`, or with the session.
        NoAnswer,
        /// There is no connection to a quorum of the ensemble. Nothing was acquired.
        ///
        /// A method with a time limit returns it when that has passed. A `try_` method does not
        /// wait for a connection: it returns this error if there is none, or if it breaks before
        /// the reply.
        ///
        /// A node that the attempt may have created is deleted as soon as there is a connection,
        /// counted by `pending_cleanups` until then, or with the session. The cause is the network
        /// or the servers: try again once the client is connected.
        NoConnection,
        /// A node below the lock path is a contender of another kind of lock, as its name shows.
        ///
        /// The two locks would ignore each other, and both could be held at once. Use another path.
        /// If it is meant to be the same lock, use its
        /// [scheme](crate::attempt::AttemptConfig::scheme) (`Options::scheme`).
        /// [`UnknownNodePolicy::Ignore`](crate::machine::UnknownNodePolicy::Ignore) allows both
        /// side by side. Without the feature `full`, only the schemes of Curator are known.
        OtherLock {
            /// The name of its node.
            node: String,
            /// The naming scheme of that lock.
            scheme: Box<Scheme>,
        },
        /// A node below the lock path belongs to no contender, and
        /// [`UnknownNodePolicy::Refuse`](crate::machine::UnknownNodePolicy::Refuse) is set.
        ///
        /// A `SimpleLock` also returns this for a persistent node at its path, which may never be
        /// deleted.
        UnknownNode {
            /// The name of that node.
            node: String,
        },
        /// The [chroot](zk_session::Chroot) of the client does not exist, so the lock does not either.
        ///
        /// Recipes create missing parents, but no chroot: a client with a wrong one would acquire
        /// another lock than all others. Create it once, by
        /// [`ensure_path("/")`](zk_session::AnyClient::ensure_path_with) of a client, or correct the
        /// connection string.
        NoChroot {
            /// The chroot, as a path of the server.
            chroot: String,
        },
        /// The path of the lock is invalid.
        [from] Path(PathError),
    }
}

zk_session::proto::named! {
    /// Why the caller no longer waits for the confirmation of a [release](LockError::NotConfirmed).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Unconfirmed {
        /// The session's [lease](zk_session::session::Session::lease) has ended. The servers delete
        /// the node with the session.
        LeaseEnded,
        /// The caller's time limit has passed.
        TimedOut,
        /// The session has ended here before a server answered.
        ///
        /// The servers end it and delete the node after the session timeout. If the session was
        /// detached, the process that resumes it owns the node. The end is [`End::Closed`] also if
        /// the runtime of the client was shut down.
        Ended(End),
    }
}

zk_session::proto::named! {
    /// Why a lock is no longer held.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Loss {
        /// The session has ended.
        [from] Ended(End),
        /// Our node was deleted. The next contender may hold the lock by now.
        ///
        /// Another client deleted it. Or the session has expired or is being closed, which the
        /// server reports later.
        NodeDeleted,
        /// The guard was released or dropped. Only the signal of `Guard::lost` returns this, if it
        /// outlives the guard.
        Released,
        /// The connection is lost, and the lock is held [only while
        /// connected](crate::attempt::DisconnectPolicy::WhileConnected).
        Disconnected,
        /// The [lease](zk_session::session::Session::lease) of the session has ended, so the
        /// ensemble [may expire it](crate::attempt::DisconnectPolicy::UntilLeaseEnds).
        LeaseEnded,
        /// The session has expired, and the client has [renewed](zk_session::State::Renewing) it.
        /// Only a [candidate](crate::machine::ElectionMachine) reports this: it queues again on the
        /// new session.
        Renewed,
    }
}

zk_session::proto::named! {
    /// Why permits of a semaphore were not acquired, alone or with other locks, or their number
    /// neither read nor changed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum SemaphoreError {
        /// It can happen to every lock.
        [from] Lock(LockError),
        /// The semaphore exists with another number of permits.
        OtherMaximum {
            /// The number of permits that it has.
            maximum: u32,
        },
        /// More permits were requested than the semaphore has, or than [one attempt can
        /// acquire](crate::machine::PermitRequest::MOST_AT_ONCE).
        TooManyPermits {
            /// The number of permits that can be requested at once.
            maximum: u32,
        },
        /// Zero permits were requested.
        NoPermits,
        /// The semaphore does not exist, or its node `max` does not hold a number of permits.
        NoMaximum,
    }
}

zk_session::proto::named! {
    /// Why the mode of a lock was not changed, or it has no shared mode.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum ModeError {
        /// It can happen to every lock.
        [from] Lock(LockError),
        /// Other contenders hold the lock or wait for it, so a read lock cannot become a write
        /// lock.
        NotAlone,
        /// The [scheme](crate::machine::Scheme) of this lock has no shared nodes.
        NoReaders,
    }
}

zk_session::proto::named! {
    /// Why a cache has ended, or was not ready in time.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum CacheError {
        /// It can happen to every recipe.
        [from] Lock(LockError),
        /// The cache has more nodes or bytes than [its limits](crate::machine::CacheConfig) allow.
        /// It has dropped all of them.
        Full,
    }
}

zk_session::proto::named! {
    /// Why a participant has left a double barrier without the others.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum LeaveError {
        /// It can happen to every lock.
        [from] Lock(LockError),
        /// The time limit has passed before all others have left. This participant has left, or
        /// does so in the background.
        OthersInside,
    }
}

/// The reason of a [`RecipeError`]: a [`LockError`], or one that also lists what can happen to one
/// recipe only.
pub trait Reason: core::error::Error + From<LockError> + Send + 'static {
    /// Returns the error, if it can happen to every lock.
    ///
    /// # Errors
    ///
    /// The name of another error, and whose fault it is.
    fn lock_error(&self) -> Result<&LockError, (&'static str, Fault)>;

    /// Returns whose fault it is.
    fn fault(&self) -> Fault {
        match self.lock_error() {
            Err((_, fault)) => fault,
            Ok(LockError::Busy | LockError::TimedOut) => Fault::Others,
            Ok(LockError::NoConnection | LockError::NoAnswer | LockError::NotConfirmed(_)) => {
                Fault::Ensemble
            }
            Ok(LockError::Ended(_) | LockError::NodeVanished | LockError::Lost(_)) => {
                Fault::Session
            }
            Ok(LockError::Request(error)) => error.fault(),
            Ok(_) => Fault::Caller,
        }
    }

    /// Returns whether the servers may count the lock as held by this client, although it has no
    /// guard: no server has answered an attempt in time, or confirmed a release. Others cannot
    /// acquire it until its node is deleted, in the background or with the session. If there is a
    /// guard, that reports the state.
    ///
    /// After [`TimedOut`](LockError::TimedOut) others were ahead. Until the node is deleted, which
    /// `pending_cleanups` counts, it can still become the first.
    fn may_be_held(&self) -> bool {
        let Ok(error) = self.lock_error() else { return false };
        matches!(error, LockError::NoConnection | LockError::NoAnswer | LockError::NotConfirmed(_))
    }

    /// Returns how the session ended, if it has.
    fn end(&self) -> Option<End> {
        match self.lock_error().ok()? {
            LockError::Ended(end)
            | LockError::Lost(Loss::Ended(end))
            | LockError::NotConfirmed(Unconfirmed::Ended(end)) => Some(*end),
            _ => None,
        }
    }
}

impl Reason for LockError {
    fn lock_error(&self) -> Result<&LockError, (&'static str, Fault)> {
        Ok(self)
    }
}

impl Reason for SemaphoreError {
    fn lock_error(&self) -> Result<&LockError, (&'static str, Fault)> {
        if let Self::Lock(error) = self { Ok(error) } else { Err((self.name(), Fault::Caller)) }
    }
}

impl Reason for ModeError {
    fn lock_error(&self) -> Result<&LockError, (&'static str, Fault)> {
        match self {
            Self::Lock(error) => Ok(error),
            Self::NotAlone => Err((self.name(), Fault::Others)),
            Self::NoReaders => Err((self.name(), Fault::Caller)),
        }
    }
}

impl Reason for CacheError {
    fn lock_error(&self) -> Result<&LockError, (&'static str, Fault)> {
        if let Self::Lock(error) = self { Ok(error) } else { Err((self.name(), Fault::Caller)) }
    }
}

impl Reason for LeaveError {
    fn lock_error(&self) -> Result<&LockError, (&'static str, Fault)> {
        if let Self::Lock(error) = self { Ok(error) } else { Err((self.name(), Fault::Others)) }
    }
}

impl LockError {
    /// Returns whether the attempt has lost its place in the queue: its session has expired, or its
    /// node was deleted.
    ///
    /// With the feature `full`, the locks of a client that
    /// [renews](zk_session::ClientBuilder::renew) its session do not return such an error: their
    /// attempts queue again by themselves. Other recipes of that client, such as a double barrier,
    /// can be entered again by the same call. Any other client can call again after
    /// [`NodeVanished`](Self::NodeVanished), unless that was the first sign of the end of its
    /// session.
    pub const fn has_lost_place(&self) -> bool {
        matches!(self, Self::Ended(End::Expired) | Self::NodeVanished)
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => write!(f, "{error}"),
            Self::Ended(end) => write!(f, "{end}"),
            Self::NodeVanished => f.write_str("our node in the queue was deleted"),
            Self::Unreadable { node } => {
                write!(
                    f,
                    "'{node}' is ahead of our node, and its access control list denies reading it"
                )
            }
            Self::Abandoned { node } => write!(
                f,
                "'{node}' is ahead of our node: this client created it, and the ensemble refused to delete it"
            ),
            Self::HeldByOwnSession { node } => write!(
                f,
                "'{node}' belongs to an earlier client of this session: delete it, or close the session"
            ),
            Self::SequenceExhausted => {
                f.write_str("the sequence numbers of the lock path are exhausted")
            }
            Self::Lost(loss) => write!(f, "the lock was lost before: {loss}"),
            Self::NotConfirmed(reason) => write!(f, "the release was not confirmed: {reason}"),
            Self::Busy => f.write_str("the lock is taken"),
            Self::TimedOut => f.write_str("the time limit has passed"),
            Self::NoAnswer => f.write_str("no server has answered in time"),
            Self::NoConnection => f.write_str("there is no connection to a quorum of the ensemble"),
            Self::OtherLock { node, scheme } => write!(
                f,
                "'{node}' belongs to {scheme} at the same path, which would not exclude this lock: \
                 use another path, or `Options::scheme`"
            ),
            Self::UnknownNode { node } => {
                write!(f, "'{node}' is below the lock path and belongs to no contender")
            }
            Self::NoChroot { chroot } => write!(
                f,
                "the chroot '{}' does not exist: correct the connection string, or create this node",
                chroot.escape_debug()
            ),
            Self::Path(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Display for SemaphoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => write!(f, "{error}"),
            Self::OtherMaximum { maximum } => {
                write!(f, "the semaphore has another number of permits: {maximum}")
            }
            Self::TooManyPermits { maximum } => {
                write!(f, "no more than {maximum} permits of the semaphore can be acquired at once")
            }
            Self::NoPermits => f.write_str("zero permits were requested"),
            Self::NoMaximum => {
                f.write_str("the semaphore does not exist, or its number of permits cannot be read")
            }
        }
    }
}

impl fmt::Display for ModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => write!(f, "{error}"),
            Self::NotAlone => f.write_str("other contenders hold the lock or wait for it"),
            Self::NoReaders => {
                f.write_str("this lock has no shared mode: its scheme names no shared nodes")
            }
        }
    }
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => write!(f, "{error}"),
            Self::Full => f.write_str("the nodes exceed the limits of the cache"),
        }
    }
}

impl fmt::Display for LeaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => write!(f, "{error}"),
            Self::OthersInside => f.write_str(
                "others have not left in time; this participant leaves without waiting for them",
            ),
        }
    }
}

impl fmt::Display for Unconfirmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeaseEnded => f.write_str(
                "no server answered before the lease ended; the node is deleted with the session",
            ),
            Self::TimedOut => {
                f.write_str("no server answered in time; the deletion continues in the background")
            }
            Self::Ended(end) => write!(f, "{end}; the servers delete the node when it times out"),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(end) => write!(f, "{end}"),
            Self::NodeDeleted => f.write_str("our node was deleted"),
            Self::Renewed => f.write_str("the session has expired and was renewed"),
            Self::Released => f.write_str("it was released"),
            Self::Disconnected => f.write_str("the connection was lost"),
            Self::LeaseEnded => f.write_str("the lease of the session has ended"),
        }
    }
}

// `Display` prints all of an error, so none has a source.
impl core::error::Error for LockError {}
impl core::error::Error for SemaphoreError {}
impl core::error::Error for ModeError {}
impl core::error::Error for CacheError {}
impl core::error::Error for LeaveError {}
impl core::error::Error for Loss {}

/// The failure of an operation of a recipe: which operation, on which lock, and why.
///
/// It prints all three: `acquire of '/locks/printer': the time limit has passed`.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecipeError<R = LockError> {
    /// The method that was called, `"new"` for all constructors.
    /// For a candidate it is `"stand"` or `"resign"`.
    pub operation: &'static str,
    /// The path of the lock or other recipe, as the client sees it. For `revoke` it is the path of
    /// the node, for a multi-lock that of the lock that failed.
    pub path: Box<str>,
    /// The reason of the failure.
    pub reason: R,
}

impl<R: Reason> RecipeError<R> {
    /// Returns the name of the [reason](LockError::name), also if that is in `Lock(..)`.
    pub fn name(&self) -> &'static str {
        self.reason.lock_error().map_or_else(|(name, _)| name, LockError::name)
    }

    /// Returns the reason, if it can happen to every lock.
    pub fn lock_error(&self) -> Option<&LockError> {
        self.reason.lock_error().ok()
    }

    /// Returns whose fault it is, and so what to do.
    pub fn fault(&self) -> Fault {
        self.reason.fault()
    }

    /// Returns whether the servers may count the lock as held by this client, although it has no
    /// guard; see [`Reason::may_be_held`].
    pub fn may_be_held(&self) -> bool {
        self.reason.may_be_held()
    }

    /// Returns how the session ended, if it has.
    pub fn end(&self) -> Option<End> {
        self.reason.end()
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn new(operation: &'static str, path: &str, reason: impl Into<R>) -> Self {
        Self { operation, path: path.into(), reason: reason.into() }
    }
}

impl<R: Reason> fmt::Display for RecipeError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, path, reason } = self;
        // A path that is invalid may hold anything.
        write!(f, "{operation} of '{}': {reason}", path.escape_debug())
    }
}

impl<R: Reason> core::error::Error for RecipeError<R> {}

impl<R: wider::Wider> From<RecipeError> for RecipeError<R> {
    fn from(RecipeError { operation, path, reason }: RecipeError) -> Self {
        Self { operation, path, reason: reason.into() }
    }
}

mod wider {
    /// A reason that is more than a [`LockError`](super::LockError).
    pub trait Wider: super::Reason {}
}

impl wider::Wider for SemaphoreError {}
impl wider::Wider for ModeError {}
impl wider::Wider for CacheError {}
impl wider::Wider for LeaveError {}

impl From<RecipeError> for LockError {
    fn from(error: RecipeError) -> Self {
        error.reason
    }
}

impl From<RequestError> for LockError {
    fn from(error: RequestError) -> Self {
        Self::from(error.reason)
    }
}

impl From<Error> for LockError {
    fn from(error: Error) -> Self {
        match error.end() {
            Some(end) => Self::Ended(end),
            None => Self::Request(error),
        }
    }
}

#[cfg(test)]
mod tests;
