//! What the faces have in common: each operation, described once, and how its answer is read.
//!
//! A face adds how a caller waits: by a future, or by a thread.

mod answers;
mod builder;
mod hub;
mod inbox;
mod notices;
pub(crate) mod operations;
pub(crate) mod reads;
pub(crate) mod subtree;
pub(crate) mod transaction;

use alloc::borrow::Cow;

use zk_proto::{Request, path};

pub(crate) use self::answers::Read;
pub use self::builder::{ClientBuilder, ConnectError};
pub(crate) use self::builder::{Settings, has_begun};
pub(crate) use self::hub::{Channels, Failure, Hub};
pub(crate) use self::inbox::Inbox;
pub use self::notices::Notice;
pub(crate) use self::notices::Notices;
pub use self::reads::{MultiRead, ReadResult};
pub use self::transaction::{Transaction, TransactionResult};
use crate::chroot::Chroot;
use crate::error::Error;
use crate::session::WatchedEvent;

/// A way to wait for answers.
pub(crate) trait Face {
    /// An answer that may not be there yet.
    type Answer<T>;
    /// A watch that fires once.
    type Watch;
    /// A watch that stays.
    type PersistentWatch;

    /// The directory that callers take for the root.
    fn chroot(&self) -> &Chroot;

    /// Sends a request behind all others.
    fn send<T>(&self, request: &Request<'_>, read: impl Read<T>) -> Result<Self::Answer<T>, Error>;

    /// Sends a request that asks for a watch that fires once.
    fn send_and_watch<T>(
        &self,
        request: &Request<'_>,
        read: impl Read<T>,
    ) -> Result<(Self::Answer<T>, Self::Watch), Error>;

    /// Sends a request that asks for a watch that stays.
    fn send_and_keep_watching(
        &self,
        request: &Request<'_>,
        read: impl Read<()>,
    ) -> Result<(Self::Answer<()>, Self::PersistentWatch), Error>;

    /// Waits for an answer.
    fn wait<T>(answer: Self::Answer<T>) -> impl Future<Output = Result<T, Error>>;

    /// Waits until requests are taken.
    fn ready(&self) -> impl Future<Output = Result<(), Error>>;
}

/// Whether a request asks for a watch that fires once.
pub(crate) fn sets_watch(request: &Request<'_>) -> bool {
    match request {
        Request::Exists(body) => body.watch,
        Request::GetData(body) => body.watch,
        Request::GetChildren(body) | Request::GetChildren2(body) => body.watch,
        _ => false,
    }
}

/// The server's path of a caller's path.
fn server_path<'p>(chroot: &Chroot, path: &'p str) -> Result<Cow<'p, str>, Error> {
    path::validate(path)?;
    Ok(chroot.apply(path))
}

/// The same for a node to be created, to whose name a number may be appended.
fn server_path_to_create<'p>(
    chroot: &Chroot,
    path: &'p str,
    is_sequential: bool,
) -> Result<Cow<'p, str>, Error> {
    if !is_sequential {
        return server_path(chroot, path);
    }
    path::validate_sequential(path)?;
    Ok(match (path, chroot.apply(path)) {
        // A number alone as the name, directly below the chroot.
        ("/", root) if root != "/" => Cow::Owned(root.into_owned() + "/"),
        (_, path) => path,
    })
}

fn any_version(version: Option<i32>) -> i32 {
    version.unwrap_or(-1)
}

/// An event as a caller sees it, whose paths begin at `chroot`.
pub(crate) fn seen_from(chroot: &Chroot, mut event: WatchedEvent) -> WatchedEvent {
    if let Some(path) = chroot.strip(&event.path)
        && path.len() != event.path.len()
    {
        event.path = path.into();
    }
    event
}
