//! Time limits of requests, and of a session without a connection.

use core::time::Duration;

use crate::client::driver::Driver;
use crate::client::{Client, ClientBuilder};

impl<D: Driver> Client<D> {
    /// Returns a clone with another limit for its requests, from the call to the answer; `None`
    /// for no limit.
    pub fn with_request_timeout(&self, timeout: Option<Duration>) -> Self {
        Self { request_timeout: timeout, ..self.clone() }
    }
}

impl<C> ClientBuilder<C> {
    /// Sets how long a request may take, from its call to its reply; without limit by default.
    ///
    /// A request that takes longer fails with
    /// [`Error::DeadlinePassed`](crate::Error::DeadlinePassed). `Client::with_request_timeout` sets
    /// another limit for some requests.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = Some(timeout);
        self
    }

    /// Sets how long the session may be without a connection; without limit by default.
    ///
    /// After that time the requests that wait for a connection fail with
    /// [`Error::NoConnection`](crate::Error::NoConnection), and so do new ones until there is one.
    /// Without a limit, requests wait until a server reports that the session has expired.
    #[must_use]
    pub fn disconnect_timeout(mut self, timeout: Duration) -> Self {
        self.config.disconnect_timeout = Some(timeout);
        self
    }
}
