//! The part that both clients share: their methods, each declared once, and the decoding of
//! replies.
//!
//! A client adds how a caller waits: by a future or by a thread.

mod access_control;
mod addresses;
mod any_client;
mod builder;
mod children;
mod clock;
mod config_follower;
mod data;
mod decode;
mod effects;
mod ensemble;
mod ensemble_config;
mod following;
mod inbox;
mod methods;
mod multi_read;
mod nodes;
#[cfg(feature = "persistent-watches")]
mod persistent_watches;
mod process;
mod reports;
mod room;
mod router;
mod session_info;
mod slot;
mod subtree;
#[cfg(feature = "blocking-tls")]
mod tls;
mod tls_error;
mod transaction;
mod watch_queue;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use zk_proto::path::PathError;
use zk_proto::{NodeKind, OpCode, Request, path};

pub(crate) use self::addresses::{AddressBook, Candidates};
pub use self::any_client::AnyClient;
pub use self::builder::{ClientBuilder, ConnectError};
pub(crate) use self::builder::{Settings, has_begun};
pub(crate) use self::children::Children;
pub(crate) use self::clock::Clock;
pub(crate) use self::data::Data;
pub(crate) use self::decode::DecodeAnswer;
pub(crate) use self::effects::{EffectsMutex, Guard, HasEffects};
pub(crate) use self::inbox::Inbox;
pub use self::multi_read::{MultiRead, ReadResult};
pub(crate) use self::nodes::Nodes;
pub(crate) use self::process::Process;
pub(crate) use self::room::RoomTicket;
pub(crate) use self::router::{Failure, ReplySender, Router};
pub(crate) use self::slot::{Receiver, Sender, slot};
#[cfg(feature = "blocking-tls")]
pub use self::tls::TlsConfig;
pub use self::tls_error::TlsError;
pub use self::transaction::{Transaction, TransactionResult};
pub(crate) use self::watch_queue::WatchQueue;
pub use self::watch_queue::WatchUpdate;
use crate::chroot::Chroot;
use crate::error::{Error, RequestError};
use crate::session::WatchedEvent;
use crate::time::Instant;

/// The operations that a client implements, on which the shared methods are based.
pub(crate) trait RawClient: Sized {
    /// An answer that may not have arrived yet.
    type Answer<T>: Future<Output = Result<T, RequestError>> + Send;
    /// A one-shot watch.
    type Watch;
    type PersistentWatch;
    /// A caller that waits for room.
    type RoomWaiter;

    /// Returns the node that is the root for callers.
    fn chroot(&self) -> &Chroot;

    /// Calls `look` with the router, under the session's lock.
    fn with_router<R>(&self, look: impl FnOnce(&Router) -> R) -> R;

    /// Reads the session's clock.
    fn now(&self) -> Instant;

    /// Sends a request.
    fn send<T>(
        &self,
        request: &Request<'_>,
        decode: impl DecodeAnswer<T>,
    ) -> Result<Self::Answer<T>, RequestError>;

    /// Sends a request that sets a one-shot watch.
    fn send_and_watch<T>(
        &self,
        request: &Request<'_>,
        decode: impl DecodeAnswer<T>,
    ) -> Result<(Self::Answer<T>, Self::Watch), RequestError>;

    /// Sends a request that sets a persistent watch.
    fn send_and_keep_watching(
        &self,
        request: &Request<'_>,
        decode: impl DecodeAnswer<()>,
    ) -> Result<(Self::Answer<()>, Self::PersistentWatch), RequestError>;

    /// Presents a credential, now and on later connections.
    fn send_credential(&self, scheme: &str, auth: &[u8]) -> Result<Self::Answer<()>, RequestError>;

    /// Makes the errors of an answer name the failed operation of a transaction.
    fn with_operations<T>(
        answer: Self::Answer<T>,
        operations: Vec<MultiOperation>,
    ) -> Self::Answer<T>;

    /// Returns a waiter for room. It gets its place in the queue at its first wait.
    fn room_waiter(&self) -> Self::RoomWaiter;

    /// Waits until requests are accepted. The future of the blocking client waits when it is polled.
    fn wait_for_room(
        &self,
        waiter: &mut Self::RoomWaiter,
    ) -> impl Future<Output = Result<(), Error>>;

    /// Returns the server's path of a caller's path.
    fn server_path<'p>(
        &self,
        operation: OpCode,
        path: &'p str,
    ) -> Result<Cow<'p, str>, RequestError> {
        server_path(self.chroot(), operation, path)
    }

    /// Returns the server's path of a node to be created.
    fn server_path_to_create<'p>(
        &self,
        kind: NodeKind,
        path: &'p str,
    ) -> Result<Cow<'p, str>, RequestError> {
        server_path_to_create(self.chroot(), kind.opcode(), path, kind.is_sequential())
    }
}

/// An operation of a transaction, and the server's path of its node.
pub(crate) type MultiOperation = (OpCode, String);

/// How errors name a request.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) operation: OpCode,
    /// Empty unless the request is a transaction.
    pub(crate) operations: Vec<MultiOperation>,
}

impl Subject {
    pub(crate) const fn new(operation: OpCode) -> Self {
        Self { operation, operations: Vec::new() }
    }

    pub(crate) fn failed(&self, reason: Error, chroot: &Chroot) -> RequestError {
        let failed = match reason {
            Error::Transaction { index, .. } => self.operations.get(index),
            _ => None,
        };
        match failed {
            Some((operation, path)) => {
                RequestError::new(*operation, Some(stripped(chroot, path)), reason)
            }
            None => RequestError::new(self.operation, None, reason),
        }
    }
}

/// Returns the error of a request that was not sent.
pub(crate) fn not_sent(request: &Request<'_>, chroot: &Chroot, reason: Error) -> RequestError {
    RequestError::new(request.opcode(), request.path().map(|path| stripped(chroot, path)), reason)
}

/// Returns a server's path as the caller sees it, or unchanged if it is outside the chroot.
fn stripped<'p>(chroot: &Chroot, path: &'p str) -> &'p str {
    chroot.strip(path).unwrap_or(path)
}

/// Returns whether a request sets a one-shot watch.
pub(crate) fn sets_watch(request: &Request<'_>) -> bool {
    match request {
        Request::Exists(body) => body.watch,
        Request::GetData(body) => body.watch,
        Request::GetChildren(body) | Request::GetChildren2(body) => body.watch,
        _ => false,
    }
}

/// Returns the server's path of a caller's path.
fn server_path<'p>(
    chroot: &Chroot,
    operation: OpCode,
    path: &'p str,
) -> Result<Cow<'p, str>, RequestError> {
    check(operation, path, path::validate)?;
    Ok(chroot.apply(path))
}

/// Returns the server's path of a node to be created, whose name may get a sequence number.
fn server_path_to_create<'p>(
    chroot: &Chroot,
    operation: OpCode,
    path: &'p str,
    is_sequential: bool,
) -> Result<Cow<'p, str>, RequestError> {
    if !is_sequential {
        return server_path(chroot, operation, path);
    }
    check(operation, path, path::validate_sequential)?;
    Ok(match (path, chroot.apply(path)) {
        // The name is a sequence number alone, directly below the chroot.
        ("/", root) if root != "/" => Cow::Owned(root.into_owned() + "/"),
        (_, path) => path,
    })
}

/// Fails the operation if its path is invalid.
fn check(
    operation: OpCode,
    path: &str,
    validate: fn(&str) -> Result<(), PathError>,
) -> Result<(), RequestError> {
    validate(path).map_err(|error| RequestError::new(operation, Some(path), error.into()))
}

fn any_version(version: Option<i32>) -> i32 {
    version.unwrap_or(-1)
}

/// Returns an event with the path as the caller sees it, below `chroot`.
pub(crate) fn seen_from(chroot: &Chroot, mut event: WatchedEvent) -> WatchedEvent {
    if let Some(path) = chroot.strip(&event.path)
        && path.len() != event.path.len()
    {
        event.path = path.into();
    }
    event
}
