//! How a client is made.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use super::Client;
use crate::connect_string::{ConnectString, ConnectStringError};
use crate::driver::{Connect, Driver, Shared, TcpConnect};
use crate::session::{Config, End, Session, State};

/// Settings of a [`Client`], made by [`Client::builder`].
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    at: String,
    session_timeout: Duration,
    connect_timeout: Option<Duration>,
    max_request: usize,
    max_reply: usize,
    max_pending: usize,
    seed: Option<u64>,
}

impl ClientBuilder {
    pub(super) fn new(at: &str) -> Self {
        let defaults = Config::new(0);
        Self {
            at: at.to_string(),
            session_timeout: defaults.timeout,
            connect_timeout: None,
            max_request: defaults.max_request,
            max_reply: defaults.max_reply,
            max_pending: defaults.max_pending,
            seed: None,
        }
    }

    /// The session timeout to ask for; 10 s by default. The server grants what lies within its
    /// bounds, by default 2 to 20 of its ticks.
    #[must_use]
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// How long [`connect`](Self::connect) looks for a member; by default the session timeout.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// The longest request that the servers accept, in bytes: their `jute.maxbuffer`.
    #[must_use]
    pub fn max_request(mut self, bytes: usize) -> Self {
        self.max_request = bytes;
        self
    }

    /// The longest reply to accept, in bytes; 64 MiB by default. A longer one costs the
    /// connection.
    #[must_use]
    pub fn max_reply(mut self, bytes: usize) -> Self {
        self.max_reply = bytes;
        self
    }

    /// How many requests may wait for an answer; 65536 by default.
    #[must_use]
    pub fn max_pending(mut self, requests: usize) -> Self {
        self.max_pending = requests;
        self
    }

    /// Fixes the order in which members are tried and all random delays; for tests.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Connects over TCP. To be called within a tokio runtime, on which a task is spawned.
    ///
    /// # Errors
    ///
    /// When the address is invalid or no member can be reached in time.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        self.connect_with(TcpConnect).await
    }

    /// As [`connect`](Self::connect), over connections that `connect` makes.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_with(self, connect: impl Connect) -> Result<Client, ConnectError> {
        let at: ConnectString = self.at.parse().map_err(ConnectError::Address)?;
        let mut config = Config::new(at.members.len());
        config.timeout = self.session_timeout;
        config.max_request = self.max_request;
        config.max_reply = self.max_reply;
        config.max_pending = self.max_pending;
        config.seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        let max_reply = config.max_reply;
        let shared = Arc::new(Shared::new(at.members, |now| Session::new(now, config)));
        let client = Client::new(shared.clone(), at.chroot);
        tokio::spawn(Driver::new(shared.clone(), connect, max_reply));

        let patience = self.connect_timeout.unwrap_or(self.session_timeout);
        let mut states = shared.states.subscribe();
        let arrived = states.wait_for(|state| *state != State::Connecting);
        match tokio::time::timeout(patience, arrived).await {
            Ok(Ok(state)) => match *state {
                State::Ended(end) => Err(ConnectError::Ended(end)),
                _ => {
                    drop(state);
                    Ok(client)
                }
            },
            Ok(Err(_)) => Err(ConnectError::Ended(End::Closed)),
            Err(_) => {
                let inner = shared.lock();
                let last = inner.last_failure.as_ref();
                Err(ConnectError::Unreachable {
                    patience,
                    last: last.map(|failure| {
                        (shared.members[failure.member].to_string(), failure.to_string())
                    }),
                })
            }
        }
    }
}

/// Why a client could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The connection string is invalid.
    Address(ConnectStringError),
    /// No member could be used in time.
    Unreachable {
        /// How long they were tried.
        patience: Duration,
        /// The last member that failed, and why it did.
        last: Option<(String, String)>,
    },
    /// The session ended before it had begun.
    Ended(End),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => write!(f, "invalid address: {error}"),
            Self::Unreachable { patience, last: Some((member, error)) } => {
                write!(
                    f,
                    "no member answered within {patience:?}; the last tried was {member}: {error}"
                )
            }
            Self::Unreachable { patience, last: None } => {
                write!(f, "no member answered within {patience:?}")
            }
            Self::Ended(end) => write!(f, "{end}"),
        }
    }
}

impl core::error::Error for ConnectError {}
