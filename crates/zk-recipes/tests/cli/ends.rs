//! How commands and their locks end: by themselves, by signals, or by the loss of the lock.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use zk_recipes::Mutex;
use zk_testkit::server::Config;

use crate::{LONG, PATH, World, ended, ended_by, error_message, out, ready, send, unignoring};

#[test]
fn a_command_gets_sigterm_when_the_lock_is_lost() {
    let world = World::new();
    let script = "trap 'echo signalled; exit 3' TERM; sh -c 'echo ready; exec sleep 1000' & wait";
    let child = world.command(&["run", PATH, "--", "sh", "-c", script]).spawn();
    let mut child = child.expect("zk-lock starts");
    ready(&mut child);
    world.break_lock();
    let output = ended(child);
    assert_eq!((output.status.code(), out(&output)), (Some(73), "signalled\n".to_owned()));
    assert!(
        error_message(&output).contains(&format!("'{PATH}' is lost")),
        "{}",
        error_message(&output)
    );
}

#[test]
fn a_command_gets_sigterm_when_no_server_confirms_the_session() {
    let world = World::with(Config::servers(1).with_tick(Duration::from_millis(200)));
    let script = "trap 'echo signalled; exit 3' TERM; sh -c 'echo ready; exec sleep 1000' & wait";
    let arguments = ["--session-timeout", "4", "run", PATH, "--", "sh", "-c", script];
    let mut child = world.command(&arguments).spawn().expect("zk-lock starts");
    ready(&mut child);
    world.embedded.kill(0);
    let output = ended(child);
    assert_eq!((output.status.code(), out(&output)), (Some(73), "signalled\n".to_owned()));
    assert!(
        error_message(&output).contains(&format!("'{PATH}' is lost")),
        "{}",
        error_message(&output)
    );
}

/// Starts `run` in a long session, with a command that ignores SIGTERM and ends with its standard
/// input.
fn run_until_end_of_input(world: &World) -> Child {
    let script = "trap '' TERM; echo ready; read x; exit 6";
    let arguments = [&LONG[..], &["run", PATH, "--", "sh", "-c", script]].concat();
    let mut child =
        world.command(&arguments).stdin(Stdio::piped()).spawn().expect("zk-lock starts");
    ready(&mut child);
    child
}

#[test]
fn after_the_command_zk_lock_does_not_wait_for_dead_servers() {
    let world = World::new();
    let mut child = run_until_end_of_input(&world);
    world.embedded.kill(0);
    drop(child.stdin.take());
    assert_eq!(ended(child).status.code(), Some(6));
}

#[test]
fn after_the_command_a_signal_ends_the_wait_for_servers() {
    let world = World::new();
    let mut child = run_until_end_of_input(&world);
    // The ensemble answers nothing inside this closure.
    let output = world.embedded.with(|_| {
        drop(child.stdin.take());
        ended_by(child, |child| send("-TERM", &child.id().to_string()))
    });
    assert_eq!((output.status.code(), error_message(&output)), (Some(6), String::new()));
}

#[test]
fn a_waiter_that_gives_up_does_not_wait_for_servers() {
    for (how, signal, code) in [(&["--wait", "1"][..], None, 1), (&[][..], Some("-TERM"), 128 + 15)]
    {
        let world = World::new();
        let (_runtime, client) = (world.runtime.enter(), world.client());
        let mutex = Mutex::new(&client, PATH).expect("valid");
        let _guard = world.runtime.block_on(mutex.acquire()).expect("free");
        let arguments = [&LONG[..], &["run", PATH], how, &["--", "true"]].concat();
        let child = world.command(&arguments).spawn().expect("zk-lock starts");
        world.eventually("a waiter", |world| world.contenders().len() == 2);
        // The ensemble answers nothing inside this closure.
        let output = world.embedded.with(|_| {
            if let Some(signal) = signal {
                send(signal, &child.id().to_string());
            }
            ended(child)
        });
        assert_eq!(output.status.code(), Some(code), "{how:?}");
    }
}

/// Starts `run` with a command that releases the lock after a line of input, and prints the exit
/// code.
fn run_until_release(world: &World, options: &[&str]) -> Child {
    let program = env!("CARGO_BIN_EXE_zk-lock");
    let script = format!("echo ready; read x; '{program}' release; echo $?; read x; exit 5");
    let arguments = [options, &["run", PATH, "--", "sh", "-c", &script]].concat();
    let mut child =
        world.command(&arguments).stdin(Stdio::piped()).spawn().expect("zk-lock starts");
    ready(&mut child);
    child
}

fn enter_line(child: &mut Child) {
    child.stdin.as_mut().expect("piped").write_all(b"\n").expect("the command reads");
}

/// Returns the next characters of the output.
fn next_output<const N: usize>(child: &mut Child) -> String {
    let mut text = [0; N];
    child.stdout.as_mut().expect("piped").read_exact(&mut text).expect("output");
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_release_that_no_server_confirms_fails() {
    for is_silent in [false, true] {
        let world = World::with(Config::servers(1).with_tick(Duration::from_millis(200)));
        let mut child = run_until_release(&world, &["--session-timeout", "4"]);
        let code = if is_silent {
            // The ensemble answers nothing inside this closure.
            world.embedded.with(|_| {
                enter_line(&mut child);
                next_output::<3>(&mut child)
            })
        } else {
            world.embedded.kill(0);
            enter_line(&mut child);
            next_output::<3>(&mut child)
        };
        assert_eq!(code, "70\n", "{is_silent}");
        // The command goes on.
        drop(child.stdin.take());
        let output = ended(child);
        assert_eq!(output.status.code(), Some(5), "{is_silent}");
        let message = error_message(&output);
        assert!(message.contains("the release is not confirmed"), "{message}");
    }
}

#[test]
fn a_release_waits_for_the_next_connection() {
    let world = World::new();
    let mut child = run_until_release(&world, &LONG);
    for server in 0..3 {
        world.embedded.kill(server);
    }
    enter_line(&mut child);
    for server in 0..3 {
        world.runtime.block_on(world.embedded.restart(server)).expect("its port is free");
    }
    assert_eq!(next_output::<2>(&mut child), "0\n");
    assert!(world.contenders().is_empty(), "not released");
    drop(child.stdin.take());
    let output = ended(child);
    assert_eq!((output.status.code(), error_message(&output)), (Some(5), String::new()));
}

#[test]
fn a_release_after_the_loss_of_the_lock_fails_at_once() {
    let world = World::new();
    // Processes that the handler starts at once get SIGTERM, too.
    let script = format!(
        "trap \"trap '' TERM; '{}' release; echo \\$?; exit 3\" TERM; \
         sh -c 'echo ready; exec sleep 1000' & wait",
        env!("CARGO_BIN_EXE_zk-lock")
    );
    let arguments = [&LONG[..], &["run", PATH, "--", "sh", "-c", &script]].concat();
    let mut child = world.command(&arguments).spawn().expect("zk-lock starts");
    ready(&mut child);
    world.break_lock();
    let output = ended(child);
    assert_eq!((output.status.code(), out(&output)), (Some(73), "70\n".to_owned()));
}

#[test]
#[cfg(target_os = "linux")]
fn a_release_fails_if_the_keeper_was_killed() {
    for is_request_first in [false, true] {
        let world = World::new();
        let script = format!(
            "trap '' TERM; echo $PPID; read x; '{}' release; echo $?",
            env!("CARGO_BIN_EXE_zk-lock")
        );
        let arguments = ["run", "--kill-after", "60", PATH, "--", "sh", "-c", &script];
        let mut command = world.command(&[&LONG[..], &arguments].concat());
        let mut child = command.stdin(Stdio::piped()).spawn().expect("zk-lock starts");
        let mut screen = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = || {
            let mut line = String::new();
            screen.read_line(&mut line).expect("text");
            line.trim().to_owned()
        };
        let keeper = line();
        send("-STOP", &keeper);
        if is_request_first {
            enter_line(&mut child);
            std::thread::sleep(Duration::from_millis(200));
        }
        send("-KILL", &keeper);
        if !is_request_first {
            world.eventually("the end of the keeper", |_| {
                !std::path::Path::new(&format!("/proc/{keeper}")).exists()
            });
            enter_line(&mut child);
        }
        assert_eq!(line(), "70", "{is_request_first}");
        assert_eq!(ended(child).status.code(), Some(73), "{is_request_first}");
    }
}

#[test]
fn signals_are_passed_on() {
    let world = World::new();
    let script = "trap 'kill $!; exit 5' HUP; trap 'kill $!; exit 6' INT; \
                  sh -c 'echo ready; exec sleep 1000' & wait";
    for (signal, code) in [("-HUP", 5), ("-INT", 6)] {
        // In its own process group, so outside the foreground of a terminal.
        let mut command = world.command(&["run", PATH, "--", "sh", "-c", script]);
        let mut child = command.process_group(0).spawn().expect("zk-lock starts");
        ready(&mut child);
        send(signal, &child.id().to_string());
        assert_eq!(ended(child).status.code(), Some(code), "{signal}");
        assert!(world.contenders().is_empty(), "not released");
    }
}

#[test]
fn a_signal_at_the_end_of_a_command_does_not_change_its_exit_code() {
    let world = World::new();
    for _ in 0..20 {
        let run = world.run(&["run", PATH, "--", "sh", "-c", "kill -TERM $PPID; exit 3"]);
        assert_eq!((run.status.code(), error_message(&run)), (Some(3), String::new()));
    }
}

/// Commands receive the terminal's signals themselves. This command has left the foreground, so it
/// receives none.
#[test]
#[cfg(target_os = "linux")]
fn signals_from_the_keyboard_are_not_passed_on() {
    let world = World::new();
    let script = "trap 'echo interrupted' INT; trap 'echo signalled; exit 5' TERM; \
                  sh -c 'echo $0; exec sleep 1000' $PPID & wait";
    let script = script.replace('$', "\\$");
    let (program, at) = (env!("CARGO_BIN_EXE_zk-lock"), world.embedded.connect_string());
    let line = format!("exec '{program}' --connect {at} run {PATH} -- setsid sh -c \"{script}\"");
    let mut terminal = unignoring("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`script` of util-linux");
    let mut screen = BufReader::new(terminal.stdout.take().expect("piped"));
    let mut holder = String::new();
    screen.read_line(&mut holder).expect("the holder prints its id");
    let mut keyboard = terminal.stdin.take().expect("piped");
    keyboard.write_all(b"\x03").expect("the terminal reads");
    let mut echo = [0; 2];
    screen.read_exact(&mut echo).expect("the terminal echoes");
    assert_eq!(&echo, b"^C");
    send("-TERM", holder.trim());
    let mut rest = String::new();
    screen.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "signalled\r\n");
    assert_eq!(ended(terminal).status.code(), Some(5));
}
