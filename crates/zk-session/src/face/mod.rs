//! What the faces have in common: each operation, described once, and how its answer is read.
//!
//! A face adds how a caller waits: by a future, or by a thread.

mod answers;
mod builder;
mod clock;
mod effects;
mod hub;
mod inbox;
mod notices;
pub(crate) mod operations;
pub(crate) mod reads;
mod room;
mod slot;
pub(crate) mod subtree;
pub(crate) mod transaction;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use zk_proto::path::PathError;
use zk_proto::{OpCode, Request, path};

pub(crate) use self::answers::Read;
pub use self::builder::{ClientBuilder, ConnectError};
pub(crate) use self::builder::{Settings, has_begun};
pub(crate) use self::clock::Clock;
pub(crate) use self::effects::{EffectsMutex, Guard, HasEffects};
pub(crate) use self::hub::{Channels, Failure, Hub};
pub(crate) use self::inbox::Inbox;
pub use self::notices::Notice;
pub(crate) use self::notices::Notices;
pub use self::reads::{MultiRead, ReadResult};
pub(crate) use self::room::Place;
pub(crate) use self::slot::{Receiver, Sender, slot};
pub use self::transaction::{Transaction, TransactionResult};
use crate::chroot::Chroot;
use crate::error::{Error, RequestError};
use crate::session::WatchedEvent;

/// A way to wait for answers.
pub(crate) trait Face {
    /// An answer that may not be there yet.
    type Answer<T>;
    /// A watch that fires once.
    type Watch;
    /// A watch that stays.
    type PersistentWatch;
    /// A place among those who wait for room.
    type Line;

    /// The directory that callers take for the root.
    fn chroot(&self) -> &Chroot;

    /// Sends a request behind all others.
    fn send<T>(
        &self,
        request: &Request<'_>,
        read: impl Read<T>,
    ) -> Result<Self::Answer<T>, RequestError>;

    /// Sends a request that asks for a watch that fires once.
    fn send_and_watch<T>(
        &self,
        request: &Request<'_>,
        read: impl Read<T>,
    ) -> Result<(Self::Answer<T>, Self::Watch), RequestError>;

    /// Sends a request that asks for a watch that stays.
    fn send_and_keep_watching(
        &self,
        request: &Request<'_>,
        read: impl Read<()>,
    ) -> Result<(Self::Answer<()>, Self::PersistentWatch), RequestError>;

    /// Has the errors of an answer name the part of the request that has failed.
    fn with_parts<T>(answer: Self::Answer<T>, parts: Vec<Part>) -> Self::Answer<T>;

    /// Waits for an answer.
    fn wait<T>(answer: Self::Answer<T>) -> impl Future<Output = Result<T, RequestError>>;

    /// A place among those who wait for room, which is taken by the first wait.
    fn line(&self) -> Self::Line;

    /// Waits until requests are taken.
    fn enter(&self, line: &mut Self::Line) -> impl Future<Output = Result<(), Error>>;
}

/// An operation of a transaction, and the server's path of its node.
pub(crate) type Part = (OpCode, String);

/// What a request is called in its errors.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) operation: OpCode,
    /// Empty unless the request is a transaction.
    pub(crate) parts: Vec<Part>,
}

impl Subject {
    pub(crate) const fn new(operation: OpCode) -> Self {
        Self { operation, parts: Vec::new() }
    }

    pub(crate) fn failed(&self, reason: Error, chroot: &Chroot) -> RequestError {
        let part = match reason {
            Error::Transaction { index, .. } => self.parts.get(index),
            _ => None,
        };
        match part {
            Some((operation, path)) => {
                RequestError::new(*operation, Some(stripped(chroot, path)), reason)
            }
            None => RequestError::new(self.operation, None, reason),
        }
    }
}

/// Why a request was not sent.
pub(crate) fn not_sent(request: &Request<'_>, chroot: &Chroot, reason: Error) -> RequestError {
    RequestError::new(request.opcode(), request.path().map(|path| stripped(chroot, path)), reason)
}

/// A server's path as a caller sees it, if it can.
fn stripped<'p>(chroot: &Chroot, path: &'p str) -> &'p str {
    chroot.strip(path).unwrap_or(path)
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
fn server_path<'p>(
    chroot: &Chroot,
    operation: OpCode,
    path: &'p str,
) -> Result<Cow<'p, str>, RequestError> {
    check(operation, path, path::validate)?;
    Ok(chroot.apply(path))
}

/// The same for a node to be created, to whose name a number may be appended.
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
        // A number alone as the name, directly below the chroot.
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

/// An event as a caller sees it, whose paths begin at `chroot`.
pub(crate) fn seen_from(chroot: &Chroot, mut event: WatchedEvent) -> WatchedEvent {
    if let Some(path) = chroot.strip(&event.path)
        && path.len() != event.path.len()
    {
        event.path = path.into();
    }
    event
}
