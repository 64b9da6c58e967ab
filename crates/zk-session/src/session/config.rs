//! What a session is made with.

use core::fmt;
use core::time::Duration;

use bytes::Bytes;
use zk_proto::{SessionId, Zxid, frame};

/// What a session is made with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// How many members the ensemble has.
    pub members: usize,
    /// The session timeout to ask for. The server may grant another one.
    pub timeout: Duration,
    /// The longest request that the server accepts, in bytes: its `jute.maxbuffer`.
    pub max_request: usize,
    /// The longest reply that is accepted, in bytes. Servers do not limit their replies. A request
    /// whose reply is longer [fails alone](crate::Error::ReplyTooLarge). The code that splits the
    /// stream into frames needs the same limit.
    pub max_reply: usize,
    /// How many requests may wait for an answer.
    pub max_pending: usize,
    /// How many bytes may wait to be sent before no further request is accepted.
    pub max_unsent: usize,
    /// How long the session may be without a connection before the requests that wait for one
    /// fail, and those that follow are refused until there is one again. `None`: for ever.
    pub patience: Option<Duration>,
    /// Whether a member will do that has lost touch with its leader and so can only read.
    pub read_only: bool,
    /// Whether something has to be said on each connection before credentials, watches and
    /// requests; see [`Event::Authenticate`](super::Event::Authenticate).
    pub authenticate: bool,
    /// Decides the order of members and all delays that are random. Each client needs one of its
    /// own, from a source of randomness: those with the same one go to the same members at the
    /// same time, all along.
    pub seed: u64,
    /// A session made earlier, to be taken up instead of asking for a new one.
    ///
    /// Its timeout runs all the while: unless a member hears of it in time, it will have expired.
    /// Two processes that use one session at a time cost each other the connection, for ever.
    pub resume: Option<Resume>,
}

impl Config {
    /// A session of 10 seconds with an ensemble of `members`, and a server's default limits; with a
    /// [`seed`](Self::seed) that no other client has.
    pub fn new(members: usize, seed: u64) -> Self {
        Self {
            members,
            timeout: Duration::from_secs(10),
            max_request: frame::DEFAULT_LIMIT,
            max_reply: 64 << 20,
            max_pending: 1 << 16,
            max_unsent: 64 << 20,
            patience: None,
            read_only: false,
            authenticate: false,
            seed,
            resume: None,
        }
    }
}

/// What it takes to take up a session, in this process or another.
#[derive(Clone, PartialEq, Eq)]
pub struct Resume {
    /// The session.
    pub id: SessionId,
    /// Its password, which whoever knows it can use to take the session over. It changes with
    /// every handshake that a server cares to change it in.
    pub password: Bytes,
    /// The newest transaction that the session has seen. Members that are behind it refuse the
    /// connection, so that nothing read later is older than what was read before.
    pub last_zxid: Zxid,
}

impl fmt::Debug for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resume")
            .field("id", &self.id)
            .field("password", &Secret(self.password.clone()))
            .field("last_zxid", &self.last_zxid)
            .finish()
    }
}

/// Bytes that are not for logs, but for how many they are.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(pub(super) Bytes);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = self;
        // Where there is no session the password is zeros.
        match bytes.iter().all(|byte| *byte == 0) {
            true => f.write_str("Secret(none)"),
            false => write!(f, "Secret({} bytes)", bytes.len()),
        }
    }
}
