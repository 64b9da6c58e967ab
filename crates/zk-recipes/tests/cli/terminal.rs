//! `zk-lock run` as a job of an interactive shell on a terminal, compared with flock(1).

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex as Shared};

use zk_recipes::Mutex;

use crate::{LONG, PATH, World, unignoring};

const PROMPT: &str = "prompt> ";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const CTRL_Z: &str = "\x1a";

/// An interactive bash, its keyboard and its screen.
struct Terminal<'a> {
    world: &'a World,
    script: Child,
    keyboard: ChildStdin,
    screen: Arc<Shared<String>>,
}

impl<'a> Terminal<'a> {
    fn new(world: &'a World) -> Self {
        // By default, a terminal discards what is shown and typed around the key of a signal.
        let shell =
            format!("stty noflsh; PS1='{PROMPT}' TERM=dumb exec bash --norc --noprofile -i");
        let mut script = unignoring("script")
            .args(["--quiet", "--command", &shell, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`script` of util-linux");
        let mut output = script.stdout.take().expect("piped");
        let screen = Arc::new(Shared::new(String::new()));
        let shown = screen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(length @ 1..) = output.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..length]);
                shown.lock().expect("not poisoned").push_str(&text);
            }
        });
        let keyboard = script.stdin.take().expect("piped");
        Self { world, script, keyboard, screen }
    }

    /// Returns a command line that runs `command` under the lock. The echo of the line must not
    /// contain the output that a test waits for.
    fn zk_lock(&self, command: &str) -> String {
        let (program, at) = (env!("CARGO_BIN_EXE_zk-lock"), self.world.embedded.connect_string());
        format!("{program} --connect {at} {} run {PATH} -- {command}", LONG.join(" "))
    }

    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("the terminal reads");
    }

    /// Enters a line, once the prompt is shown.
    #[track_caller]
    fn enters(&mut self, line: &str) {
        let is_prompted = |_: &World| self.screen.lock().expect("not poisoned").ends_with(PROMPT);
        self.world.eventually("a prompt", is_prompted);
        self.types(&format!("{line}\n"));
    }

    /// Waits until the screen shows `text`. Returns and removes everything up to there.
    #[track_caller]
    fn shows(&self, text: &str) -> String {
        let screen = || self.screen.lock().expect("not poisoned");
        self.world.eventually(text, |_| screen().contains(text));
        let mut screen = screen();
        let end = screen.find(text).expect("found above") + text.len();
        let rest = screen.split_off(end);
        std::mem::replace(&mut screen, rest)
    }

    /// Returns the exit code of the last command, and the output before it.
    #[track_caller]
    fn code(&mut self) -> (String, String) {
        self.enters("echo \"code\"=$?=");
        let before = self.shows("code=");
        (self.shows("=").trim_end_matches('=').to_owned(), before)
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        // The terminal hangs up, which ends the processes on it.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// Returns the state of a process by its letter, as in `ps`; `-` if it is gone.
pub(super) fn state(pid: &str) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('-')
}

#[test]
fn an_interrupt_ends_the_command_and_the_loop_around_it() {
    let world = World::new();
    let mut terminal = Terminal::new(&world);
    // No shell: `dash` keeps an interrupt from a process that it is just starting.
    let line = terminal.zk_lock("cat");
    terminal.enters(&format!("for i in 1 2; do echo \"turn\"$i; {line}; done"));
    terminal.shows("turn1");
    terminal.types("hello\n");
    terminal.shows("hello\r\nhello\r\n");
    terminal.types(CTRL_C);
    let (code, before) = terminal.code();
    assert!(code == "130" && !before.contains("turn2"), "{code} {before}");
    assert!(world.contenders().is_empty());
}

#[test]
fn an_interrupt_ends_the_wait_and_the_loop_around_it() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let _guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let mut terminal = Terminal::new(&world);
    let line = terminal.zk_lock("echo \"go\"ing");
    terminal.enters(&format!("for i in 1 2; do echo \"turn\"$i; {line}; done"));
    world.eventually("a waiter", |world| world.contenders().len() == 2);
    terminal.types(CTRL_C);
    let (code, before) = terminal.code();
    assert!(code == "130" && !before.contains("turn2") && !before.contains("going"), "{before}");
    assert_eq!(world.contenders().len(), 1);
}

#[test]
fn a_stopped_job_keeps_its_lock_and_can_continue() {
    let world = World::new();
    let mut terminal = Terminal::new(&world);
    let line = terminal.zk_lock("sh -c 'echo \"go\"ing $$ $PPID.; read x; echo read $x; exit 4'");
    terminal.enters(&line);
    terminal.shows("going ");
    let shown = terminal.shows(".");
    let (command, keeper) = shown.trim_end_matches('.').split_once(' ').expect("two numbers");
    terminal.types(CTRL_Z);
    world.eventually("a stop", |_| state(command) == 'T');
    assert_eq!(terminal.code().0, "148");
    assert_eq!(world.contenders().len(), 1);
    assert_ne!(state(keeper), 'T', "the keeper is stopped");
    terminal.enters("fg");
    // The shell prints the command that it continues, after giving it the terminal.
    terminal.shows(PATH);
    terminal.types("this\n");
    terminal.shows("read this");
    assert_eq!(terminal.code().0, "4");
    assert!(world.contenders().is_empty());
}

#[test]
fn a_stopped_job_does_not_start_its_command() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let mut terminal = Terminal::new(&world);
    let line = terminal.zk_lock("sh -c 'echo \"go\"ing; read x'");
    terminal.enters(&line);
    world.eventually("a waiter", |world| world.contenders().len() == 2);
    terminal.types(CTRL_Z);
    assert_eq!(terminal.code().0, "148");
    world.runtime.block_on(guard.release()).expect("held");
    // The holder watches its own node after a moment.
    world.eventually("a holder", |world| world.embedded.with(|ensemble| ensemble.watches()) == 1);
    terminal.enters("echo \"wait\"ed; fg");
    assert!(!terminal.shows("waited").contains("going"));
    terminal.shows("going");
    terminal.types("\n");
    assert_eq!(terminal.code().0, "0");
}

#[test]
fn a_command_can_use_the_terminal() {
    let world = World::new();
    let mut terminal = Terminal::new(&world);
    // In a pipeline, other programs use the terminal, too.
    for line in
        [terminal.zk_lock("cat"), format!("true | {} | cat", terminal.zk_lock("cat /dev/tty"))]
    {
        terminal.enters(&format!("echo \"be\"gin; {line}"));
        terminal.shows("begin");
        terminal.types("hello\n");
        terminal.shows("hello\r\nhello\r\n");
        terminal.types(CTRL_D);
        assert_eq!(terminal.code().0, "0");
    }
}

#[test]
fn a_background_job_is_stopped_when_it_reads_the_terminal() {
    let world = World::new();
    let mut terminal = Terminal::new(&world);
    let line = terminal.zk_lock("sh -c 'echo \"go\"ing $$.; read x; echo read $x'");
    terminal.enters(&format!("{line} &"));
    terminal.shows("going ");
    let command = terminal.shows(".").trim_end_matches('.').to_owned();
    world.eventually("a stop", |_| state(&command) == 'T');
    // Only then does `fg` continue it.
    let mut shell_reports_stop = || {
        terminal.types("jobs\n");
        terminal.shows("jobs");
        terminal.shows(PROMPT).contains("Stopped")
    };
    assert!((0..1000).any(|_| shell_reports_stop()));
    terminal.types("fg\n");
    terminal.shows(PATH);
    terminal.types("this\n");
    terminal.shows("read this");
    assert_eq!(terminal.code().0, "0");
}

/// `kill -9` of a job ends the supervisor and the command, but not the keeper.
#[test]
fn a_killed_job_leaves_no_process_and_no_lock() {
    let world = World::new();
    let mut terminal = Terminal::new(&world);
    let line =
        terminal.zk_lock("sh -c 'setsid sh -c \"echo \\\"go\\\"ing \\$\\$.; sleep 1000\"& wait'");
    terminal.enters(&format!("{line} &"));
    terminal.shows("going ");
    let daemon = terminal.shows(".").trim_end_matches('.').to_owned();
    // By then the keeper has left the group.
    terminal.types("kill -9 %1\n");
    world.eventually("the end of all processes", |_| state(&daemon) == '-');
    world.eventually("a free lock", |world| world.contenders().is_empty());
}

#[test]
fn the_lock_is_free_when_the_terminal_hangs_up() {
    let world = World::new();
    let mut terminal = Terminal::new(&world);
    let line = terminal.zk_lock("sh -c 'echo \"go\"ing; sleep 1000; true'");
    terminal.enters(&line);
    terminal.shows("going");
    drop(terminal);
    world.eventually("a free lock", |world| world.contenders().is_empty());
}
