//! Settings of an ensemble.

#[cfg(feature = "sasl")]
use alloc::collections::BTreeMap;
use core::net::SocketAddr;
use core::time::Duration;

use bytes::Bytes;
use zk_proto::{OpCode, Zxid, frame};

use super::keeper::Keeper;
use super::version::Version;

/// Settings of an [`Ensemble`](super::Ensemble). The defaults are those of a real server, except
/// where noted.
#[derive(Clone, Debug)]
pub struct Config {
    /// The number of servers, at least one.
    pub servers: usize,
    /// The tick, by default 2 s: sessions expire at multiples of it. So session timeouts are between
    /// 4 s and 40 s; see [`with_tick`](Self::with_tick) for shorter ones.
    pub tick: Duration,
    /// The shortest granted session timeout, by default two ticks.
    pub min_session_timeout: Duration,
    /// The longest granted session timeout, by default twenty ticks.
    pub max_session_timeout: Duration,
    /// How often to delete empty containers and nodes whose time to live has passed.
    pub container_check: Duration,
    /// The time after which a container that never had a child is deleted. `None`, the default, is
    /// never.
    pub max_never_used: Option<Duration>,
    /// The longest accepted frame (`jute.maxbuffer`).
    pub frame_limit: usize,
    /// Operations at which servers close the connection without a reply, as ClickHouse Keeper does
    /// at those that it lacks. By default there are none.
    pub closes_at: Vec<OpCode>,
    /// The seed of session passwords.
    pub seed: u64,
    /// The release whose behaviour is shown.
    pub version: Version,
    /// The ClickHouse Keeper whose rules are added to those of the release; see
    /// [`with_keeper`](Self::with_keeper). `None`, the default, is a ZooKeeper.
    pub keeper: Option<Keeper>,
    /// Whether a Keeper accepts clients whose xids have 8 bytes (`use_xid_64`). By default, it
    /// closes their connections.
    pub wide_xids: bool,
    /// Whether nodes can have a time to live (`extendedTypesEnabled`). Unlike on a real server, the
    /// default is `true`.
    pub extended_types: bool,
    /// Whether `reconfig` is enabled (`reconfigEnabled`).
    pub reconfig: bool,
    /// The addresses of the servers for clients, which `/zookeeper/config` then lists. By default
    /// there are none, as in a static configuration with `clientPort`.
    pub client_addresses: Vec<SocketAddr>,
    /// Whether a server without a quorum serves clients that accept that (`readonlymode.enabled`).
    pub read_only_mode: bool,
    /// Whether a read-only server creates local sessions (`localSessionsEnabled`). Since 3.7 it
    /// serves no others.
    pub local_sessions: bool,
    /// The maximum number of connections from one address (`maxClientCnxns`). Unlike on a real
    /// server, there is no limit by default.
    pub max_connections: Option<usize>,
    /// The users of the SASL mechanism DIGEST-MD5 and their passwords, in ASCII without commas and
    /// quotation marks. Without users, the default, servers decline SASL. No client has to prove
    /// who it is, and access control lists name users only by the scheme `auth`.
    #[cfg(feature = "sasl")]
    pub users: BTreeMap<String, String>,
}

impl Config {
    /// Returns the settings of an ensemble of this many servers.
    #[must_use]
    pub fn servers(servers: usize) -> Self {
        Self { servers, ..Self::default() }
    }

    /// Sets the release whose behaviour is shown.
    #[must_use]
    pub fn with_version(self, version: Version) -> Self {
        Self { version, ..self }
    }

    /// Makes the servers a ClickHouse Keeper, with its limits of session timeouts: 10 s to 100 s.
    #[must_use]
    pub fn with_keeper(self, keeper: Keeper) -> Self {
        Self {
            keeper: Some(keeper),
            tick: Keeper::CHECK_PERIOD,
            min_session_timeout: Keeper::MIN_SESSION_TIMEOUT,
            max_session_timeout: Keeper::MAX_SESSION_TIMEOUT,
            ..self
        }
    }

    /// Sets the tick, and the limits of session timeouts accordingly.
    #[must_use]
    pub fn with_tick(self, tick: Duration) -> Self {
        let (min_session_timeout, max_session_timeout) = (tick * 2, tick * 20);
        Self { tick, min_session_timeout, max_session_timeout, ..self }
    }

    /// Returns the first data of `/zookeeper/config`: the members, or nothing for a standalone server.
    pub(super) fn first_members(&self) -> Bytes {
        if self.servers > 1 { self.members(0..self.servers, Zxid::ZERO) } else { Bytes::new() }
    }

    /// Returns the data of `/zookeeper/config` with these members.
    pub(super) fn members(&self, members: impl Iterator<Item = usize>, version: Zxid) -> Bytes {
        let mut text = String::new();
        for member in members {
            let number = member + 1;
            text += &format!("server.{number}=127.0.0.{number}:2888:3888:participant");
            if let Some(address) = self.client_addresses.get(member) {
                text += &format!(";{address}");
            }
            text += "\n";
        }
        (text + &format!("version={:x}", version.0)).into()
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
            closes_at: Vec::new(),
            seed: 0,
            version: Version::default(),
            keeper: None,
            wide_xids: false,
            extended_types: true,
            reconfig: false,
            client_addresses: Vec::new(),
            read_only_mode: false,
            local_sessions: false,
            max_connections: None,
            #[cfg(feature = "sasl")]
            users: BTreeMap::new(),
        }
    }
}
