//! Getters of a client's session.

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

use zk_proto::SessionId;

use super::driver::Driver;
use super::{Client, ClientBuilder, Ready};
use crate::chroot::Chroot;
use crate::connect_string::{ConnectString, ConnectStringError, ServerAddress};
use crate::error::Error;
use crate::session::{ServerKind, SessionTicket, State, Statistics};

/// # The session
impl<D: Driver> Client<D> {
    /// Returns a builder with the settings of a client, for an ensemble at
    /// `host:port,host:port/chroot`.
    pub fn builder(at: &str) -> ClientBuilder<Self> {
        ClientBuilder::new(at)
    }

    /// Returns the state of the session.
    pub fn state(&self) -> State {
        self.with_router(|router| router.session().state())
    }

    /// Returns the id of the session.
    pub fn session_id(&self) -> SessionId {
        self.with_router(|router| router.session().id())
    }

    /// Returns the kind of the servers, as the last answer to a handshake shows it.
    pub fn server_kind(&self) -> ServerKind {
        self.with_router(|router| router.session().server_kind())
    }

    /// Returns whether the client opens a new session when the old one has expired: see
    /// [`ClientBuilder::renew`].
    pub fn renews(&self) -> bool {
        self.with_router(|router| router.session().renews())
    }

    /// Returns the ticket by which [`ClientBuilder::resume`] can resume this session after this
    /// process has failed, or `None` if the session has ended.
    ///
    /// To move the session while this process runs, [`detach`](Self::detach) it. Two clients of
    /// one session would take the connection from each other for ever. Dropping a client closes
    /// the session.
    pub fn session_ticket(&self) -> Option<SessionTicket> {
        self.with_router(|router| router.session().ticket())
    }

    /// Returns the session timeout that the server granted.
    pub fn session_timeout(&self) -> Duration {
        self.with_router(|router| router.session().timeout())
    }

    /// Returns whether the [lease](Self::lease) has ended, so that the ensemble need not keep
    /// the session any longer. Also returns `true` once the session has ended.
    ///
    /// This reads the session's clock. So it is correct even if the process was stopped and the
    /// client has not noticed yet.
    pub fn lease_has_ended(&self) -> bool {
        let now = self.driver().now();
        self.with_router(|router| router.session().lease_has_ended(now))
    }

    /// Returns counters of what was sent and received.
    pub fn statistics(&self) -> Statistics {
        self.with_router(|router| router.session().statistics())
    }

    /// Returns the server that last failed, and the reason: a lost connection, or an attempt to
    /// connect. It stays when another server serves the session.
    pub fn last_failure(&self) -> Option<(String, String)> {
        self.with_router(|router| router.last_failure.clone())
    }

    /// Returns the servers, in the order of the connection string. [`State::Connected`] counts
    /// them in this order.
    pub fn servers(&self) -> Arc<[ServerAddress]> {
        self.with_router(|router| router.servers.clone())
    }

    /// Replaces the list of servers by that of a connection string, whose chroot is ignored. The
    /// session stays on its server or moves to another one. If all clients do this, they are spread
    /// evenly over the servers.
    ///
    /// # Errors
    ///
    /// If the string is invalid.
    pub fn set_servers(&self, at: &str) -> Result<(), ConnectStringError> {
        let at: ConnectString = at.parse()?;
        let mut servers = at.servers;
        self.driver()
            .act(&mut |router, now| router.set_servers(now, core::mem::take(&mut servers)));
        Ok(())
    }

    /// Returns the node that is the root for this client.
    pub fn chroot(&self) -> &Chroot {
        &self.chroot
    }

    /// Returns a clone whose root is `path`, a path of this client. The node need not exist;
    /// `ensure_path("/")` of the clone creates it.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the path is invalid.
    pub fn with_chroot(&self, path: &str) -> Result<Self, Error> {
        Ok(Self { chroot: self.chroot.below(path)?, ..self.clone() })
    }

    /// Waits until the client has room for a request: until fewer are pending, in number and in
    /// bytes, than [`max_pending`](ClientBuilder::max_pending) and
    /// [`max_unsent`](ClientBuilder::max_unsent) allow. Callers are woken in the order of their
    /// arrival, as many as there is room for.
    ///
    /// No room is reserved: a caller that did not wait may use it first. A caller that still
    /// waits then keeps its place. A caller that has returned gets [`Error::QueueFull`] or
    /// [`Error::BufferFull`], and can wait again. [`Error::NoConnection`] is no lack of room:
    /// this method does not wait for a connection.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] when the session has ended.
    ///
    /// # Cancellation
    ///
    /// The caller loses its place. If it was woken already, the next one is woken.
    pub fn ready(&self) -> Ready<D> {
        Ready::new(self.driver())
    }
}
