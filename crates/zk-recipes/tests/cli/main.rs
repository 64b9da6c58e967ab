//! Tests of `zk-lock` as a user runs it, on the embedded ensemble.

mod doctor;
mod ends;
#[cfg(target_os = "linux")]
mod flock;
mod help;
mod hold;
mod outages;
mod periods;
#[cfg(target_os = "linux")]
mod processes;
mod run;
#[cfg(target_os = "linux")]
mod scenes;
#[cfg(target_os = "linux")]
mod services;
mod settings;
mod show;
#[cfg(target_os = "linux")]
mod terminal;
mod top;

use std::io::Read as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use zk_recipes::session::Client;
use zk_testkit::serve::Embedded;
use zk_testkit::server::Config;
use zk_testkit::watchdog::Watchdog;

const PATH: &str = "/locks/cli";
/// The longest time that any step may take. Sessions of [`LONG`] do not expire within it.
const LIMIT: Duration = Duration::from_secs(20);
const LONG: [&str; 2] = ["--session-timeout", "40"];
/// A tick so long that no session expires: it ends centuries after the first second of 1970.
const ENDLESS: Duration = Duration::from_secs(1 << 33);

struct World {
    runtime: Runtime,
    embedded: Embedded,
    _watchdog: Watchdog,
}

impl World {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let embedded = runtime.block_on(Embedded::with_config(config)).expect("loopback");
        Self { runtime, embedded, _watchdog: Watchdog::start() }
    }

    fn client(&self) -> Client {
        let at = self.embedded.connect_string();
        self.runtime.block_on(Client::connect(&at)).expect("connected")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = unignoring(env!("CARGO_BIN_EXE_zk-lock"));
        command.args(["--connect", &self.embedded.connect_string()]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        ended(self.command(arguments).spawn().expect("zk-lock starts"))
    }

    /// Returns the names of all lock nodes.
    fn contenders(&self) -> Vec<String> {
        self.embedded.with(|ensemble| {
            let is_node = |path: &&str| path.starts_with(PATH) && path.contains("/_c_");
            ensemble.paths().filter(is_node).map(str::to_owned).collect()
        })
    }

    /// Deletes the holder's node, once the holder watches it.
    fn break_lock(&self) {
        // The holder watches its own node after a moment.
        self.eventually("a watch", |world| world.embedded.with(|ensemble| ensemble.watches()) == 1);
        let node = self.contenders().remove(0);
        let client = self.client();
        self.runtime.block_on(client.delete(&node, None)).expect("deleted");
    }

    /// Expires all sessions.
    fn expire_all(&self) {
        let sessions: Vec<_> = self.embedded.with(|ensemble| ensemble.sessions().collect());
        for session in sessions {
            self.embedded.expire_session(session);
        }
    }

    fn eventually(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !condition(self) {
            assert!(begun.elapsed() < LIMIT, "timed out waiting for {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Returns a command that starts `program` with no signal ignored. The tests may run below `nohup`,
/// and programs inherit ignored signals.
fn unignoring(program: &str) -> Command {
    if cfg!(target_os = "linux") {
        let mut command = Command::new("env");
        command.args(["--default-signal", program]);
        command
    } else {
        Command::new(program)
    }
}

/// Waits for the line `ready`.
fn ready(child: &mut Child) {
    let mut line = [0; 6];
    child
        .stdout
        .as_mut()
        .expect("piped")
        .read_exact(&mut line)
        .expect("the command prints `ready`");
    assert_eq!(&line, b"ready\n");
}

fn send(signal: &str, process: &str) {
    let sent = Command::new("kill").args([signal, process]).status().expect("kill runs");
    assert!(sent.success(), "{signal}");
}

/// Waits for a process that ends by itself.
#[track_caller]
fn ended(child: Child) -> Output {
    ended_by(child, |_| {})
}

/// Waits for the end of a process, and calls `repeat` every 20 ms meanwhile.
#[track_caller]
fn ended_by(mut child: Child, repeat: impl Fn(&Child)) -> Output {
    let begun = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if begun.elapsed() > LIMIT {
            child.kill().expect("a running child");
            panic!("the process does not end");
        }
        repeat(&child);
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().expect("an ended child")
}

/// Starts a command with open pipes, and waits for its end.
#[track_caller]
fn output(mut command: Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    ended(command.spawn().expect("it starts"))
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the JSON objects of an output, whose fields the documentation lists.
#[track_caller]
fn objects(output: &str) -> Vec<serde_json::Value> {
    let page = include_str!("../../../../docs/zk-lock.md");
    let object = |line| -> serde_json::Value {
        let object: serde_json::Value = serde_json::from_str(line).expect("an object");
        for field in object.as_object().expect("an object").keys() {
            assert!(page.contains(&format!("`{field}`")), "{field}");
        }
        object
    };
    output.lines().map(object).collect()
}

/// Returns the report of `doctor` with its long lines in one piece. None is longer than a terminal is
/// wide, except for commands.
#[track_caller]
fn report(output: &Output) -> String {
    let text = out(output);
    let is_long = |line: &&str| line.chars().count() > 80 && !line.starts_with('`');
    assert_eq!(text.lines().find(is_long), None, "{text}");
    let (facts, advice) = text.trim_end().rsplit_once("\n\n").expect("an advice");
    format!("{}\n\n{}\n", facts.replace("\n          ", " "), advice.replace('\n', " "))
}

/// Returns the error message, which has one line at most.
#[track_caller]
fn error_message(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.lines().count() <= 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn errors_are_one_line() {
    let world = World::new();
    for (arguments, code, part) in [
        (&["--connect-timeout", "0.1", "--connect", "127.0.0.1:1", "ls", "/a"][..], 69, ":1"),
        (&["--connect", "::", "ls", "/a"], 64, "::"),
        (&["run", "relative", "--", "true"], 64, "'relative': a path"),
        (&["ls", "/a/"], 64, "'/a/': a path"),
        (&["break", "/a", "--yes", "--node", "lock-7"], 70, "no contender 'lock-7' in /a"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zk-lock"));
        if !arguments.contains(&"--connect") {
            command.args(["--connect", &world.embedded.connect_string()]);
        }
        let output = command.args(arguments).output().expect("zk-lock starts");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(error_message(&output).contains(part), "{}", error_message(&output));
    }
}
