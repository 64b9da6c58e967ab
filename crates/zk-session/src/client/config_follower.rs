//! Follows the configuration of the ensemble: which servers to use from now on.
//!
//! The client uses the servers that the configuration names, and keeps the one that serves the
//! session. If all of them fail, it also tries those that its program has named, so it never depends
//! on addresses that it cannot reach.

use alloc::vec::Vec;

use super::ensemble_config::EnsembleConfig;
use crate::connect_string::ServerAddress;
use crate::session::{Session, State};
use crate::time::Instant;

/// Decides when to read the configuration, and which servers to use.
#[derive(Debug)]
pub struct ConfigFollower {
    /// The servers that the program has named.
    named: Vec<ServerAddress>,
    /// The servers of the newest configuration. Empty before there is one.
    followed: Vec<ServerAddress>,
    /// The version of that configuration, if this session has read it.
    version: Option<u64>,
    /// Whether that configuration has replaced another one of this session, so that sessions should
    /// spread over its servers anew. The first configuration is new to this client only.
    has_changed: bool,
    /// The servers that have failed since one has served the session.
    failed: Vec<ServerAddress>,
    reading: Reading,
    /// Whether the list of servers may have to change.
    is_changed: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Reading {
    /// Until the next connection.
    Paused,
    Wanted,
    Requested,
    /// The configuration is read, and a watch is set.
    Watching,
}

impl ConfigFollower {
    /// Makes a follower of a session with these servers.
    pub fn new(named: Vec<ServerAddress>) -> Self {
        Self {
            named,
            followed: Vec::new(),
            version: None,
            has_changed: false,
            failed: Vec::new(),
            reading: Reading::Paused,
            is_changed: false,
        }
    }

    /// Notes that the program has replaced the list. It holds until there is a newer configuration.
    pub fn set_servers(&mut self, named: Vec<ServerAddress>) {
        (self.named, self.is_changed) = (named, false);
        self.followed.clear();
        self.failed.clear();
    }

    /// Handles a new state of the session.
    pub fn handle_state(&mut self, state: State) {
        match state {
            State::Connected { .. } | State::ReadOnly { .. } => {
                self.failed.clear();
                self.is_changed = true;
            }
            // The history of another session may be older, as after a restored backup.
            State::Renewing => self.version = None,
            _ => {}
        }
        // A server without a quorum may have an old configuration.
        if matches!(state, State::Connected { .. }) && self.reading == Reading::Paused {
            self.reading = Reading::Wanted;
        }
    }

    /// Handles that an attempt to connect, or the connection, has failed.
    pub fn handle_failed(&mut self, server: &ServerAddress) {
        if !self.failed.contains(server) {
            self.failed.push(server.clone());
        }
        self.is_changed = true;
    }

    /// Returns whether to read the configuration, with a watch.
    pub fn wants_config(&self) -> bool {
        self.reading == Reading::Wanted
    }

    /// Handles that the request is made.
    pub fn handle_requested(&mut self) {
        self.reading = Reading::Requested;
    }

    /// Handles what was read, or `None` after an error: without permission, without such a node as
    /// before 3.5, or without a connection. Then the next connection is asked.
    pub fn handle_config(&mut self, data: Option<&[u8]>) {
        let Some(data) = data else {
            self.reading = Reading::Paused;
            return;
        };
        self.reading = Reading::Watching;
        let config = EnsembleConfig::parse(data);
        let is_newer = self.version.is_none_or(|version| version < config.version);
        if is_newer && !config.servers.is_empty() {
            self.has_changed = self.version.replace(config.version).is_some();
            self.followed = config.servers;
            self.is_changed = true;
        }
    }

    /// Handles the end of the watch: by an event, or with its session.
    pub fn handle_watch(&mut self, has_fired: bool) {
        self.reading = if has_fired { Reading::Wanted } else { Reading::Paused };
    }

    /// Replaces the session's list of `servers`, if it has to change. Returns the new list. Events
    /// that the session has not reported yet have indices of the old one.
    pub fn replace_servers<T>(
        &mut self,
        session: &mut Session<T>,
        now: Instant,
        servers: &[ServerAddress],
    ) -> Option<Vec<ServerAddress>> {
        let current = match session.state() {
            State::Connected { server, .. } | State::ReadOnly { server, .. } => servers.get(server),
            _ => None,
        };
        let wanted = self.poll_servers(servers, current)?;
        session.replace_servers(now, &places(servers, &wanted), wanted.len(), self.has_changed);
        Some(wanted)
    }

    /// Returns the list that replaces `servers`, if it differs. `current` is the server that serves
    /// the session.
    fn poll_servers(
        &mut self,
        servers: &[ServerAddress],
        current: Option<&ServerAddress>,
    ) -> Option<Vec<ServerAddress>> {
        if !core::mem::take(&mut self.is_changed) || self.followed.is_empty() {
            return None;
        }
        let more = match current {
            Some(current) => core::slice::from_ref(current),
            None if servers.iter().all(|server| self.failed.contains(server)) => &self.named,
            None => return None,
        };
        let mut wanted = self.followed.clone();
        for server in more {
            if !wanted.contains(server) {
                wanted.push(server.clone());
            }
        }
        let is_same = wanted.len() == servers.len() && wanted.iter().all(|it| servers.contains(it));
        (!is_same).then_some(wanted)
    }
}

/// Returns the index of each old server in the new list.
pub(super) fn places(old: &[ServerAddress], new: &[ServerAddress]) -> Vec<Option<usize>> {
    old.iter().map(|server| new.iter().position(|other| other == server)).collect()
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;

    use proptest::prelude::*;
    use zk_proto::SessionId;

    use super::*;

    fn server(host: impl Into<String>) -> ServerAddress {
        ServerAddress { host: host.into(), port: 2181 }
    }

    fn config(version: u64, hosts: &[&str]) -> String {
        let servers = hosts.iter().map(|host| format!("server.1={host}:1:1;2181\n"));
        servers.collect::<String>() + &format!("version={version:x}")
    }

    fn connected(server: usize) -> State {
        State::Connected { server, session: SessionId(1) }
    }

    /// A follower and the list of its session.
    struct World {
        follower: ConfigFollower,
        servers: Vec<ServerAddress>,
        current: Option<ServerAddress>,
        replacements: usize,
    }

    impl World {
        fn new(hosts: &[&str]) -> Self {
            let servers: Vec<_> = hosts.iter().copied().map(server).collect();
            let follower = ConfigFollower::new(servers.clone());
            Self { follower, servers, current: None, replacements: 0 }
        }

        fn poll(&mut self) {
            let replaced = self.follower.poll_servers(&self.servers, self.current.as_ref());
            self.replacements += usize::from(replaced.is_some());
            self.servers = replaced.unwrap_or(core::mem::take(&mut self.servers));
        }

        fn connect(&mut self, host: &str) {
            let place = self.servers.iter().position(|it| it.host == host).expect("in the list");
            self.current = Some(server(host));
            self.follower.handle_state(connected(place));
            self.poll();
            self.read(None);
        }

        /// Answers the request, if there is one.
        fn read(&mut self, data: Option<&str>) -> bool {
            let wants = self.follower.wants_config();
            if wants {
                self.follower.handle_requested();
                self.follower.handle_config(data.map(str::as_bytes));
                self.poll();
            }
            wants
        }

        /// Changes the configuration under a watch.
        fn change(&mut self, version: u64, hosts: &[&str]) {
            self.follower.handle_watch(true);
            assert!(self.read(Some(&config(version, hosts))));
        }

        fn fail(&mut self, host: &str) {
            self.current = self.current.take().filter(|current| current.host != host);
            self.follower.handle_failed(&server(host));
            self.poll();
        }

        fn fail_all(&mut self) {
            for server in self.servers.clone() {
                self.fail(&server.host);
            }
        }

        fn hosts(&self) -> Vec<&str> {
            let mut hosts: Vec<_> = self.servers.iter().map(|server| &server.host[..]).collect();
            hosts.sort_unstable();
            hosts
        }
    }

    #[test]
    fn the_list_follows_newer_configurations() {
        let mut world = World::new(&["a", "b"]);
        assert!(!world.follower.wants_config(), "there is no connection");
        world.connect("a");
        world.change(7, &["a", "b"]);
        assert_eq!(world.replacements, 0, "the list is the same");
        assert!(!world.follower.has_changed, "no session has to move");
        world.change(8, &["a", "c", "d"]);
        assert!(world.follower.has_changed);
        assert_eq!(world.hosts(), ["a", "c", "d"]);
        for version in [0, 7, 8] {
            world.change(version, &["e"]);
        }
        world.change(9, &[]);
        assert_eq!((world.hosts(), world.replacements), (vec!["a", "c", "d"], 1));
        world.change(9, &["d"]);
        assert_eq!(world.hosts(), ["a", "d"], "the current server stays");
        world.fail("a");
        assert_eq!(world.hosts(), ["a", "d"]);
        world.connect("d");
        assert_eq!(world.hosts(), ["d"]);
    }

    #[test]
    fn servers_that_show_no_configuration_change_nothing_and_the_next_one_is_asked() {
        let mut world = World::new(&["a", "b"]);
        world.connect("a");
        assert!(!world.read(Some("unused")), "one request for each connection");
        world.fail("a");
        world.current = Some(server("b"));
        world.follower.handle_state(State::ReadOnly { server: 1, session: SessionId(1) });
        assert!(!world.follower.wants_config(), "it may be old");
        world.follower.handle_state(connected(1));
        assert!(world.read(Some("version=5")));
        assert_eq!((world.hosts(), world.replacements), (vec!["a", "b"], 0));
        // The watch is set, so the next connection needs no request.
        world.follower.handle_state(State::Suspended);
        world.follower.handle_state(connected(0));
        assert!(!world.follower.wants_config());
    }

    #[test]
    fn the_history_of_another_session_may_be_older() {
        let mut world = World::new(&["a"]);
        world.connect("a");
        world.change(7, &["a", "b"]);
        world.follower.handle_state(State::Renewing);
        world.follower.handle_watch(false);
        assert!(!world.follower.wants_config());
        world.fail_all();
        world.current = Some(server("a"));
        world.follower.handle_state(connected(0));
        assert!(world.read(Some(&config(3, &["a", "c"]))));
        assert_eq!(world.hosts(), ["a", "c"]);
    }

    #[test]
    fn addresses_out_of_reach_do_not_lock_the_client_out() {
        let mut world = World::new(&["name", "other"]);
        world.connect("name");
        world.change(1, &["10.0.0.1", "10.0.0.2"]);
        assert_eq!(world.hosts(), ["10.0.0.1", "10.0.0.2", "name"]);
        world.fail("name");
        world.fail("10.0.0.1");
        assert_eq!(world.servers.len(), 3, "one is left to try");
        world.fail("10.0.0.2");
        assert_eq!(world.hosts(), ["10.0.0.1", "10.0.0.2", "name", "other"]);
        world.fail_all();
        world.fail_all();
        assert_eq!(world.replacements, 2, "there are no more");
        world.connect("other");
        assert_eq!(world.hosts(), ["10.0.0.1", "10.0.0.2", "other"]);
    }

    #[test]
    fn a_list_of_the_program_holds_until_there_is_a_newer_configuration() {
        let mut world = World::new(&["a"]);
        world.connect("a");
        world.change(1, &["b"]);
        world.servers = Vec::from([server("x")]);
        world.follower.set_servers(world.servers.clone());
        world.connect("x");
        world.fail_all();
        world.connect("x");
        world.change(1, &["b"]);
        assert_eq!(world.hosts(), ["x"]);
        world.change(2, &["b"]);
        world.fail_all();
        world.connect("b");
        world.fail_all();
        assert_eq!(world.hosts(), ["b", "x"], "and then it is what the connection string was");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Connect(usize),
        Fail(usize),
        Change(u64, Vec<usize>),
        SetServers(Vec<usize>),
    }

    fn step() -> impl Strategy<Value = Step> {
        let hosts = || proptest::collection::vec(0..6_usize, 1..4);
        prop_oneof![
            (0..9_usize).prop_map(Step::Connect),
            (0..9_usize).prop_map(Step::Fail),
            (0..5_u64, hosts()).prop_map(|(version, hosts)| Step::Change(version, hosts)),
            hosts().prop_map(Step::SetServers),
        ]
    }

    proptest! {
        /// After any history: if all servers fail, every known address is tried.
        #[test]
        fn any_server_that_was_named_is_found(steps in proptest::collection::vec(step(), 0..20)) {
            const HOSTS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
            let hosts = |places: &[usize]| places.iter().map(|it| HOSTS[*it]).collect::<Vec<_>>();
            let mut world = World::new(&["a", "b"]);
            for step in steps {
                let any = |place: usize| world.servers[place % world.servers.len()].host.clone();
                match step {
                    Step::Connect(place) => {
                        let host = any(place);
                        world.connect(&host);
                    }
                    Step::Fail(place) => {
                        let host = any(place);
                        world.fail(&host);
                    }
                    Step::Change(version, servers) if world.current.is_some() => {
                        world.change(version, &hosts(&servers));
                    }
                    Step::Change(..) => {}
                    Step::SetServers(servers) => {
                        world.servers = hosts(&servers).into_iter().map(server).collect();
                        world.current = None;
                        world.follower.set_servers(world.servers.clone());
                    }
                }
                prop_assert!(!world.servers.is_empty());
                let current = world.current.iter();
                prop_assert!(current.clone().all(|it| world.servers.contains(it)));
            }
            world.current = None;
            world.fail_all();
            let follower = &world.follower;
            let all = || follower.named.iter().chain(&follower.followed);
            prop_assert!(all().all(|server| world.servers.contains(server)));
            let before = world.replacements;
            world.fail_all();
            prop_assert_eq!(world.replacements, before);
        }
    }
}
