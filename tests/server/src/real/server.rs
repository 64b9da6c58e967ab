//! One server: its process, its configuration and its disk.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use super::Settings;
use super::disk::Disk;
use crate::ports::Port;

/// How long a server may take until it serves.
const HANG_TIMEOUT: Duration = Duration::from_secs(180);
/// How often to ask a server whether it serves.
const INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// Its line in the configuration of the ensemble.
    pub(super) line: String,
    pub(super) class_path: String,
    pub(super) directory: PathBuf,
    pub(super) disk: Option<Disk>,
    pub(super) child: Option<Child>,
    _ports: [Port; 3],
}

impl Server {
    /// Reserves the ports of the server with this id.
    pub(super) fn new(
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

    pub(super) fn configure(&self, settings: &Settings, quorum: &str) -> io::Result<()> {
        let configuration = configure(settings, &self.directory, self.address, quorum);
        fs::write(self.directory.join("zoo.cfg"), configuration)
    }

    /// Runs `java`, in the namespace of this server.
    pub(super) fn spawn(&mut self, mut java: Command, settings: &Settings) -> io::Result<()> {
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

    pub(super) fn kill(&mut self) -> io::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// By the shell's `kill`, which needs no foreign function.
    pub(super) fn signal(&self, signal: &str) -> io::Result<()> {
        let child = self.child.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let send = format!("kill -s {signal} {}", child.id());
        let status = Command::new("sh").args(["-c", &send]).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(send)) }
    }

    pub(super) fn wait_until_it_serves(&mut self) -> io::Result<()> {
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
    pub(super) fn exit_error(&mut self) -> Option<io::Error> {
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

    pub(super) fn disk(&self) -> io::Result<&Disk> {
        self.disk.as_ref().ok_or_else(|| io::Error::other("a disk that is never full"))
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }
}

pub(super) fn four_letter(server: SocketAddr, word: &str) -> io::Result<String> {
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
}
