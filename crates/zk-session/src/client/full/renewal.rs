//! The renewal of expired sessions.

use crate::client::ClientBuilder;

impl<C> ClientBuilder<C> {
    /// Sets whether the client opens a new session when the ensemble has expired the old one; off
    /// by default.
    ///
    /// **Off**, the client ends with its session: every later call fails with
    /// [`Error::Ended`](crate::Error::Ended). Choose this if the program has state that is
    /// worthless without the session, or if something restarts it.
    ///
    /// **On**, the client goes on. Choose this for a service that runs for years:
    ///
    /// * The client is in [`State::Renewing`](crate::State::Renewing) until a server has given it a
    ///   new session, with a new id. Credentials and SASL are presented again.
    /// * Requests of the old session fail with [`Error::Ended`](crate::Error::Ended) and
    ///   [`End::Expired`](crate::End::Expired), if they had not failed with the connection. They
    ///   were not applied. Requests made from then on wait for the new session, as they wait for
    ///   any connection: `disconnect_timeout`, `request_timeout` and the limits of the queues
    ///   apply.
    /// * Ephemeral nodes are gone. Everything that was held, such as a lock, reports its loss once,
    ///   and nothing passes to the new session. The lock itself can be acquired again.
    /// * Attempts to acquire a lock that wait when the session expires queue again, at the end.
    /// * One-shot watches end with an error. Persistent watches continue with a
    ///   [`Gap`](crate::WatchUpdate::Gap).
    /// * The first reads may be older than the last ones of the old session; `sync` before them if
    ///   that matters.
    ///
    /// A refused credential, and `close`, end the client nevertheless.
    ///
    /// ```
    /// use zk_session::blocking::Client;
    ///
    /// let builder = Client::builder("zk1,zk2,zk3").renew(true);
    /// # drop(builder);
    /// ```
    #[must_use]
    pub fn renew(mut self, renew: bool) -> Self {
        self.config.renew = renew;
        self
    }
}
