//! Contenders take turns with one lock, and every promise of the lock is checked on the way.
//!
//! Without arguments it brings its own ensemble of three servers, and kills one of them half-way.

use std::collections::HashMap;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard as StdMutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::time::timeout;
use zk_recipes::session::proto::path;
use zk_recipes::session::{Client, State};
use zk_recipes::{Attempt, Event, Holding, Mutex, Options, RecipeError, Scheme};
use zk_test_server::oracle::{LockOracle, Violation, percentile};
use zk_test_server::serve::Embedded;

const HELP: &str = "\
Contenders, each with a session of its own, take turns with one herd-free exclusive lock

Prints who waits behind whom and who holds the lock, then a summary. The exit code is 0 when all
promises were kept, 1 when one was broken, 2 when it could not begin.

Options:
  --connect <SERVERS>        The ensemble: host:port[,host:port...][/chroot]. Without it, three
                             servers are started within this process, and the one that the holder
                             is connected to is killed half-way
  --contenders <N>           How many contenders there are [default: 8]
  --rounds <N>               How often each of them acquires the lock [default: 5]
  --hold <MS>                How long it is held each time, in milliseconds [default: 10]
  --path <P>                 The path of the lock [default: /locks/example]
  --session-timeout <MS>     The session timeout to ask for, in milliseconds [default: 10000]
  -h, --help                 Print help";

#[derive(Clone, Debug)]
struct Arguments {
    connect: Option<String>,
    contenders: usize,
    rounds: usize,
    hold: Duration,
    path: String,
    session_timeout: Duration,
}

impl Arguments {
    /// Reads the arguments, without a crate for it: this program shall be built soon. `None`: help is
    /// asked for.
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut parsed = Self {
            connect: None,
            contenders: 8,
            rounds: 5,
            hold: Duration::from_millis(10),
            path: "/locks/example".to_owned(),
            session_timeout: Duration::from_secs(10),
        };
        while let Some(argument) = arguments.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (&*argument, None),
            };
            let mut value = || value.clone().or_else(|| arguments.next());
            match name {
                "--connect" => parsed.connect = Some(read(name, value())?),
                "--contenders" => parsed.contenders = read(name, value())?,
                "--rounds" => parsed.rounds = read(name, value())?,
                "--hold" => parsed.hold = Duration::from_millis(read(name, value())?),
                "--path" => parsed.path = read(name, value())?,
                "--session-timeout" => {
                    parsed.session_timeout = Duration::from_millis(read(name, value())?);
                }
                "-h" | "--help" => return Ok(None),
                _ => return Err(format!("unexpected argument {argument}, see --help")),
            }
        }
        path::validate(&parsed.path).map_err(|error| format!("--path: {error}"))?;
        Ok(Some(parsed))
    }
}

fn read<T: FromStr>(name: &str, value: Option<String>) -> Result<T, String> {
    let value = value.ok_or(format!("{name} needs a value"))?;
    value.parse().map_err(|_| format!("{name}: {value} is no number"))
}

/// How long nothing may happen before the run is given up.
const PATIENCE: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => return fails(&problem),
    };
    match Runtime::new() {
        Ok(runtime) => match runtime.block_on(run(arguments)) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(problem) => fails(&problem),
        },
        Err(problem) => fails(&problem.to_string()),
    }
}

fn fails(problem: &str) -> ExitCode {
    eprintln!("error: {problem}");
    ExitCode::from(2)
}

async fn run(arguments: Arguments) -> Result<bool, String> {
    let embedded = match arguments.connect {
        Some(_) => None,
        None => Some(Embedded::start(3).await.map_err(|error| error.to_string())?),
    };
    let at = match (&arguments.connect, &embedded) {
        (Some(at), _) => at.clone(),
        (None, Some(embedded)) => embedded.connect_string(),
        (None, None) => unreachable!("one of them was made"),
    };

    let mut connecting = Vec::new();
    for _ in 0..arguments.contenders {
        let builder = Client::builder(&at)
            .session_timeout(arguments.session_timeout)
            .connect_timeout(CONNECT_TIMEOUT);
        connecting.push(tokio::spawn(builder.connect()));
    }
    let mut clients = Vec::new();
    for client in connecting {
        let client = client.await.map_err(|error| error.to_string())?;
        clients.push(client.map_err(|error| format!("--connect {at}: {error}"))?);
    }

    let board = Arc::new(Board::new());
    board.say("ensemble", &format!("{at}, {} contenders x {}", clients.len(), arguments.rounds));
    let saboteur = embedded.map(|embedded| Arc::new(Saboteur { embedded, board: board.clone() }));
    let mut contenders = Vec::new();
    for (place, client) in clients.iter().enumerate() {
        let name = format!("c{}", place + 1);
        tokio::spawn(report_states(name.clone(), client.clone(), board.clone()));
        contenders.push(tokio::spawn(contend(
            name,
            client.clone(),
            arguments.clone(),
            board.clone(),
            saboteur.clone(),
        )));
    }
    let abort: Vec<_> = contenders.iter().map(|contender| contender.abort_handle()).collect();
    let watchdog = tokio::spawn(watch_progress(board.clone(), abort));
    for (place, contender) in contenders.into_iter().enumerate() {
        match contender.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => board.failed(format!("c{} failed: {error}", place + 1)),
            Err(_) => board.failed(format!("c{} was given up", place + 1)),
        }
    }
    watchdog.abort();
    check_for_leftovers(&clients[..], &arguments.path, &board).await;
    let notifications = clients.iter().map(|client| client.statistics().notifications).sum();
    for client in clients {
        client.close().await;
    }
    Ok(board.summary(notifications))
}

/// One contender: its turns with the lock, one after another.
async fn contend(
    name: String,
    client: Client,
    arguments: Arguments,
    board: Arc<Board>,
    saboteur: Option<Arc<Saboteur>>,
) -> Result<(), RecipeError> {
    let observer = {
        let (name, board) = (name.clone(), board.clone());
        move |_: Attempt<'_>, event: &Event| board.observe(&name, event)
    };
    let options = Options::new().data(name.clone()).observer(observer);
    let mutex = Mutex::with(&client, &arguments.path, options).expect("the path was validated");
    for _ in 0..arguments.rounds {
        let waiting_since = Instant::now();
        let guard = mutex.acquire().await?;
        let count = board.oracle.acquired(&name, guard.fencing_token().zxid(), waiting_since);
        if count == arguments.contenders * arguments.rounds / 2
            && let Some(saboteur) = &saboteur
            && let State::Connected { server, .. } = client.state()
        {
            let before = client.statistics().connections;
            saboteur.kill(&name, server);
            // A look at the state could miss that the lock is suspended, which may take a moment only.
            let is_back = || client.statistics().connections > before;
            while !(guard.is_lost() || is_back() && guard.state() == Holding::Held) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        // An error: it was held for as long as asked.
        let _ = timeout(arguments.hold, guard.lost()).await;
        board.oracle.gives_up(&name);
        guard.release().await?;
    }
    Ok(())
}

/// Says where a contender's session goes when its connection is lost.
async fn report_states(name: String, client: Client, board: Arc<Board>) {
    let mut states = client.states();
    let servers: Vec<String> = client.servers().iter().map(ToString::to_string).collect();
    drop(client);
    states.mark_unchanged();
    while states.changed().await.is_ok() {
        match *states.borrow_and_update() {
            State::Suspended => board.say(&name, "SUSPENDED: its connection is lost"),
            State::Connected { server, .. } => {
                board.say(&name, &format!("RESUMED on {}, same session", servers[server]));
            }
            State::Ended(_) => return,
            _ => {}
        }
    }
}

/// Gives up when nobody has acquired the lock for too long.
async fn watch_progress(board: Arc<Board>, contenders: Vec<tokio::task::AbortHandle>) {
    let mut seen = 0;
    loop {
        tokio::time::sleep(PATIENCE).await;
        let now = board.oracle.acquisitions();
        if now == seen {
            board.failed(format!("nobody acquired the lock for {PATIENCE:?}"));
            return contenders.iter().for_each(tokio::task::AbortHandle::abort);
        }
        seen = now;
    }
}

/// Asks the ensemble whether a node of ours is still there.
async fn check_for_leftovers(clients: &[Client], path: &str, board: &Board) {
    let Some(client) =
        clients.iter().find(|client| matches!(client.state(), State::Connected { .. }))
    else {
        return board.failed("no session is left to look for nodes".to_owned());
    };
    // Behind a sync, so that a server that lags shows no node that is gone already.
    let (synced, listed) = (client.sync(path), client.get_children(path));
    let children = match (synced.await, listed.await) {
        (Ok(()), Ok((children, _))) => children,
        (Ok(()), Err(error)) if error.code().is_some() => Vec::new(),
        (Err(error), _) | (_, Err(error)) => return board.failed(error.to_string()),
    };
    // Others may use the same lock.
    for child in children.iter().filter(|child| board.owner(child).is_some()) {
        board.oracle.found(child);
    }
}

/// Kills servers of the embedded ensemble.
struct Saboteur {
    embedded: Embedded,
    board: Arc<Board>,
}

impl Saboteur {
    fn kill(&self, holder: &str, server: usize) {
        let address = self.embedded.address(server);
        self.board.say("ensemble", &format!("KILLED {address}, the server that {holder} is on"));
        self.embedded.kill(server);
    }
}

/// What everybody can see: the timeline, the owners of lock nodes, and the judge.
struct Board {
    start: Instant,
    oracle: LockOracle,
    owners: StdMutex<HashMap<String, String>>,
    /// What went wrong besides broken promises.
    failures: StdMutex<Vec<String>>,
}

impl Board {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            oracle: LockOracle::new(),
            owners: StdMutex::default(),
            failures: StdMutex::default(),
        }
    }

    fn say(&self, who: &str, what: &str) {
        println!("{:9.3}  {who:<9} {what}", self.start.elapsed().as_secs_f64());
    }

    fn failed(&self, what: String) {
        self.say("FAILURE", &what);
        lock(&self.failures).push(what);
    }

    fn owner(&self, node: &str) -> Option<String> {
        lock(&self.owners).get(node).cloned()
    }

    fn observe(&self, name: &str, event: &Event) {
        match event {
            Event::Enqueued { node, .. } => {
                lock(&self.owners).insert(node.to_string(), name.to_owned());
            }
            Event::Waiting { behind, ahead } => {
                let owner =
                    self.owner(behind).map_or(String::new(), |owner| format!(" of {owner}"));
                self.say(name, &format!("waits behind #{}{owner}, {ahead} ahead", number(behind)));
            }
            Event::Acquired { node, token } => {
                self.say(
                    name,
                    &format!("ACQUIRED as #{}, fencing token {}", number(node), token.0),
                );
            }
            Event::Released => self.say(name, "released"),
            Event::Suspended => self.say(name, "may hold the lock, or not: suspended"),
            Event::Resumed => self.say(name, "still holds the lock: resumed"),
            Event::Lost(loss) => self.say(name, &format!("LOST the lock: {loss}")),
            Event::Failed(error) => self.say(name, &format!("FAILED: {error}")),
            _ => {}
        }
    }

    /// Prints what came of it, and says whether all is well.
    fn summary(&self, notifications: u64) -> bool {
        let (hand_overs, violations) = (self.oracle.hand_overs(), self.oracle.violations());
        let latency = |percent| match percentile(&hand_overs, percent) {
            Some(latency) => format!("{:.3} ms", latency.as_secs_f64() * 1e3),
            None => "-".to_owned(),
        };
        let broken = |promise: fn(&Violation) -> bool| match violations.iter().any(promise) {
            true => "NO",
            false => "yes",
        };
        let per_hand_over = notifications as f64 / hand_overs.len().max(1) as f64;
        let never_two = broken(|violation| matches!(violation, Violation::TwoHolders { .. }));
        let rising = broken(|violation| matches!(violation, Violation::TokenNotRising { .. }));
        let none_left = broken(|violation| matches!(violation, Violation::NodeLeft { .. }));
        println!();
        println!("acquisitions                {}", self.oracle.acquisitions());
        println!("hand-overs                  {}", hand_overs.len());
        println!("  latency, median           {}", latency(50));
        println!("  latency, p99              {}", latency(99));
        println!("  notifications per one     {per_hand_over:.2}");
        println!("never two holders           {never_two}");
        println!("tokens strictly rising      {rising}");
        println!("no node left behind         {none_left}");
        for violation in &violations {
            println!("BROKEN                      {violation}");
        }
        let failures = lock(&self.failures);
        for failure in failures.iter() {
            println!("FAILURE                     {failure}");
        }
        violations.is_empty() && failures.is_empty()
    }
}

fn lock<T>(mutex: &StdMutex<T>) -> StdMutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number by which a lock node is known in the queue.
fn number(node: &str) -> String {
    match Scheme::CURATOR_MUTEX.parse(node) {
        Some(name) => name.sequence.0.to_string(),
        None => node.to_owned(),
    }
}
