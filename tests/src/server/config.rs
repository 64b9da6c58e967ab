//! What can be chosen about an ensemble.

use core::time::Duration;

use zk_proto::frame;

use super::version::Version;

/// Settings of an [`Ensemble`](super::Ensemble). The defaults are those of a real server, but where
/// they say otherwise.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many servers there are; at least one.
    pub servers: usize,
    /// Sessions expire at multiples of this.
    pub tick: Duration,
    /// The shortest session timeout that is granted; two ticks by default.
    pub min_session_timeout: Duration,
    /// The longest session timeout that is granted; twenty ticks by default.
    pub max_session_timeout: Duration,
    /// How often empty containers and nodes whose time to live is over are looked for.
    pub container_check: Duration,
    /// After how long a container that never had a child is deleted; `None`, the default, is never.
    pub max_never_used: Option<Duration>,
    /// The longest frame that is accepted (`jute.maxbuffer`).
    pub frame_limit: usize,
    /// What the passwords of sessions are made from.
    pub seed: u64,
    /// Which release it behaves like.
    pub version: Version,
    /// Whether nodes can have a time to live (`extendedTypesEnabled`). Unlike on a real server they
    /// can by default.
    pub extended_types: bool,
    /// Whether `reconfig` is more than refused (`reconfigEnabled`).
    pub reconfig: bool,
    /// Whether a server that is alive without a majority serves clients that asked for it
    /// (`readonlymode.enabled`).
    pub read_only_mode: bool,
    /// Whether such a server makes sessions of its own (`localSessionsEnabled`); since 3.7 there
    /// are no others for it to serve.
    pub local_sessions: bool,
    /// How many connections a server takes from one address (`maxClientCnxns`). Unlike on a real
    /// server there is no limit by default.
    pub max_connections: Option<usize>,
}

impl Config {
    /// An ensemble of this many servers.
    #[must_use]
    pub fn servers(servers: usize) -> Self {
        Self { servers, ..Self::default() }
    }

    /// Sets the release to behave like.
    #[must_use]
    pub fn with_version(self, version: Version) -> Self {
        Self { version, ..self }
    }

    /// Sets the tick, and the limits of session timeouts with it.
    #[must_use]
    pub fn with_tick(self, tick: Duration) -> Self {
        let (min_session_timeout, max_session_timeout) = (tick * 2, tick * 20);
        Self { tick, min_session_timeout, max_session_timeout, ..self }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            servers: 1,
            tick: Duration::from_secs(2),
            min_session_timeout: Duration::from_secs(4),
            max_session_timeout: Duration::from_secs(40),
            container_check: Duration::from_secs(60),
            max_never_used: None,
            frame_limit: frame::DEFAULT_LIMIT,
            seed: 0,
            version: Version::default(),
            extended_types: true,
            reconfig: false,
            read_only_mode: false,
            local_sessions: false,
            max_connections: None,
        }
    }
}
