//! Runs the compiled examples on an ensemble, and reads what they print.
#![cfg(all(feature = "tokio", feature = "blocking"))]

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use zk_recipes::Mutex;
use zk_recipes::session::{Client, proto::NodeKind};
use zk_testkit::examples::{example, printed};
use zk_testkit::serve::Embedded;
use zk_testkit::suite::{HANG_TIMEOUT, client};

async fn start() -> Embedded {
    Embedded::start(3).await.expect("an ensemble")
}

/// Returns the command of an example with the addresses of an ensemble.
fn command(name: &str, ensemble: &Embedded) -> Command {
    let mut command = example(env!("CARGO_MANIFEST_DIR"), name);
    command.arg(ensemble.connect_string());
    command
}

/// Runs an example on a new ensemble, and checks that it leaves no node.
async fn run(name: &str) -> Vec<String> {
    let ensemble = start().await;
    let mut command = command(name, &ensemble);
    let lines = spawn_blocking(move || printed(&mut command)).await.expect("no panic");
    let is_left = |path: &&str| path.starts_with("/example/");
    let left = ensemble.with(|servers| servers.paths().filter(is_left).count());
    assert_eq!(left, 0);
    lines
}

#[track_caller]
fn assert_begin(lines: &[String], expected: &[&str]) {
    let begin = |(line, expected): (&String, &&str)| line.starts_with(*expected);
    let is_same = lines.len() == expected.len() && lines.iter().zip(expected).all(begin);
    assert!(is_same, "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_holder_changes_nothing() {
    let expected = [
        "page 1 is printed",
        "page 2 is printed",
        "page 3 is refused: token ",
        "page 3 is not counted: ",
        "the first holder stops: ",
        "2 pages",
    ];
    assert_begin(&run("fenced").await, &expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leader_works_after_the_other() {
    let lines = run("leader").await;
    for name in ["Ada", "Bob"] {
        let theirs = lines.iter().filter_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let expected = [" leads, with token ", ": step 1", ": step 2", ": step 3", " resigns"];
        assert_begin(&theirs.collect::<Vec<_>>(), &expected);
    }
    // The second one may lead before the first one has read the reply to its resignation.
    let steps: Vec<_> = lines.iter().filter(|line| line.contains(": step ")).collect();
    assert!(steps[0][..3] == steps[2][..3] && steps[3][..3] == steps[5][..3], "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_read_from_memory_and_followed() {
    let mut lines = run("settings").await;
    lines.retain(|line| !line.ends_with(" nodes"));
    let expected = [
        "Some(b\"blue\")",
        "/example/settings/colour is red",
        "/example/settings/size is A4",
        "[\"colour\", \"size\"]",
        "/example/settings/size is gone",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_of_ones_own_waits_until_a_node_exists() {
    assert_eq!(run("appearance").await, ["created", "there"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_blocks_runs_alone_and_says_who_is_before_it() {
    let ensemble = start().await;
    let deploy = async |version: &'static str| {
        let mut command = command("deploy", &ensemble);
        spawn_blocking(move || command.arg(version).output().expect("it starts"))
            .await
            .expect("no panic")
    };
    for version in ["1", "2"] {
        let output = deploy(version).await;
        assert_eq!(output.stdout, format!("deployed {version}\n").into_bytes(), "{output:?}");
    }
    let other = client(&ensemble).await;
    let options = zk_recipes::Options::new().data("somebody else");
    let mutex = Mutex::with(&other, "/example/deploy/lock", options).expect("a valid path");
    let _held = mutex.acquire().await.expect("it is free");
    let output = deploy("3").await;
    assert_eq!(output.stderr, b"deploy: busy: somebody else\n");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(other.get_data("/example/deploy/version").await.expect("deployed").0, "2");
}

/// Runs a service that never ends, until it has printed these many lines.
async fn serve(name: &'static str, colour: Option<&[u8]>, count: usize) -> Vec<String> {
    let ensemble = start().await;
    let client = Client::connect(&ensemble.connect_string()).await.expect("connected");
    if let Some(colour) = colour {
        client.create_all("/settings/colour", colour, NodeKind::Persistent).await.expect("new");
    }
    let mut command = command(name, &ensemble);
    let mut service = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let output = BufReader::new(service.stdout.take().expect("piped"));
    let lines = spawn_blocking(move || output.lines().take(count).map_while(Result::ok).collect());
    let lines = lines.await.expect("no panic");
    service.kill().expect("it runs");
    service.wait().expect("it has ended");
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_hold_a_lock_follow_their_settings_and_know_whether_they_lead() {
    for name in ["service", "service_blocking"] {
        for (set, printed) in [(Some(&b"blue"[..]), "blue"), (None, "black")] {
            let lines = serve(name, set, 2).await;
            let expected = format!(": prints in {printed}, as leader");
            assert!(lines.len() == 2 && lines[1].ends_with(&expected), "{name}: {lines:?}");
        }
    }
}

/// A process that runs the example `replica`.
struct Replica {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    health: String,
}

impl Replica {
    fn start(ensemble: &Embedded) -> Self {
        let mut command = command("replica", ensemble);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let first = lines.next().expect("a line").expect("text");
        let health = first.strip_prefix("health check at ").expect("an address").to_owned();
        Self { process, lines, health }
    }

    /// Returns the token of the next work.
    fn works(&mut self) -> i64 {
        let line = self.lines.next().expect("it works").expect("text");
        line.strip_prefix("works with token ").expect("work").parse().expect("a token")
    }

    /// Returns the reply to a health check.
    fn health(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.health).expect("it listens");
        let request = format!("GET /{path} HTTP/1.1\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("it answers");
        reply
    }

    fn is_ready(&self) -> bool {
        self.health("ready").starts_with("HTTP/1.1 200 OK\r\n")
    }

    fn becomes_ready(&self, is_ready: bool) {
        let end = Instant::now() + HANG_TIMEOUT;
        while self.is_ready() != is_ready {
            assert!(Instant::now() < end, "{}", self.health("ready"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_answers_health_checks_and_hands_over_when_it_is_stopped() {
    let ensemble = start().await;
    let test = spawn_blocking(move || {
        let mut first = Replica::start(&ensemble);
        let token = first.works();
        let mut second = Replica::start(&ensemble);
        assert!(first.is_ready(), "{}", first.health("ready"));
        second.becomes_ready(true);
        let kill = Command::new("kill").arg(first.process.id().to_string()).status();
        assert!(kill.expect("it starts").success());
        assert!(first.process.wait().expect("a child").success());
        // The session of the first one has not expired, but was closed.
        let sessions = |ensemble: &Embedded| ensemble.with(|servers| servers.sessions().count());
        assert_eq!(sessions(&ensemble), 1);
        assert!(second.works() > token);
        for server in 0..3 {
            ensemble.kill(server);
        }
        second.becomes_ready(false);
        assert!(second.health("ready").contains("\r\n\r\nSuspended; last failure: Some("));
        // It answers before it is connected, too.
        let third = Replica::start(&ensemble);
        for replica in [&second, &third] {
            let live = replica.health("live");
            assert!(live.starts_with("HTTP/1.1 200 OK\r\n") && !replica.is_ready(), "{live}");
        }
        for server in 0..3 {
            Handle::current().block_on(ensemble.restart(server)).expect("the port is still free");
        }
        second.becomes_ready(true);
        assert!(second.health("ready").ends_with("; last failure: None\n"));
    });
    test.await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_needs_no_runtime() {
    let lines = run("no_runtime").await;
    assert!(lines.iter().any(|line| line.starts_with("acquired: ")), "{lines:#?}");
}
