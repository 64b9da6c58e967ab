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
