//! How a client is made.

use alloc::string::{String, ToString};
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use super::clock::GivenClock;
use crate::connect_string::{ConnectString, ConnectStringError};
use crate::session::{Config, End, Resume, State};
use crate::time::Instant;

/// How long `connect` waits at least, unless it is told otherwise: an ensemble that has lost its
/// leader, or is started together with its clients, takes that long to serve.
const LEAST_CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

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
    clock: Option<GivenClock>,
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
            clock: self.clock.clone(),
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
    pub(crate) clock: Option<GivenClock>,
    pub(crate) config: Config,
}

impl<C> ClientBuilder<C> {
    pub(crate) fn new(at: &str) -> Self {
        Self {
            at: at.to_string(),
            connect_timeout: None,
            request_timeout: None,
            seed: None,
            clock: None,
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

    /// How long `connect` waits for the first server; by default the session timeout, but 15 s at
    /// least.
    ///
    /// It waits that long also when no server can be reached at the moment, since the ensemble may
    /// be about to start, or may be electing a leader. Meanwhile no more than a second passes
    /// between two rounds over all servers. With `Duration::MAX` it waits for ever. Only an invalid
    /// connection string fails at once; a wrong address fails at the limit, with the last cause:
    /// [`ConnectError::Unreachable`].
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

    /// The longest reply to accept, in bytes; 64 MiB by default. A longer one is skipped: its
    /// request fails with [`Error::ReplyTooLarge`](crate::Error::ReplyTooLarge), and the connection
    /// stays.
    #[must_use]
    pub fn max_reply(mut self, bytes: usize) -> Self {
        self.config.max_reply = bytes;
        self
    }

    /// How many requests may wait for an answer; 65536 by default. One more fails with
    /// [`Error::QueueFull`](crate::Error::QueueFull); `Client::ready` waits for room.
    #[must_use]
    pub fn max_pending(mut self, requests: usize) -> Self {
        self.config.max_pending = requests;
        self
    }

    /// How many bytes of requests may wait to be sent before no more are taken; 64 MiB by default.
    /// One request more fails with [`Error::BufferFull`](crate::Error::BufferFull).
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

    /// The clock that the session goes by, in place of [`std::time::Instant`] (of which tokio's is
    /// one). It must never go back, and is read for every frame that is sent or received.
    ///
    /// On Linux `std::time::Instant` stands still while the machine is suspended, and the servers'
    /// timeouts do not. So after a suspension, a [lease](crate::session::Session::lease) by that
    /// clock seems to last longer than it does. By `CLOCK_BOOTTIME`, which goes on, it has ended
    /// when it should:
    ///
    /// ```no_run
    /// # #[cfg(all(target_os = "linux", feature = "tokio"))]
    /// # async fn connect() -> Result<(), zk_session::ConnectError> {
    /// use core::time::Duration;
    /// use rustix::time::{ClockId, clock_gettime};
    /// use zk_session::Client;
    /// use zk_session::time::Instant;
    ///
    /// let boot_time = || {
    ///     let now = clock_gettime(ClockId::Boottime);
    ///     Instant::after_start(Duration::new(now.tv_sec as u64, now.tv_nsec as u32))
    /// };
    /// let client = Client::builder("zk1,zk2,zk3").clock(boot_time).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `Client::lease` is right as soon as the machine wakes. The client itself still sleeps by the
    /// runtime's clock, or the system's: it notices the suspension when something arrives, or with
    /// its next ping, which is at most a third of the session timeout later.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.clock = Some(GivenClock::new(now));
        self
    }

    pub(crate) fn settings(self) -> Result<Settings, ConnectError> {
        let at: ConnectString = self.at.parse().map_err(ConnectError::Address)?;
        let default = self.config.timeout.max(LEAST_CONNECT_TIMEOUT);
        let patience = self.connect_timeout.unwrap_or(default);
        let Self { mut config, request_timeout, clock, .. } = self;
        config.members = at.members.len();
        config.seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        Ok(Settings { at, patience, request_timeout, clock, config })
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
        /// The last server that failed, and why it did; or if none has failed yet, the one that has
        /// not answered yet.
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
            Self::Address(_) => f.write_str("the connection string is invalid"),
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

impl core::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Address(error) => Some(error),
            _ => None,
        }
    }
}
