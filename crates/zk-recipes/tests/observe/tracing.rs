use std::io::{self, Write};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;
use zk_recipes::session::{Client, State, blocking};
use zk_recipes::{LeaderElection, Loss};
use zk_testkit::serve::Embedded;

/// Longer than any step here takes.
const LONG: Duration = Duration::from_secs(20);

/// The log of the process.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
/// A client that the subscriber uses with every line, as a health check may do.
static CURIOUS: OnceLock<Client> = OnceLock::new();

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(client) = CURIOUS.get() {
            // Either would deadlock under the session's lock.
            drop((client.state(), client.exists("/")));
        }
        LOG.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

fn subscribe() {
    static SUBSCRIBED: LazyLock<()> = LazyLock::new(|| {
        let lines = tracing_subscriber::fmt().with_writer(|| Log).without_time().with_ansi(false);
        let lines = lines.with_max_level(tracing::Level::DEBUG).finish();
        tracing::subscriber::set_global_default(lines).expect("the first one");
    });
    LazyLock::force(&SUBSCRIBED);
}

/// Returns the lines with `part`, once one of them has `awaited`. Durations become `TIME`, names
/// of nodes `NODE`, and tokens `TOKEN`.
fn lines(part: &str, awaited: &str) -> Vec<String> {
    let start = Instant::now();
    loop {
        let log = String::from_utf8(LOG.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .expect("text");
        let lines: Vec<_> = log.lines().filter(|line| line.contains(part)).map(plain).collect();
        if lines.iter().any(|line| line.contains(awaited)) {
            return lines;
        }
        assert!(start.elapsed() < LONG, "no {awaited:?} in {lines:#?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn plain(line: &str) -> String {
    let field = |word: &str| match word.split_once('=') {
        Some((name @ ("waited" | "held"), _)) => format!("{name}=TIME"),
        Some((name @ ("node" | "behind"), _)) => format!("{name}=NODE"),
        Some((name @ "token", _)) => format!("{name}=TOKEN"),
        _ => word.to_owned(),
    };
    line.split_whitespace().map(field).collect::<Vec<_>>().join(" ")
}

async fn connect(embedded: &Embedded) -> Client {
    Client::connect(&embedded.connect_string()).await.expect("connected")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_is_a_span_with_its_waiting_its_time_and_its_end() {
    subscribe();
    let embedded = Embedded::start(1).await.expect("started");
    let [one, two] = [connect(&embedded).await, connect(&embedded).await];
    // The subscriber uses the client whose machines report, too.
    CURIOUS.get_or_init(|| two.clone());
    let lock = |client, path| zk_recipes::Mutex::new(client, path).expect("valid");
    let first = lock(&one, "/traced").acquire().await.expect("acquired");
    let second = tokio::spawn({
        let lock = lock(&two, "/traced");
        async move { lock.acquire().await.expect("acquired") }
    });
    lines("/traced", "waiting");
    first.release().await.expect("released");
    let second = second.await.expect("finished");

    one.delete(&second.node_path(), None).await.expect("deleted");
    assert_eq!(second.lost().await, Loss::NodeDeleted);
    let attempt = "attempt{recipe=\"mutex\" path=\"/traced\"}: zk_recipes:";
    let expected = [
        "DEBUG {} enqueued node=NODE token=TOKEN",
        "INFO {} acquired node=NODE token=TOKEN waited=TIME",
        "DEBUG {} enqueued node=NODE token=TOKEN",
        "DEBUG {} waiting behind=NODE ahead=1",
        "INFO {} released node=NODE token=TOKEN held=TIME",
        "INFO {} acquired node=NODE token=TOKEN waited=TIME",
        "WARN {} lost node=NODE token=TOKEN held=TIME loss=our node was deleted",
    ];
    let mut expected = expected.map(|line| line.replace("{}", attempt));
    lines("/traced", " released ");
    let mut reported = lines("/traced", " lost ");
    // The two sessions are not ordered.
    expected.sort();
    reported.sort();
    assert_eq!(reported, expected);

    let server = embedded.address(0);
    let connected = lines(&server.to_string(), "");
    let of = |client: &Client| format!("server={server} session={}", client.session_id());
    for client in [&one, &two] {
        let line = format!("INFO zk_session: session connected {}", of(client));
        assert!(connected.contains(&line), "{connected:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_that_gives_up_and_one_that_leads_are_reported() {
    subscribe();
    let embedded = Embedded::start(1).await.expect("started");
    let client = connect(&embedded).await;
    let election = LeaderElection::new(&client, "/elected").expect("valid");
    let leader = election.stand();
    leader.elected().await.expect("the only one");
    let follower = election.stand();
    lines("/elected", "waiting");
    follower.close().await.expect("resigned");
    lines("/elected", "gave up");
    leader.close().await.expect("resigned");
    let attempt = "attempt{recipe=\"leader_election\" path=\"/elected\"}: zk_recipes:";
    let reported = lines("/elected", "released");
    assert_eq!(reported.len(), 6, "{reported:#?}");
    let gave_up = "DEBUG {} gave up waited=TIME";
    let released = "INFO {} released node=NODE token=TOKEN held=TIME";
    for line in [gave_up, released].map(|line| line.replace("{}", attempt)) {
        assert!(reported.contains(&line), "{reported:#?}");
    }
}

#[test]
fn threads_that_block_report_their_locks_and_their_session() {
    subscribe();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let embedded = runtime.block_on(Embedded::start(1)).expect("started");
    let client = blocking::Client::connect(&embedded.connect_string()).expect("connected");
    let server = embedded.address(0);
    let connected = format!("session connected server={server} session={}", client.session_id());
    lines(&server.to_string(), &connected);
    let mutex = zk_recipes::Mutex::new(&client, "/blocked").expect("valid");
    mutex.acquire().wait().expect("acquired").release().wait().expect("released");
    let reported = lines("/blocked", "released");
    assert_eq!(reported.len(), 3, "{reported:#?}");
    // The keeper reports what happens while nobody waits.
    embedded.kill(0);
    lines(&server.to_string(), "connection failed");
    assert!(matches!(client.state(), State::Suspended));
}
