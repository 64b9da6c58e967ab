//! How a client is made.

use alloc::string::{String, ToString};
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use crate::connect_string::{ConnectString, ConnectStringError};
use crate::session::{Config, End, Resume, State};

/// Settings of a client of type `C`, made by `Client::builder`.
///
/// ```no_run
/// # #[cfg(feature = "blocking")]
/// # fn main() -> Result<(), zk_session::ConnectError> {
/// use core::time::Duration;
/// use zk_session::blocking::Client;
///
/// let client = Client::builder("zk1,zk2,zk3/app")
///     .session_timeout(Duration::from_secs(6))
///     .connect_timeout(Duration::from_secs(30))
///     .request_timeout(Duration::from_secs(3))
///     .connect()?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "blocking"))]
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct ClientBuilder<C> {
    at: String,
    connect_timeout: Option<Duration>,
    request_timeout: Option<Duration>,
    seed: Option<u64>,
    /// But for the number of members, and the seed.
    config: Config,
    client: PhantomData<fn() -> C>,
}

impl<C> Clone for ClientBuilder<C> {
    fn clone(&self) -> Self {
        Self {
            at: self.at.clone(),
            connect_timeout: self.connect_timeout,
            request_timeout: self.request_timeout,
            seed: self.seed,
            config: self.config.clone(),
            client: PhantomData,
        }
    }
}

/// What a face makes a client of.
pub(crate) struct Settings {
    pub(crate) at: ConnectString,
    /// How long to look for a member.
    pub(crate) patience: Duration,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) config: Config,
}

impl<C> ClientBuilder<C> {
    pub(crate) fn new(at: &str) -> Self {
        Self {
            at: at.to_string(),
            connect_timeout: None,
            request_timeout: None,
            seed: None,
            config: Config::new(0, 0),
            client: PhantomData,
        }
    }

    /// The session timeout to ask for; 10 s by default. The server grants what lies within its
    /// bounds, by default 2 to 20 of its ticks.
    #[must_use]
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.config.timeout = timeout;
        self
    }

    /// How long `connect` looks for a member; by default the session timeout.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// How long a request may take, from its call to its answer; for ever by default. A request
    /// that takes longer fails with [`Error::DeadlinePassed`](crate::Error::DeadlinePassed). See
    /// `Client::with_request_timeout` to have another limit for some requests.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = Some(timeout);
        self
    }

    /// How long the session may be without a connection before the requests that wait for one
    /// fail with [`Error::NoConnection`](crate::Error::NoConnection), as do those that follow until
    /// there is one; for ever by default, which is until the session is found to have expired.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.config.patience = Some(patience);
        self
    }

    /// Whether a member will do that has lost touch with the others and so can only read, if its
    /// server allows that; not by default. Meanwhile, one that can write is looked for. See
    /// [`State::ReadOnly`].
    #[must_use]
    pub fn read_only(mut self, allowed: bool) -> Self {
        self.config.read_only = allowed;
        self
    }

    /// Takes up a session that `Client::session` has told of, in this process or another, instead
    /// of beginning a new one. Whoever had it must have stopped using it.
    #[must_use]
    pub fn resume(mut self, session: Resume) -> Self {
        self.config.resume = Some(session);
        self
    }

    /// The longest request that the servers accept, in bytes: their `jute.maxbuffer`; by default
    /// theirs, 1 MiB less a byte. A longer one fails with
    /// [`Invalid::TooLarge`](crate::Invalid::TooLarge).
    #[must_use]
    pub fn max_request(mut self, bytes: usize) -> Self {
        self.config.max_request = bytes;
        self
    }

    /// The longest reply to accept, in bytes; 64 MiB by default. A longer one costs the
    /// connection.
    #[must_use]
    pub fn max_reply(mut self, bytes: usize) -> Self {
        self.config.max_reply = bytes;
        self
    }

    /// How many requests may wait for an answer; 65536 by default. One more fails with
    /// [`Invalid::QueueFull`](crate::Invalid::QueueFull); `Client::ready` waits for room.
    #[must_use]
    pub fn max_pending(mut self, requests: usize) -> Self {
        self.config.max_pending = requests;
        self
    }

    /// How many bytes of requests may wait to be sent before no more are taken; 64 MiB by default.
    /// See [`max_pending`](Self::max_pending).
    #[must_use]
    pub fn max_unsent(mut self, bytes: usize) -> Self {
        self.config.max_unsent = bytes;
        self
    }

    /// Fixes the order in which members are tried and all random delays; for tests.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    pub(crate) fn settings(self) -> Result<Settings, ConnectError> {
        let at: ConnectString = self.at.parse().map_err(ConnectError::Address)?;
        let patience = self.connect_timeout.unwrap_or(self.config.timeout);
        let mut config = self.config;
        config.members = at.members.len();
        config.seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        Ok(Settings { at, patience, request_timeout: self.request_timeout, config })
    }
}

/// Whether a session that is to be begun, or else resumed, has got that far.
pub(crate) fn has_begun(state: State, resumed: bool) -> bool {
    match state {
        State::Connecting => false,
        // One that is resumed is suspended from the start.
        State::Suspended => !resumed,
        _ => true,
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
    /// The session ended before it had begun, or the one to be resumed had ended already.
    Ended(End),
    /// The system has no thread to spare for the session; only of clients that block.
    NoThread(String),
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
            Self::NoThread(error) => write!(f, "no thread could be started: {error}"),
        }
    }
}

impl core::error::Error for ConnectError {}
