//! `zk-lock`, as a user would use it, on the embedded ensemble.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use zk_recipes::session::Client;
use zk_recipes::{Mutex, Options, RwLock, Semaphore};
use zk_testkit::serve::Embedded;
use zk_testkit::server::Config;

const PATH: &str = "/locks/cli";
/// How long anything may take. Sessions of [`LONG`] are not given up within it.
const LIMIT: Duration = Duration::from_secs(20);
const LONG: [&str; 2] = ["--session-timeout", "40"];

struct World {
    runtime: Runtime,
    embedded: Embedded,
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
        Self { runtime, embedded }
    }

    fn client(&self) -> Client {
        let at = self.embedded.connect_string();
        self.runtime.block_on(Client::connect(&at)).expect("the ensemble answers")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zk-lock"));
        command.args(["--connect", &self.embedded.connect_string()]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the command runs")
    }

    /// The names of all lock nodes.
    fn contenders(&self) -> Vec<String> {
        self.embedded.with(|ensemble| {
            let is_node = |path: &&str| path.starts_with(PATH) && path.contains("/_c_");
            ensemble.paths().filter(is_node).map(str::to_owned).collect()
        })
    }

    fn eventually(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !condition(self) {
            assert!(begun.elapsed() < LIMIT, "it never came to be: {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Waits for the line that it says when it is ready.
fn ready(child: &mut Child) {
    let mut line = [0; 6];
    child.stdout.as_mut().expect("piped").read_exact(&mut line).expect("it says something");
    assert_eq!(&line, b"ready\n");
}

fn send(signal: &str, process: &str) {
    let sent = Command::new("kill").args([signal, process]).status().expect("kill runs");
    assert!(sent.success(), "{signal}");
}

/// Waits for the end of a process that has to end by itself.
#[track_caller]
fn ended(child: Child) -> Output {
    ended_by(child, |_| {})
}

/// Waits for the end of a process that is told, time and again.
#[track_caller]
fn ended_by(mut child: Child, tell: impl Fn(&Child)) -> Output {
    let begun = Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        if begun.elapsed() > LIMIT {
            child.kill().expect("it runs");
            panic!("it never ends");
        }
        tell(&child);
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().expect("it has ended")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it complains of, which is one line at most.
#[track_caller]
fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.lines().count() <= 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn a_command_runs_under_the_lock_and_its_exit_code_is_passed_on() {
    let world = World::new();
    let output = world.run(&["run", PATH, "--", "sh", "-c", "echo $ZK_LOCK_TOKEN; exit 7"]);
    assert_eq!((output.status.code(), complaint(&output)), (Some(7), String::new()));
    let token: i64 = out(&output).trim().parse().expect("a number");
    let next = world.run(&["run", PATH, "--", "sh", "-c", "echo $ZK_LOCK_TOKEN $ZK_LOCK_NODE"]);
    let text = out(&next);
    let (later, node) = text.trim().split_once(' ').expect("token and node");
    assert!(later.parse::<i64>().expect("a number") > token);
    assert!(node.starts_with(&format!("{PATH}/_c_")), "{node}");
    assert!(world.contenders().is_empty(), "it is released");
    assert_eq!(world.run(&["run", PATH, "--", "sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    let missing = world.run(&["run", PATH, "--", "/no/such/command"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(complaint(&missing).contains("/no/such/command"));
}

#[test]
fn a_lock_that_is_taken_is_not_waited_for_longer_than_said() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    for how in [&["--try"][..], &["--timeout", "0.1"]] {
        let arguments = [&["run", PATH], how, &["--", "echo", "not me"]].concat();
        let output = world.run(&arguments);
        assert_eq!((output.status.code(), out(&output)), (Some(1), String::new()), "{how:?}");
        assert!(!complaint(&output).is_empty());
    }
    world.runtime.block_on(guard.release()).expect("held");
    let output = world.run(&["run", PATH, "--try", "--", "echo", "me"]);
    assert_eq!((output.status.code(), out(&output)), (Some(0), "me\n".to_owned()));
}

#[test]
fn readers_and_permits_are_held_together() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let lock = RwLock::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(lock.read()).expect("free");
    let shared = world.run(&["run", PATH, "--shared", "--try", "--", "true"]);
    assert_eq!(shared.status.code(), Some(0));
    let exclusive = world.run(&["run", PATH, "--exclusive", "--try", "--", "true"]);
    assert_eq!(exclusive.status.code(), Some(1));
    let other_kind = world.run(&["run", PATH, "--", "true"]);
    assert_eq!(other_kind.status.code(), Some(2), "a mutex is not a read/write lock");
    assert!(complaint(&other_kind).contains(guard.node()));
    drop(guard);

    let permits = format!("{PATH}/permits");
    let two = world.run(&["run", &permits, "--permits", "2", "--of", "3", "--", "true"]);
    assert_eq!(two.status.code(), Some(0));
    let too_many = world.run(&["run", &permits, "--permits", "4", "--", "true"]);
    assert_eq!(too_many.status.code(), Some(2));
    assert!(complaint(&too_many).contains('3'));
}

#[test]
fn a_command_is_told_by_signal_that_the_lock_is_lost() {
    let world = World::new();
    let script = "trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let child = world.command(&["run", PATH, "--", "sh", "-c", script]).spawn();
    let mut child = child.expect("the command runs");
    ready(&mut child);
    // The lock watches its own node after a moment.
    world.eventually("a watch", |world| world.embedded.with(|ensemble| ensemble.watches()) == 1);
    let node = world.contenders().remove(0);
    let client = world.client();
    world.runtime.block_on(client.delete(&node, None)).expect("deleted");
    let output = ended(child);
    assert_eq!((output.status.code(), out(&output)), (Some(3), "told\n".to_owned()));
    assert!(complaint(&output).contains("lost"));
}

#[test]
fn a_command_is_told_when_the_lock_cannot_be_trusted_for_want_of_a_connection() {
    let world = World::with(Config::members(1).with_tick(Duration::from_millis(200)));
    let script = "trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let arguments = ["--session-timeout", "1", "run", PATH, "--", "sh", "-c", script];
    let mut child = world.command(&arguments).spawn().expect("it runs");
    ready(&mut child);
    world.embedded.kill(0);
    let output = ended(child);
    assert_eq!((output.status.code(), out(&output)), (Some(3), "told\n".to_owned()));
    assert!(complaint(&output).contains("lost"));
}

/// `run` in a long session, with a command that ends with its standard input, whatever it is sent.
fn run_until_told(world: &World) -> Child {
    let script = "trap '' TERM; echo ready; read x; exit 6";
    let arguments = [&LONG[..], &["run", PATH, "--", "sh", "-c", script]].concat();
    let mut child = world.command(&arguments).stdin(Stdio::piped()).spawn().expect("it runs");
    ready(&mut child);
    child
}

#[test]
fn when_the_command_has_ended_servers_that_are_gone_are_not_waited_for() {
    let world = World::new();
    let mut child = run_until_told(&world);
    world.embedded.kill(0);
    drop(child.stdin.take());
    assert_eq!(ended(child).status.code(), Some(6));
}

#[test]
fn when_the_command_has_ended_a_signal_ends_the_wait_for_servers() {
    let world = World::new();
    let mut child = run_until_told(&world);
    // It answers nothing while it is looked at.
    let output = world.embedded.with(|_| {
        drop(child.stdin.take());
        ended_by(child, |child| send("-TERM", &child.id().to_string()))
    });
    assert_eq!((output.status.code(), complaint(&output)), (Some(6), String::new()));
}

#[test]
fn whoever_gives_up_does_not_wait_for_servers() {
    for (how, signal, code) in
        [(&["--timeout", "1"][..], None, 1), (&[][..], Some("-TERM"), 128 + 15)]
    {
        let world = World::new();
        let (_runtime, client) = (world.runtime.enter(), world.client());
        let mutex = Mutex::new(&client, PATH).expect("valid");
        let _guard = world.runtime.block_on(mutex.acquire()).expect("free");
        let arguments = [&LONG[..], &["run", PATH], how, &["--", "true"]].concat();
        let child = world.command(&arguments).spawn().expect("it runs");
        world.eventually("a waiter", |world| world.contenders().len() == 2);
        // It answers nothing while it is looked at.
        let output = world.embedded.with(|_| {
            if let Some(signal) = signal {
                send(signal, &child.id().to_string());
            }
            ended(child)
        });
        assert_eq!(output.status.code(), Some(code), "{how:?}");
    }
}

#[test]
fn everybody_who_holds_and_waits_is_shown() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let lock = RwLock::with(&client, PATH, Options::new().data("host-7\u{7}")).expect("valid");
    let reader = world.runtime.block_on(lock.read()).expect("free");
    let _writer = lock.write();
    world.eventually("two", |world| world.contenders().len() == 2);
    let output = world.run(&["ls", PATH]);
    assert_eq!((output.status.code(), complaint(&output)), (Some(0), String::new()));
    let text = out(&output);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(lines[0], format!("{PATH}: read/write lock"));
    assert!(lines[1].starts_with("STATE"));
    assert!(lines[2].starts_with("holds, shared") && lines[2].contains("host-7."), "{text}");
    assert!(lines[3].starts_with("waits"), "{text}");
    let (_, number) = reader.node().split_at(reader.node().len() - 10);
    assert_eq!(lines[3].split_whitespace().nth(2), Some(number), "it watches the reader: {text}");

    let nowhere = world.run(&["ls", "/nowhere"]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(complaint(&nowhere).contains("/nowhere"));
}

#[test]
fn somebody_is_removed_when_that_is_confirmed() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let arguments = ["break", PATH, "--node", guard.node()];
    let answered = |answer: &str| {
        let mut child = world.command(&arguments).stdin(Stdio::piped()).spawn().expect("it runs");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(answer.as_bytes()).expect("it listens");
        drop(stdin);
        child.wait_with_output().expect("it ends")
    };
    assert_eq!(answered("n\n").status.code(), Some(1));
    assert_eq!(world.contenders().len(), 1);
    assert_eq!(answered("y\n").status.code(), Some(0));
    assert!(world.contenders().is_empty());
    let again = world.run(&[&arguments[..], &["--yes"]].concat());
    assert_eq!(again.status.code(), Some(2));
    assert!(complaint(&again).contains(guard.node()));
}

#[test]
fn whoever_is_asked_may_think_for_longer_than_a_session_lasts() {
    let world = World::with(Config::members(1).with_tick(Duration::from_millis(200)));
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let arguments = ["--session-timeout", "1", "break", PATH, "--node", guard.node()];
    let mut child = world.command(&arguments).stdin(Stdio::piped()).spawn().expect("it runs");
    let mut question = [0; 1];
    child.stdout.as_mut().expect("piped").read_exact(&mut question).expect("it asks");
    std::thread::sleep(Duration::from_millis(2500));
    child.stdin.take().expect("piped").write_all(b"y\n").expect("it listens");
    let output = ended(child);
    assert_eq!((output.status.code(), complaint(&output)), (Some(0), String::new()));
    assert!(world.contenders().is_empty());
}

#[test]
fn others_are_told_the_program_but_not_its_arguments() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let script = "echo ready; read x";
    let mut child = world
        .command(&["run", PATH, "--", "/bin/sh", "-c", script, "secret"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("it runs");
    ready(&mut child);
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let contenders = world.runtime.block_on(mutex.contenders()).expect("they are listed");
    let data = String::from_utf8_lossy(&contenders[0].data);
    assert!(data.ends_with(&format!(" pid {}: sh", child.id())), "{data}");
    drop(child.stdin.take());
    ended(child);

    // More than a server takes.
    let long = "x".repeat(100_000);
    let arguments = [&["run", PATH, "--", "true"][..], &[long.as_str(); 12]].concat();
    assert_eq!(world.run(&arguments).status.code(), Some(0));
}

#[test]
fn locks_below_a_lock_are_none_of_its_business() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let below = ["leases", "locks"].map(|name| format!("{PATH}/{name}/backup"));
    let guards = below.map(|path| {
        let mutex = Mutex::new(&client, &path).expect("valid");
        world.runtime.block_on(mutex.acquire()).expect("free")
    });
    assert_eq!(
        out(&world.run(&["ls", PATH])),
        format!("{PATH}: nobody holds it or waits for it\n")
    );
    let output = world.run(&["run", PATH, "--", "echo", "me"]);
    assert_eq!((complaint(&output), out(&output)), (String::new(), "me\n".to_owned()));
    let reader = RwLock::new(&client, PATH).expect("valid");
    let _reader = world.runtime.block_on(reader.read()).expect("free");
    let text = out(&world.run(&["ls", PATH]));
    assert!(text.starts_with(&format!("{PATH}: read/write lock\n")), "{text}");
    drop(guards);
}

#[test]
fn locks_of_two_kinds_at_one_path_are_refused_and_shown() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    for how in [&["--permits", "1", "--of", "2"][..], &["--shared"], &["--exclusive"]] {
        let output = world.run(&[&["run", PATH], how, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(2), "{how:?}");
        assert!(complaint(&output).contains(guard.node()), "{how:?}");
        assert_eq!(world.contenders().len(), 1, "{how:?}");
    }
    let semaphore = Semaphore::new(&client, PATH, 2).expect("valid");
    let permit = world.runtime.block_on(semaphore.acquire()).expect("free");
    let text = out(&world.run(&["ls", PATH]));
    assert!(text.starts_with(&format!("{PATH}: mutex and semaphore with 2 permits")), "{text}");
    assert!(text.contains(guard.node()) && text.contains(permit.node()), "{text}");
    drop(guard);
    world.eventually("no mutex", |world| !world.contenders().iter().any(|c| c.contains("-lock-")));
    let output = world.run(&["run", PATH, "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains(permit.node()));
}

#[test]
fn who_waits_for_permits_is_not_shown_as_a_holder() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let semaphore = Semaphore::new(&client, PATH, 2).expect("valid");
    let permits = world.runtime.block_on(semaphore.acquire_many(2)).expect("free");
    let waiting = semaphore.acquire();
    world.eventually("three leases", |world| {
        world.contenders().iter().filter(|node| node.contains("-lease-")).count() == 3
    });
    let text = out(&world.run(&["ls", PATH]));
    assert_eq!(text.lines().filter(|line| line.starts_with("holds")).count(), 2, "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("waits")).count(), 2, "{text}");
    drop((permits, waiting));
}

#[test]
fn a_timeout_is_for_servers_too() {
    let begun = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_zk-lock"));
    command.args(["--connect", "127.0.0.1:1", "run", PATH, "--timeout", "0.2", "-E", "9"]);
    let output = command.args(["--", "true"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(9));
    assert!(begun.elapsed() < Duration::from_secs(8), "it would wait for ten seconds by itself");
}

#[test]
fn signals_are_passed_on() {
    let world = World::new();
    let script = "trap 'exit 5' HUP; trap 'exit 6' INT; echo ready; while :; do sleep 0.05; done";
    for (signal, code) in [("-HUP", 5), ("-INT", 6)] {
        // No terminal has it in the foreground.
        let mut command = world.command(&["run", PATH, "--", "sh", "-c", script]);
        let mut child = command.process_group(0).spawn().expect("it runs");
        ready(&mut child);
        send(signal, &child.id().to_string());
        assert_eq!(ended(child).status.code(), Some(code), "{signal}");
        assert!(world.contenders().is_empty(), "it is released");
    }
}

/// Commands get them from the terminal themselves, unless they have left its foreground as this
/// one has.
#[test]
#[cfg(target_os = "linux")]
fn signals_of_the_keyboard_are_not_passed_on() {
    let world = World::new();
    let script = "trap 'echo interrupted' INT; trap 'echo told; exit 5' TERM; echo $PPID; \
                  while :; do sleep 0.05; done";
    let (program, at) = (env!("CARGO_BIN_EXE_zk-lock"), world.embedded.connect_string());
    let line = format!("exec '{program}' --connect {at} run {PATH} -- setsid sh -c \"{script}\"");
    let line = line.replace("$PPID", "\\$PPID");
    let mut terminal = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("util-linux is there");
    let mut screen = BufReader::new(terminal.stdout.take().expect("piped"));
    let mut holder = String::new();
    screen.read_line(&mut holder).expect("it says who it is");
    let mut keyboard = terminal.stdin.take().expect("piped");
    keyboard.write_all(b"\x03").expect("it listens");
    let mut echo = [0; 2];
    screen.read_exact(&mut echo).expect("the terminal echoes");
    assert_eq!(&echo, b"^C");
    send("-TERM", holder.trim());
    let mut rest = String::new();
    screen.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "told\r\n");
    assert_eq!(ended(terminal).status.code(), Some(5));
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_does_not_outlive_whoever_holds_its_lock() {
    let world = World::new();
    let mut command = world.command(&[
        "run",
        PATH,
        "--",
        "sh",
        "-c",
        "trap 'echo told; exit' TERM; echo on; read x",
    ]);
    let mut holder = command.stdin(Stdio::piped()).spawn().expect("it runs");
    let mut said = BufReader::new(holder.stdout.take().expect("piped")).lines();
    let mut next = || said.next().expect("it goes on").expect("text");
    assert_eq!(next(), "on");
    let input = holder.stdin.take();
    holder.kill().expect("SIGKILL");
    holder.wait().expect("it ends");
    // Whoever was not told ends here.
    drop(input);
    assert_eq!(next(), "told");
}

#[test]
fn errors_are_one_line() {
    let world = World::new();
    for (arguments, part) in [
        (&["--session-timeout", "0.5", "--connect", "127.0.0.1:1", "ls", "/a"][..], "127.0.0.1:1"),
        (&["--connect", "::", "ls", "/a"], "::"),
        (&["run", "relative", "--", "true"], "path"),
        (&["ls", "/a/"], "path"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zk-lock"));
        if !arguments.contains(&"--connect") {
            command.args(["--connect", &world.embedded.connect_string()]);
        }
        let output = command.args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(complaint(&output).contains(part), "{}", complaint(&output));
    }
}

#[test]
fn changes_are_followed() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let first = world.runtime.block_on(mutex.acquire()).expect("free");
    let mut child = world.command(&["watch", PATH]).spawn().expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert_eq!(line(), format!("+ holds {} -", first.node()));
    let second = mutex.acquire();
    assert!(line().starts_with("+ waits"));
    world.runtime.block_on(first.release()).expect("held");
    assert!(line().starts_with("- holds"));
    assert!(line().starts_with("+ holds"));
    let _second = world.runtime.block_on(second).expect("its turn");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}
