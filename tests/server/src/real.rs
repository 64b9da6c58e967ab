//! A real ZooKeeper that tests start and stop.
//!
//! Needs `java` and the jars of ZooKeeper: by default those of the Debian package `zookeeper`, which
//! is 3.8.0. `ZK_CLASSPATH`, such as `/opt/apache-zookeeper-3.9.5-bin/lib/*`, replaces them.
//! `ZK_VERSIONS` selects a version whose jars are in `target/zookeeper-<version>`, below the current
//! folder or one above it. The variable `ZK_REAL` says what happens without any: `require` fails,
//! `skip` always skips, and unset skips with a message.

mod disk;
mod jars;
mod network;
mod server;

use core::net::Ipv4Addr;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, thread};
use std::{fs, io};

use tempfile::TempDir;

use self::disk::Disk;
pub use self::jars::{fetched_jars, has_version};
pub use self::network::End;
use self::network::Network;
use self::server::{Server, four_letter};
use crate::server::Version;
use crate::skipped::skip;

/// Returns the result of `find`. Without one, or with `ZK_REAL=skip`, prints that the test is
/// skipped.
///
/// # Panics
///
/// If `ZK_REAL=require` and `find` fails.
pub fn or_skip<T>(find: impl FnOnce() -> Result<T, String>) -> Option<T> {
    let wish = env::var("ZK_REAL").unwrap_or_default();
    let found = if wish == "skip" { Err("ZK_REAL=skip".into()) } else { find() };
    match found {
        Ok(found) => Some(found),
        Err(reason) if wish == "require" => {
            panic!(
                "ZK_REAL=require, but {reason}; install the package `zookeeper`, or set ZK_CLASSPATH"
            )
        }
        Err(reason) => {
            skip(reason);
            None
        }
    }
}

/// Starts a real ensemble, or prints that the test is skipped.
///
/// # Panics
///
/// If `ZK_REAL=require` and ZooKeeper is missing, or if a server does not start.
pub fn ensemble_or_skip(servers: usize) -> Option<RealEnsemble> {
    ensemble_with_or_skip(Settings { servers, ..Settings::default() })
}

/// Starts an [isolated](Settings::is_isolated) real ensemble, or prints that the test is skipped:
/// also if the system does not let this process make networks and disks.
///
/// # Panics
///
/// If `ZK_REAL=require` and ZooKeeper is missing, or if a server does not start.
pub fn isolated_or_skip(servers: usize) -> Option<RealEnsemble> {
    or_skip(|| jars::find(None))?;
    match can_isolate() {
        Ok(()) => {
            ensemble_with_or_skip(Settings { servers, is_isolated: true, ..Settings::default() })
        }
        Err(error) => {
            skip(format_args!("servers cannot be isolated, which takes Linux and root: {error}"));
            None
        }
    }
}

fn can_isolate() -> io::Result<()> {
    let folder = TempDir::with_prefix("zookeeper-")?;
    Network::start(1)?;
    Disk::mount(folder.path()).map(drop)
}

/// Starts a real ensemble with these settings, like [`ensemble_or_skip`].
///
/// Its servers do not wait for their disks. Killed servers lose nothing by that.
///
/// # Panics
///
/// Those of [`ensemble_or_skip`].
pub fn ensemble_with_or_skip(mut settings: Settings) -> Option<RealEnsemble> {
    settings.properties.push("zookeeper.forceSync=no".into());
    let class_path = or_skip(|| settings.class_path())?;
    match RealEnsemble::run(settings, class_path) {
        Ok(ensemble) => Some(ensemble),
        Err(error) => panic!("the real ZooKeeper does not start: {error}"),
    }
}

/// Settings of a [`RealEnsemble`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// The number of servers: 1 is a standalone server, more form a quorum.
    pub servers: usize,
    /// The server's `tickTime`. Session timeouts are between 2 and 20 ticks.
    pub tick: Duration,
    /// Additional lines for the configuration file of every server, which must allow the four-letter
    /// words `srvr` and `conf`.
    pub extra: String,
    /// Additional system properties for every server, as `name=value`.
    pub properties: Vec<String>,
    /// The first version of all servers. Without one, `ZK_VERSIONS` selects it.
    pub version: Option<String>,
    /// Whether servers can [join](RealEnsemble::start_another) and leave by `reconfig`, which anyone may
    /// request.
    pub is_dynamic: bool,
    /// Whether each server has a network namespace and a disk of its own, which can
    /// [lose packets](RealEnsemble::lose) and be [full](RealEnsemble::fill_disk). Needs Linux and
    /// root.
    pub is_isolated: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            servers: 1,
            tick: Duration::from_millis(500),
            extra: String::new(),
            properties: Vec::new(),
            version: None,
            is_dynamic: false,
            is_isolated: false,
        }
    }
}

impl Settings {
    fn class_path(&self) -> Result<String, String> {
        jars::find(self.version.as_deref())
    }
}

/// Real servers on free ports of the loopback interface, or of interfaces of their own. Dropping the ensemble kills them and
/// removes their data.
#[derive(Debug)]
pub struct RealEnsemble {
    settings: Settings,
    servers: Vec<Server>,
    /// Declared behind the servers, which end before it is removed.
    network: Option<Network>,
    /// Removed when dropped, unless it is kept.
    directory: TempDir,
}

impl RealEnsemble {
    /// Starts an ensemble, and waits until every server serves.
    ///
    /// # Errors
    ///
    /// If ZooKeeper is missing, or a server does not serve in time. The error has the end of its
    /// log.
    pub fn start(servers: usize) -> io::Result<Self> {
        Self::with_settings(Settings { servers, ..Settings::default() })
    }

    /// Starts an ensemble with these settings, and waits until every server serves.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start).
    pub fn with_settings(settings: Settings) -> io::Result<Self> {
        let class_path = settings.class_path().map_err(io::Error::other)?;
        Self::run(settings, class_path)
    }

    fn run(settings: Settings, class_path: String) -> io::Result<Self> {
        let directory = TempDir::with_prefix("zookeeper-")?;
        let count = settings.servers.max(1);
        let network = settings.is_isolated.then(|| Network::start(count)).transpose()?;
        let host = |number| match &network {
            Some(network) => network.address(End::Server(number)),
            None => Ipv4Addr::LOCALHOST,
        };
        let mut servers = Vec::new();
        for number in 0..count {
            let directory = directory.path().join(format!("{}", number + 1));
            fs::create_dir_all(directory.join("data"))?;
            let disk =
                settings.is_isolated.then(|| Disk::mount(&directory.join("data"))).transpose()?;
            servers.push(Server::new(
                &settings,
                number + 1,
                host(number),
                directory,
                disk,
                &class_path,
            )?);
        }
        let quorum: String = match count {
            1 if !settings.is_dynamic => String::new(),
            _ => servers.iter().map(|server| server.line.clone()).collect(),
        };
        servers.iter().try_for_each(|server| server.configure(&settings, &quorum))?;
        let mut ensemble = Self { settings, servers, network, directory };
        ensemble.restart_all()?;
        ensemble.wait_until_all_serve()?;
        Ok(ensemble)
    }

    /// Starts a server that is not in the configuration of the ensemble, and waits until it serves.
    /// Returns its number, and its line to join by `reconfig`.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start).
    ///
    /// # Panics
    ///
    /// If the ensemble is not [dynamic](Settings::is_dynamic).
    pub fn start_another(&mut self) -> io::Result<(usize, String)> {
        assert!(self.settings.is_dynamic, "its servers are fixed");
        let number = self.servers.len();
        let directory = self.directory.path().join(format!("{}", number + 1));
        fs::create_dir_all(directory.join("data"))?;
        let class_path = self.settings.class_path().map_err(io::Error::other)?;
        let host = Ipv4Addr::LOCALHOST;
        let new = Server::new(&self.settings, number + 1, host, directory, None, &class_path)?;
        self.servers.push(new);
        let running = |server: &&Server| server.child.is_some();
        let others = self.servers.iter().filter(running).map(|server| server.line.as_str());
        let line = self.servers[number].line.clone();
        let quorum: String = others.chain([&*line]).collect();
        self.servers[number].configure(&self.settings, &quorum)?;
        self.spawn(number)?;
        self.servers[number].wait_until_it_serves()?;
        Ok((number, line))
    }

    /// Returns the connect string of all servers.
    pub fn connect_string(&self) -> String {
        let addresses: Vec<_> =
            (0..self.servers.len()).map(|server| self.address(server)).collect();
        addresses.join(",")
    }

    /// Returns the address of one server.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn address(&self, server: usize) -> String {
        self.servers[server].address.to_string()
    }

    /// Kills a server at once, as a power failure would.
    ///
    /// # Errors
    ///
    /// If the process cannot be killed.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn kill(&mut self, server: usize) -> io::Result<()> {
        self.servers[server].kill()
    }

    /// Starts a server again with the data it had, and waits until it serves.
    ///
    /// # Errors
    ///
    /// If it does not serve in time. The error has the end of its log.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn restart(&mut self, server: usize) -> io::Result<()> {
        self.servers[server].kill()?;
        self.spawn(server)?;
        self.servers[server].wait_until_it_serves()
    }

    /// Restarts a server with the jars of another version, and waits until it serves.
    ///
    /// # Errors
    ///
    /// If the version is missing, or `srvr` reports another one, and those of [`restart`](Self::restart).
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn change_version(&mut self, server: usize, version: &str) -> io::Result<()> {
        let class_path = jars::of_version(version).map_err(io::Error::other)?;
        self.servers[server].class_path = class_path;
        self.restart(server)?;
        let answer = self.four_letter(server, "srvr")?;
        match answer.starts_with(&format!("Zookeeper version: {version}")) {
            true => Ok(()),
            false => Err(io::Error::other(format!("not {version}: {answer}"))),
        }
    }

    /// Kills all servers and starts them again with the data they had. Does not wait until they
    /// serve: none serves before a majority runs.
    ///
    /// # Errors
    ///
    /// If a process cannot be killed or started.
    pub fn restart_all(&mut self) -> io::Result<()> {
        self.servers.iter_mut().try_for_each(Server::kill)?;
        (0..self.servers.len()).try_for_each(|server| self.spawn(server))
    }

    fn spawn(&mut self, server: usize) -> io::Result<()> {
        let java = match &self.network {
            Some(network) => network.command(server, "java"),
            None => Command::new("java"),
        };
        self.servers[server].spawn(java, &self.settings)
    }

    /// Stops the process of a server, with all its connections, until it is
    /// [resumed](Self::resume).
    ///
    /// # Errors
    ///
    /// If the signal cannot be sent.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn pause(&self, server: usize) -> io::Result<()> {
        self.servers[server].signal("STOP")
    }

    /// Continues a [paused](Self::pause) server, for which no time has passed.
    ///
    /// # Errors
    ///
    /// If the signal cannot be sent.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn resume(&self, server: usize) -> io::Result<()> {
        self.servers[server].signal("CONT")
    }

    /// Loses all packets from one end of the network to another, in this direction only, until
    /// [`heal_network`](Self::heal_network).
    ///
    /// # Errors
    ///
    /// If the servers are not [isolated](Settings::is_isolated).
    pub fn lose(&self, from: End, to: End) -> io::Result<()> {
        self.network()?.lose(from, to)
    }

    /// Loses no more packets.
    ///
    /// # Errors
    ///
    /// If the servers are not [isolated](Settings::is_isolated).
    pub fn heal_network(&self) -> io::Result<()> {
        self.network()?.heal()
    }

    fn network(&self) -> io::Result<&Network> {
        self.network.as_ref().ok_or_else(|| io::Error::other("a network that loses nothing"))
    }

    /// Fills the disk of a server, which leaves the others when it logs the next transaction.
    ///
    /// # Errors
    ///
    /// If the servers are not [isolated](Settings::is_isolated).
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn fill_disk(&self, server: usize) -> io::Result<()> {
        self.servers[server].disk()?.fill()
    }

    /// Makes room on the disk of a server.
    ///
    /// # Errors
    ///
    /// If the servers are not [isolated](Settings::is_isolated).
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn extend_disk(&self, server: usize) -> io::Result<()> {
        self.servers[server].disk()?.extend()
    }

    /// Waits until every server serves.
    ///
    /// # Errors
    ///
    /// If one has ended or does not serve in time. The error has the end of its log.
    pub fn wait_until_all_serve(&mut self) -> io::Result<()> {
        self.servers.iter_mut().try_for_each(Server::wait_until_it_serves)
    }

    /// Returns the leader, if a server reports that it leads.
    pub fn leader(&self) -> Option<usize> {
        (0..self.servers.len()).find(|server| {
            self.four_letter(*server, "srvr").is_ok_and(|answer| {
                answer.contains("Mode: leader") || answer.contains("Mode: standalone")
            })
        })
    }

    /// Returns the modelled release that behaves like these servers, from the answer to `srvr`.
    ///
    /// # Panics
    ///
    /// If the first server does not answer, or its release is older than all modelled ones.
    pub fn version(&self) -> Version {
        let answer = self.four_letter(0, "srvr").expect("a server that serves");
        let release = answer.strip_prefix("Zookeeper version: ");
        let version = release.and_then(Version::of_release);
        version.unwrap_or_else(|| panic!("an unknown release: {answer}"))
    }

    /// Returns the answer of a server to a four-letter word, such as `mntr`.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn four_letter(&self, server: usize, word: &str) -> io::Result<String> {
        four_letter(self.servers[server].address, word)
    }

    /// Returns the folder with the transaction log of a server. The servers remove no log.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn log_folder(&self, server: usize) -> PathBuf {
        self.servers[server].directory.join("data/version-2")
    }

    /// Keeps the data and the logs of all servers, and their disks mounted. Returns where.
    pub fn keep(&mut self) -> &Path {
        self.servers.iter_mut().filter_map(|server| server.disk.take()).for_each(Disk::keep);
        self.directory.disable_cleanup(true);
        self.directory.path()
    }
}

impl Drop for RealEnsemble {
    fn drop(&mut self) {
        for server in &mut self.servers {
            if thread::panicking()
                && let Some(error) = server.exit_error()
            {
                eprintln!("{error}");
            }
            // The process may have ended by itself.
            let _ = server.kill();
        }
    }
}

/// Runs a command to its end. Returns what it prints, or fails with what it reports.
fn run(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    let message = || format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(io::Error::other(message())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_not_mistaken_for_another_one_on_its_port() {
        let Some(first) = ensemble_or_skip(1) else { return };
        let mut second = RealEnsemble::start(1).expect("a free port");
        let server = &mut second.servers[0];
        server.address = first.servers[0].address;
        server.configure(&second.settings, "").expect("room on the disk");
        let error = second.restart(0).expect_err("the port is in use").to_string();
        assert!(error.contains("ended with") && error.contains("in use"), "{error}");
    }
}
