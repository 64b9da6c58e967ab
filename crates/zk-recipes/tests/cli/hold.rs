//! `hold`, and the programs in other languages that the documentation shows.

use std::io::{BufRead as _, BufReader, Read as _, Write as _, pipe};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;
use zk_recipes::{Mutex, Semaphore};
use zk_testkit::skipped::skip;

use crate::{LONG, PATH, World, ended, error_message, out, send, unignoring};

/// Starts `hold` in a long session, with a pipe as its input.
fn hold(world: &World, how: &[&str]) -> Child {
    let mut command = world.command(&[&LONG[..], &["hold", PATH], how].concat());
    // In its own process group, so outside the foreground of a terminal.
    command.process_group(0).stdin(Stdio::piped()).spawn().expect("zk-lock starts")
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("piped");
    BufReader::with_capacity(1, stdout).read_line(&mut line).expect("text");
    line
}

#[test]
fn the_token_is_printed_and_the_end_of_the_input_releases_the_lock() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    for how in [&[][..], &["--wait", "20"], &["--nonblock"]] {
        let mut child = hold(&world, how);
        let token = first_line(&mut child);
        let contenders = world.runtime.block_on(mutex.contenders()).expect("the contenders");
        assert_eq!(token, format!("{}\n", contenders[0].token.0), "{how:?}");
        let data = String::from_utf8_lossy(contenders[0].data.as_deref().expect("readable"));
        let parent = format!(" pid {}: ", std::process::id());
        assert!(data.contains(&parent), "{data}");
        // Its text is not the end.
        child.stdin.as_mut().expect("piped").write_all(b"text\n").expect("it reads");
        assert_eq!(world.contenders().len(), 1);
        drop(child.stdin.take());
        let output = ended(child);
        assert_eq!((output.status.code(), error_message(&output)), (Some(0), String::new()));
        assert_eq!(out(&output), "");
        assert!(world.contenders().is_empty(), "not released");
    }
}

#[test]
fn a_signal_releases_the_lock_and_stops_of_a_terminal_do_nothing() {
    for signal in ["-TERM", "-INT", "-HUP"] {
        let world = World::new();
        let mut child = hold(&world, &["-x"]);
        assert!(!first_line(&mut child).is_empty());
        send("-TSTP", &child.id().to_string());
        send(signal, &child.id().to_string());
        assert_eq!(ended(child).status.code(), Some(0), "{signal}");
        assert!(world.contenders().is_empty(), "not released");
    }
}

/// The program gets the signal as well, and goes on with its lock.
#[test]
#[cfg(target_os = "linux")]
fn signals_from_the_keyboard_are_left_to_the_program() {
    let world = World::new();
    let (program, at) = (env!("CARGO_BIN_EXE_zk-lock"), world.embedded.connect_string());
    let script = format!(
        "trap 'echo interrupted' INT; coproc '{program}' --connect {at} hold {PATH}; \
         read -u ${{COPROC[0]}} token; echo ready; read x; kill -0 $COPROC_PID && echo held; read x; \
         exec {{COPROC[1]}}>&-; wait $COPROC_PID; exit $?"
    );
    let folder = TempDir::new().expect("a temporary folder");
    let file = folder.path().join("script");
    std::fs::write(&file, script).expect("a file");
    let mut terminal = unignoring("script")
        .args(["--quiet", "--return", "--command", &format!("exec bash {}", file.display())])
        .arg("/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`script` of util-linux");
    let mut screen = BufReader::new(terminal.stdout.take().expect("piped")).lines();
    let mut shows = |text: &str| {
        let mut lines = screen.by_ref().map(|line| line.expect("text"));
        assert!(lines.any(|line| line.contains(text)), "{text}");
    };
    let mut keyboard = terminal.stdin.take().expect("piped");
    shows("ready");
    keyboard.write_all(b"\x03").expect("the terminal reads");
    shows("interrupted");
    keyboard.write_all(b"\n").expect("the terminal reads");
    shows("held");
    assert_eq!(world.contenders().len(), 1);
    keyboard.write_all(b"\n").expect("the terminal reads");
    assert_eq!(ended(terminal).status.code(), Some(0));
    assert!(world.contenders().is_empty(), "not released");
}

#[test]
fn a_loss_ends_the_output_and_has_its_exit_code() {
    for (how, code) in [(&[][..], 73), (&["--lost-exit-code", "9"], 9)] {
        let world = World::new();
        let mut child = hold(&world, how);
        assert!(!first_line(&mut child).is_empty());
        world.break_lock();
        let mut rest = String::new();
        child.stdout.as_mut().expect("piped").read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "");
        let output = ended(child);
        assert_eq!(output.status.code(), Some(code));
        let message = error_message(&output);
        assert!(message.contains(&format!("'{PATH}' is lost")), "{message}");
    }
}

#[test]
fn a_program_that_is_killed_leaves_no_lock_and_no_waiter() {
    let world = World::new();
    let start = || {
        let (reader, writer) = pipe().expect("a pipe");
        let program = Command::new("sleep").arg("1000").stdout(writer).spawn().expect("sleep");
        let mut command = world.command(&[&LONG[..], &["hold", PATH]].concat());
        (program, command.stdin(reader).spawn().expect("zk-lock starts"))
    };
    let mut holder = start();
    assert!(!first_line(&mut holder.1).is_empty());
    let waiter = start();
    world.eventually("a waiter", |world| world.contenders().len() == 2);
    for ((mut program, child), code) in [(waiter, 70), (holder, 0)] {
        program.kill().expect("running");
        program.wait().expect("a child");
        assert_eq!(ended(child).status.code(), Some(code));
    }
    assert!(world.contenders().is_empty(), "not released");
}

const NO_INPUT: &str = "was not acquired: the standard input has ended";

/// The conflict exit code would say that another contender has it.
#[test]
fn without_an_input_a_free_lock_is_no_conflict() {
    let world = World::new();
    let output = world.run(&["hold", "-E", "7", PATH]);
    assert_eq!((output.status.code(), out(&output)), (Some(70), String::new()));
    assert!(error_message(&output).ends_with(NO_INPUT), "{}", error_message(&output));
}

#[test]
fn a_lock_that_is_not_acquired_prints_no_token() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let semaphore = Semaphore::new(&client, PATH, 2).expect("valid");
    let permits = world.runtime.block_on(semaphore.acquire_many(2)).expect("free");
    let how = ["--permits", "1", "--of", "2"];
    for (limit, code) in [(&["-n"][..], 1), (&["-w", "0.1"], 1), (&["-n", "-E", "7"], 7)] {
        let child = hold(&world, &[&how[..], limit].concat());
        let output = ended_with_input(child);
        assert_eq!((output.status.code(), out(&output)), (Some(code), String::new()), "{limit:?}");
        assert!(error_message(&output).contains("was not acquired"), "{}", error_message(&output));
    }
    // The program closes the pipe, or gets a signal, while it waits.
    let waiting = || {
        let child = hold(&world, &how);
        // With a node in the queue, and one for the permit that it waits for.
        world.eventually("a waiter", |world| world.contenders().len() == 4);
        child
    };
    let mut child = waiting();
    drop(child.stdin.take());
    let output = ended(child);
    assert_eq!((output.status.code(), out(&output)), (Some(70), String::new()));
    assert!(error_message(&output).ends_with(NO_INPUT), "{}", error_message(&output));
    let child = waiting();
    send("-TERM", &child.id().to_string());
    assert_eq!(ended(child).status.code(), Some(128 + 15));
    drop(permits);
}

/// Waits for the end of a process whose input stays open.
fn ended_with_input(mut child: Child) -> Output {
    let _input = child.stdin.take();
    ended(child)
}

/// A program of the documentation, with the function `work` that it calls. This prints the token,
/// and returns after a line of input.
struct Sample {
    language: &'static str,
    check: &'static str,
    command: &'static str,
    file: &'static str,
    /// Before the sample, or in a file of its own.
    work: (Option<&'static str>, &'static str),
}

const SAMPLES: [Sample; 3] = [
    Sample {
        language: "python",
        check: "python3 --version",
        command: "python3 report.py",
        file: "report.py",
        work: (None, "def work(token): print(token, flush=True); input()"),
    },
    Sample {
        language: "js",
        check: "node --version",
        command: "node report.js",
        file: "report.js",
        work: (
            None,
            "const work = (token) => new Promise((done) => { \
             console.log(token); process.stdin.once('data', done) });",
        ),
    },
    Sample {
        language: "go",
        check: "go version",
        command: "GO111MODULE=off GOCACHE=$PWD/cache go build -o report . && exec ./report",
        file: "report.go",
        work: (
            Some("work.go"),
            "package main; import \"fmt\"; \
             func work(token int64) { fmt.Println(token); fmt.Scanln() }",
        ),
    },
];

/// Returns the block of code in this language.
fn sample(language: &str) -> &'static str {
    let page = include_str!("../../../../docs/zk-lock.md");
    let (_, rest) = page.split_once(&format!("```{language}\n")).expect(language);
    rest.split_once("```\n").expect("an end").0
}

#[test]
fn programs_in_other_languages_hold_a_lock_and_end_with_it() {
    const REPORT: &str = "/locks/report";
    for Sample { language, check, command, file, work: (work_file, work) } in SAMPLES {
        let is_there = unignoring("sh").args(["-c", check]).output().expect("sh starts");
        if !is_there.status.success() {
            skip(format!("no {language}: `{check}` fails"));
            continue;
        }
        let folder = TempDir::new().expect("a temporary folder");
        let write = |file, text: String| {
            std::fs::write(folder.path().join(file), text).expect("a file");
        };
        match work_file {
            Some(work_file) => {
                write(work_file, work.to_owned());
                write(file, sample(language).to_owned());
            }
            None => write(file, format!("{work}\n{}", sample(language))),
        }
        let world = World::new();
        let (_runtime, client) = (world.runtime.enter(), world.client());
        let mutex = Mutex::new(&client, REPORT).expect("valid");
        let contenders = || world.runtime.block_on(mutex.contenders()).expect("the contenders");
        let bin = Path::new(env!("CARGO_BIN_EXE_zk-lock")).parent().expect("a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        for is_lost in [false, true] {
            let mut program = unignoring("sh");
            program.args(["-c", command]).current_dir(folder.path());
            program.env("PATH", format!("{}:{path}", bin.display()));
            program.env("ZK_LOCK_CONNECT", world.embedded.connect_string());
            program.env("ZK_LOCK_SESSION_TIMEOUT", "40");
            program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut program = program.spawn().expect("sh starts");
            let token = first_line(&mut program);
            let holder = contenders().remove(0);
            assert_eq!(token, format!("{}\n", holder.token.0), "{language}");
            if is_lost {
                let node = format!("{REPORT}/{}", holder.node);
                world.runtime.block_on(client.delete(&node, None)).expect("deleted");
            } else {
                program.stdin.as_mut().expect("piped").write_all(b"\n").expect("it reads");
            }
            let output = ended_with_input(program);
            let code = if is_lost { 73 } else { 0 };
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{language}: {errors}");
            assert_eq!(errors.contains("is lost"), is_lost, "{language}: {errors}");
            world.eventually("the release", |_| contenders().is_empty());
        }
    }
}
