//! The crate `zookeeper-client` under the conformance suite: docs/conformance.md describes the
//! lines. `cd tests/bench && cargo build --bin conform_zookeeper_client`, then
//! `conform -- tests/bench/target/debug/conform_zookeeper_client`.

use std::collections::HashMap;
use std::future::Future;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use zookeeper_client::{
    Acls, AddWatchMode, Client, CreateMode, CreateOptions, Error, EventType, LockPrefix,
    MultiWriteError, OwnedLockClient, SessionState, Stat, WatchedEvent,
};

type Held = Arc<Mutex<HashMap<String, OwnedLockClient>>>;

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{}", line.trim_end());
    let _ = out.flush();
}

fn code(error: &Error) -> String {
    let code = match error {
        Error::NoNode => -101,
        Error::NoAuth => -102,
        Error::BadVersion => -103,
        Error::NoChildrenForEphemerals => -108,
        Error::NodeExists => -110,
        Error::NotEmpty => -111,
        Error::SessionExpired => -112,
        Error::InvalidAcl => -114,
        Error::AuthFailed => -115,
        Error::SessionMoved => -118,
        Error::NotReadOnly => -119,
        Error::ReconfigDisabled => -123,
        Error::QuotaExceeded => -125,
        Error::Throttled => -127,
        Error::MarshallingError => -5,
        Error::BadArguments(_) => -8,
        Error::Unimplemented => -6,
        Error::ConnectionLoss => -4,
        Error::RuntimeInconsistent => -2,
        Error::UnexpectedErrorCode(code) => *code,
        Error::ClientClosed => -116,
        other => return format!("error other {other}"),
    };
    format!("error {code}")
}

fn say_event(event: &WatchedEvent) {
    let kind = match event.event_type {
        EventType::NodeCreated => "created",
        EventType::NodeDeleted => "deleted",
        EventType::NodeDataChanged => "changed",
        EventType::NodeChildrenChanged => "children",
        _ => return,
    };
    say(&format!("event {kind} {}", event.path));
}

fn data(bytes: &[u8]) -> String {
    match bytes.len() {
        0..=100 => format!("\"{}\"", String::from_utf8_lossy(bytes)),
        length => format!("bytes:{length}"),
    }
}

fn names(names: &[String]) -> String {
    match names.len() {
        0..=10 => names.join(" "),
        many => format!("names:{many}"),
    }
}

fn stat(stat: Option<Stat>) -> String {
    stat.map_or("none".into(), |it| {
        format!(
            "{} {} {} {} {} {} {} {} {} {} {}",
            it.czxid,
            it.mzxid,
            it.ctime,
            it.mtime,
            it.version,
            it.cversion,
            it.aversion,
            it.ephemeral_owner,
            it.data_length,
            it.num_children,
            it.pzxid,
        )
    })
}

/// Sends the request now, and says its answer later.
fn answer<T: Send + 'static>(
    runtime: &Handle,
    number: &str,
    answer: impl Future<Output = Result<T, Error>> + Send + 'static,
    text: impl FnOnce(T) -> String + Send + 'static,
) {
    let number = number.to_owned();
    let _guard = runtime.enter();
    let mut answer = Box::pin(answer);
    let begun = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    runtime.spawn(async move {
        let result = match begun {
            Poll::Ready(result) => result,
            Poll::Pending => answer.await,
        };
        match result {
            Ok(value) => say(&format!("{number} ok {}", text(value))),
            Err(error) => say(&format!("{number} {}", code(&error))),
        }
    });
}

fn connect(runtime: &Handle, slot: &Arc<Mutex<Option<Client>>>, servers: &str, options: &[&str]) {
    let timeout = options.iter().find_map(|it| it.strip_prefix("timeout="));
    let timeout = timeout.and_then(|it| it.parse().ok()).unwrap_or(30_000);
    let connector = Client::connector()
        .with_session_timeout(Duration::from_millis(timeout))
        .with_readonly(options.contains(&"read-only"));
    let (servers, slot) = (servers.to_owned(), slot.clone());
    runtime.spawn(async move {
        let client = match connector.connect(&servers).await {
            Ok(client) => client,
            Err(_) => return say("state closed"),
        };
        let mut states = client.state_watcher();
        *slot.lock().expect("no panic") = Some(client);
        loop {
            let state = states.state();
            say(match state {
                SessionState::SyncConnected => "state connected",
                SessionState::ConnectedReadOnly => "state read-only",
                SessionState::Disconnected => "state suspended",
                SessionState::Expired => "state expired",
                SessionState::AuthFailed => "state auth-failed",
                _ => "state closed",
            });
            if state.is_terminated() {
                break;
            }
            states.changed().await;
        }
    });
}

fn multi(runtime: &Handle, client: &Client, number: &str, text: &str) -> Result<(), Error> {
    let version = |word: &str| word.parse().ok().filter(|version: &i32| *version >= 0);
    let mut writer = client.new_multi_writer();
    for operation in text.split(", ") {
        match operation.split(' ').collect::<Vec<_>>()[..] {
            ["create", path, value] => writer.add_create(
                path,
                value.as_bytes(),
                &CreateMode::Persistent.with_acls(Acls::anyone_all()),
            )?,
            ["set", path, value, expected] => {
                writer.add_set_data(path, value.as_bytes(), version(expected))?;
            }
            ["delete", path, expected] => writer.add_delete(path, version(expected))?,
            ["check", path, expected] => {
                writer.add_check_version(path, expected.parse().unwrap_or(-1))?;
            }
            _ => {}
        }
    }
    let commit = writer.commit();
    let number = number.to_owned();
    // The future borrows the client.
    runtime.block_on(async move {
        match commit.await {
            Ok(results) => say(&format!("{number} ok {}", results.len())),
            Err(MultiWriteError::OperationFailed { index, source }) => {
                say(&format!("{number} {} at {index}", code(&source)));
            }
            Err(MultiWriteError::RequestFailed { source }) => {
                say(&format!("{number} {}", code(&source)));
            }
        }
    });
    Ok(())
}

fn main() {
    say("client zookeeper-client 0.11.2");
    let runtime = Builder::new_multi_thread().enable_all().build().expect("threads");
    let handle = runtime.handle();
    let _guard = handle.enter();
    let slot: Arc<Mutex<Option<Client>>> = Arc::default();
    let held = Held::default();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let words: Vec<_> = line.split(' ').collect();
        let number = words[0];
        match words[1..] {
            ["connect", servers, ref options @ ..] => {
                connect(handle, &slot, servers, options);
                say(&format!("{number} ok"));
            }
            ["close"] => {
                held.lock().expect("no panic").clear();
                // The session ends with its last client.
                let client = slot.lock().expect("no panic").take();
                if let Some(client) = client {
                    let mut states = client.state_watcher();
                    drop(client);
                    // Without a connection it reports no end.
                    let has_ended = |state: SessionState| {
                        state.is_terminated() || state == SessionState::Disconnected
                    };
                    while !has_ended(states.state()) {
                        handle.block_on(states.changed());
                    }
                }
                say(&format!("{number} ok"));
            }
            _ => {
                let client = loop {
                    if let Some(client) = &*slot.lock().expect("no panic") {
                        break client.clone();
                    }
                    std::thread::sleep(Duration::from_millis(1));
                };
                run(handle, &client, &held, number, &words[1..]);
            }
        }
    }
    std::process::exit(0);
}

fn run(runtime: &Handle, client: &Client, held: &Held, number: &str, words: &[&str]) {
    let version = |word: &str| word.parse().ok().filter(|version: &i32| *version >= 0);
    match *words {
        ["get", path] => answer(runtime, number, client.get_data(path), |it| {
            format!("{} {}", data(&it.0), it.1.version)
        }),
        ["get", path, "watch"] => {
            let (client, path) = (client.clone(), path.to_owned());
            let read = async move { client.get_and_watch_data(&path).await };
            answer(runtime, number, read, |(bytes, stat, watcher)| {
                tokio::spawn(async move { say_event(&watcher.changed().await) });
                format!("{} {}", data(&bytes), stat.version)
            });
        }
        ["exists", path] => answer(runtime, number, client.check_stat(path), stat),
        ["exists", path, "watch"] => {
            let (client, path) = (client.clone(), path.to_owned());
            let read = async move { client.check_and_watch_stat(&path).await };
            answer(runtime, number, read, |(found, watcher)| {
                tokio::spawn(async move { say_event(&watcher.changed().await) });
                stat(found)
            });
        }
        ["children", path] => {
            answer(runtime, number, client.get_children(path), |it| names(&it.0));
        }
        ["children", path, "watch"] => {
            let (client, path) = (client.clone(), path.to_owned());
            let read = async move { client.get_and_watch_children(&path).await };
            answer(runtime, number, read, |(found, _, watcher)| {
                tokio::spawn(async move { say_event(&watcher.changed().await) });
                names(&found)
            });
        }
        ["create", path, value, ref options @ ..] => {
            let mode = match options {
                ["ephemeral"] => CreateMode::Ephemeral,
                ["sequential"] => CreateMode::PersistentSequential,
                ["ephemeral", "sequential"] => CreateMode::EphemeralSequential,
                ["container"] => CreateMode::Container,
                _ => CreateMode::Persistent,
            };
            let is_sequential = options.contains(&"sequential");
            let options: CreateOptions<'static> = mode.with_acls(Acls::anyone_all());
            let (client, value) = (client.clone(), value.as_bytes().to_vec());
            let (path, name) = (path.to_owned(), path.to_owned());
            let create = async move { client.create(&path, &value, &options).await };
            answer(runtime, number, create, move |(_, sequence)| match is_sequential {
                true => format!("{name}{sequence}"),
                false => name,
            });
        }
        ["set", path, value, expected] => {
            let set = client.set_data(path, value.as_bytes(), version(expected));
            answer(runtime, number, set, |it| it.version.to_string());
        }
        ["delete", path, expected] => {
            answer(runtime, number, client.delete(path, version(expected)), |()| String::new());
        }
        ["sync", path] => {
            let (client, path) = (client.clone(), path.to_owned());
            let sync = async move { client.sync(&path).await };
            answer(runtime, number, sync, |()| String::new());
        }
        ["acl", path] => {
            let (client, path) = (client.clone(), path.to_owned());
            let read = async move { client.get_acl(&path).await };
            answer(runtime, number, read, |it| it.0.len().to_string());
        }
        ["auth", scheme, credential] => {
            let client = client.clone();
            let (scheme, credential) = (scheme.to_owned(), credential.as_bytes().to_vec());
            let auth = async move { client.auth(&scheme, &credential).await };
            answer(runtime, number, auth, |()| String::new());
        }
        ["session"] => say(&format!("{number} ok {}", client.session_id())),
        ["watch", path, mode] => {
            let mode = match mode {
                "recursive" => AddWatchMode::PersistentRecursive,
                _ => AddWatchMode::Persistent,
            };
            let (client, path) = (client.clone(), path.to_owned());
            let watch = async move { client.watch(&path, mode).await };
            answer(runtime, number, watch, |mut watcher| {
                tokio::spawn(async move {
                    loop {
                        say_event(&watcher.changed().await);
                    }
                });
                String::new()
            });
        }
        ["multi", ref rest @ ..] => {
            let (client, text) = (client.clone(), rest.join(" "));
            let (number, runtime) = (number.to_owned(), runtime.clone());
            std::thread::spawn(move || {
                if let Err(error) = multi(&runtime, &client, &number, &text) {
                    say(&format!("{number} {}", code(&error)));
                }
            });
        }
        ["lock", path] => {
            let (client, path, held) = (client.clone(), path.to_owned(), held.clone());
            let lock = async move {
                let prefix = LockPrefix::new_curator(&path, "lock-")?;
                let options = zookeeper_client::LockOptions::new(Acls::anyone_all())
                    .with_ancestor_options(CreateMode::Persistent.with_acls(Acls::anyone_all()))?;
                let lock = client.lock(prefix, b"", options).await?.into_owned();
                held.lock().expect("no panic").insert(path, lock);
                Ok(())
            };
            answer(runtime, number, lock, |()| String::new());
        }
        ["unlock", path] => {
            // Dropping it deletes its node in the background.
            let _guard = runtime.enter();
            held.lock().expect("no panic").remove(path);
            say(&format!("{number} ok"));
        }
        _ => say(&format!("{number} unsupported")),
    }
}
