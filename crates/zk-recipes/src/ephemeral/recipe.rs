//! An ephemeral node that is kept alive.

use alloc::sync::Arc;
use core::fmt;

use zk_session::End;
use zk_session::proto::Zxid;

use crate::Client;
use crate::attempt::{Event, LockMode, Scheme, WaitPolicy};
use crate::client::SessionClient;
use crate::client::call::Call;
use crate::client::known::Known;
use crate::client::pending::Pending;
use crate::client::queue::Queue;
use crate::client::status::Handle;
use crate::ephemeral::{EphemeralMachine, Presence};
use crate::error::{LockError, RecipeError};
use crate::options::Options;

/// An ephemeral node that is kept alive: for service discovery, or to show that a process lives. It
/// is Apache Curator's `PersistentNode`. Dropped, it deletes the node in the background.
///
/// ```no_run
/// use zk_recipes::{Ephemeral, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::builder("127.0.0.1:2181").renew(true).connect().await?;
/// let here = Ephemeral::new(&client, "/services/printer/host-7", "10.0.0.7:631")?;
/// here.created().await?;
/// // ... until the process ends, or:
/// here.close().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantee
///
/// The node is created again when somebody has deleted it. With a client that
/// [renews](zk_session::ClientBuilder::renew) its session, it is created again on each new session,
/// too. There is a moment without the node in between.
///
/// If another session owns a node at the path, it waits until that one is deleted. A service that
/// restarts finds the node of its last session until that expires. A node that no session owns may
/// stay for ever, so it is refused: [`LockError::UnknownNode`].
///
/// A client that may not read the node, on servers since 3.9, does not notice its deletion. It fails
/// if the reply to a creation or deletion is lost, and the node then stays until the session ends.
///
/// The node is created with the [data](Options::data) and the access control lists of the options.
/// Data written later is not kept when the node is created again. When the node is no longer wanted
/// it is deleted by its path. A node that another session creates there right then, after somebody
/// has deleted ours, may be deleted in its place.
///
/// # Cost
///
/// Two round trips and one watch.
#[doc(alias("PersistentNode", "PersistentEphemeralNode", "presence", "registration"))]
#[must_use = "a node that is dropped is deleted"]
pub struct Ephemeral<C = Client> {
    call: Call<C>,
    presence: Known<Presence>,
    handle: Handle,
}

impl<C: SessionClient> fmt::Debug for Ephemeral<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ephemeral = f.debug_struct("Ephemeral");
        ephemeral.field("path", &self.call.path).field("presence", &self.presence());
        ephemeral.finish_non_exhaustive()
    }
}

impl<C: SessionClient> Ephemeral<C> {
    /// Creates the node at `path`, with this data, and keeps it alive. Missing parents are created
    /// as containers. This waits for nothing: see [`created`](Self::created).
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &C, path: &str, data: impl Into<bytes::Bytes>) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new().data(data))
    }

    /// Creates the node at `path` with the data, the access control lists and the observer of these
    /// options, and keeps it alive. The other options have no effect.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn with(client: &C, path: &str, options: Options) -> Result<Self, RecipeError> {
        let queue = Queue::new(client, "ephemeral", path, Scheme::CURATOR_MUTEX, options)?;
        let presence = Known::new(Presence::default());
        let ours = presence.clone();
        let hook = Arc::new(move |event: &Event| ours.update(|presence| presence.after(event)));
        let config = queue.config(LockMode::Exclusive, WaitPolicy::Queue);
        let machine = || EphemeralMachine::new(config);
        let handle = queue.attach(machine, queue.note(), Some(hook));
        Ok(Self { call: queue.call("created"), presence, handle })
    }

    /// Returns the path of the node.
    pub fn path(&self) -> &str {
        &self.call.path
    }

    /// Returns whether the node exists, as far as is known here.
    pub fn presence(&self) -> Presence {
        self.presence.read()
    }

    /// Waits until the node exists, and returns the transaction that created it. It may have been
    /// deleted by then. Dropping the returned value, or its time limit, does not delete the node.
    ///
    /// # Errors
    ///
    /// The error that the node [failed](Presence::Failed) with, or [`End::Closed`] if it was
    /// closed.
    pub fn created(&self) -> Pending<Zxid, C> {
        let presence = self.presence.clone();
        let created = self.handle.status.wait(move |_| match presence.read() {
            Presence::Missing => None,
            decided => Some(decided),
        });
        let status = self.handle.status.clone();
        Pending::within_or(self.call.clone(), move || status.late(), async {
            match created.await {
                Some(Presence::Created(czxid)) => Ok(czxid),
                Some(Presence::Failed(error)) => Err(error),
                _ => Err(LockError::Ended(End::Closed)),
            }
        })
    }

    /// Deletes the node, and waits until it is deleted. Without a server it waits until the end of
    /// the session's lease at most.
    ///
    /// The deletion begins at the call. Dropping the returned value changes nothing.
    ///
    /// # Errors
    ///
    /// The error that the node [failed](Presence::Failed) with before, or that refused the
    /// deletion. [`LockError::NotConfirmed`] if no server has confirmed the deletion: it continues
    /// in the background, or the session's end deletes the node.
    pub fn close(self) -> Pending<(), C> {
        let Self { call, presence, handle } = self;
        let status = handle.status.clone();
        drop(handle);
        let over = status.wait(move |_| match presence.read() {
            Presence::Closed => Some(Ok(())),
            Presence::Failed(error) => Some(Err(error)),
            Presence::Missing | Presence::Created(_) | Presence::Closing => None,
        });
        Pending::closing(Call { operation: "close", ..call }, over)
    }
}
