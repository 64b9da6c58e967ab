//! Who gets a lock, and what others see of it.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use zk_recipes::{Mutex, RwLock, Semaphore};
use zk_testkit::scripted;

use crate::{LONG, PATH, World, complaint, ended, out, ready};

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
fn a_command_and_its_arguments_are_bytes_and_the_path_of_a_lock_is_text() {
    let world = World::new();
    let run = |path: &OsStr, command: [&OsStr; 2]| {
        let mut run = world.command(&["run"]);
        ended(run.arg(path).arg("--").args(command).spawn().expect("it runs"))
    };
    let no_text = OsStr::from_bytes(b"caf\xe9");
    let said = run(PATH.as_ref(), ["echo".as_ref(), no_text]);
    assert_eq!((&*said.stdout, complaint(&said)), (&b"caf\xe9\n"[..], String::new()));
    let missing = run(PATH.as_ref(), [no_text, "argument".as_ref()]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(complaint(&missing).contains("caf\u{fffd}"), "{}", complaint(&missing));
    let nowhere = run(no_text, ["echo".as_ref(), "me".as_ref()]);
    assert_eq!((nowhere.status.code(), out(&nowhere)), (Some(2), String::new()));
}

#[test]
fn a_lock_that_is_taken_is_not_waited_for_longer_than_said() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    for how in [&["--try"][..], &["--timeout", "0"], &["--timeout", "0.1"]] {
        let arguments = [&["run", PATH], how, &["--", "echo", "not me"]].concat();
        let output = world.run(&arguments);
        assert_eq!((output.status.code(), out(&output)), (Some(1), String::new()), "{how:?}");
        let complaint = complaint(&output);
        assert!(complaint.contains(PATH) && !complaint.contains("server"), "{complaint}");
    }
    world.runtime.block_on(guard.release()).expect("held");
    for how in [&["--try"][..], &["--timeout", "0"]] {
        let output = world.run(&[&["run", PATH], how, &["--", "echo", "me"]].concat());
        assert_eq!((output.status.code(), out(&output)), (Some(0), "me\n".to_owned()), "{how:?}");
    }
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
    let data = String::from_utf8_lossy(contenders[0].data.as_deref().expect("readable"));
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
fn a_timeout_longer_than_that_of_the_session_is_for_servers_too() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zk-lock"));
    command.args(["--connect", "127.0.0.1:1", "--session-timeout", "0.1", "run", PATH]);
    let output = command.args(["--timeout", "1", "-E", "9", "--", "true"]).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(9), "it waits as long as it was told to");
    assert!(complaint(&output).contains("no server has answered"));
}

#[test]
fn a_timeout_is_for_servers_too() {
    let begun = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_zk-lock"));
    command.args(["--connect", "127.0.0.1:1", "run", PATH, "--timeout", "0.2", "-E", "9"]);
    let output = command.args(["--", "true"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(9));
    let complaint = complaint(&output);
    assert!(
        complaint.contains(PATH) && complaint.contains("no server has answered"),
        "{complaint}"
    );
    assert!(begun.elapsed() < Duration::from_secs(8), "it would wait for ten seconds by itself");
}

#[test]
fn whoever_only_tries_does_not_wait_for_a_connection_that_is_lost() {
    for how in [&["--try"][..], &["--timeout", "0"]] {
        // It serves nobody any more when it is asked for the first time.
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
        let output = ended(command.spawn().expect("it runs"));
        assert_eq!((output.status.code(), out(&output)), (Some(9), String::new()), "{how:?}");
        let complaint = complaint(&output);
        assert!(complaint.contains(PATH) && complaint.contains("no connection"), "{complaint}");
    }
}

#[test]
fn whoever_only_tries_waits_for_the_first_server_as_long_as_the_session_timeout() {
    for how in [&["--try"][..], &["--timeout", "0"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zk-lock"));
        command.args(["--connect", "127.0.0.1:1", "--session-timeout", "0.1", "run", PATH]);
        let output = command.args(how).args(["-E", "9", "--", "true"]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(9), "{how:?}");
        assert!(complaint(&output).contains("127.0.0.1:1"), "{}", complaint(&output));
    }
}
