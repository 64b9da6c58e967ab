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
        /// its ephemeral nodes. Or it has [lost its data](crate::session::Cause::OlderHistory).
        Expired,
        /// The client closed the session.
        Closed,
        /// All servers, one after the other, refused a credential or require one that the session
        /// lacks. Without the feature `full`, one server is enough.
        AuthFailed,
        /// This process is a fork of the one that has the session, where the session goes on. Connect
        /// a client of its own in this process.
        Forked,
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
                "authentication failed: all servers refused a credential or require one"
            }
            // Boards have no processes, and little room for text.
            Self::Forked if cfg!(feature = "blocking") => {
                "the session belongs to the process that this one was forked from"
            }
            Self::Forked => "",
            Self::NoServers => "there is no server to connect to",
        })
    }
}
