//! Our clients as the suite runs them: an example of what a client needs.

use std::collections::HashMap;
use std::future::Future;
use std::io::{BufRead, Write};
use std::process;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use zk_proto::{EventType, NodeKind};
use zk_recipes::{Guard, Loss, RecipeError, SessionClient};
use zk_session::driver::{Client, Driver};
use zk_session::{
    ClientBuilder, ConnectError, End, Error, State, Tokio, WatchUpdate, WatchedEvent,
    blocking::Threads,
};

/// Serves the suite with the client on tokio.
pub fn run_async() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("threads");
    serve(Async(runtime.handle().clone()));
    // Its tasks may still wait.
    runtime.shutdown_background();
}

/// Serves the suite with the client on threads.
pub fn run_blocking() {
    serve(Blocking);
}

/// What differs between both clients.
trait Kind: Clone + Send + Sync + 'static {
    type Driver: Driver;
    const NAME: &'static str;
    fn connect(
        &self,
        builder: ClientBuilder<Client<Self::Driver>>,
    ) -> Result<Client<Self::Driver>, ConnectError>;
    fn spawn(&self, client: &Client<Self::Driver>, work: impl Future<Output = ()> + Send + 'static);
    fn follow(&self, client: Client<Self::Driver>);
    fn close(&self, client: Client<Self::Driver>);
}

#[derive(Clone)]
struct Async(tokio::runtime::Handle);

impl Kind for Async {
    type Driver = Tokio;
    const NAME: &'static str = "async";

    fn connect(
        &self,
        builder: ClientBuilder<Client<Tokio>>,
    ) -> Result<Client<Tokio>, ConnectError> {
        self.0.block_on(builder.connect())
    }

    fn spawn(&self, _: &Client<Tokio>, work: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(work);
    }

    fn follow(&self, client: Client<Tokio>) {
        let mut states = client.states();
        drop(client);
        self.0.spawn(async move {
            loop {
                let state = *states.borrow_and_update();
                say_state(state);
                if matches!(state, State::Ended(_)) || states.changed().await.is_err() {
                    break;
                }
            }
        });
    }

    fn close(&self, client: Client<Tokio>) {
        self.0.block_on(client.close());
    }
}

#[derive(Clone)]
struct Blocking;

impl Kind for Blocking {
    type Driver = Threads;
    const NAME: &'static str = "blocking";

    fn connect(
        &self,
        builder: ClientBuilder<Client<Threads>>,
    ) -> Result<Client<Threads>, ConnectError> {
        builder.connect()
    }

    fn spawn(&self, client: &Client<Threads>, work: impl Future<Output = ()> + Send + 'static) {
        let client = client.clone();
        thread::spawn(move || client.block_on(None, work));
    }

    fn follow(&self, client: Client<Threads>) {
        thread::spawn(move || {
            let mut known = client.state();
            say_state(known);
            while !matches!(known, State::Ended(_)) {
                known = client.wait_for_state(|state| state != known, None);
                say_state(known);
            }
        });
    }

    fn close(&self, client: Client<Threads>) {
        client.close();
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The suite has gone.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        process::exit(1);
    }
}

fn say_state(state: State) {
    let name = match state {
        State::Connected { .. } => "connected",
        State::ReadOnly { .. } => "read-only",
        State::Ended(End::Expired) => "expired",
        State::Ended(End::AuthFailed) => "auth-failed",
        State::Ended(_) => "closed",
        _ => "suspended",
    };
    say(&format!("state {name}"));
}

fn say_event(event: &WatchedEvent) {
    let kind = match event.event_type {
        EventType::NODE_CREATED => "created".into(),
        EventType::NODE_DELETED => "deleted".into(),
        EventType::NODE_DATA_CHANGED => "changed".into(),
        EventType::NODE_CHILDREN_CHANGED => "children".into(),
        EventType(number) => number.to_string(),
    };
    say(&format!("event {kind} {}", event.path));
}

fn error(error: &Error) -> String {
    match error {
        Error::ConnectionLost | Error::NoConnection | Error::Undeliverable { .. } => {
            "error -4".into()
        }
        Error::Ended { end: End::Expired, .. } => "error -112".into(),
        Error::Ended { end: End::AuthFailed, .. } => "error -115".into(),
        Error::Ended { .. } => "error -116".into(),
        Error::Reply(_) | Error::Results { .. } => "error -5".into(),
        Error::Transaction { index, code } => format!("error {} at {index}", code.0),
        other => match other.code() {
            Some(code) => format!("error {}", code.0),
            None => format!("error other {other}"),
        },
    }
}

fn data(bytes: &[u8]) -> String {
    match bytes.len() {
        0..=100 => format!("\"{}\"", String::from_utf8_lossy(bytes)),
        length => format!("bytes:{length}"),
    }
}

type Held<D> = Arc<Mutex<HashMap<String, Guard<Client<D>>>>>;
type Slot<D> = Arc<(Mutex<Option<Client<D>>>, Condvar)>;

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve<K: Kind>(kind: K)
where
    Client<K::Driver>: SessionClient,
{
    say(&format!("client zk-session {} {}", K::NAME, env!("CARGO_PKG_VERSION")));
    let slot: Slot<K::Driver> = Arc::default();
    let held: Held<K::Driver> = Arc::default();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let (number, command) = line.split_once(' ').unwrap_or((&line, ""));
        let number = number.to_owned();
        let words: Vec<_> = command.split(' ').collect();
        match words[..] {
            ["connect", servers, ref options @ ..] => {
                connect(&kind, &slot, servers, options);
                say(&format!("{number} ok"));
            }
            ["close"] => {
                lock(&held).clear();
                if let Some(client) = lock(&slot.0).take() {
                    kind.close(client);
                }
                say(&format!("{number} ok"));
            }
            _ => {
                let client = wait_for_client(&slot);
                run(&kind, &client, &held, number, &words);
            }
        }
    }
}

fn connect<K: Kind>(kind: &K, slot: &Slot<K::Driver>, servers: &str, options: &[&str]) {
    let mut builder = Client::<K::Driver>::builder(servers)
        .connect_timeout(Duration::from_secs(60))
        .session_timeout(Duration::from_secs(30));
    for option in options {
        match option.split_once('=') {
            Some(("timeout", milliseconds)) => {
                let milliseconds = milliseconds.parse().unwrap_or_default();
                builder = builder.session_timeout(Duration::from_millis(milliseconds));
            }
            _ => builder = builder.read_only(*option == "read-only"),
        }
    }
    let (kind, slot) = (kind.clone(), slot.clone());
    thread::spawn(move || match kind.connect(builder) {
        Ok(client) => {
            *lock(&slot.0) = Some(client.clone());
            slot.1.notify_all();
            kind.follow(client);
        }
        Err(ConnectError::Ended(end)) => say_state(State::Ended(end)),
        Err(_) => say("state closed"),
    });
}

fn wait_for_client<D: Driver>(slot: &Slot<D>) -> Client<D> {
    let mut client = lock(&slot.0);
    loop {
        if let Some(client) = &*client {
            return client.clone();
        }
        client = slot.1.wait(client).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Sends the request now, and reports its answer later.
fn run<K: Kind>(
    kind: &K,
    client: &Client<K::Driver>,
    held: &Held<K::Driver>,
    number: String,
    words: &[&str],
) where
    Client<K::Driver>: SessionClient,
{
    let version = |word: &str| word.parse().ok().filter(|version| *version >= 0);
    // Awaits the answer, and says it.
    macro_rules! answer {
        ($call:expr, $ok:ident => $said:expr) => {{
            let answer = $call;
            kind.spawn(client, async move {
                let said = match answer.await {
                    Ok($ok) => $said,
                    Err(refused) => error(&refused.reason),
                };
                say(format!("{number} {said}").trim_end());
            })
        }};
    }
    // The same, and reports the event of the watch.
    macro_rules! watched {
        ($call:expr, $ok:ident => $said:expr, $watch:expr) => {{
            let answer = $call;
            kind.spawn(client, async move {
                match answer.await {
                    Ok($ok) => {
                        say(format!("{number} {}", $said).trim_end());
                        if let Ok(event) = $watch.await {
                            say_event(&event);
                        }
                    }
                    Err(refused) => say(&format!("{number} {}", error(&refused.reason))),
                }
            })
        }};
    }
    let text = |value: &str| value.to_owned();
    match *words {
        ["get", path] => answer!(client.get_data(path), ok => {
            format!("ok {} {}", data(&ok.0), ok.1.version)
        }),
        ["get", path, "watch"] => watched!(client.get_data_and_watch(path), ok => {
            format!("ok {} {}", data(&ok.0), ok.1.version)
        }, ok.2),
        ["exists", path] => answer!(client.exists(path), ok => said_stat(ok)),
        ["exists", path, "watch"] => {
            watched!(client.exists_and_watch(path), ok => said_stat(ok.0), ok.1);
        }
        ["children", path] => answer!(client.get_children(path), ok => said_list(&ok.0)),
        ["children", path, "watch"] => {
            watched!(client.get_children_and_watch(path), ok => said_list(&ok.0), ok.2);
        }
        ["create", path, value, ref options @ ..] => {
            let kind_of_node = match options {
                ["ephemeral"] => NodeKind::Ephemeral,
                ["sequential"] => NodeKind::PersistentSequential,
                ["ephemeral", "sequential"] => NodeKind::EphemeralSequential,
                ["container"] => NodeKind::Container,
                _ => NodeKind::Persistent,
            };
            answer!(client.create(path, value.as_bytes(), kind_of_node), ok => {
                format!("ok {}", ok.0)
            });
        }
        ["set", path, value, expected] => {
            answer!(client.set_data(path, value.as_bytes(), version(expected)), ok => {
                format!("ok {}", ok.version)
            });
        }
        ["delete", path, expected] => {
            answer!(client.delete(path, version(expected)), _ok => text("ok"));
        }
        ["sync", path] => answer!(client.sync(path), _ok => text("ok")),
        ["acl", path] => answer!(client.get_acl(path), ok => format!("ok {}", ok.0.len())),
        ["auth", scheme, credential] => {
            answer!(client.add_auth(scheme, credential.as_bytes()), _ok => text("ok"));
        }
        ["session"] => say(&format!("{number} ok 0x{:x}", client.session_id().0)),
        ["watch", path, mode] => {
            let answer = match mode {
                "recursive" => client.watch_recursively(path),
                _ => client.watch(path),
            };
            kind.spawn(client, async move {
                match answer.await {
                    Ok(mut watch) => {
                        say(&format!("{number} ok"));
                        while let Ok(update) = watch.next().await {
                            if let WatchUpdate::Event(event) = update {
                                say_event(&event);
                            }
                        }
                    }
                    Err(refused) => say(&format!("{number} {}", error(&refused.reason))),
                }
            });
        }
        ["multi", ref operations @ ..] => {
            let operations = operations.join(" ");
            let mut transaction = client.transaction();
            for operation in operations.split(", ") {
                transaction = match operation.split(' ').collect::<Vec<_>>()[..] {
                    ["create", path, value] => {
                        transaction.create(path, value.as_bytes(), NodeKind::Persistent)
                    }
                    ["set", path, value, expected] => {
                        transaction.set_data(path, value.as_bytes(), version(expected))
                    }
                    ["delete", path, expected] => transaction.delete(path, version(expected)),
                    ["check", path, expected] => transaction.check(path, version(expected)),
                    _ => return say(&format!("{number} unsupported")),
                };
            }
            answer!(transaction.commit(), ok => format!("ok {}", ok.len()));
        }
        ["lock", path] => acquire(kind, client, held, number, path),
        ["unlock", path] => {
            let guard = lock(held).remove(path);
            kind.spawn(client, async move {
                let released = match guard {
                    Some(guard) => guard.release().await,
                    None => Ok(()),
                };
                say_recipe(&number, released);
            });
        }
        _ => say(&format!("{number} unsupported")),
    }
}

fn said_stat(stat: Option<zk_proto::Stat>) -> String {
    match stat {
        Some(it) => format!(
            "ok {} {} {} {} {} {} {} {} {} {} {}",
            it.czxid.0,
            it.mzxid.0,
            it.ctime,
            it.mtime,
            it.version,
            it.cversion,
            it.aversion,
            it.ephemeral_owner.0,
            it.data_length,
            it.num_children,
            it.pzxid.0,
        ),
        None => "ok none".into(),
    }
}

fn said_list(names: &[String]) -> String {
    match names.len() {
        0..=10 => format!("ok {}", names.join(" ")),
        many => format!("ok names:{many}"),
    }
}

fn say_recipe(number: &str, result: Result<(), RecipeError>) {
    match result {
        Ok(()) => say(&format!("{number} ok")),
        Err(failed) => say(&format!("{number} error other {failed}")),
    }
}

fn acquire<K: Kind>(
    kind: &K,
    client: &Client<K::Driver>,
    held: &Held<K::Driver>,
    number: String,
    path: &str,
) where
    Client<K::Driver>: SessionClient,
{
    let mutex = match zk_recipes::Mutex::new(client, path) {
        Ok(mutex) => mutex,
        Err(failed) => return say_recipe(&number, Err(failed)),
    };
    let (held, path) = (held.clone(), path.to_owned());
    let (again, follower) = (kind.clone(), client.clone());
    kind.spawn(client, async move {
        match mutex.acquire().await {
            Ok(guard) => {
                let lost = guard.lost();
                let name = path.clone();
                lock(&held).insert(path, guard);
                say(&format!("{number} ok"));
                again.spawn(&follower, async move {
                    if lost.await != Loss::Released {
                        say(&format!("event lost {name}"));
                    }
                });
            }
            Err(failed) => say_recipe(&number, Err(failed)),
        }
    });
}
