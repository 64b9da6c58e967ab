//! The settings of a session.

use core::fmt;
use core::time::Duration;

use bytes::Bytes;
use zk_proto::{SessionId, Zxid, frame};

/// The settings of a session.
///
/// ```
/// use core::time::Duration;
/// use zk_session::session::Config;
///
/// let mut config = Config::new(3, 42);
/// config.timeout = Duration::from_secs(6);
/// config.disconnect_timeout = Some(Duration::from_secs(30));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The number of servers in the ensemble. Without any, the session has
    /// [ended](crate::End::NoServers) from the start.
    pub servers: usize,
    /// The session timeout to request. The server may grant another one.
    pub timeout: Duration,
    /// The longest request that the server accepts, in bytes: its `jute.maxbuffer`.
    pub max_request: usize,
    /// The longest reply to accept, in bytes. Servers do not limit their replies.
    ///
    /// A longer one comes [in pieces](super::Session::submit_in_pieces) to those who asked for that,
    /// as locks do for the list of their contenders. Otherwise the request [fails
    /// alone](crate::Error::ReplyTooLarge). The code that splits the stream into frames needs the
    /// same limit. With less than [`LEAST_REPLY`](Self::LEAST_REPLY) a session may never connect.
    pub max_reply: usize,
    /// How many requests may wait for a reply; at least one. If there is room for one, a machine may
    /// submit all requests of its current step. A step of a lock has two, and one for each level of
    /// a lock path that is missing.
    pub max_pending: usize,
    /// How many bytes of requests may wait to be sent. At this limit the session refuses requests,
    /// except further ones of a machine's step. It never refuses the only one.
    pub max_unsent: usize,
    /// How many bytes the paths of the session's ephemeral nodes may take, with 4 bytes for each. `None`
    /// for [`max_request`](Self::max_request), which is below 1 MiB by default.
    ///
    /// Above about twice the servers' `jute.maxbuffer`, the end of the session would stop the
    /// ensemble for good (ZOOKEEPER-4306). A creation that passes this limit fails with
    /// [`Error::EphemeralsFull`](crate::Error::EphemeralsFull).
    #[cfg(feature = "blocking")]
    pub max_ephemerals: Option<usize>,
    /// How many bytes each empty buffer of the session keeps for the next requests, replies or
    /// events. A buffer that has grown larger is freed when it is empty.
    pub max_kept: usize,
    /// How long the session may be without a connection. `None` for no limit.
    ///
    /// After that time the requests that wait for a connection fail. The session refuses new ones
    /// until it is connected again.
    #[cfg(feature = "full")]
    pub disconnect_timeout: Option<Duration>,
    /// Whether to accept servers without a quorum, which serve only reads.
    pub read_only: bool,
    /// Whether an authentication exchange comes first on each connection, before credentials,
    /// watches and requests. See [`Event::Authenticate`](super::Event::Authenticate).
    #[cfg(feature = "full")]
    pub authenticate: bool,
    /// Whether to open a new session after this one has expired. See
    /// [`State::Renewing`](super::State::Renewing).
    #[cfg(feature = "full")]
    pub renew: bool,
    /// The seed of the order of servers, of all random delays and of the table of watches.
    ///
    /// Each client needs its own random seed: clients with the same seed connect to the same
    /// servers at the same time.
    pub seed: u64,
    /// An earlier session to resume, instead of a new one.
    ///
    /// Resume it within its timeout, or it expires. If two processes use one session at the same
    /// time, each takes the connection from the other, for ever.
    pub resume: Option<SessionTicket>,
}

impl Config {
    /// The least useful [`max_reply`](field@Self::max_reply), in bytes: a handshake, a stat, and a
    /// watch event with a long path are shorter.
    pub const LEAST_REPLY: usize = 512;

    /// Returns default settings: a session timeout of 10 s and a server's default limits.
    ///
    /// No other client may have the same [`seed`](Self::seed).
    pub fn new(servers: usize, seed: u64) -> Self {
        Self {
            servers,
            timeout: Duration::from_secs(10),
            max_request: frame::DEFAULT_LIMIT,
            max_reply: 64 << 20,
            max_pending: 1 << 16,
            max_unsent: 64 << 20,
            #[cfg(feature = "blocking")]
            max_ephemerals: None,
            max_kept: 64 << 10,
            #[cfg(feature = "full")]
            disconnect_timeout: None,
            read_only: false,
            #[cfg(feature = "full")]
            authenticate: false,
            #[cfg(feature = "full")]
            renew: false,
            seed,
            resume: None,
        }
    }

    /// Returns settings for a small memory: 8 pending requests, at most 1 KiB for a reply and for
    /// unsent requests, and buffers that are freed when they are empty.
    ///
    /// That is enough for a lock, however long its queue is. A step that creates many levels of its
    /// lock path takes more for a moment.
    ///
    /// ```
    /// use zk_session::session::Config;
    ///
    /// let mut config = Config::small(3, 42);
    /// assert_eq!((config.max_pending, config.max_reply), (8, 1024));
    /// config.max_reply = 4 << 10;
    /// ```
    pub fn small(servers: usize, seed: u64) -> Self {
        Self {
            max_request: 1 << 10,
            max_reply: 1 << 10,
            max_pending: 8,
            max_unsent: 1 << 10,
            max_kept: 0,
            ..Self::new(servers, seed)
        }
    }
}

#[cfg(feature = "full")]
impl Config {
    /// Returns how long the session may be without a connection.
    pub(crate) const fn disconnect_timeout(&self) -> Option<Duration> {
        self.disconnect_timeout
    }

    /// Returns whether an authentication exchange comes first.
    pub(crate) const fn authenticates(&self) -> bool {
        self.authenticate
    }

    /// Returns whether a new session follows one that has expired.
    pub(crate) const fn renews(&self) -> bool {
        self.renew
    }
}

/// Constants, so that the compiler leaves out the code behind them.
#[cfg(not(feature = "full"))]
impl Config {
    pub(crate) const fn disconnect_timeout(&self) -> Option<Duration> {
        None
    }

    pub(crate) const fn authenticates(&self) -> bool {
        false
    }

    pub(crate) const fn renews(&self) -> bool {
        false
    }
}

/// Credentials to resume a session, in this process or another.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionTicket {
    /// The session.
    pub id: SessionId,
    /// The password of the session. Anyone with the password can take over the session. A server may
    /// change it with each handshake.
    pub password: Bytes,
    /// The newest transaction that the session has seen.
    ///
    /// A server that has not applied it yet refuses the connection. So no read returns an older
    /// state than an earlier read.
    pub last_zxid: Zxid,
}

impl SessionTicket {
    /// Makes a ticket from the parts of another one, which were stored.
    pub const fn new(id: SessionId, password: Bytes, last_zxid: Zxid) -> Self {
        Self { id, password, last_zxid }
    }
}

impl fmt::Debug for SessionTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionTicket")
            .field("id", &self.id)
            .field("password", &HiddenBytes(self.password.clone()))
            .field("last_zxid", &self.last_zxid)
            .finish()
    }
}

/// Bytes whose `Debug` output is their length only.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct HiddenBytes(pub(super) Bytes);

impl fmt::Debug for HiddenBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = self;
        // Without a session the password is zeros.
        match bytes.iter().all(|byte| *byte == 0) {
            true => f.write_str("Secret(none)"),
            false => write!(f, "Secret({} bytes)", bytes.len()),
        }
    }
}
