//! A real ZooKeeper that tests start and stop.
//!
//! Needs `java` and the jars of ZooKeeper: by default those of the Debian package `zookeeper`, which
//! is 3.8.0. `ZK_CLASSPATH`, such as `/opt/apache-zookeeper-3.9.5-bin/lib/*`, replaces them.
//! `ZK_VERSIONS` selects a version whose jars are in `target/zookeeper-<version>`, below the current
//! folder or one above it. The variable `ZK_REAL` says what happens without any: `require` fails,
//! `skip` always skips, and unset skips with a message.

mod disk;
mod network;

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use std::{env, thread};

use tempfile::TempDir;

use self::disk::Disk;
pub use self::network::End;
use self::network::Network;
use crate::ports::Port;
use crate::server::Version;
use crate::skipped::skip;

/// The version of the Debian package.
const PACKAGED: &str = "3.8.0";
/// The manifest of this jar names the others.
const SERVER_JAR: &str = "/usr/share/java/zookeeper.jar";
/// Sends the server's log to its standard error.
const LOG_JAR: &str = "/usr/share/java/slf4j-simple.jar";
/// What TLS needs of Netty, and the manifest of ZooKeeper's jar does not name.
const CODEC_JAR: &str = "/usr/share/java/netty-codec.jar";
/// How long a server may take until it serves.
const HANG_TIMEOUT: Duration = Duration::from_secs(180);
/// How often to ask a server whether it serves.
const INTERVAL: Duration = Duration::from_millis(50);

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

/// Returns the folder with the jars of the version in `ZK_VERSIONS`, or `None` for the packaged one.
///
/// # Errors
///
/// If the folder does not exist.
///
/// # Panics
///
/// If `ZK_VERSIONS` lists several versions: a process tests one.
pub fn fetched_jars() -> Result<Option<PathBuf>, String> {
    let versions = env::var("ZK_VERSIONS").unwrap_or_else(|_| PACKAGED.into());
    assert!(!versions.contains(','), "a process tests one version: ZK_VERSIONS={versions}");
    jars_of(&versions)
}

/// Returns the folder with the jars of a version, or `None` for the packaged one.
fn jars_of(version: &str) -> Result<Option<PathBuf>, String> {
    if version == PACKAGED {
        return Ok(None);
    }
    let here = env::current_dir().map_err(|error| error.to_string())?;
    let jars = Path::new("target").join(format!("zookeeper-{version}"));
    match here.ancestors().map(|folder| folder.join(&jars)).find(|found| found.is_dir()) {
        Some(found) => Ok(Some(found)),
        None => Err(format!("{} does not exist, here or above", jars.display())),
    }
}

/// Returns whether the jars of a version are here.
pub fn has_version(version: &str) -> bool {
    jars_of(version).and_then(class_path).is_ok()
}

/// Returns the class path of a version, or of the one that the environment selects.
fn find(version: Option<&str>) -> Result<String, String> {
    let java = Command::new("java").arg("-version").stderr(Stdio::null()).status();
    if !java.is_ok_and(|status| status.success()) {
        return Err("`java` does not run".into());
    }
    match (version, env::var("ZK_CLASSPATH")) {
        (Some(version), _) => class_path(jars_of(version)?),
        (None, Ok(class_path)) => Ok(class_path),
        (None, Err(_)) => class_path(fetched_jars()?),
    }
}

/// Returns the class path of the jars in a folder, or of the packaged ones.
fn class_path(jars: Option<PathBuf>) -> Result<String, String> {
    match jars {
        Some(jars) => Ok(format!("{}/*", jars.display())),
        None if Path::new(SERVER_JAR).exists() => Ok(format!("{SERVER_JAR}:{LOG_JAR}:{CODEC_JAR}")),
        None => Err(format!("{SERVER_JAR} does not exist, and ZK_CLASSPATH is not set")),
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
    or_skip(|| find(None))?;
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
        find(self.version.as_deref())
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

#[derive(Debug)]
struct Server {
    address: SocketAddr,
    /// Its line in the configuration of the ensemble.
    line: String,
    class_path: String,
    directory: PathBuf,
    disk: Option<Disk>,
    child: Option<Child>,
    _ports: [Port; 3],
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
        let class_path = jars_of(version).and_then(class_path).map_err(io::Error::other)?;
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

impl Server {
    /// Reserves the ports of the server with this id.
    fn new(
        settings: &Settings,
        id: usize,
        host: Ipv4Addr,
        directory: PathBuf,
        disk: Option<Disk>,
        class_path: &str,
    ) -> io::Result<Self> {
        let ports = [Port::reserve()?, Port::reserve()?, Port::reserve()?];
        let [client, peer, election] = ports.each_ref().map(Port::number);
        let mut line = format!("server.{id}={host}:{peer}:{election}");
        if settings.is_dynamic {
            line += &format!(";{host}:{client}");
        }
        fs::write(directory.join("data/myid"), format!("{id}\n"))?;
        let address = SocketAddr::new(host.into(), client);
        let (line, class_path) = (line + "\n", class_path.to_owned());
        Ok(Self { address, line, class_path, directory, disk, child: None, _ports: ports })
    }

    fn configure(&self, settings: &Settings, quorum: &str) -> io::Result<()> {
        let configuration = configure(settings, &self.directory, self.address, quorum);
        fs::write(self.directory.join("zoo.cfg"), configuration)
    }

    /// Runs `java`, in the namespace of this server.
    fn spawn(&mut self, mut java: Command, settings: &Settings) -> io::Result<()> {
        let log = File::options().create(true).append(true).open(self.log())?;
        let child = java
            .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .arg("-Djava.awt.headless=true")
            .arg("-Dzookeeper.admin.enableServer=false")
            .arg("-Dzookeeper.extendedTypesEnabled=true")
            .arg(format!("-Dzookeeper.skipACL={}", if settings.is_dynamic { "yes" } else { "no" }))
            .args(settings.properties.iter().map(|property| format!("-D{property}")))
            // For releases that log by Log4j, which otherwise reports errors only.
            .arg("-Dorg.apache.logging.log4j.level=INFO")
            .args(["-cp", &self.class_path])
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(self.directory.join("zoo.cfg"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.child = Some(child);
        Ok(())
    }

    fn kill(&mut self) -> io::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// By the shell's `kill`, which needs no foreign function.
    fn signal(&self, signal: &str) -> io::Result<()> {
        let child = self.child.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let send = format!("kill -s {signal} {}", child.id());
        let status = Command::new("sh").args(["-c", &send]).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(send)) }
    }

    fn wait_until_it_serves(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + HANG_TIMEOUT;
        loop {
            if self.serves() {
                return Ok(());
            }
            if let Some(error) = self.exit_error() {
                return Err(error);
            }
            if Instant::now() > deadline {
                return Err(self.failure("does not serve"));
            }
            thread::sleep(INTERVAL);
        }
    }

    /// Returns whether this server serves. Another one on its port would have another data folder.
    fn serves(&self) -> bool {
        let answers = |word, with: &str| {
            four_letter(self.address, word).is_ok_and(|answer| answer.contains(with))
        };
        // Without a quorum a server answers without a mode.
        answers("srvr", "Mode: ") && answers("conf", &format!("{}/data/", self.directory.display()))
    }

    /// Returns an error with the exit status and the end of the log, if the process has ended by itself.
    fn exit_error(&mut self) -> Option<io::Error> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        Some(self.failure(&format!("ended with {status}")))
    }

    fn failure(&self, what: &str) -> io::Error {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(30)..].join("\n");
        io::Error::other(format!(
            "ZooKeeper at {} {what}; its log ends with:\n{tail}",
            self.address
        ))
    }

    fn disk(&self) -> io::Result<&Disk> {
        self.disk.as_ref().ok_or_else(|| io::Error::other("a disk that is never full"))
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }
}

fn four_letter(server: SocketAddr, word: &str) -> io::Result<String> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    let mut stream = BufReader::new(stream);
    // ZooKeeper 3.8.0 may leave the connection open behind this line while it starts.
    while !answer.ends_with("not currently serving requests\n")
        && stream.read_line(&mut answer)? > 0
    {}
    Ok(answer)
}

fn configure(settings: &Settings, directory: &Path, address: SocketAddr, quorum: &str) -> String {
    let client = match settings.is_dynamic {
        true => "reconfigEnabled=true\nstandaloneEnabled=false".to_owned(),
        false => format!("clientPort={}\nclientPortAddress={}", address.port(), address.ip()),
    };
    format!(
        "tickTime={tick}\n\
         initLimit=20\n\
         syncLimit=10\n\
         dataDir={data}\n\
         {client}\n\
         maxClientCnxns=0\n\
         4lw.commands.whitelist=*\n\
         {quorum}{extra}\n",
        tick = settings.tick.as_millis(),
        data = directory.join("data").display(),
        extra = settings.extra,
    )
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
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_answer_of_a_server_that_starts_needs_no_end() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let server = listener.local_addr().expect("it is bound");
        let answering = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let line = b"This ZooKeeper instance is not currently serving requests\n";
            stream.write_all(line).expect("the peer reads");
            stream
        });
        let answer = four_letter(server, "srvr").expect("an answer");
        assert!(answer.ends_with("not currently serving requests\n"), "{answer}");
        // It has stayed open.
        drop(answering.join().expect("no panic"));
    }

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
