//! Acquiring locks, and the data that other clients can read of the owner.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use zk_recipes::session::proto::OpCode;
use zk_recipes::{Mutex, Options, RwLock, Semaphore};
use zk_testkit::scripted;
use zk_testkit::server::{Config, Ensemble};
use zk_testkit::suite::begun;

use crate::{LONG, PATH, World, ended, error_message, objects, out, ready};

#[test]
fn a_command_runs_under_the_lock_and_its_exit_code_is_passed_on() {
    let world = World::new();
    let output = world.run(&["run", PATH, "--", "sh", "-c", "echo $ZK_LOCK_TOKEN; exit 7"]);
    assert_eq!((output.status.code(), error_message(&output)), (Some(7), String::new()));
    let token: i64 = out(&output).trim().parse().expect("a number");
    let next = world.run(&["run", PATH, "--", "sh", "-c", "echo $ZK_LOCK_TOKEN $ZK_LOCK_NODE"]);
    let text = out(&next);
    let (later, node) = text.trim().split_once(' ').expect("token and node");
    assert!(later.parse::<i64>().expect("a number") > token);
    assert!(node.starts_with(&format!("{PATH}/_c_")), "{node}");
    assert!(world.contenders().is_empty(), "not released");
    assert_eq!(world.run(&["run", PATH, "--", "sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    // This is no interrupt.
    assert_eq!(world.run(&["run", PATH, "--", "sh", "-c", "exit 130"]).status.code(), Some(130));
    let missing = world.run(&["run", PATH, "--", "/no/such/command"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(error_message(&missing).contains("/no/such/command"));
}

#[test]
fn a_command_and_its_arguments_are_bytes_and_the_path_of_a_lock_is_text() {
    let world = World::new();
    let run = |path: &OsStr, command: [&OsStr; 2]| {
        let mut run = world.command(&["run"]);
        ended(run.arg(path).arg("--").args(command).spawn().expect("zk-lock starts"))
    };
    let no_text = OsStr::from_bytes(b"caf\xe9");
    let said = run(PATH.as_ref(), ["echo".as_ref(), no_text]);
    assert_eq!((&*said.stdout, error_message(&said)), (&b"caf\xe9\n"[..], String::new()));
    let missing = run(PATH.as_ref(), [no_text, "argument".as_ref()]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(error_message(&missing).contains("caf\u{fffd}"), "{}", error_message(&missing));
    let nowhere = run(no_text, ["echo".as_ref(), "me".as_ref()]);
    assert_eq!((nowhere.status.code(), out(&nowhere)), (Some(64), String::new()));
}

#[test]
fn the_wait_for_a_held_lock_ends_with_the_timeout() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    for how in [&["--nonblock"][..], &["--wait", "0"], &["--wait", "0.1"]] {
        let arguments = [&["run", PATH], how, &["--", "echo", "not me"]].concat();
        let output = world.run(&arguments);
        assert_eq!((output.status.code(), out(&output)), (Some(1), String::new()), "{how:?}");
        let message = error_message(&output);
        let expected = format!("zk-lock: the lock '{PATH}' was not acquired: it ");
        assert!(message.starts_with(&expected) && !message.contains("server"), "{message}");
    }
    world.runtime.block_on(guard.release()).expect("held");
    for how in [&["--nonblock"][..], &["--wait", "0"]] {
        let output = world.run(&[&["run", PATH], how, &["--", "echo", "me"]].concat());
        assert_eq!((output.status.code(), out(&output)), (Some(0), "me\n".to_owned()), "{how:?}");
    }
}

#[test]
fn a_waiter_says_again_and_again_who_holds_the_lock() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let options = || Options::new().data("host-7 pid 8: backup");
    let mutex = Mutex::with(&client, PATH, options()).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let arguments = [&LONG[..], &["-v", "run", "--report-interval", "0.05", PATH, "true"]].concat();
    let mut child = world.command(&arguments).spawn().expect("zk-lock starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    for _ in 0..3 {
        let line = lines.next().expect("a line").expect("text");
        let (before, holder) = line.split_once("; ").expect("two parts");
        assert!(
            before.starts_with(&format!("zk-lock: waiting for the lock '{PATH}' for ")),
            "{line}"
        );
        let holder = holder.replace(|c: char| c.is_ascii_digit(), "#");
        assert_eq!(holder, "held by host-# pid #: backup (lock-#), whose node is #s old");
    }
    world.runtime.block_on(guard.release()).expect("held");
    let last = lines.map_while(Result::ok).last().expect("a line");
    assert!(last.starts_with("zk-lock: acquired after "), "{last}");
    assert_eq!(ended(child).status.code(), Some(0));
}

#[test]
fn a_conflict_names_the_holder_and_quiet_is_silent() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let options = || Options::new().data("host-7 pid 8: backup");
    let lock = RwLock::with(&client, PATH, options()).expect("valid");
    let _two = [(); 2].map(|()| world.runtime.block_on(lock.read()).expect("shared"));
    for (how, why) in
        [(["-n"].as_slice(), "it is taken"), (&["-w", "0.1"], "it was not free within 0.1 s")]
    {
        let run =
            |quiet: &[&str]| world.run(&[&["run", "-x", PATH], how, quiet, &["true"]].concat());
        let output = run(&[]);
        let message = error_message(&output);
        let (reason, holder) = message.split_once("; ").expect("two parts");
        assert_eq!(reason, format!("zk-lock: the lock '{PATH}' was not acquired: {why}"));
        let (owner, age) = holder.split_once("), whose node is ").expect("an age");
        assert_eq!(owner, "held by host-7 pid 8: backup (READ-0");
        assert!(age.ends_with("s old, and 1 more"), "{holder}");
        let silent = run(&["-q"]);
        assert_eq!((silent.status.code(), error_message(&silent)), (Some(1), String::new()));
    }
    // Without a conflict, errors are printed.
    let wrong = world.run(&["run", "-q", "-n", PATH, "true"]);
    assert_eq!(wrong.status.code(), Some(70));
    assert!(error_message(&wrong).contains("another kind of lock"));
}

#[test]
fn events_are_printed_as_json() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let events = |arguments: &[&str]| {
        let output = world.run(&[&LONG[..], &["run", "--json"], arguments].concat());
        let objects = objects(&String::from_utf8_lossy(&output.stderr));
        assert!(objects.iter().all(|object| object["path"] == PATH), "{objects:?}");
        let names = objects.iter().map(|object| object["event"].as_str().expect("text").to_owned());
        (output.status.code(), names.collect::<Vec<_>>(), objects)
    };
    let echo = ["--once-per", "1h", PATH, "--", "true"];
    let (code, names, acquired) = events(&echo);
    assert_eq!((code, &*names), (Some(0), &["acquired".to_owned()][..]));
    let node = acquired[0]["node_path"].as_str().expect("text");
    assert!(node.starts_with(PATH) && acquired[0]["token"].is_i64(), "{acquired:?}");
    let (code, names, skipped) = events(&echo);
    assert_eq!((code, &*names), (Some(0), &["acquired", "skipped"].map(str::to_owned)[..]));
    assert!(skipped[1]["token"].is_null(), "{skipped:?}");

    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let (code, names, _) = events(&["-n", PATH, "--", "true"]);
    assert_eq!((code, &*names), (Some(1), &["not_acquired".to_owned()][..]));
    let (code, names, _) = events(&["-s", PATH, "--", "true"]);
    assert_eq!((code, &*names), (Some(70), &["failed".to_owned()][..]));
    world.runtime.block_on(guard.release()).expect("held");

    let arguments = [&LONG[..], &["run", "--json", PATH, "sh", "-c", "echo ready; exec sleep 99"]];
    let mut child = world.command(&arguments.concat()).spawn().expect("zk-lock starts");
    ready(&mut child);
    world.break_lock();
    let output = ended(child);
    let names: Vec<_> = objects(&String::from_utf8_lossy(&output.stderr))
        .iter()
        .map(|object| object["event"].as_str().expect("text").to_owned())
        .collect();
    assert_eq!(
        (output.status.code(), &*names),
        (Some(73), &["acquired", "lost"].map(str::to_owned)[..])
    );
}

#[test]
fn free_permits_are_acquired_however_short_the_limit() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let run = || {
        let limits = ["run", PATH, "--wait", "0.000001", "--permits", "1", "--of", "2"];
        world.run(&[&limits[..], &["--", "echo", "me"]].concat())
    };
    // The first run creates the semaphore.
    for _ in 0..3 {
        let output = run();
        assert_eq!((output.status.code(), out(&output)), (Some(0), "me\n".to_owned()));
    }
    // A taken permit, and then one that waits: the second limit ends in the queue.
    let semaphore = Semaphore::new(&client, PATH, 2).expect("valid");
    let held = world.runtime.block_on(semaphore.acquire_many(2)).expect("free");
    for waiting in 0..2 {
        let _waiting = (waiting > 0).then(|| begun(semaphore.acquire()));
        world.eventually("a waiter", |world| world.contenders().len() == 2 + 2 * waiting);
        let output = run();
        assert_eq!((output.status.code(), out(&output)), (Some(1), String::new()));
        assert!(error_message(&output).contains(PATH), "{}", error_message(&output));
    }
    drop(held);
}

#[test]
fn readers_share_a_lock_and_permits_a_semaphore() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let lock = RwLock::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(lock.read()).expect("free");
    let shared = world.run(&["run", PATH, "--shared", "--nonblock", "--", "true"]);
    assert_eq!(shared.status.code(), Some(0));
    let exclusive = world.run(&["run", PATH, "--exclusive", "--nonblock", "--", "true"]);
    assert_eq!(exclusive.status.code(), Some(1));
    let other_kind = world.run(&["run", PATH, "--", "true"]);
    assert_eq!(other_kind.status.code(), Some(70), "a mutex is not a read/write lock");
    assert!(error_message(&other_kind).contains(guard.node()));
    drop(guard);

    let permits = format!("{PATH}/permits");
    let two = world.run(&["run", &permits, "--permits", "2", "--of", "3", "--", "true"]);
    assert_eq!(two.status.code(), Some(0));
    let too_many = world.run(&["run", &permits, "--permits", "4", "--", "true"]);
    assert_eq!(too_many.status.code(), Some(70));
    assert!(error_message(&too_many).contains('3'));
}

#[test]
fn other_clients_see_the_program_but_not_its_arguments() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let script = "echo ready; read x";
    let mut child = world
        .command(&["run", PATH, "--", "/bin/sh", "-c", script, "secret"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("zk-lock starts");
    ready(&mut child);
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let contenders = world.runtime.block_on(mutex.contenders()).expect("the contenders");
    let data = String::from_utf8_lossy(contenders[0].data.as_deref().expect("readable"));
    assert!(data.ends_with(&format!(" pid {}: sh", child.id())), "{data}");
    drop(child.stdin.take());
    ended(child);

    // More than a server accepts.
    let long = "x".repeat(100_000);
    let arguments = [&["run", PATH, "--", "true"][..], &[long.as_str(); 12]].concat();
    assert_eq!(world.run(&arguments).status.code(), Some(0));
}

#[test]
fn locks_below_a_lock_path_do_not_count() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let below = ["leases", "locks"].map(|name| format!("{PATH}/{name}/backup"));
    let guards = below.map(|path| {
        let mutex = Mutex::new(&client, &path).expect("valid");
        world.runtime.block_on(mutex.acquire()).expect("free")
    });
    let listed = out(&world.run(&["ls", PATH]));
    assert!(listed.starts_with(&format!("{PATH}: no holder, no waiters")), "{listed}");
    let output = world.run(&["run", PATH, "--", "echo", "me"]);
    assert_eq!((error_message(&output), out(&output)), (String::new(), "me\n".to_owned()));
    let reader = RwLock::new(&client, PATH).expect("valid");
    let _reader = world.runtime.block_on(reader.read()).expect("free");
    let text = out(&world.run(&["ls", PATH]));
    assert!(text.starts_with(&format!("{PATH}: read/write lock\n")), "{text}");
    drop(guards);
}

#[test]
fn locks_of_two_kinds_at_one_path_are_refused_and_shown() {
    let world =
        World::with(Config { container_check: Duration::from_millis(100), ..Config::default() });
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    // All nodes below the path, not only contenders.
    let below = |world: &World| {
        let is_below = |node: &&str| node.starts_with(&format!("{PATH}/"));
        world.embedded.with(|ensemble| {
            ensemble.paths().filter(is_below).map(str::to_owned).collect::<Vec<_>>()
        })
    };
    for how in [&["--permits", "1", "--of", "2"][..], &["--shared"], &["--exclusive"]] {
        let output = world.run(&[&["run", PATH], how, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(70), "{how:?}");
        let message = error_message(&output);
        assert!(message.contains(guard.node()) && message.contains(": leave out"), "{message}");
        // A semaphore leaves an empty container, which the servers delete.
        world.eventually("the mutex alone", |world| below(world) == [guard.node_path()]);
    }
    let semaphore = Semaphore::new(&client, PATH, 2).expect("valid");
    let permit = world.runtime.block_on(semaphore.acquire()).expect("free");
    let text = out(&world.run(&["ls", "-v", PATH]));
    assert!(text.starts_with(&format!("{PATH}: mutex and semaphore with 2 permits")), "{text}");
    assert!(text.contains(guard.node()) && text.contains(permit.node()), "{text}");
    drop(guard);
    world.eventually("the end of the mutex", |world| {
        !world.contenders().iter().any(|c| c.contains("-lock-"))
    });
    let output = world.run(&["run", PATH, "--", "true"]);
    assert_eq!(output.status.code(), Some(70));
    assert!(error_message(&output).contains(permit.node()));
}

#[test]
fn another_kind_of_lock_that_comes_while_a_semaphore_waits_is_seen() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let semaphore = Semaphore::new(&client, PATH, 1).expect("valid");
    let permit = world.runtime.block_on(semaphore.acquire()).expect("free");
    let arguments = [&LONG[..], &["run", "--permits", "1", PATH, "echo", "not me"]].concat();
    let waiting = world.command(&arguments).spawn().expect("zk-lock starts");
    world.eventually("a waiter", |world| world.contenders().len() == 3);
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    drop(permit);
    let output = ended(waiting);
    assert_eq!((output.status.code(), out(&output)), (Some(70), String::new()));
    assert!(error_message(&output).contains(guard.node()), "{}", error_message(&output));
}

#[test]
fn the_limit_for_servers_is_not_the_limit_for_the_lock() {
    for how in [&["--wait", "0.01"][..], &["--wait", "60"], &["--nonblock"], &[]] {
        let begun = Instant::now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zk-lock"));
        command.args(["--connect", "127.0.0.1:1", "--connect-timeout", "0.3", "run", PATH]);
        let output = command.args(how).args(["-E", "9", "--", "true"]).output();
        let output = output.expect("zk-lock starts");
        assert_eq!(output.status.code(), Some(69), "{how:?}");
        let message = error_message(&output);
        assert!(message.contains("no server answered") && message.contains(":1"), "{message}");
        let elapsed = begun.elapsed();
        assert!((0.3..15.0).contains(&elapsed.as_secs_f64()), "{how:?}: {elapsed:?}");
    }
}

#[test]
fn with_nonblock_a_lost_connection_fails_at_once() {
    for how in [&["--nonblock"][..], &["--wait", "0"]] {
        // The server answers the handshake, and drops the connection at the first request.
        let at = scripted::listen(|number, mut peer| {
            if number == 0 {
                peer.welcome(40_000)?;
                peer.stream.read_exact(&mut [0; 8])?;
            }
            Ok(())
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_zk-lock"));
        command.args(LONG).args(["--connect", &at, "run", PATH]).args(how);
        command.args(["-E", "9", "--", "echo", "not me"]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = ended(command.spawn().expect("zk-lock starts"));
        assert_eq!((output.status.code(), out(&output)), (Some(69), String::new()), "{how:?}");
        let message = error_message(&output);
        assert!(message.contains(PATH) && message.contains("connection to a server"), "{message}");
    }
}

/// Returns how many requests `work` makes. Pings depend on the time that it takes.
pub(crate) fn requests(world: &World, work: impl FnOnce()) -> u64 {
    let is_counted = |(operation, _): &(&OpCode, &u64)| **operation != OpCode::PING;
    let count = || {
        world.embedded.with(|ensemble| {
            let requests = &ensemble.counters().requests;
            requests.iter().filter(is_counted).map(|(_, count)| *count).sum::<u64>()
        })
    };
    let before = count();
    work();
    count() - before
}

/// Returns how many requests `work` makes to hold a lock on a fast machine.
///
/// On a slow one, a contender that is in the queue of a semaphore for 20 ms also watches its node
/// there. That watch fires when it leaves, and that of the holder at the end of its session.
fn steady_requests(world: &World, work: impl FnOnce()) -> u64 {
    let fired = || world.embedded.with(|ensemble| ensemble.counters().notifications);
    let before = fired();
    let made = requests(world, work);
    let in_the_queue = fired() - before - 1;
    made - in_the_queue
}

/// Returns the number of requests to acquire the lock, to watch its node, and to close the session.
fn requests_of_run(world: &World, how: &[&str], path: &str) -> u64 {
    steady_requests(world, || {
        let arguments = [&LONG[..], &["run"], how, &[path, "sh", "-c", "read line"]].concat();
        let mut run = world.command(&arguments).stdin(Stdio::piped()).spawn().expect("it starts");
        world.eventually("a watch", is_watched);
        drop(run.stdin.take());
        let done = ended(run);
        assert_eq!((done.status.code(), error_message(&done)), (Some(1), String::new()));
    })
}

/// Returns the same for the lock itself.
fn requests_of_lock(world: &World, how: &[&str], path: &str) -> u64 {
    steady_requests(world, || {
        let client = world.client();
        let mutex = Mutex::new(&client, path).expect("valid");
        let lock = RwLock::new(&client, path).expect("valid");
        let semaphore = Semaphore::new(&client, path, 2).expect("valid");
        // The end of the session releases the lock.
        world.runtime.block_on(async {
            match how {
                [] => std::mem::forget(mutex.acquire().await.expect("free")),
                ["-s"] => std::mem::forget(lock.read().await.expect("free")),
                ["-x"] => std::mem::forget(lock.write().await.expect("free")),
                _ => std::mem::forget(semaphore.acquire().await.expect("free")),
            }
        });
        world.eventually("a watch", is_watched);
        world.runtime.block_on(client.close());
    })
}

/// A holder watches its node after a moment, and nothing else.
fn is_watched(world: &World) -> bool {
    let is_queue_empty =
        |ensemble: &Ensemble| !ensemble.paths().any(|path| path.contains("/locks/_c_"));
    world.embedded.with(|ensemble| ensemble.watches() == 1 && is_queue_empty(ensemble))
}

#[test]
fn a_run_makes_at_most_one_request_more_than_its_lock() {
    // A path that was used stays, however slow the machine is.
    let never = Duration::from_secs(u32::MAX.into());
    let world = World::with(Config { container_check: never, ..Config::default() });
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let page = include_str!("../../../../docs/zk-lock.md");
    // On a new path, on one that was not used for some minutes, and on one in use.
    for (lock, how, expected) in [
        ("a mutex", &[][..], [(8, 8), (8, 8), (4, 4)]),
        ("`-s`", &["-s"], [(8, 8), (8, 8), (4, 4)]),
        ("`-x`", &["-x"], [(8, 8), (8, 8), (4, 4)]),
        ("`--permits`", &["--permits", "1", "--of", "2"], [(23, 22), (21, 20), (11, 10)]),
    ] {
        let cells = expected.map(|(run, lock)| format!("{run} ({lock})")).join(" | ");
        let label = match lock {
            "`--permits`" => lock,
            _ => "a mutex, `-s`, `-x`",
        };
        let row = format!("| {label} | {cells} |");
        assert!(page.contains(&row), "docs/zk-lock.md has not\n{row}");
        let paths = ["run", "lock"].map(|user| format!("/{lock}/{user}"));
        let counts = || {
            let of_run = requests_of_run(&world, how, &paths[0]);
            (of_run, requests_of_lock(&world, how, &paths[1]))
        };
        let (new, used) = (counts(), counts());
        // Servers delete empty containers, but not the number of permits, and so not its parent.
        for node in ["/locks", "/leases", ""] {
            for path in &paths {
                let _ = world.runtime.block_on(client.delete(&format!("{path}{node}"), None));
            }
        }
        assert_eq!([new, counts(), used], expected, "{lock}");
    }
}
