//! What happens to processes and their descriptors, on the embedded ensemble and on a real one.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zk_testkit::real::{self, Settings};
use zk_testkit::server::Config;
use zk_testkit::skipped::skip;
use zk_testkit::watchdog::Watchdog;

use crate::processes::program_for_all;
use crate::{ENDLESS, LIMIT, PATH, World, ended, out, output, report, send, unignoring};

/// Sessions that do not expire, however busy this machine is.
const LONG: &str = "--session-timeout 40";
/// A tick of a real server that grants them.
const TICK: Duration = Duration::from_secs(2);
const SHELLS: [&str; 2] = ["bash", "dash"];
/// How many runs contend for one lock.
const RUNS: usize = 100;

/// An ensemble, by its connection string, and the program `zk-lock`.
struct Ensemble {
    at: String,
    program: PathBuf,
}

impl Ensemble {
    fn new(at: String) -> Self {
        Self { at, program: env!("CARGO_BIN_EXE_zk-lock").into() }
    }

    /// Returns a command line of `zk-lock`, for a shell.
    fn line(&self, arguments: &str) -> String {
        format!("'{}' --connect {} {arguments}", self.program.display(), self.at)
    }

    fn shell(&self, arguments: &str) -> Command {
        let mut shell = unignoring("sh");
        shell.args(["-c", &format!("exec {}", self.line(arguments))]);
        shell
    }

    fn is_free(&self) -> bool {
        output(self.shell(&format!("ls -q {PATH}"))).status.code() == Some(0)
    }

    fn becomes_free(&self) {
        eventually("a free lock", || self.is_free());
    }

    /// Deletes the holder's node.
    fn break_lock(&self) {
        let shown = out(&output(self.shell(&format!("ls --json {PATH}"))));
        let (_, rest) = shown.split_once("\"node\":\"").expect("a node");
        let node = rest.split('"').next().expect("its end");
        let broken = output(self.shell(&format!("break {PATH} --yes --node {node}")));
        assert_eq!(broken.status.code(), Some(0));
    }
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn which(program: &str) -> String {
    let mut command = unignoring("sh");
    command.args(["-c", &format!("command -v {program}")]);
    out(&output(command)).trim_end().to_owned()
}

fn is_root() -> bool {
    let mut command = unignoring("id");
    command.arg("-u");
    out(&output(command)) == "0\n"
}

fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    Path::new(&format!("/proc/{pid}")).exists() && !stat.contains(") Z ")
}

/// `zk-lock run` with a command that has a child in a session of its own. Both read from a pipe.
struct Job {
    supervisor: Child,
    stdin: Option<ChildStdin>,
    keeper: String,
    command: String,
    daemon: String,
}

impl Job {
    fn start(ensemble: &Ensemble, shell: &str, options: &str) -> Self {
        Self::start_as(ensemble, "", shell, options)
    }

    /// `user` is a command line that becomes another user and runs a command.
    fn start_as(ensemble: &Ensemble, user: &str, shell: &str, options: &str) -> Self {
        let script = format!(
            "exec 3<&0; setsid {shell} -c 'echo $$; read x <&3' & echo $$ $PPID; read x; exit 5"
        );
        let script = script.replace('\'', "'\\''");
        let arguments = format!("run {options} {PATH} {user} {shell} -c '{script}'");
        let mut shell = ensemble.shell(&arguments);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // As a job of a shell. Stopped processes in a group that nobody could continue, such as that of
        // these tests may be, get SIGHUP when the keeper ends.
        shell.process_group(0);
        let mut supervisor = shell.spawn().expect("sh starts");
        let stdout = supervisor.stdout.take().expect("piped");
        let mut lines: Vec<_> =
            BufReader::new(stdout).lines().take(2).map(|line| line.expect("text")).collect();
        // The daemon's line has one number.
        lines.sort_by_key(|line| line.contains(' '));
        let (command, keeper) = lines[1].split_once(' ').expect("two numbers");
        let (command, keeper) = (command.to_owned(), keeper.to_owned());
        let daemon = lines[0].clone();
        Self { stdin: supervisor.stdin.take(), supervisor, keeper, command, daemon }
    }

    fn supervisor(&self) -> String {
        self.supervisor.id().to_string()
    }

    /// Ends the command and the daemon by themselves.
    fn release(&mut self) {
        drop(self.stdin.take());
    }

    /// Returns whether the command and the daemon have ended.
    fn has_ended(&self) -> bool {
        !is_running(&self.command) && !is_running(&self.daemon)
    }

    fn code(self) -> Option<i32> {
        let (command, daemon) = (self.command, self.daemon);
        let code = ended(self.supervisor).status.code();
        eventually("the end of all processes", || !is_running(&command) && !is_running(&daemon));
        code
    }
}

/// Every shell, without a terminal, with every descriptor closed or on a full disk.
fn shells_and_descriptors(ensemble: &Ensemble) {
    let holding = Job::start(ensemble, "sh", LONG);
    for shell in SHELLS {
        for descriptors in
            ["", "<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", ">/dev/full 2>/dev/full"]
        {
            let line = ensemble.line(&format!("run -n -E 9 {PATH} true {descriptors}; echo $?"));
            let other = ensemble.line(&format!("run /free sh -c 'exit 5' {descriptors}; echo $?"));
            let mut command = unignoring("setsid");
            command.args(["--wait", shell, "-c", &format!("{line}; {other}")]);
            assert_eq!(out(&output(command)), "9\n5\n", "{shell} {descriptors}");
        }
    }
    send("-TERM", &holding.supervisor());
    assert_eq!(holding.code(), Some(128 + 15));
    ensemble.becomes_free();
}

/// Each of many runs reads and writes a file. Without the lock, some would be lost.
fn many_runs(ensemble: &Ensemble) {
    let folder = TempDir::new().expect("a temporary folder");
    let file = folder.path().join("count");
    std::fs::write(&file, "0").expect("a file");
    let script = format!("n=$(cat {0}); echo $((n + 1)) > {0}", file.display());
    let runs: Vec<_> = (0..RUNS)
        .map(|_| {
            let mut shell = ensemble.shell(&format!("run -q {LONG} {PATH} sh -c '{script}'"));
            shell.stdout(Stdio::null()).stderr(Stdio::piped());
            shell.spawn().expect("sh starts")
        })
        .collect();
    for mut run in runs {
        let mut message = String::new();
        run.stderr.take().expect("piped").read_to_string(&mut message).expect("text");
        let status = run.wait().expect("a child");
        assert_eq!((status.code(), &*message), (Some(0), ""));
    }
    let count = std::fs::read_to_string(&file).expect("a file");
    assert_eq!(count.trim(), RUNS.to_string());
    ensemble.becomes_free();
}

/// The servers' clock says how long ago a command has succeeded.
fn once_per_period(ensemble: &Ensemble) {
    for (period, said) in [("1h", "ran\n"), ("1h", ""), ("0.001", "ran\n"), ("1d", "")] {
        let run = ensemble.shell(&format!("run --once-per {period} {PATH} echo ran"));
        let done = output(run);
        assert_eq!((done.status.code(), &*out(&done)), (Some(0), said), "{period}");
    }
    ensemble.becomes_free();
}

/// As a unit of systemd: no terminal, no environment, no home, an empty or closed standard input.
fn without_an_environment(ensemble: &Ensemble) {
    for shell in SHELLS {
        let shell = which(shell);
        for stdin in ["</dev/null", "<&-"] {
            let environment = ["", &*format!("SHELL={shell}")];
            for environment in environment {
                let run =
                    ensemble.line(&format!("run {PATH} -c 'cd / && exit $((ZK_LOCK_TOKEN > 0))'"));
                let line = format!("env -i {environment} setsid --wait {run} {stdin}; echo $?");
                let mut command = unignoring(&shell);
                command.args(["-c", &line]);
                let done = output(command);
                let message = String::from_utf8_lossy(&done.stderr);
                assert_eq!((&*out(&done), &*message), ("1\n", ""), "{line}");
            }
        }
    }
    ensemble.becomes_free();
}

/// A user without privileges, and a command without those of `zk-lock`.
fn other_users(ensemble: &Ensemble) {
    if !is_root() {
        return skip("only root can become another user");
    }
    let (_folder, program) = program_for_all();
    let ensemble = &Ensemble { at: ensemble.at.clone(), program };
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs";
    let shell = |line: &str| {
        let mut command = unignoring("sh");
        command.args(["-c", line]);
        output(command)
    };
    for line in [
        format!("{nobody} {}", ensemble.line(&format!("run {PATH} -c 'id -u; exit 5'"))),
        ensemble.line(&format!("run {PATH} {nobody} sh -c 'id -u; exit 5'")),
        format!(
            "RELEASE=\"{}\" {}",
            ensemble.line("release"),
            ensemble.line(&format!("run {PATH} {nobody} sh -c 'id -u; eval $RELEASE && exit 5'")),
        ),
    ] {
        let done = shell(&line);
        assert_eq!((done.status.code(), &*out(&done)), (Some(5), "65534\n"), "{line}");
    }
    // A secret of root's.
    let secret = TempDir::new().expect("a temporary folder");
    let file = secret.path().join("auth");
    std::fs::write(&file, "digest:alice:secret").expect("a file");
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("ours");
    let settings = format!("--auth-file {} ls {PATH}", file.display());
    let denied = shell(&format!("{nobody} {}", ensemble.line(&settings)));
    assert_eq!(denied.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&denied.stderr).contains("Permission denied"));
    // A change of user clears the signal that follows the death of a parent. The keeper ends the
    // command all the same.
    let job = Job::start_as(ensemble, nobody, "sh", &format!("{LONG} --kill-after 0.01"));
    send("-KILL", &job.supervisor());
    assert_eq!(job.code(), None);
    ensemble.becomes_free();
}

/// A stopped process keeps the lock, if it is not the keeper.
fn stops(ensemble: &Ensemble) {
    SHELLS.into_iter().for_each(|shell| stops_of(ensemble, shell));
}

fn stops_of(ensemble: &Ensemble, shell: &str) {
    let stopped: [fn(&Job) -> String; 3] =
        [Job::supervisor, |job| job.command.clone(), |job| job.daemon.clone()];
    for of in stopped {
        let mut job = Job::start(ensemble, shell, LONG);
        let pid = of(&job);
        send("-STOP", &pid);
        assert!(!ensemble.is_free() && is_running(&job.keeper));
        job.release();
        send("-CONT", &pid);
        assert_eq!(job.code(), Some(5));
        ensemble.becomes_free();
    }
    // The command ends before the lock of a stopped keeper is free. It has a fraction of the session
    // timeout for that, so this timeout is long enough for a busy machine.
    let job = Job::start(ensemble, shell, "--session-timeout 8 --kill-after 0.01");
    send("-STOP", &job.keeper);
    ensemble.becomes_free();
    assert!(job.has_ended());
    assert_eq!(job.code(), Some(73));
    // Stopped processes end, too.
    let job = Job::start(ensemble, shell, &format!("{LONG} --kill-after 0.01"));
    send("-STOP", &job.command);
    send("-STOP", &job.daemon);
    ensemble.break_lock();
    assert_eq!(job.code(), Some(73));
    ensemble.becomes_free();
}

/// No process outlives the lock, whichever is killed.
fn kills(ensemble: &Ensemble) {
    SHELLS.into_iter().for_each(|shell| kills_of(ensemble, shell));
}

fn kills_of(ensemble: &Ensemble, shell: &str) {
    let killed = |of: fn(&Job) -> String| {
        let mut job = Job::start(ensemble, shell, &format!("{LONG} --kill-after 0.01"));
        let (pid, is_keeper) = (of(&job), of(&job) == job.keeper);
        send("-KILL", &pid);
        if pid == job.daemon || pid == job.command {
            job.release();
        }
        let code = job.code();
        if is_keeper {
            // The session of a killed keeper lasts.
            ensemble.break_lock();
        }
        ensemble.becomes_free();
        code
    };
    assert_eq!(killed(Job::supervisor), None);
    assert_eq!(killed(|job| job.keeper.clone()), Some(73));
    assert_eq!(killed(|job| job.command.clone()), Some(128 + 9));
    assert_eq!(killed(|job| job.daemon.clone()), Some(5));
}

/// `doctor` sees that the holder is stopped, until its session expires.
fn a_silent_holder(ensemble: &Ensemble) {
    for seconds in [4, 8, 16] {
        let options = format!("--session-timeout {seconds} --kill-after 0.01");
        let job = Job::start(ensemble, "sh", &options);
        send("-STOP", &job.keeper);
        let mut was_seen = false;
        eventually("a free lock", || {
            let done = output(ensemble.shell(&format!("doctor {PATH}")));
            let report = report(&done);
            if report.contains("\nproblem the client of lock-") && report.contains(" silent for ") {
                assert_eq!(done.status.code(), Some(1), "{report}");
                let advice = report.lines().last().unwrap_or_default();
                assert!(advice.starts_with("Wait for ") && advice.contains("expires"), "{report}");
                was_seen = true;
            }
            report.contains("\nThe lock is free")
        });
        assert_eq!(job.code(), Some(73));
        // On a busy machine, a short session may expire between two reports.
        if was_seen {
            return;
        }
    }
    panic!("doctor does not see that the holder is stopped");
}

/// Returns the configuration of a server that grants sessions of 1 s to 40 s, and expires them at its
/// ticks.
fn server_with_tick(tick: Duration) -> Config {
    let (min_session_timeout, max_session_timeout) =
        (Duration::from_secs(1), Duration::from_secs(40));
    Config { tick, min_session_timeout, max_session_timeout, ..Config::servers(1) }
}

fn embedded(scene: fn(&Ensemble)) {
    let world = World::with(server_with_tick(Duration::from_millis(200)));
    scene(&Ensemble::new(world.embedded.connect_string()));
}

#[test]
fn shells_without_a_terminal_and_without_descriptors_get_the_exit_code() {
    embedded(shells_and_descriptors);
}

#[test]
fn no_environment_is_needed() {
    embedded(without_an_environment);
}

#[test]
fn users_without_privileges_hold_locks() {
    embedded(other_users);
}

#[test]
fn a_hundred_runs_take_turns() {
    embedded(many_runs);
}

#[test]
fn a_command_runs_once_per_period() {
    embedded(once_per_period);
}

#[test]
fn stopped_processes_keep_the_lock_and_a_stopped_keeper_loses_it() {
    embedded(stops);
}

/// On a machine of any speed: no session expires before the test expires it.
#[test]
fn the_command_of_a_stopped_keeper_ends_while_the_lock_is_held() {
    let world = World::with(server_with_tick(ENDLESS));
    let ensemble = Ensemble::new(world.embedded.connect_string());
    for shell in SHELLS {
        let job = Job::start(&ensemble, shell, "--session-timeout 5 --kill-after 0.01");
        send("-STOP", &job.keeper);
        eventually("the end of the command", || job.has_ended());
        assert!(!ensemble.is_free());
        assert_eq!(job.code(), Some(73));
        world.expire_all();
        ensemble.becomes_free();
    }
}

#[test]
fn signals_do_not_keep_the_command_of_a_stopped_keeper() {
    let world = World::with(server_with_tick(ENDLESS));
    let ensemble = Ensemble::new(world.embedded.connect_string());
    let job = Job::start(&ensemble, "sh", "--session-timeout 5 --kill-after 0.01");
    send("-STOP", &job.keeper);
    eventually("the end of the command", || {
        send("-USR1", &job.supervisor());
        job.has_ended()
    });
    assert_eq!(job.code(), Some(73));
}

#[test]
fn killed_processes_leave_no_other_behind() {
    embedded(kills);
}

#[test]
fn doctor_sees_a_stopped_holder() {
    embedded(a_silent_holder);
}

#[test]
fn all_this_holds_on_a_real_ensemble() {
    let settings = Settings { servers: 3, tick: TICK, ..Settings::default() };
    let Some(ensemble) = real::ensemble_with_or_skip(settings) else { return };
    let _watchdog = Watchdog::start();
    let ensemble = Ensemble::new(ensemble.connect_string());
    let done = output(ensemble.shell(&format!("doctor {PATH}")));
    assert!(out(&done).contains("ok      this machine's clock agrees"), "{}", out(&done));
    for scene in [
        shells_and_descriptors,
        without_an_environment,
        other_users,
        many_runs,
        once_per_period,
        stops,
        kills,
        a_silent_holder,
    ] {
        scene(&ensemble);
    }
}
