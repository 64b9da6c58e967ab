//! The settings of clients.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use super::clock::{Clock, GivenClock};
use super::driver::Driver;
use super::handle::{Client, ClientHandle};
use super::router::Router;
use crate::connect_string::{ConnectString, ConnectStringError};
use crate::recording::Recording;
use crate::sasl::{Authenticator, Mechanism, SaslError};
use crate::session::{Config, End, Session, SessionTicket, State};
use crate::time::Instant;
use crate::tls::TlsError;

/// The minimum of the default connect timeout. An ensemble that has lost its leader, or that starts
/// together with its clients, needs that long to serve.
const LEAST_CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Settings of a client of type `C`, made by `Client::builder`.
///
/// ```no_run
/// # fn example() -> Result<(), zk_session::ConnectError> {
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
/// ```
#[derive(Clone, Debug)]
pub struct ClientBuilder<C> {
    at: String,
    connect_timeout: Option<Duration>,
    pub(super) request_timeout: Option<Duration>,
    retries_reads: bool,
    seed: Option<u64>,
    clock: Option<GivenClock>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<crate::tls::config::TlsConfig>,
    pub(super) mechanism: Option<Arc<dyn Mechanism>>,
    follow_config: bool,
    recording: Option<Recording>,
    /// The number of servers and the seed are not set yet.
    pub(super) config: Config,
    client: PhantomData<fn() -> C>,
}

/// A client that begins to connect.
pub(crate) struct NewClient<D: Driver> {
    pub(crate) client: Client<D>,
    /// The time limit for the first connection.
    pub(crate) connect_timeout: Duration,
    pub(crate) is_resumed: bool,
}

impl<D: Driver> NewClient<D> {
    /// Returns the client, if a server has served it in time.
    pub(crate) fn begun(self, in_time: bool) -> Result<Client<D>, ConnectError> {
        let Self { client, connect_timeout, .. } = self;
        client.driver().locked(|router| match router.session().state() {
            _ if !in_time => {
                Err(ConnectError::Unreachable { connect_timeout, last: router.last_failure() })
            }
            State::Ended(end) => Err(router.not_begun(end)),
            _ => Ok(()),
        })?;
        Ok(client)
    }
}

impl<C> ClientBuilder<C> {
    pub(crate) fn new(at: &str) -> Self {
        Self {
            at: at.to_string(),
            connect_timeout: None,
            request_timeout: None,
            retries_reads: false,
            seed: None,
            clock: None,
            #[cfg(feature = "tls")]
            tls: None,
            mechanism: None,
            follow_config: false,
            recording: None,
            config: Config::new(0, 0),
            client: PhantomData,
        }
    }

    /// Sets the session timeout to request; 10 s by default.
    ///
    /// The server limits it to a range, by default 2 to 20 of its ticks. `Client::session_timeout`
    /// returns the granted timeout.
    ///
    /// ```
    /// use core::time::Duration;
    /// use zk_session::blocking::Client;
    ///
    /// let builder = Client::builder("zk1,zk2,zk3").session_timeout(Duration::from_secs(6));
    /// # drop(builder);
    /// ```
    #[must_use]
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.config.timeout = timeout;
        self
    }

    /// Sets how long `connect` waits for the first server; by default the session timeout, at least
    /// 15 s.
    ///
    /// It waits that long also while no server is reachable, because the ensemble may be starting
    /// or electing a leader. Between two rounds over all servers it pauses for at most a second.
    /// With `Duration::MAX` it waits for ever.
    ///
    /// An invalid connection string fails at once. A wrong address fails at the limit, with the
    /// last cause: [`ConnectError::Unreachable`]. If TLS fails with every server, `connect` fails
    /// after the first round: [`ConnectError::Tls`].
    ///
    /// ```
    /// use core::time::Duration;
    /// use zk_session::ConnectError;
    /// use zk_session::blocking::Client;
    ///
    /// let builder = Client::builder("localhost:http").connect_timeout(Duration::from_secs(1));
    /// assert!(matches!(builder.connect(), Err(ConnectError::Address(_))));
    /// ```
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// Sets whether reads that fail with their connection are sent again; `false` by default.
    ///
    /// Such a read has not failed on a server: its connection was lost, for example because the server
    /// was restarted. The client sends it once more while its answer is awaited, behind the requests
    /// made meanwhile, until the [`request_timeout`](Self::request_timeout) has passed or the session
    /// ends. Only reads are repeated, `sync` and `multi_read` included, since a write may have been
    /// applied.
    #[must_use]
    pub fn retry_reads(mut self, retry: bool) -> Self {
        self.retries_reads = retry;
        self
    }

    /// Sets whether to accept servers without a quorum, which serve only reads; `false` by default.
    ///
    /// The servers must allow it, too. While such a server serves the session, the client searches
    /// for a read-write one. See [`State::ReadOnly`].
    #[must_use]
    pub fn read_only(mut self, allowed: bool) -> Self {
        self.config.read_only = allowed;
        self
    }

    /// Resumes the session of a ticket from `Client::session_ticket` or `Client::detach`, instead
    /// of beginning a new one. The client that had the session must not use it any more.
    ///
    /// The session still owns its ephemeral nodes. A lock does not pass to the new client: delete its
    /// node before you acquire the lock again, which fails otherwise.
    #[must_use]
    pub fn resume(mut self, session: SessionTicket) -> Self {
        self.config.resume = Some(session);
        self
    }

    /// Sets whether to follow the servers that the ensemble's configuration names; `false` by default.
    ///
    /// Without it, the client knows the servers of its connection string. When all of them have left
    /// the ensemble, it stays in [`State::Suspended`](crate::State::Suspended) until
    /// `Client::set_servers` names others.
    ///
    /// With it, the client reads `/zookeeper/config` in each session, and again after each change. If
    /// the configuration is newer and names addresses for clients, they replace the list of servers.
    /// After a change, the session may move to another server, as by `Client::set_servers`. The first
    /// configuration of a session moves nothing.
    ///
    /// * **Which addresses.** Those of participants and observers: the address and port behind the
    ///   semicolon of `server.1=host:2888:3888;address:2181`. For `0.0.0.0` and `[::]`, or without an
    ///   address, it is the server's host within the ensemble. A server without such a port is left
    ///   out: a static configuration with `clientPort` names none, and changes nothing.
    /// * **Fallback.** The server of the current connection stays in the list. When all servers of the
    ///   list have failed, those of the connection string are tried as well, until a server of the
    ///   configuration serves the session. So addresses that this client cannot reach, as behind NAT
    ///   or in a network of containers, cost time in each search for a server, but do not lock the
    ///   client out.
    /// * **Trust.** Anyone who may reconfigure the ensemble chooses the servers of this client, which
    ///   presents its credentials to them, and so does anyone who can answer in place of a server. TLS
    ///   excludes the latter: the certificate of each server must have the name or address by which the
    ///   configuration names it. The configuration has the plain ports, so TLS needs
    ///   `client.portUnification=true` on the servers.
    /// * **Errors.** A server before 3.5, or one that refuses to show the configuration, changes
    ///   nothing. The next server is asked.
    /// * **Cost.** One read in each session and after each change, and one watch.
    ///
    /// A list of `Client::set_servers` replaces the connection string, and holds until the
    /// configuration changes.
    ///
    /// ```
    /// use zk_session::blocking::Client;
    ///
    /// let builder = Client::builder("zk1,zk2,zk3").follow_config(true);
    /// # drop(builder);
    /// ```
    #[must_use]
    pub fn follow_config(mut self, follow: bool) -> Self {
        self.follow_config = follow;
        self
    }

    /// Records the session and its attached machines: see [`recording`](crate::recording).
    ///
    /// ```
    /// use zk_session::blocking::Client;
    /// use zk_session::recording::Recording;
    ///
    /// let (recording, ring) = Recording::ring(1 << 20);
    /// let builder = Client::builder("zk1,zk2,zk3").record(recording);
    /// assert_eq!(ring.bytes(), b"");
    /// # drop(builder);
    /// ```
    #[must_use]
    pub fn record(mut self, recording: Recording) -> Self {
        self.recording = Some(recording);
        self
    }

    /// Sets the longest request that the servers accept, in bytes: their `jute.maxbuffer`, by
    /// default 1 MiB less a byte. A longer one fails with
    /// [`Invalid::TooLarge`](crate::Invalid::TooLarge).
    #[must_use]
    pub fn max_request(mut self, bytes: usize) -> Self {
        self.config.max_request = bytes;
        self
    }

    /// Sets the longest reply to accept, in bytes; 64 MiB by default, and at least 512.
    ///
    /// The client skips a longer one and keeps the connection. The request fails with
    /// [`Error::ReplyTooLarge`](crate::Error::ReplyTooLarge).
    #[must_use]
    pub fn max_reply(mut self, bytes: usize) -> Self {
        self.config.max_reply = bytes;
        self
    }

    /// Sets how many requests may wait for a reply; 65536 by default, and at least one. A recipe may
    /// exceed it by one step: most take two requests, or one for each level of a path to create.
    ///
    /// One more fails with [`Error::QueueFull`](crate::Error::QueueFull); `Client::ready` waits for
    /// room.
    #[must_use]
    pub fn max_pending(mut self, requests: usize) -> Self {
        self.config.max_pending = requests;
        self
    }

    /// Sets how many bytes of requests may wait to be sent; 64 MiB by default.
    ///
    /// At this limit a request fails with [`Error::BufferFull`](crate::Error::BufferFull), unless it
    /// is the only one, or continues the step of a recipe.
    #[must_use]
    pub fn max_unsent(mut self, bytes: usize) -> Self {
        self.config.max_unsent = bytes;
        self
    }

    /// Sets how many bytes the paths of the session's ephemeral nodes may take, with 4 bytes for each; by
    /// default [`max_request`](Self::max_request), which is below 1 MiB.
    ///
    /// When a session ends, the leader writes all these paths into one transaction. Above about twice
    /// the servers' `jute.maxbuffer`, no server can read it, and the ensemble never serves again
    /// (ZOOKEEPER-4306). A creation that would pass the limit fails with
    /// [`Error::EphemeralsFull`](crate::Error::EphemeralsFull), and so does a lock.
    ///
    /// The client counts the nodes that it has created in this session. At half of the limit it asks
    /// the server for their list (since 3.6), which also has the nodes that a
    /// [resumed](Self::resume) session had before.
    #[must_use]
    pub fn max_ephemerals(mut self, bytes: usize) -> Self {
        self.config.max_ephemerals = Some(bytes);
        self
    }

    /// Encrypts the connections; without it, they are plain. Also encrypts those of `connect_with`.
    ///
    /// The servers have another port for it, their `secureClientPort`.
    ///
    /// ```no_run
    /// use zk_session::TlsConfig;
    /// use zk_session::blocking::Client;
    ///
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let tls = TlsConfig::from_ca_pem(&std::fs::read("ca.pem")?)?
    ///     .client_certificate(&std::fs::read("client.pem")?, &std::fs::read("client.key")?)?;
    /// let client = Client::builder("zk1:2281,zk2:2281,zk3:2281").tls(tls).connect()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: crate::tls::config::TlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Sets the seed of the order of servers and of all random delays, for tests.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the clock of the session. The client reads it for each frame that it sends or receives. If
    /// it steps back, it counts as standing still.
    ///
    /// The default clock is right for most programs. It continues while the machine is suspended, as
    /// the servers' timeouts do: on Linux it is `CLOCK_BOOTTIME`. A clock of your own must do so, too.
    /// Otherwise a [lease](crate::session::Session::lease) seems to last longer than it does.
    ///
    /// ```
    /// use core::time::Duration;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use zk_session::blocking::Client;
    /// use zk_session::time::Instant;
    ///
    /// // A test moves this clock.
    /// let seconds = Arc::new(AtomicU64::new(0));
    /// let read = seconds.clone();
    /// let now = move || Instant::after_start(Duration::from_secs(read.load(Ordering::Relaxed)));
    /// let builder = Client::builder("zk1,zk2,zk3").clock(now);
    /// # drop(builder);
    /// ```
    ///
    /// `Client::lease` is right as soon as the machine wakes. The client itself sleeps by the clock of
    /// the runtime or the system, which may stand still meanwhile. While it has a lease, it looks at
    /// its own clock every half second.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.clock = Some(GivenClock::new(now));
        self
    }
}

impl<D: Driver> ClientBuilder<Client<D>> {
    /// Checks the settings, and makes a client. `drive` makes its driver. `read` is the clock
    /// unless the program gives one.
    pub(crate) fn client(
        self,
        read: fn() -> std::time::Instant,
        drive: impl FnOnce(Clock, Router) -> D,
    ) -> Result<NewClient<D>, ConnectError> {
        let at: ConnectString = self.at.parse().map_err(ConnectError::Address)?;
        let mut config = self.config;
        let default = config.timeout.max(LEAST_CONNECT_TIMEOUT);
        config.servers = at.servers.len();
        config.max_reply = config.max_reply.max(Config::LEAST_REPLY);
        config.seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        let is_resumed = config.resume.is_some();
        let clock = Clock::new(read, self.clock);
        let now = clock.now();
        let recorder = self.recording.map(|it| it.start(now, &config, &at.servers));
        let mut session = Session::new(now, config);
        session.recorder = recorder.unwrap_or_default();
        let authenticator = self.mechanism.map(Authenticator::new);
        let router =
            Router::new(session, at.servers, authenticator).follow_config(self.follow_config);
        let driver = Arc::new(drive(clock, router));
        let handle = Arc::new(ClientHandle { driver, retries_reads: self.retries_reads });
        Ok(NewClient {
            client: Client { handle, chroot: at.chroot, request_timeout: self.request_timeout },
            connect_timeout: self.connect_timeout.unwrap_or(default),
            is_resumed,
        })
    }
}

/// Returns whether a new session has begun, or a session to resume was resumed.
pub(crate) fn has_begun(state: State, resumed: bool) -> bool {
    match state {
        State::Connecting | State::Renewing => false,
        // A session to resume starts suspended.
        State::Suspended => !resumed,
        _ => true,
    }
}

zk_proto::named! {
    /// The reason why a client could not connect.
    ///
    /// ```
    /// use zk_session::{ConnectError, End};
    ///
    /// fn is_worth_retrying(error: &ConnectError) -> bool {
    ///     matches!(error, ConnectError::Unreachable { .. })
    /// }
    /// assert!(!is_worth_retrying(&ConnectError::Ended(End::Expired)));
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum ConnectError {
        /// The connection string is invalid.
        Address(ConnectStringError),
        /// No server served the session in time.
        Unreachable {
            /// How long the client tried.
            connect_timeout: Duration,
            /// The last server that failed, and the reason. If none has failed, a server that has
            /// not answered yet.
            last: Option<(String, String)>,
        },
        /// TLS failed with every server, so that no retry helps. What failed with the last of them.
        Tls {
            /// The last server.
            server: String,
            /// What failed.
            error: TlsError,
        },
        /// The exchange of a SASL mechanism failed. Every other server would repeat that.
        AuthenticationFailed {
            /// The name of the mechanism.
            mechanism: &'static str,
            /// The server.
            server: String,
            /// What failed.
            error: SaslError,
        },
        /// The session ended before it began, or the session to resume had ended.
        Ended(End),
        /// The system could not start a thread. Only the blocking client reports it.
        NoThread(String),
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => write!(f, "the connection string is invalid: {error}"),
            Self::Unreachable { connect_timeout, last: Some((server, error)) } => {
                write!(
                    f,
                    "no server answered within {connect_timeout:?}; the last tried was {server}: {error}"
                )
            }
            Self::Unreachable { connect_timeout, last: None } => {
                write!(f, "no server answered within {connect_timeout:?}")
            }
            Self::Tls { server, error } => write!(f, "no server to trust; {server}: {error}"),
            Self::AuthenticationFailed { mechanism, server, error } => {
                write!(f, "authentication by {mechanism} at {server} failed: {error}")
            }
            Self::Ended(end) => write!(f, "{end}"),
            Self::NoThread(error) => write!(f, "no thread could be started: {error}"),
        }
    }
}

impl core::error::Error for ConnectError {}
