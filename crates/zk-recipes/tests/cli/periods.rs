//! `run --at-least` and `run --once-per`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use zk_recipes::Mutex;

use crate::{LONG, PATH, World, ended, error_message, out, ready, send};

/// Starts `run --at-least 1h`, and waits for the end of its command.
fn keep(world: &World, script: &str) -> Child {
    let script = format!("echo $$; {script}");
    let arguments = [&LONG[..], &["run", "--at-least", "1h", PATH, "--", "sh", "-c", &script]];
    let mut child = world.command(&arguments.concat()).spawn().expect("zk-lock starts");
    let mut process = String::new();
    let stdout = child.stdout.as_mut().expect("piped");
    BufReader::with_capacity(1, stdout).read_line(&mut process).expect("text");
    let entry = format!("/proc/{}", process.trim());
    world.eventually("the end of the command", |_| !Path::new(&entry).exists());
    child
}

#[test]
fn a_lock_is_held_at_least_as_long_as_asked() {
    let world = World::new();
    for (time, seconds) in [("0.4", 0.4), ("0.4s", 0.4), ("0.01m", 0.6)] {
        let begun = Instant::now();
        let run = world.run(&["run", "--at-least", time, PATH, "--", "sh", "-c", "exit 3"]);
        assert_eq!((run.status.code(), error_message(&run)), (Some(3), String::new()));
        assert!(begun.elapsed() >= Duration::from_secs_f64(seconds), "{:?}", begun.elapsed());
        assert!(world.contenders().is_empty(), "not released");
    }
    // A longer command makes no difference.
    let run = world.run(&["run", "--at-least", "0.01", PATH, "--", "sleep", "0.1"]);
    assert_eq!(run.status.code(), Some(0));
    let wrong = world.run(&["run", "--at-least", "10x", PATH, "--", "true"]);
    assert_eq!(wrong.status.code(), Some(64));
}

#[test]
#[cfg(target_os = "linux")]
fn a_lock_outlasts_its_command_until_a_signal() {
    for (signal, code) in [("-TERM", 128 + 15), ("-HUP", 128 + 1), ("-QUIT", 128 + 3)] {
        let world = World::new();
        let child = keep(&world, "exit 3");
        let other = world.run(&["run", "-n", PATH, "--", "true"]);
        assert_eq!(other.status.code(), Some(1));
        // Without a command, these mean nothing.
        send("-USR1", &child.id().to_string());
        send(signal, &child.id().to_string());
        assert_eq!(ended(child).status.code(), Some(code), "{signal}");
        assert!(world.contenders().is_empty(), "not released");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_loss_after_the_command_is_reported() {
    let world = World::new();
    let child = keep(&world, "exit 3");
    world.break_lock();
    let output = ended(child);
    assert_eq!(output.status.code(), Some(73));
    let message = error_message(&output);
    assert!(message.contains(&format!("'{PATH}' is lost")), "{message}");
}

#[test]
fn a_command_that_is_ended_or_releases_its_lock_does_not_keep_it() {
    let world = World::new();
    let script = format!("'{}' release; exit 4", env!("CARGO_BIN_EXE_zk-lock"));
    let run = world.run(&["run", "--at-least", "1h", PATH, "--", "sh", "-c", &script]);
    assert_eq!((run.status.code(), error_message(&run)), (Some(4), String::new()));
    let script = "trap 'exit 5' TERM; echo ready; sleep 1000 & wait";
    let arguments = ["run", "--at-least", "1h", PATH, "--", "sh", "-c", script];
    let mut child = world.command(&arguments).spawn().expect("zk-lock starts");
    ready(&mut child);
    send("-TERM", &child.id().to_string());
    assert_eq!(ended(child).status.code(), Some(5));
}

/// Runs a command line once per `period`. Returns its exit code and its output.
fn once(world: &World, period: &str, script: &str) -> (Option<i32>, String) {
    let run = world.run(&["run", "--once-per", period, PATH, "--", "sh", "-c", script]);
    assert_eq!(error_message(&run), "");
    (run.status.code(), out(&run))
}

#[test]
fn a_command_that_has_succeeded_lately_is_skipped() {
    let world = World::new();
    let ran = |code| (Some(code), "ran\n".to_owned());
    // Failures do not count.
    for code in [3, 3, 0] {
        assert_eq!(once(&world, "1h", &format!("echo ran; exit {code}")), ran(code));
    }
    for _ in 0..2 {
        assert_eq!(once(&world, "1h", "echo ran; exit 3"), (Some(0), String::new()));
    }
    let verbose = ["-v", "run", "--once-per", "1d", PATH, "--", "echo", "ran"];
    let skipped = world.run(&verbose);
    let messages = String::from_utf8_lossy(&skipped.stderr);
    assert!(messages.contains(&format!("skipped: a command under '{PATH}'")), "{messages}");
    // Another path, other time: a millisecond has passed. That success counts again.
    let elsewhere = world.run(&["run", "--once-per", "1h", "/locks/other", "--", "echo", "ran"]);
    assert_eq!(out(&elsewhere), "ran\n");
    assert_eq!(once(&world, "0.001", "echo ran"), ran(0));
    assert_eq!(once(&world, "1h", "echo ran"), (Some(0), String::new()));
    // A run without the option takes no notice.
    assert_eq!(out(&world.run(&["run", PATH, "--", "echo", "ran"])), "ran\n");
    // As documented.
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let deleted = client.delete(&format!("{PATH}-last-success"), None);
    world.runtime.block_on(deleted).expect("it is there");
    assert_eq!(once(&world, "1h", "echo ran"), ran(0));
    let left: Vec<_> = world.embedded.with(|ensemble| {
        ensemble.paths().filter(|path| path.contains("last-success")).map(str::to_owned).collect()
    });
    assert_eq!(left, ["/locks/cli-last-success", "/locks/other-last-success"]);
}

#[test]
fn a_waiter_is_skipped_if_the_holder_succeeds() {
    for (script, code, said) in [("read x", 0, ""), ("read x; exit 3", 3, "ran\n")] {
        let world = World::new();
        let start = |script: &str| {
            let how = ["run", "--once-per", "1h", PATH, "--", "sh", "-c", script];
            let mut command = world.command(&[&LONG[..], &how].concat());
            command.stdin(Stdio::piped()).spawn().expect("zk-lock starts")
        };
        let mut holder = start(&format!("echo ready; {script}; exit $?"));
        ready(&mut holder);
        let waiter = start("echo ran");
        world.eventually("a waiter", |world| world.contenders().len() == 2);
        holder.stdin.as_mut().expect("piped").write_all(b"\n").expect("it reads");
        assert_eq!(ended(holder).status.code(), Some(code));
        let output = ended(waiter);
        assert_eq!((output.status.code(), &*out(&output)), (Some(0), said));
    }
}

#[test]
fn the_time_counts_when_the_lock_is_acquired_not_when_the_wait_began() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    assert_eq!(once(&world, "1h", "true").0, Some(0));
    let succeeded = Instant::now();
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let arguments = ["run", "--once-per", "1", PATH, "--", "echo", "ran"];
    let waiter = world.command(&[&LONG[..], &arguments].concat()).spawn().expect("it starts");
    world.eventually("a waiter", |world| world.contenders().len() == 2);
    std::thread::sleep(Duration::from_millis(1100).saturating_sub(succeeded.elapsed()));
    world.runtime.block_on(guard.release()).expect("held");
    assert_eq!(out(&ended(waiter)), "ran\n");
}

#[test]
fn a_success_without_the_lock_is_not_remembered() {
    let world = World::new();
    let script = format!("'{}' release", env!("CARGO_BIN_EXE_zk-lock"));
    let run = world.run(&["run", "--once-per", "1h", PATH, "--", "sh", "-c", &script]);
    assert_eq!(run.status.code(), Some(0));
    assert!(error_message(&run).contains("not remembered"), "{}", error_message(&run));
    assert_eq!(once(&world, "1h", "echo ran"), (Some(0), "ran\n".to_owned()));
    for how in [&["--shared"][..], &["--permits", "1"]] {
        let arguments = [&["run", "--once-per", "1h"], how, &[PATH, "true"]].concat();
        let refused = world.run(&arguments);
        assert_eq!(refused.status.code(), Some(64), "{how:?}");
    }
}
