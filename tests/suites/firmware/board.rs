//! A board in QEMU.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use zk_testkit::suite::HANG_TIMEOUT;
use zk_testkit::turns::Turn;

use super::modem;

/// A board that runs a program. Dropping it cuts its power.
pub(super) struct Board {
    qemu: Child,
    lines: UnboundedReceiver<String>,
    /// All lines so far.
    pub(super) log: Vec<String>,
}

impl Board {
    /// Switches a board on whose modem reaches these servers.
    pub(super) async fn start(image: &Path, servers: Vec<SocketAddr>) -> Self {
        let modem = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let mut qemu = Command::new("qemu-system-arm");
        qemu.args(["-machine", "lm3s6965evb", "-display", "none", "-monitor", "none"]);
        qemu.arg("-serial").arg(format!("tcp:{}", modem.local_addr().expect("bound")));
        qemu.args(["-semihosting-config", "enable=on,target=native", "-kernel"]).arg(image);
        let mut qemu = qemu.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("QEMU runs");
        let output = BufReader::new(qemu.stdout.take().expect("piped"));
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        let uart = tokio::time::timeout(HANG_TIMEOUT, modem.accept()).await;
        let (uart, _) = uart.expect("QEMU connects").expect("a connection");
        uart.set_nodelay(true).expect("a socket");
        tokio::spawn(modem::run(uart, servers));
        Self { qemu, lines, log: Vec::new() }
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

    /// Waits for the end of the program.
    pub(super) async fn end(mut self) -> ExitStatus {
        while self.next_line().await.is_some() {}
        self.qemu.wait().expect("an ended process")
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // The program may have ended by itself.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}
