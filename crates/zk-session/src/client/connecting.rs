//! Connecting and closing.

use super::{ConnectError, Driver as _};

/// # On tokio
#[cfg(feature = "tokio")]
impl crate::Client {
    /// Connects with default settings to an ensemble: `host:port,host:port/chroot`.
    ///
    /// # Errors
    ///
    /// If the address is invalid or no server can be reached in time.
    ///
    /// # Panics
    ///
    /// If called outside a tokio runtime, or in one without its timer or its sockets
    /// (`enable_all`).
    pub async fn connect(at: &str) -> Result<Self, ConnectError> {
        Self::builder(at).connect().await
    }

    /// Closes the session behind all earlier requests, and waits for its end. The server deletes
    /// its ephemeral nodes. All clones of this client find it closed.
    ///
    /// Without a connection it returns at once; the servers then expire the session after its
    /// timeout. It waits for a server that stops answering for at most two thirds of the session
    /// timeout after its last reply.
    ///
    /// # Cancellation
    ///
    /// The session is still closed.
    pub async fn close(self) {
        self.driver().act(&mut |router, now| router.close(now));
        self.ended().await;
    }
}

/// # In threads
impl crate::blocking::Client {
    /// Connects with default settings to an ensemble: `host:port,host:port/chroot`.
    ///
    /// # Errors
    ///
    /// If the address is invalid or no server can be reached in time.
    pub fn connect(at: &str) -> Result<Self, ConnectError> {
        Self::builder(at).connect()
    }

    /// Closes the session behind all earlier requests, and waits for its end. The server deletes
    /// its ephemeral nodes. All clones of this client find it closed.
    ///
    /// Without a connection it returns at once; the servers then expire the session after its
    /// timeout. It waits for a server that stops answering for at most two thirds of the session
    /// timeout after its last reply.
    pub fn close(self) {
        self.driver().act(&mut |router, now| router.close(now));
        self.ended();
    }
}
