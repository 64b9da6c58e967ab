//! `top`, without a terminal and on one.

use std::process::{Command, Stdio};

use zk_recipes::{Mutex, Options, Semaphore};
use zk_testkit::skipped::skip;
use zk_testkit::suite::begun;

use crate::{PATH, World, error_message, objects, out};

#[test]
fn locks_below_a_path_are_shown_as_often_as_asked() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let options = || Options::new().data("host-7\u{1b}[2J");
    let mutex = Mutex::with(&client, PATH, options()).expect("valid");
    let _guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let _waiting = begun(mutex.acquire());
    let permits = Semaphore::new(&client, "/other", 2).expect("valid");
    let _permits = world.runtime.block_on(permits.acquire_many(2)).expect("free");
    world.eventually("a waiter", |world| world.contenders().len() == 2);
    let done = world.run(&["top", "--interval", "0.01", "--count", "2"]);
    assert_eq!((done.status.code(), error_message(&done)), (Some(0), String::new()));
    let text = out(&done);
    let headline = "zk-lock top / - locks: 2, holders: 3, waiters: 1, ";
    assert_eq!(text.matches(headline).count(), 2, "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    let row = |path: &str| {
        let row = text.lines().find(|line| line.starts_with(path)).expect(path);
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!((&*row(PATH)[1], &*row(PATH)[2], &*row(PATH)[4]), ("1", "1", r"host-7\u{1b}[2J"));
    assert_eq!((&*row("/other")[1], &*row("/other")[2]), ("2", "0"));
    let below = out(&world.run(&["top", "/locks", "--count", "1"]));
    assert!(
        below.contains("/locks - locks: 1, holders: 1, waiters: 1") && !below.contains("/other")
    );

    // The first waiter has a permit node, but no permit.
    let _third = begun(permits.acquire());
    let permit_nodes = |world: &World| {
        let is_node = |path: &&str| path.starts_with("/other/leases/");
        world.embedded.with(|ensemble| ensemble.paths().filter(is_node).count())
    };
    world.eventually("the permit node of a waiter", |world| permit_nodes(world) == 3);
    let text = out(&world.run(&["top", "/other", "--count", "1"]));
    assert!(text.contains("/other - locks: 1, holders: 2, waiters: 1"), "{text}");
}

#[test]
fn locks_are_printed_as_json() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let _waiting = begun(mutex.acquire());
    let permits = Semaphore::new(&client, "/other", 2).expect("valid");
    let _permits = world.runtime.block_on(permits.acquire_many(2)).expect("free");
    let _third = begun(permits.acquire());
    world.eventually("waiters", |world| {
        let is_node = |path: &&str| path.contains("/_c_");
        world.embedded.with(|ensemble| ensemble.paths().filter(is_node).count()) == 6
    });
    let done = world.run(&["top", "--json", "--interval", "0.01", "--count", "2"]);
    assert_eq!((done.status.code(), error_message(&done)), (Some(0), String::new()));
    let looks = objects(&out(&done));
    assert_eq!(looks.len(), 2);
    for look in looks {
        assert_eq!((&look["path"], look["seconds"].is_f64()), (&"/".into(), true));
        let locks = look["locks"].as_array().expect("locks");
        let counts = |at: usize| {
            let count = |name: &str| locks[at][name].as_u64().expect("a number");
            (locks[at]["path"].as_str(), count("holders"), count("waiters"), count("hand_overs"))
        };
        assert_eq!((counts(0), counts(1)), ((Some(PATH), 1, 1, 0), (Some("/other"), 2, 1, 0)));
        assert_eq!(locks[0]["holder"].as_str(), Some(&*guard.node_path()));
    }
    // Without a lock, there is a line as well.
    let nothing = out(&world.run(&["top", "/nothing", "--json", "--count", "1"]));
    assert_eq!(objects(&nothing)[0]["locks"].as_array(), Some(&vec![]));
}

/// A terminal of tmux.
struct Tmux(String);

impl Tmux {
    /// Runs a command line on a terminal of 80 columns and 12 lines. Returns `None` without tmux.
    fn start(line: &str) -> Option<Self> {
        let installed = Command::new("tmux").arg("-V").stdout(Stdio::null()).status();
        if !installed.is_ok_and(|status| status.success()) {
            skip("tmux is not installed");
            return None;
        }
        let tmux = Self(format!("zk-lock-{}", std::process::id()));
        let size = ["-x", "80", "-y", "12"];
        tmux.call(&[&["-f", "/dev/null", "new-session", "-d"], &size[..], &[line]].concat());
        tmux.call(&["set-option", "-g", "remain-on-exit", "on"]);
        Some(tmux)
    }

    fn call(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.0]).args(arguments).env_remove("TMUX").env("TERM", "screen");
        out(&command.output().expect("tmux runs"))
    }

    fn screen(&self) -> String {
        self.call(&["capture-pane", "-p"])
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.call(&["kill-server"]);
    }
}

#[test]
fn a_terminal_shows_the_locks_live() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let at = world.embedded.connect_string();
    let program = env!("CARGO_BIN_EXE_zk-lock");
    let line = format!("exec '{program}' --connect {at} top /locks --interval 0.05");
    let Some(tmux) = Tmux::start(&line) else { return };
    let shows = |text: &str| world.eventually(text, |_| tmux.screen().contains(text));
    shows("zk-lock top /locks - locks: 0, holders: 0, waiters: 0");
    // More locks than lines.
    let mutexes: Vec<_> = (0..20)
        .map(|number| {
            let data =
                "a-host-with-a-long-name.example.org pid 4194304: a-program-with-a-long-name";
            let options = Options::new().data(data);
            Mutex::with(&client, &format!("/locks/{number:02}"), options).expect("valid")
        })
        .collect();
    let guards: Vec<_> = mutexes
        .iter()
        .map(|mutex| world.runtime.block_on(mutex.acquire()).expect("free"))
        .collect();
    shows("locks: 20, holders: 20, waiters: 0");
    let waiting = begun(mutexes[13].acquire());
    shows("locks: 20, holders: 20, waiters: 1");
    let screen = tmux.screen();
    let lines: Vec<_> = screen.lines().collect();
    // The longest queue comes first, and every row takes one line.
    assert!(lines[2].starts_with("PATH ") && lines[3].starts_with("/locks/13 "), "{screen}");
    assert!(lines[4].starts_with("/locks/00 ") && lines[5].starts_with("/locks/01 "), "{screen}");
    drop((guards, waiting));
    shows("locks: 0, holders: 0, waiters: 0");
    assert!(!tmux.screen().contains("/locks/13"), "{}", tmux.screen());
    tmux.call(&["send-keys", "C-c"]);
    let is_dead = || tmux.call(&["display-message", "-p", "#{pane_dead}"]).trim() == "1";
    world.eventually("the end", |_| is_dead());
}
