//! `zk-lock` below systemd, as the first process of a container, and in cron: `docs/services.md`.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use zk_recipes::Mutex;
use zk_testkit::skipped::skip;

use crate::{LIMIT, LONG, PATH, World, ended, error_message, out, ready, send, unignoring};

#[test]
fn a_command_reports_to_systemd_that_it_is_ready() {
    let world = World::new();
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(LIMIT)).expect("a time limit");
    let has_notify = Command::new("systemd-notify").arg("--version").output().is_ok();
    let notify = if has_notify { "systemd-notify --no-block --ready; " } else { "" };
    let mut command = world.command(&["run", PATH, "-c"]);
    command.arg(format!("{notify}printf %s \"$NOTIFY_SOCKET\"")).env("NOTIFY_SOCKET", &path);
    let output = ended(command.spawn().expect("zk-lock starts"));
    assert_eq!((&*out(&output), &*error_message(&output)), (path.to_str().expect("text"), ""));
    if !has_notify {
        return skip("systemd-notify is missing");
    }
    let mut message = [0; 1024];
    let length = socket.recv(&mut message).expect("a message");
    let message = String::from_utf8_lossy(&message[..length]);
    assert!(message.lines().any(|line| line == "READY=1"), "{message}");
}

/// Linux ignores the default action of signals there.
#[test]
fn the_first_process_of_a_container_passes_sigterm_on() {
    let world = World::new();
    let unshare = |program| {
        let mut command = unignoring("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child", program]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    if !unshare("true").status().expect("`unshare` of util-linux").success() {
        return skip("this machine cannot create namespaces");
    }
    let mut command = unshare(env!("CARGO_BIN_EXE_zk-lock"));
    let script = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.02; done";
    command.args(["--connect", &world.embedded.connect_string()]).args(LONG);
    let mut child = command.args(["run", PATH, "-c", script]).spawn().expect("zk-lock starts");
    ready(&mut child);
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let first = std::fs::read_to_string(children).expect("Linux lists them");
    send("-TERM", first.trim());
    assert_eq!(ended(child).status.code(), Some(3));
    assert_eq!(world.contenders(), Vec::<String>::new());
}

#[test]
fn of_several_hosts_one_runs_the_job_and_the_others_succeed() {
    let world = World::new();
    let client = world.client();
    let mutex = Mutex::new(&client, PATH).expect("a valid path");
    let _other_host = world.runtime.block_on(async { mutex.acquire().await }).expect("acquired");
    let output = world.run(&["run", "-n", "-q", "-E", "0", PATH, "-c", "echo job; exit 1"]);
    assert_eq!((output.status.code(), out(&output)), (Some(0), String::new()));
    assert_eq!(error_message(&output), "");
}
