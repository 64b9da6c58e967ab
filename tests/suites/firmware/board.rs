//! A board in QEMU, or in Node.js.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};

use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use zk_testkit::suite::HANG_TIMEOUT;
use zk_testkit::turns::Turn;

use super::image::{Program, Size};
use super::modem;

/// A board that runs a program. Dropping it cuts its power.
pub(super) struct Board {
    process: Child,
    folder: TempDir,
    lines: UnboundedReceiver<String>,
    /// All lines so far.
    pub(super) log: Vec<String>,
}

impl Board {
    /// Switches a board on whose modem reaches these servers.
    pub(super) async fn start(program: Program, image: &Path, servers: Vec<SocketAddr>) -> Self {
        let modem = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let folder = tempfile::tempdir().expect("a folder");
        let address = modem.local_addr().expect("bound");
        let mut command = program.run(image, address, &folder.path().join("monitor"));
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it runs");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        let uart = tokio::time::timeout(HANG_TIMEOUT, modem.accept()).await;
        let (uart, _) = uart.expect("the board connects").expect("a connection");
        uart.set_nodelay(true).expect("a socket");
        tokio::spawn(modem::run(uart, servers));
        Self { process, folder, lines, log: Vec::new() }
    }

    /// Returns the next line that the program prints; `None` if it has ended.
    pub(super) async fn next_line(&mut self) -> Option<String> {
        let line = tokio::time::timeout(HANG_TIMEOUT, self.lines.recv()).await;
        let line = line.unwrap_or_else(|_| panic!("the board is silent after {:?}", self.log))?;
        self.log.push(line.clone());
        Some(line)
    }

    /// Waits for a line that begins so, and returns its rest.
    pub(super) async fn wait_for(&mut self, start: &str) -> String {
        while let Some(line) = self.next_line().await {
            if let Some(rest) = line.strip_prefix(start) {
                return rest.to_owned();
            }
        }
        panic!("the program ended before {start:?}: {:?}", self.log);
    }

    /// Returns the turns so far.
    pub(super) fn turns(&self) -> Vec<Turn> {
        self.log.iter().filter_map(|line| line.parse().ok()).collect()
    }

    /// Returns how many bytes of the stack of a Cortex-M3 were used so far, by its memory: QEMU fills
    /// that with zeros.
    pub(super) fn stack(&self, image: &Path) -> usize {
        const RAM: usize = 16 << 10;
        let memory = self.folder.path().join("memory");
        let monitor = UnixStream::connect(self.folder.path().join("monitor"));
        let mut monitor = monitor.expect("QEMU listens");
        let start = Size::RAM_START;
        let save = format!("pmemsave {start} {RAM} \"{}\"\nquit\n", memory.display());
        monitor.write_all(save.as_bytes()).expect("QEMU reads");
        // Until QEMU ends.
        monitor.read_to_end(&mut Vec::new()).expect("QEMU answers");
        let memory = std::fs::read(memory).expect("saved");
        let unused = memory[Size::of(image).ram..].iter().take_while(|byte| **byte == 0).count();
        RAM - Size::of(image).ram - unused
    }

    /// Waits for the end of the program.
    pub(super) async fn end(mut self) -> ExitStatus {
        while self.next_line().await.is_some() {}
        self.process.wait().expect("an ended process")
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // The program may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
