//! The end of a session.

use core::fmt;

zk_proto::named! {
    /// The way in which a session ended.
    ///
    /// ```
    /// use zk_session::End;
    ///
    /// assert_eq!(End::Expired.to_string(), "the session has expired");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum End {
        /// The ensemble received nothing from the session for the session timeout, and has deleted
        /// its ephemeral nodes.
        Expired,
        /// The client closed the session.
        Closed,
        /// A server refused a credential, or requires one that the session lacks. Every other
        /// server would do the same.
        AuthFailed,
        /// The list of servers was empty when the session was made. No client has such a session,
        /// because a connection string names a server.
        NoServers,
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the session has expired",
            Self::Closed => "the session is closed",
            Self::AuthFailed => {
                "authentication failed: the server refused a credential or requires one"
            }
            Self::NoServers => "there is no server to connect to",
        })
    }
}
