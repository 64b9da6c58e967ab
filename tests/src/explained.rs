//! The commands of this workspace as processes: `zk-explain` in front of a server, and the picture
//! that it draws; `zk-lock`, which takes turns with Curator.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::peers::{Process, Runnable};
use crate::real::RealEnsemble;
use crate::suite::{Fixture, eventually};

/// The path of the lock in [`take_turns`].
pub const LOCK: &str = "/locks/shared";

/// Builds `zk-explain`, and returns the path of its binary.
///
/// # Panics
///
/// If it does not build.
pub fn zk_explain() -> PathBuf {
    build("zk-explain", "zk_explain")
}

/// Builds `zk-lock`, and returns the path of its binary.
///
/// # Panics
///
/// If it does not build.
pub fn zk_lock() -> PathBuf {
    build("zk-lock", "cli")
}

/// Builds a command together with the test `suite` of its package. A build of the command alone
/// would have other features, so it would build all dependencies again.
fn build(name: &str, suite: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = root.join("target");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--workspace", "--no-run", "--quiet", "--locked", "--test", suite]);
    if cfg!(feature = "gssapi") {
        cargo.args(["--features", "zk-testkit/gssapi"]);
    }
    cargo.arg("--manifest-path").arg(root.join("Cargo.toml")).arg("--target-dir").arg(&folder);
    // What Cargo tells a test about its package. Build scripts of dependencies, such as that of
    // `ring`, would run again, and everything above them would be built again.
    for (variable, _) in std::env::vars_os() {
        let about_package = ["CARGO_BIN_", "CARGO_CRATE_", "CARGO_MANIFEST_", "CARGO_PKG_"];
        if variable.to_str().is_some_and(|it| about_package.iter().any(|part| it.starts_with(part)))
        {
            cargo.env_remove(variable);
        }
    }
    assert!(cargo.status().expect("cargo runs").success(), "{name} does not build");
    folder.join("debug").join(name)
}

/// `zk-explain` as a proxy in front of a server. Killed when dropped.
#[derive(Debug)]
pub struct Proxy {
    child: Option<Child>,
    address: String,
}

impl Proxy {
    /// Starts a proxy that ends after this number of connections, and records them in `folder` as
    /// `0001`, `0002` and so on.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start(server: &str, connections: usize, folder: &Path) -> Self {
        Self::with_format("lanes", server, connections, folder)
    }

    /// As [`start`](Self::start), for another format.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn with_format(format: &str, server: &str, connections: usize, folder: &Path) -> Self {
        let mut command = Command::new(zk_explain());
        command.args(["--format", format, "--proxy", "127.0.0.1:0", server]);
        command.args(["--connections", &connections.to_string(), "--record"]).arg(folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("zk-explain starts");
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            let remarks = child.stderr.as_mut().expect("piped");
            remarks.read_exact(&mut byte).expect("the address");
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).expect("text");
        let address = line.trim().strip_prefix("listening on ").expect("the address").to_owned();
        Self { child: Some(child), address }
    }

    /// Returns the address of the proxy.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits for the last connection to end, and returns the picture, or the messages.
    ///
    /// # Panics
    ///
    /// If the proxy fails.
    pub fn end(mut self) -> String {
        let output = self.child.take().expect("running").wait_with_output().expect("it ends");
        let remarks = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && remarks.is_empty(), "{remarks}");
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Records a lock that three processes take in turns: `zk-lock`, Curator, and `zk-lock` again.
/// Returns the picture.
///
/// Each waits before the one ahead of it releases the lock.
///
/// # Panics
///
/// If a process fails, or something takes too long.
pub async fn take_turns(server: &RealEnsemble, curator: &Runnable, folder: &Path) -> String {
    let proxy = Proxy::start(&server.address(0), 3, folder);
    let queue = |count, watches| {
        eventually(server, "a waiter", move |server| {
            server.ephemerals().len() == count && server.watches() == watches
        })
    };
    let mut first = Holder::start(proxy.address());
    first.wait_for_lock();
    // A lock held for a moment watches its own node.
    queue(1, 1).await;

    let arguments = [proxy.address(), "mutex", LOCK, "1", "/turns-of-curator"];
    let arguments = arguments.map(str::to_owned).to_vec();
    let mut second = Process::start_all(vec![(curator, arguments)]).remove(0);
    let turns = second.go();
    let watches_first = |server: &RealEnsemble| {
        let watched = server.four_letter(0, "wchp").expect("an answer");
        watched.lines().any(|line| line.starts_with(LOCK))
    };
    eventually(server, "Curator waits", watches_first).await;

    let watches = server.watches();
    let mut third = Holder::start(proxy.address());
    queue(3, watches + 1).await;
    first.release();
    assert_eq!(turns.count(), 1);
    second.end();
    third.wait_for_lock();
    third.release();
    proxy.end()
}

/// A `zk-lock` process that holds a lock until `release`. It is killed when this is dropped.
struct Holder {
    child: Child,
    input: Option<ChildStdin>,
}

impl Holder {
    fn start(server: &str) -> Self {
        let mut command = Command::new(zk_lock());
        // In its own process group, like a job of a shell. Otherwise Linux could send SIGHUP to all
        // processes of the tests when the command ends, since other tests stop servers.
        command.process_group(0);
        command.args(["--connect", server, "--session-timeout", "40"]);
        command.args(["run", LOCK, "--", "sh", "-c", "echo held; read line"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("zk-lock starts");
        let input = child.stdin.take();
        Self { child, input }
    }

    fn wait_for_lock(&mut self) {
        let mut line = [0; 5];
        let output = self.child.stdout.as_mut().expect("piped");
        output.read_exact(&mut line).expect("the command runs");
        assert_eq!(&line, b"held\n");
    }

    fn release(&mut self) {
        let input = self.input.take();
        input.expect("once").write_all(b"\n").expect("the command reads");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It has ended, unless a test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Draws the recordings in a folder, each as a lane, in the order of their names. `options` are
/// those of `zk-explain`, such as `--format svg`.
///
/// # Panics
///
/// If `zk-explain` fails.
pub fn draw(folder: &Path, options: &[&str]) -> String {
    let mut command = Command::new(zk_explain());
    let output = command.args(options).arg(folder).output().expect("zk-explain starts");
    let remarks = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && remarks.is_empty(), "{remarks}");
    String::from_utf8(output.stdout).expect("text")
}

/// A row of a picture with lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The time since the first message, as printed.
    pub time: String,
    /// The lane of a note, or the one where an arrow begins.
    pub from: usize,
    /// The lane where an arrow ends.
    pub to: Option<usize>,
    /// The text.
    pub text: String,
}

/// Reads a picture with lanes. Returns the names of the lanes, and the rows.
///
/// # Panics
///
/// If it is no such picture.
pub fn read(picture: &str) -> (Vec<String>, Vec<Row>) {
    let (head, body) = picture.split_once('\n').expect("the names of the lanes");
    // At least two blanks separate names. The middle of a name is above its lane.
    let names: Vec<_> = head.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect();
    let column = |name: &&str| {
        let start = head.find(name).expect("a part");
        head[..start].chars().count() + name.chars().count() / 2
    };
    let columns: Vec<_> = names.iter().map(column).collect();
    let rows = body.lines().map(|line| row(line, &columns)).collect();
    (names.into_iter().map(str::to_owned).collect(), rows)
}

fn row(line: &str, columns: &[usize]) -> Row {
    let line: Vec<_> = line.chars().collect();
    let text = |from: usize, to: usize| {
        line[from..to].iter().collect::<String>().trim_matches([' ', '═']).to_owned()
    };
    let is_arrow = |it: &char| "═▶◀".contains(*it);
    let lane = |column| columns.iter().position(|it| *it == column).expect("the column of a lane");
    let time = text(0, columns[0]);
    let ends = line.iter().position(is_arrow).zip(line.iter().rposition(is_arrow));
    if let Some((first, last)) = ends {
        let (left, right) = (lane(first - 1), lane(last + 1));
        return match line[first] {
            '◀' => Row { time, from: right, to: Some(left), text: text(first + 1, last) },
            _ => Row { time, from: left, to: Some(right), text: text(first, last) },
        };
    }
    let is_note = |column: &&usize| line.get(**column + 2).is_some_and(|it| *it != ' ');
    let column = *columns.iter().find(is_note).expect("an arrow or a note");
    let end = columns.iter().find(|it| **it > column).map_or(line.len(), |it| line.len().min(*it));
    Row { time, from: lane(column), to: None, text: text(column + 2, end) }
}

/// Returns the rows where one client wakes another.
pub fn wakes(rows: &[Row]) -> Vec<&Row> {
    rows.iter().filter(|row| row.to.is_some()).collect()
}

/// Returns whether the text of a row ends with the time that the reply took.
pub fn has_latency(row: &Row) -> bool {
    let latency = row.text.rsplit_once(" (").and_then(|(_, latency)| latency.strip_suffix(" ms)"));
    latency.is_some_and(|latency| latency.parse::<f64>().is_ok())
}
