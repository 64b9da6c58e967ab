//! The client: its methods, its answers and watches, and the decoding of replies.
//!
//! A [driver](Driver) adds the socket, the clock, and how a caller waits.

// The page of the client has its methods in this order.
mod connecting;

mod session_info;

mod nodes;

mod data;

mod children;

mod subtree;

mod transaction;

mod access_control;

mod ensemble;

mod any_operation;

#[cfg(feature = "full")]
pub(crate) mod full;

mod addresses;
pub(crate) mod answer;
mod any_client;
mod builder;
mod clock;
mod config_follower;
mod decode;
mod driver;
mod effects;
mod ensemble_config;
mod following;
mod handle;
pub(crate) mod inbox;
#[cfg(feature = "metrics")]
pub mod metrics;
mod multi_read;
mod process;
mod read;
mod ready;
mod reports;
pub(crate) mod room;
mod router;
mod slot;
#[cfg(test)]
mod tests;
mod watches;

use alloc::borrow::Cow;
use alloc::string::String;

use zk_proto::path::PathError;
use zk_proto::{OpCode, Request, path};

pub(crate) use self::addresses::{AddressBook, Candidates};
pub use self::answer::Answer;
pub use self::any_client::AnyClient;
pub use self::builder::{ClientBuilder, ConnectError};
pub(crate) use self::builder::{NewClient, has_begun};
pub(crate) use self::clock::Clock;
pub use self::config_follower::ConfigFollower;
pub use self::driver::Driver;
pub(crate) use self::effects::{EffectsGuard, EffectsMutex, HasEffects};
pub use self::handle::Client;
#[cfg(test)]
pub(crate) use self::handle::ClientHandle;
pub use self::multi_read::{MultiRead, ReadResult};
pub(crate) use self::process::ClientProcess;
pub use self::ready::Ready;
pub(crate) use self::room::RoomTicket;
pub(crate) use self::router::{Failure, ReplySender, Router};
pub(crate) use self::slot::{
    AnySubject, Receiver, Sender, ValueSlot, answer_slot, multi_answer_slot, slot, watch_slot,
};
pub use self::transaction::{Transaction, TransactionResult};
pub use self::watches::{Watch, WatchUpdate};
use crate::chroot::Chroot;
use crate::error::{Error, RequestError};
use crate::session::WatchedEvent;

/// What this crate exports with either client.
pub(crate) mod exports {
    pub use super::{
        Answer, AnyClient, ClientBuilder, ConnectError, MultiRead, ReadResult, Ready, Transaction,
        TransactionResult, Watch, WatchUpdate,
    };

    pub use crate::dispatch::Attachment;
    pub use crate::tls::TlsError;

    // For the simulator.
    #[doc(hidden)]
    pub use super::ConfigFollower;
    #[cfg(feature = "full")]
    pub use super::full::persistent_watch::PersistentWatch;
    #[cfg(feature = "metrics")]
    pub use super::metrics;
    #[cfg(feature = "tls")]
    pub use {crate::tls::config::TlsConfig, ::rustls};

    pub mod driver {
        //! The client, for any driver: `Tokio` or `blocking::Threads`.

        pub use crate::client::{Client, Driver};
    }
}

/// An operation of a transaction, and the server's path of its node.
pub(crate) type MultiOperation = (OpCode, String);

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
#[inline]
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
