//! `ls`, `watch` and `break`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;
use std::time::Duration;

use zk_recipes::session::proto::{Acl, Id, Perms};
use zk_recipes::{Mutex, Options, RwLock, Semaphore};
use zk_testkit::server::Config;

use crate::{PATH, World, ended, error_message, out};

#[test]
fn all_holders_and_waiters_are_shown() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let lock = RwLock::with(&client, PATH, Options::new().data("host-7\u{7}\u{202e}  \u{5d0}"))
        .expect("valid");
    let reader = world.runtime.block_on(lock.read()).expect("free");
    let _writer = lock.write();
    world.eventually("two", |world| world.contenders().len() == 2);
    let output = world.run(&["ls", PATH]);
    assert_eq!((output.status.code(), error_message(&output)), (Some(0), String::new()));
    let text = out(&output);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(lines[0], format!("{PATH}: read/write lock"));
    assert!(lines[1].starts_with("STATE"));
    assert!(
        lines[2].starts_with("holds, shared")
            && lines[2].contains(r"host-7\u{7}\u{202e} \u{20}\u{5d0}  "),
        "{text}"
    );
    assert!(lines[3].starts_with("waits"), "{text}");
    let (_, number) = reader.node().split_at(reader.node().len() - 10);
    assert_eq!(
        lines[3].split_whitespace().nth(2),
        Some(number),
        "it does not wait for the reader: {text}"
    );

    // A path that does not exist looks the same, since servers delete the path of an unused lock.
    let nowhere = world.run(&["ls", "/nowhere"]);
    assert_eq!(nowhere.status.code(), Some(0));
    assert_eq!(out(&nowhere), "/nowhere: no holder, no waiters\n");
}

#[test]
fn a_contender_is_removed_after_confirmation() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let arguments = ["break", PATH, "--node", guard.node()];
    let answered = |answer: &str| {
        let mut child =
            world.command(&arguments).stdin(Stdio::piped()).spawn().expect("zk-lock starts");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(answer.as_bytes()).expect("zk-lock reads");
        drop(stdin);
        ended(child)
    };
    assert_eq!(answered("n\n").status.code(), Some(1));
    assert_eq!(world.contenders().len(), 1);
    assert_eq!(answered("y\n").status.code(), Some(0));
    assert!(world.contenders().is_empty());
    let again = world.run(&[&arguments[..], &["--yes"]].concat());
    assert_eq!(again.status.code(), Some(2));
    assert!(error_message(&again).contains(guard.node()));
    let help = out(&world.run(&["break", "--help"]));
    for code in ["with 0 if", "with 1 if", "with 2 if"] {
        assert!(help.split_whitespace().collect::<Vec<_>>().join(" ").contains(code), "{help}");
    }
}

#[test]
fn an_unreadable_node_is_shown_and_can_be_removed() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let nobody_reads = [Acl { perms: Perms::DELETE, id: Id::ANYONE }];
    let mutex = Mutex::with(&client, PATH, Options::new().acl(&nobody_reads)).expect("valid");
    for how in [&["--yes"][..], &[]] {
        let guard = world.runtime.block_on(mutex.acquire()).expect("free");
        let output = world.run(&["ls", PATH]);
        assert_eq!((output.status.code(), error_message(&output)), (Some(0), String::new()));
        let text = out(&output);
        assert!(text.contains(guard.node()) && text.contains("(not readable)"), "{text}");
        let arguments = [&["break", PATH, "--node", guard.node()], how].concat();
        let mut child =
            world.command(&arguments).stdin(Stdio::piped()).spawn().expect("zk-lock starts");
        // With `--yes` it does not read its input.
        let _ = child.stdin.take().expect("piped").write_all(b"y\n");
        assert_eq!(ended(child).status.code(), Some(0));
        assert!(world.contenders().is_empty());
    }
    for name in ["", "..", "leases", "a/b", "\u{202e}"] {
        let output = world.run(&["break", PATH, "--yes", "--node", name]);
        assert_eq!(output.status.code(), Some(2), "{name:?}");
        assert!(error_message(&output).is_ascii(), "{}", error_message(&output));
    }
}

#[test]
fn a_permit_node_is_removed_by_its_name() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let semaphore = Semaphore::new(&client, PATH, 1).expect("valid");
    let permit = world.runtime.block_on(semaphore.acquire()).expect("free");
    let output = world.run(&["break", PATH, "--yes", "--node", permit.node()]);
    assert_eq!((output.status.code(), error_message(&output)), (Some(0), String::new()));
    assert!(world.contenders().is_empty());
}

#[test]
fn the_session_stays_alive_while_break_waits_for_an_answer() {
    let world = World::with(Config::servers(1).with_tick(Duration::from_millis(200)));
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let arguments = ["--session-timeout", "1", "break", PATH, "--node", guard.node()];
    let mut child =
        world.command(&arguments).stdin(Stdio::piped()).spawn().expect("zk-lock starts");
    let mut question = [0; 1];
    child.stdout.as_mut().expect("piped").read_exact(&mut question).expect("zk-lock asks");
    std::thread::sleep(Duration::from_millis(2500));
    child.stdin.take().expect("piped").write_all(b"y\n").expect("zk-lock reads");
    let output = ended(child);
    assert_eq!((output.status.code(), error_message(&output)), (Some(0), String::new()));
    assert!(world.contenders().is_empty());
}

#[test]
fn a_waiter_for_permits_is_not_shown_as_a_holder() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let semaphore = Semaphore::new(&client, PATH, 2).expect("valid");
    let permits = world.runtime.block_on(semaphore.acquire_many(2)).expect("free");
    let waiting = semaphore.acquire();
    world.eventually("three permit nodes", |world| {
        world.contenders().iter().filter(|node| node.contains("-lease-")).count() == 3
    });
    let text = out(&world.run(&["ls", PATH]));
    assert_eq!(text.lines().filter(|line| line.starts_with("holds")).count(), 2, "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("waits")).count(), 2, "{text}");
    drop((permits, waiting));
}

#[test]
fn watch_prints_changes() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let first = world.runtime.block_on(mutex.acquire()).expect("free");
    let mut child = world.command(&["watch", PATH]).spawn().expect("zk-lock starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert_eq!(line(), format!("+ holds {} -", first.node()));
    let second = mutex.acquire();
    assert!(line().starts_with("+ waits"));
    world.runtime.block_on(first.release()).expect("held");
    assert!(line().starts_with("- holds"));
    assert!(line().starts_with("- waits"));
    assert!(line().starts_with("+ holds"));
    let _second = world.runtime.block_on(second).expect("acquired");
    child.kill().expect("zk-lock starts");
    child.wait().expect("an ended child");
}
