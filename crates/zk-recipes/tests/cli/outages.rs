//! Sessions that expire, and connections that break, while `zk-lock` waits or watches.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout};

use zk_recipes::{Guard, Mutex, Semaphore};
use zk_testkit::suite::begun;

use crate::{LONG, PATH, World, ended, error_message, out};

/// A lock that a client holds.
fn held(world: &World) -> (Mutex, Guard) {
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    (mutex, guard)
}

fn start(world: &World, arguments: &[&str]) -> Child {
    world.command(&[&LONG[..], arguments].concat()).spawn().expect("zk-lock starts")
}

fn lines(child: &mut Child) -> Lines<BufReader<ChildStdout>> {
    BufReader::new(child.stdout.take().expect("piped")).lines()
}

/// Expires all sessions but that of the holder.
fn expire_others(world: &World, guard: &Guard) {
    let sessions: Vec<_> = world.embedded.with(|ensemble| {
        let is_other = |id: &_| ensemble.ephemerals(*id).all(|path| path != guard.node_path());
        ensemble.sessions().filter(is_other).collect()
    });
    assert!(!sessions.is_empty());
    for session in sessions {
        assert!(world.embedded.expire_session(session));
    }
}

fn break_connections(world: &World) {
    for server in 0..3 {
        world.embedded.kill(server);
    }
    for server in 0..3 {
        world.runtime.block_on(world.embedded.restart(server)).expect("its port is free");
    }
}

#[test]
fn who_waits_queues_again_in_the_next_session() {
    let world = World::new();
    let (_mutex, guard) = held(&world);
    let waiter = start(&world, &["run", PATH, "--", "echo", "me"]);
    world.eventually("a waiter", |world| world.contenders().len() == 2);
    let before = world.contenders();
    expire_others(&world, &guard);
    world.eventually("it queues again", |world| {
        let contenders = world.contenders();
        contenders.len() == 2 && contenders != before
    });
    break_connections(&world);
    world.runtime.block_on(guard.release()).expect("held");
    let output = ended(waiter);
    assert_eq!((output.status.code(), error_message(&output)), (Some(0), String::new()));
    assert_eq!(out(&output), "me\n");
}

#[test]
fn who_waits_is_told_that_no_server_answers() {
    let world = World::new();
    let (_mutex, guard) = held(&world);
    let waits = ["-v", "run", "--report-interval", "0.02", PATH, "true"];
    let mut waiter = start(&world, &waits);
    let mut lines = BufReader::new(waiter.stderr.take().expect("piped")).lines();
    let mut shows = |what: &str| {
        while !lines.next().expect("a line").expect("text").contains(what) {}
    };
    shows(" s; held by ");
    (0..3).for_each(|server| world.embedded.kill(server));
    (0..3).for_each(|_| shows(" s; no server answers"));
    for server in 0..3 {
        world.runtime.block_on(world.embedded.restart(server)).expect("its port is free");
    }
    shows(" s; held by ");
    world.runtime.block_on(guard.release()).expect("held");
    assert!(ended(waiter).status.success());
}

#[test]
fn watch_goes_on_in_the_next_session() {
    let world = World::new();
    let (mutex, guard) = held(&world);
    let mut watching = start(&world, &["watch", PATH]);
    let mut lines = lines(&mut watching);
    let mut line = || lines.next().expect("a line").expect("text");
    assert!(line().starts_with("+ holds"));
    expire_others(&world, &guard);
    let second = begun(mutex.acquire());
    assert!(line().starts_with("+ waits"));
    break_connections(&world);
    world.runtime.block_on(guard.release()).expect("held");
    assert!(line().starts_with("- holds"));
    drop(second);
    watching.kill().expect("it goes on");
    watching.wait().expect("an ended child");
}

#[test]
fn top_says_that_no_server_answers() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    // The first waiter for a permit takes requests to show.
    let semaphore = Semaphore::new(&client, "/permits", 1).expect("valid");
    let _permit = world.runtime.block_on(semaphore.acquire()).expect("free");
    let _waiting = begun(semaphore.acquire());
    let (_mutex, guard) = held(&world);
    let mut printing = start(&world, &["top", "--json", "--interval", "0.01"]);
    let mut drawing = start(&world, &["top", "--interval", "0.01"]);
    let mut counting = start(&world, &["top", "--json", "--interval", "1", "--count", "3"]);
    let (mut printed, mut drawn) = (lines(&mut printing), lines(&mut drawing));
    let mut shows = |json: &str, text: &str| {
        for (lines, what) in [(&mut printed, json), (&mut drawn, text)] {
            while !lines.next().expect("a line").expect("text").contains(what) {}
        }
    };
    shows(r#""connected":true,"#, "zk-lock top / - locks: 2, holders: 2,");
    let mut first = lines(&mut counting);
    first.next().expect("a line").expect("text");
    (0..3).for_each(|server| world.embedded.kill(server));
    for _ in 0..3 {
        shows(r#""connected":false,"#, "zk-lock top / - NO SERVER; last known: locks: 2, ");
    }
    assert_eq!(first.map_while(Result::ok).count(), 2);
    assert_eq!(ended(counting).status.code(), Some(69));
    for server in 0..3 {
        world.runtime.block_on(world.embedded.restart(server)).expect("its port is free");
    }
    shows(r#""connected":true,"#, "zk-lock top / - locks: ");
    drop(guard);
    for mut child in [printing, drawing] {
        child.kill().expect("it goes on");
        child.wait().expect("an ended child");
    }
}

#[test]
fn top_goes_on_in_the_next_session() {
    let world = World::new();
    let (_mutex, guard) = held(&world);
    let mut watching = start(&world, &["top", "--interval", "0.01"]);
    let mut lines = lines(&mut watching);
    let mut shows = |what: &str| {
        while !lines.next().expect("a line").expect("text").contains(what) {}
    };
    shows("holders: 1,");
    expire_others(&world, &guard);
    break_connections(&world);
    world.runtime.block_on(guard.release()).expect("held");
    shows("holders: 0,");
    watching.kill().expect("it goes on");
    watching.wait().expect("an ended child");
}
