//! No process of a command outlives its lock, however either ends.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use zk_recipes::Mutex;
use zk_testkit::server::Config;
use zk_testkit::skipped::skip;

use crate::terminal::state;
use crate::{LONG, PATH, World, ended, error_message, out, output, send, unignoring};

/// `zk-lock run` in a session that does not expire, and the output of its command.
struct Job {
    zk_lock: Child,
    stdin: Option<ChildStdin>,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Job {
    /// Runs `sh -c script`. Descriptor 3 of the script is the end of a pipe: a process that reads
    /// from it runs until [`Self::release`].
    fn start(world: &World, how: &[&str], script: &str) -> Self {
        let script = format!("exec 3<&0; {script}");
        let arguments = [&LONG[..], &["run", PATH], how, &["--", "sh", "-c", &script]].concat();
        Self::spawn(world.command(&arguments))
    }

    fn spawn(mut command: Command) -> Self {
        // In its own process group, like a job of a shell. Otherwise Linux could send SIGHUP to all
        // processes of these tests when a command ends while a process is stopped.
        command.process_group(0);
        let mut zk_lock = command.stdin(Stdio::piped()).spawn().expect("zk-lock starts");
        let lines = BufReader::new(zk_lock.stdout.take().expect("piped")).lines();
        Self { stdin: zk_lock.stdin.take(), zk_lock, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line of output").expect("text")
    }

    fn id(&self) -> String {
        self.zk_lock.id().to_string()
    }

    fn release(&mut self) {
        drop(self.stdin.take());
    }

    fn code(self) -> Option<i32> {
        ended(self.zk_lock).status.code()
    }
}

fn is_running(pid: &str) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// A process that prints its id, and leaves its session; the second one also ignores signals.
const DAEMON: &str = "setsid sh -c 'echo $$; read x <&3' &";
const STUBBORN_DAEMON: &str = "setsid sh -c 'trap \"\" HUP INT QUIT TERM; echo $$; read x <&3' &";

#[test]
fn a_signal_ends_every_process_of_the_command() {
    for (signal, code) in [("-TERM", 128 + 15), ("-HUP", 128 + 1), ("-QUIT", 128 + 3)] {
        let world = World::new();
        // The shell has a child, which has one.
        let mut job = Job::start(&world, &[], "sh -c 'echo $$; read x <&3; true'; true");
        let process = job.line();
        send(signal, &job.id());
        assert_eq!(job.code(), Some(code), "{signal}");
        assert!(!is_running(&process) && world.contenders().is_empty(), "{signal}");
    }
}

#[test]
fn a_process_that_outlives_the_command_keeps_the_lock() {
    for daemon in ["sh -c 'echo $$; read x <&3' &", DAEMON] {
        let world = World::new();
        let mut job = Job::start(&world, &[], &format!("echo $$; {daemon} exit 4"));
        let (command, process) = (job.line(), job.line());
        world.eventually("the end of the command", |_| !is_running(&command));
        let next = world.run(&["run", PATH, "--nonblock", "--", "true"]);
        assert_eq!(next.status.code(), Some(1), "{}", error_message(&next));
        assert!(is_running(&process));
        job.release();
        assert_eq!(job.code(), Some(4));
        assert!(!is_running(&process) && world.contenders().is_empty());
    }
}

#[test]
fn a_signal_ends_processes_that_outlived_the_command() {
    // Shells make processes in the background ignore interrupts.
    for signal in ["-TERM", "-INT"] {
        let world = World::new();
        let mut job = Job::start(&world, &[], &format!("echo $$; {DAEMON} exit 4"));
        let (command, process) = (job.line(), job.line());
        world.eventually("the end of the command", |_| !is_running(&command));
        let zk_lock = job.id();
        // The keeper may not have noticed yet that the command has ended.
        world.eventually("the end of the remaining process", |_| {
            let _ = Command::new("kill").args([signal, &zk_lock]).stderr(Stdio::null()).status();
            !is_running(&process)
        });
        assert_eq!(job.code(), Some(4));
        assert!(world.contenders().is_empty());
    }
}

#[test]
fn if_supervisor_or_keeper_is_killed_the_command_ends_before_the_lock_is_free() {
    let world = World::new();
    let script = format!("trap '' TERM; echo $$; echo $PPID; {STUBBORN_DAEMON} read x");
    let killed = |of: fn(&Job, &str) -> String| {
        let mut job = Job::start(&world, &["--kill-after", "0.01"], &script);
        let (command, keeper, daemon) = (job.line(), job.line(), job.line());
        send("-KILL", &of(&job, &keeper));
        world.eventually("the end of all processes", |_| {
            !is_running(&command) && !is_running(&daemon)
        });
        job.code()
    };
    assert_eq!(killed(|job, _| job.id()), None);
    // The keeper closes the session, which releases the lock.
    world.eventually("a free lock", |world| world.contenders().is_empty());
    assert_eq!(killed(|_, keeper| keeper.to_owned()), Some(73));
}

/// A key of the terminal interrupts both at once, and the keeper may end first.
#[test]
fn an_interrupt_is_noticed_after_the_end_of_the_keeper() {
    let world = World::new();
    let mut job = Job::start(&world, &[], "echo $PPID; read x <&3");
    let keeper = job.line();
    send("-STOP", &job.id());
    send("-INT", &keeper);
    send("-INT", &job.id());
    world.eventually("the end of the keeper", |_| state(&keeper) == 'Z');
    send("-CONT", &job.id());
    assert_eq!(ended(job.zk_lock).status.signal(), Some(2));
}

#[test]
fn if_supervisor_and_keeper_are_killed_the_command_gets_sigterm() {
    let world = World::new();
    let script = "trap 'echo signalled; exit' TERM; sh -c 'echo $0; read x <&3' $PPID & wait";
    let mut job = Job::start(&world, &[], script);
    let keeper = job.line();
    // Neither notices the end of the other.
    send("-STOP", &keeper);
    send("-KILL", &job.id());
    send("-KILL", &keeper);
    assert_eq!(job.line(), "signalled");
}

#[test]
fn a_lost_lock_has_its_own_exit_code_and_leaves_no_process() {
    for (how, code) in [(&[][..], 73), (&["--lost-exit-code", "9"][..], 9)] {
        for script in ["trap 'exit 0' TERM; read x & wait", "trap '' TERM; read x; exit 0"] {
            let world = World::new();
            let how = [&["--kill-after", "0.01"], how].concat();
            let mut job = Job::start(&world, &how, &format!("{STUBBORN_DAEMON} {script}"));
            let daemon = job.line();
            world.break_lock();
            assert_eq!(job.code(), Some(code), "{script}");
            assert!(!is_running(&daemon), "{script}");
        }
    }
}

#[test]
fn broken_pipes_for_the_output_change_nothing() {
    let world = World::new();
    let script = "trap 'exit 0' TERM; sh -c 'echo ready >&3; exec sleep 1000' & wait";
    let (mut output, input) = std::io::pipe().expect("a pipe");
    let program = env!("CARGO_BIN_EXE_zk-lock");
    let at = world.embedded.connect_string();
    let line = format!("exec '{program}' --connect {at} run {PATH} -- sh -c \"{script}\" 3>&0 <&-");
    let mut command = unignoring("sh");
    command.args(["-c", &line]).stdin(input);
    // Both are broken pipes.
    command.stdout(std::io::pipe().expect("a pipe").1).stderr(std::io::pipe().expect("a pipe").1);
    let zk_lock = command.spawn().expect("zk-lock starts");
    // It holds the other end of the pipe, without which a read would never end.
    drop(command);
    let mut ready = [0; 6];
    std::io::Read::read_exact(&mut output, &mut ready).expect("the command prints `ready`");
    world.break_lock();
    assert_eq!(ended(zk_lock).status.code(), Some(73));
}

/// Returns a pipe that takes no more bytes until somebody reads it.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut dd = unignoring("dd");
    dd.args(["if=/dev/zero", "of=/dev/fd/1", "oflag=nonblock", "bs=4096"]);
    dd.stdout(writer.try_clone().expect("a descriptor")).stderr(Stdio::null());
    assert!(!dd.status().expect("dd of coreutils").success(), "it ends when the pipe is full");
    (reader, writer)
}

#[test]
fn messages_that_nobody_reads_do_not_delay_the_end_of_a_command() {
    let world = World::new();
    let script = "trap '' TERM; exec 3<&0; echo $$; echo $PPID; read x <&3";
    let run = ["run", PATH, "--kill-after", "0.01", "--", "sh", "-c", script];
    // The last one leaves a session behind, which keeps the lock.
    for (killed, code) in [("nobody", Some(73)), ("supervisor", None), ("keeper", Some(73))] {
        let (reader, full) = full_pipe();
        let mut zk_lock = world.command(&[&LONG[..], &run].concat());
        zk_lock.stderr(full);
        let mut job = Job::spawn(zk_lock);
        let (command, keeper) = (job.line(), job.line());
        match killed {
            "keeper" => send("-KILL", &keeper),
            "supervisor" => send("-KILL", &job.id()),
            _ => world.break_lock(),
        }
        world.eventually("the end of the command", |_| !is_running(&command));
        assert_eq!(job.code(), code, "killed: {killed}");
        drop(reader);
        if killed != "keeper" {
            world.eventually("a free lock", |world| world.contenders().is_empty());
        }
    }
}

#[test]
fn the_granted_session_timeout_limits_the_end_of_a_command() {
    let max_session_timeout = Duration::from_secs(2);
    let world = World::with(Config { max_session_timeout, ..Config::default() });
    let script = "trap '' TERM; exec 3<&0; echo $$; echo $PPID; read x <&3";
    let run = ["--session-timeout", "3000", "run", PATH, "--", "sh", "-c", script];
    let mut job = Job::spawn(world.command(&run));
    let (command, keeper) = (job.line(), job.line());
    send("-KILL", &keeper);
    world.eventually("the end of the command", |_| !is_running(&command));
    assert_eq!(job.code(), Some(73));
}

#[test]
fn a_command_may_end_at_the_moment_at_which_its_keeper_is_killed() {
    let world = World::new();
    for number in 0..10 {
        let path = format!("{PATH}/{number}");
        let run = ["run", "--kill-after", "60", &path, "--", "sh", "-c", "kill -9 $PPID"];
        assert_eq!(world.run(&run).status.code(), Some(73));
    }
}

#[test]
fn a_command_may_have_any_time_to_end() {
    for kill_after in ["1e15", "1.8e19"] {
        let world = World::new();
        // A shell may miss a signal while it forks, so its child prints the line.
        let script = "trap 'exit 0' TERM; sh -c 'echo; read x <&3' & wait";
        let mut job = Job::start(&world, &["--kill-after", kill_after], script);
        job.line();
        world.break_lock();
        assert_eq!(job.code(), Some(73), "{kill_after}");
    }
}

/// In a container that was entered without a new session, the process group and the session may
/// belong to another namespace. Their numbers are 0 then.
#[test]
fn a_process_group_of_another_namespace_does_no_harm() {
    let world = World::new();
    let unshare = |program| {
        let mut command = unignoring("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", program]);
        command.stderr(Stdio::inherit());
        command
    };
    if !unshare("true").status().expect("`unshare` of util-linux").success() {
        return skip("this machine cannot create namespaces");
    }
    let mut command = unshare(env!("CARGO_BIN_EXE_zk-lock"));
    command.args(["--connect", &world.embedded.connect_string(), "run", PATH, "--"]);
    command.args(["sh", "-c", "(sleep 0.1; echo later) & exit 7"]);
    let output = ended(command.stdout(Stdio::piped()).spawn().expect("zk-lock starts"));
    assert_eq!((output.status.code(), out(&output)), (Some(7), "later\n".to_owned()));
}

/// Copies `zk-lock` to where every user can start it: the repository may lie where only its owner has
/// access.
pub(crate) fn program_for_all() -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a temporary folder");
    std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("ours");
    let program = folder.path().join("zk-lock");
    copy_program(&program);
    (folder, program)
}

/// Copies `zk-lock`.
fn copy_program(to: &Path) {
    // Another process writes the copy. Children of other tests could inherit a descriptor of ours,
    // and no program runs that is open for writing.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_zk-lock")).arg(to).status();
    assert!(copied.expect("cp runs").success());
}

#[test]
fn a_program_replaced_while_it_waits_runs_its_command() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let folder = TempDir::new().expect("a temporary folder");
    let program = folder.path().join("zk-lock");
    copy_program(&program);
    let mut command = Command::new(&program);
    command.args(["--connect", &world.embedded.connect_string()]).args(LONG);
    command.args(["run", PATH, "--", "echo", "ran"]);
    let zk_lock =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("zk-lock starts");
    world.eventually("a waiter", |world| world.contenders().len() == 2);
    let new = folder.path().join("new");
    std::fs::write(&new, "no program").expect("an upgrade");
    std::fs::rename(new, &program).expect("an upgrade");
    world.runtime.block_on(guard.release()).expect("held");
    let output = ended(zk_lock);
    assert_eq!((output.status.code(), out(&output)), (Some(0), "ran\n".to_owned()));
}

/// Returns the ignored and blocked signals of a program that `command` starts.
fn signals_of(mut command: Command) -> Vec<String> {
    let output = command.stderr(Stdio::inherit()).output().expect("zk-lock starts");
    let text = out(&output);
    let masks = text.lines().filter_map(|line| line.split_once(":\t"));
    let masks = masks.map(|(name, mask)| {
        let mask = u64::from_str_radix(mask, 16).expect("a mask");
        // Without those of the C library's threads.
        format!("{name} {:x}", mask & !(3 << 31))
    });
    masks.collect()
}

#[test]
fn a_command_inherits_signals_as_without_zk_lock() {
    let world = World::new();
    let show = "grep -E 'Sig(Ign|Blk)' /proc/self/status";
    let zk_lock = format!(
        "'{}' --connect {} run {PATH} --",
        env!("CARGO_BIN_EXE_zk-lock"),
        world.embedded.connect_string()
    );
    for before in [
        "exec",
        "trap '' HUP; exec",
        "trap '' INT QUIT TERM USR1 TSTP TTOU CONT; exec",
        // The command gets the default action of SIGPIPE.
        "exec env --ignore-signal=PIPE",
        "exec env --block-signal=CHLD",
        "exec env --block-signal",
    ] {
        let run = |with: &str| {
            let mut command = unignoring("sh");
            command.args(["-c", &format!("{before} {with} {show}")]);
            signals_of(command)
        };
        let is_pipe = before.ends_with("PIPE");
        let bare = run(if is_pipe { "env --default-signal=PIPE" } else { "env" });
        assert_eq!((bare.len(), run(&zk_lock)), (2, bare), "{before}");
    }
}

#[test]
fn ignored_signals_stay_ignored() {
    let world = World::new();
    let line = format!(
        "trap '' HUP; exec '{}' --connect {} run {PATH} -- sh -c 'echo $$; read x; exit 5'",
        env!("CARGO_BIN_EXE_zk-lock"),
        world.embedded.connect_string()
    );
    let mut command = unignoring("sh");
    command.args(["-c", &line]).stdout(Stdio::piped());
    let mut job = Job::spawn(command);
    let process = job.line();
    send("-HUP", &job.id());
    send("-HUP", &process);
    job.release();
    assert_eq!(job.code(), Some(5));
}

#[test]
fn user_signals_reach_the_command_alone() {
    let world = World::new();
    let script = "trap 'echo signalled' USR1; sh -c 'echo $$; read x <&3'& wait; wait; exit 5";
    let mut job = Job::start(&world, &[], script);
    let process = job.line();
    send("-USR1", &job.id());
    assert_eq!(job.line(), "signalled");
    assert!(is_running(&process));
    job.release();
    assert_eq!(job.code(), Some(5));
}

/// In a namespace of its own, where the test chooses the PID of the next process.
#[test]
fn a_process_with_the_pid_of_an_ended_command_gets_no_signals() {
    let world = World::new();
    let script = "last=/proc/sys/kernel/ns_last_pid
        { echo 10 > $last; } 2> /dev/null || exit 9
        \"$@\" -- sh -c 'echo $$; sleep 1000 > /dev/null & exit 4' > \"$OUT\" & zk_lock=$!
        tries=3000
        until read command < \"$OUT\" && [ ! -e /proc/$command ]; do
            [ $((tries -= 1)) -gt 0 ] || exit 8
            sleep 0.01
        done
        echo $((command - 1)) > $last
        sleep 1000 > /dev/null & other=$!
        kill -USR1 $zk_lock; kill -USR2 $zk_lock; kill -TERM $zk_lock
        wait $zk_lock; code=$?
        kill $other; echo $? $((command - other)) $code";
    let folder = TempDir::new().expect("a temporary folder");
    let file = folder.path().join("output");
    std::fs::write(&file, "").expect("a file");
    let mut unshare = unignoring("unshare");
    unshare.args(["--user", "--map-root-user", "--pid", "--mount-proc", "--fork", "sh", "-c"]);
    unshare.args([script, "sh", env!("CARGO_BIN_EXE_zk-lock"), "--connect"]);
    unshare.args([&world.embedded.connect_string(), "run", PATH]).env("OUT", &file);
    let output = output(unshare);
    if output.stdout.is_empty() && matches!(output.status.code(), Some(1 | 9)) {
        return skip("this machine cannot create namespaces");
    }
    assert_eq!(out(&output), "0 0 4\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn signals_are_passed_on_as_often_as_they_come() {
    let world = World::new();
    let script = "trap 'echo first; trap \"exit 6\" TERM' TERM; echo ready; \
                  while :; do wait; sleep 0.01 & done";
    let mut job = Job::start(&world, &[], script);
    assert_eq!(job.line(), "ready");
    send("-TERM", &job.id());
    assert_eq!(job.line(), "first");
    send("-TERM", &job.id());
    assert_eq!(job.code(), Some(6));
}

/// Also before `zk-lock` is ready: the signal ends it.
#[test]
fn a_signal_at_any_moment_of_the_start_ends_zk_lock() {
    let world = World::new();
    for round in 0..12 {
        let job = Job::start(&world, &[], "read x");
        // The delay puts the signal at different moments of the start.
        std::thread::sleep(Duration::from_millis(round));
        send("-TERM", &job.id());
        let status = ended(job.zk_lock).status;
        // Before `zk-lock` handles signals, the signal ends it like any program.
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        assert_eq!(code, Some(128 + 15), "{round}");
    }
    world.eventually("a free lock", |world| world.contenders().is_empty());
}

#[test]
fn a_stopped_command_can_end() {
    let world = World::new();
    let mut job = Job::start(&world, &[], "echo $$; read x; exit 5");
    let command = job.line();
    send("-STOP", &command);
    world.eventually("a stop", |_| {
        let stat = std::fs::read_to_string(format!("/proc/{command}/stat")).unwrap_or_default();
        stat.contains(") T ")
    });
    send("-KILL", &command);
    assert_eq!(job.code(), Some(128 + 9));
    assert!(world.contenders().is_empty());
}

#[test]
fn closed_descriptors_do_no_harm() {
    let world = World::new();
    let line = format!(
        "exec '{}' --connect {} run {PATH} -- sh -c 'exit 5' <&- >&- 2>&-",
        env!("CARGO_BIN_EXE_zk-lock"),
        world.embedded.connect_string()
    );
    let mut command = unignoring("sh");
    let zk_lock = command.args(["-c", &line]).spawn().expect("zk-lock starts");
    assert_eq!(ended(zk_lock).status.code(), Some(5));
}

#[test]
fn a_keeper_that_ends_by_itself_is_a_loss() {
    let world = World::new();
    let script = format!("trap '' TERM; echo $$; echo $PPID; {STUBBORN_DAEMON} read x");
    let run = ["run", "--kill-after", "0.01", PATH, "--", "sh", "-c"];
    let mut zk_lock = unignoring("sh");
    // Too large a file is an error of the keeper, and no signal.
    zk_lock.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_zk-lock")]);
    zk_lock.args(["--connect", &world.embedded.connect_string(), "--session-timeout", "8"]);
    zk_lock.args(run).arg(format!("exec 3<&0; {script}"));
    zk_lock.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut job = Job::spawn(zk_lock);
    let (command, keeper, daemon) = (job.line(), job.line(), job.line());
    let limited = unignoring("prlimit").args(["--fsize=0", "--pid", &keeper]).status();
    assert!(limited.expect("prlimit of util-linux").success());
    let output = ended(job.zk_lock);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(73), "{text}");
    assert!(text.contains("its keeper has failed, with exit code 70"), "{text}");
    assert!(!is_running(&command) && !is_running(&daemon));
}

#[test]
fn without_descriptors_zk_lock_fails_with_a_message() {
    let world = World::new();
    let mut codes = Vec::new();
    for limit in 5..30 {
        let mut command = unignoring("sh");
        command.args(["-c", &format!("ulimit -n {limit}; exec \"$@\""), "sh"]);
        command.arg(env!("CARGO_BIN_EXE_zk-lock"));
        command.args(["--connect", &world.embedded.connect_string(), "--connect-timeout", "0.1"]);
        command.args(["run", PATH, "true"]);
        let output = output(command);
        codes.push(output.status.code());
        match output.status.code() {
            Some(0) => break,
            // The last one is no server that it could connect to.
            code => assert!(matches!(code, Some(69 | 70)), "{limit}: {}", error_message(&output)),
        }
        let message = error_message(&output);
        assert!(message.contains("Too many open files"), "{limit}: {message}");
    }
    assert_eq!(codes.last(), Some(&Some(0)), "{codes:?}");
    assert!(codes.len() > 5, "{codes:?}");
}

/// A user of its own, so that the limit is that of these processes.
#[test]
fn without_threads_a_loss_ends_every_process() {
    let world = World::new();
    let user = (60_000 + std::process::id() % 5_000).to_string();
    let as_user = |script: &str| {
        let mut command = unignoring("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "bash", "-c", script]);
        command
    };
    if !output(as_user("true")).status.success() {
        return skip("only root can become another user");
    }
    let (_folder, program) = program_for_all();
    let program = program.display();
    let at = world.embedded.connect_string();
    let script = format!("trap '' TERM; echo $PPID; {STUBBORN_DAEMON} read x");
    let run = format!("run --kill-after 0.01 {PATH} -- sh -c");
    let line =
        format!("exec 3<&0; exec '{program}' --connect {at} {} {run} \"$0\"", LONG.join(" "));
    let mut zk_lock = as_user(&line);
    zk_lock.arg(script).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut job = Job::spawn(zk_lock);
    let (keeper, daemon) = (job.line(), job.line());
    let limited = output(as_user(&format!("prlimit --nproc=1 --pid {keeper}")));
    assert!(limited.status.success(), "prlimit of util-linux");
    world.break_lock();
    assert_eq!(job.code(), Some(73));
    assert!(!is_running(&daemon));
}

/// Returns a process and its descendants.
fn family(pid: &str) -> Vec<String> {
    let mut ps = unignoring("ps");
    ps.args(["-e", "-o", "pid=,ppid="]);
    let text = out(&output(ps));
    let pairs = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let pairs: Vec<_> = pairs.collect();
    let mut family = vec![pid.to_owned()];
    let mut at = 0;
    while let Some(parent) = family.get(at).cloned() {
        family.extend(pairs.iter().filter(|pair| pair[1] == parent).map(|pair| pair[0].to_owned()));
        at += 1;
    }
    family
}

#[test]
fn every_process_gets_a_signal_once_whoever_sends_it_to_whom() {
    let world = World::new();
    let folder = TempDir::new().expect("a temporary folder");
    let (script, end) = (folder.path().join("script"), folder.path().join("end"));
    // Without the trap, the shell's `sleep` dies as well. Without the file, the test has failed.
    let text = "trap 'echo $name' TERM; echo ready; \
        until [ -e $end ] || ! [ -e $script ]; do sleep 0.01; done";
    std::fs::write(&script, text).expect("a file");
    let line = "name=daemon setsid sh $script & name=command sh $script; wait";
    let mut zk_lock = world.command(&[&LONG[..], &["run", PATH, "--", "sh", "-c"]].concat());
    zk_lock.arg(format!("trap '' TERM; trap : TERM; {line}"));
    zk_lock.env("script", &script).env("end", &end);
    let mut job = Job::spawn(zk_lock);
    assert_eq!([job.line(), job.line()], ["ready", "ready"]);
    let id = job.id();
    let to_group = ["--".to_owned(), format!("-{id}")];
    for (to, round) in ["zk-lock", "group", "service"].into_iter().flat_map(|to| [(to, 1), (to, 2)])
    {
        let mut kill = Command::new("kill");
        kill.arg("-TERM").stderr(Stdio::null());
        match to {
            "zk-lock" => kill.arg(&id),
            "group" => kill.args(&to_group),
            _ => kill.args(family(&id)),
        };
        kill.status().expect("kill runs");
        let mut heard = [job.line(), job.line()];
        heard.sort();
        assert_eq!(heard, ["command", "daemon"], "{to} {round}");
        // A second one would come within a tenth of a second.
        std::thread::sleep(Duration::from_millis(300));
    }
    std::fs::write(&end, "").expect("a file");
    assert_eq!(job.lines.next().map(|line| line.expect("text")), None, "one more");
    assert_eq!(job.code(), Some(0));
}
