//! What `doctor` finds at a lock.

use zk_recipes::session::Client;
use zk_recipes::session::proto::{Acl, Id, NodeKind, Perms};
use zk_recipes::{Mutex, Options, RwLock, UnknownNodePolicy};
use zk_testkit::real;

use crate::{LONG, PATH, World, ended, error_message, out, output, ready, unignoring};

/// Runs `doctor`, and returns its exit code and its report.
fn examine(world: &World) -> (Option<i32>, String) {
    let output = world.run(&["doctor", PATH]);
    assert_eq!(error_message(&output), "");
    (output.status.code(), out(&output))
}

#[test]
fn a_free_lock_and_a_busy_lock_are_well() {
    let world = World::new();
    let (code, report) = examine(&world);
    assert!(code == Some(0) && report.contains("\nThe lock is free"), "{report}");
    assert!(report.contains("ok      this machine's clock agrees"), "{report}");

    let arguments = [&LONG[..], &["run", PATH, "sh", "-c", "echo ready; read x"]].concat();
    let mut command = world.command(&arguments);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("zk-lock starts");
    ready(&mut child);
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let waiting = mutex.acquire();
    world.eventually("a waiter", |world| world.contenders().len() == 2);
    let (code, report) = examine(&world);
    assert_eq!(code, Some(0), "{report}");
    let pid = child.id();
    for part in [
        &*format!("{PATH}: mutex\nholder  lock-0, for "),
        &format!(" pid {pid}: sh\n        session 0x"),
        ", connected from 127.0.0.1:",
        ", timeout 40s\n",
        "\nwaiter  lock-1, for ",
        "\nok      the clients of all contenders are connected\n",
        "\nok      sequence numbers: 1 of 2147483647\n",
        "\nThe lock is busy: look at the holder's process, at 127.0.0.1:",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    drop((waiting, child.stdin.take()));
    ended(child);
}

#[test]
fn a_node_without_a_session_is_to_be_removed() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let node = "_c_f5fd6747-e1b7-4202-a4bc-9474a7659da6-lock-2100000000";
    let path = format!("{PATH}/{node}");
    let created = client.create_all(&path, b"", NodeKind::Persistent);
    world.runtime.block_on(created).expect("new");
    let (code, report) = examine(&world);
    assert_eq!(code, Some(1), "{report}");
    for part in [
        "\nproblem no session owns lock-2100000000, so no server deletes it\n",
        "\nproblem sequence numbers end soon: 2100000000 of 2147483647",
        "remove it: `zk-lock break /locks/cli --node lock-2100000000`.",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    // As advised.
    let removed = world.run(&["break", PATH, "--yes", "--node", "lock-2100000000"]);
    assert_eq!((removed.status.code(), world.contenders().len()), (Some(0), 0));
}

#[test]
fn a_holder_that_is_gone_is_noticed_before_its_session_expires() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    std::mem::forget(guard);
    // The connection ends, and the session stays.
    world.runtime.block_on(client.detach());
    world.eventually("the end of the connection", |world| {
        world.embedded.with(|ensemble| ensemble.connections()) == 0
    });
    let (code, report) = examine(&world);
    assert_eq!(code, Some(1), "{report}");
    assert!(report.contains("\nproblem the client of lock-0 is not connected"), "{report}");
    assert!(report.contains("\nWait for one session timeout"), "{report}");
}

#[test]
fn foreign_and_unreadable_nodes_and_locks_of_two_kinds_are_listed() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let nobody_reads = [Acl { perms: Perms::DELETE, id: Id::ANYONE }];
    let options = Options::new().acl(&nobody_reads).unknown_nodes(UnknownNodePolicy::Ignore);
    let mutex = Mutex::with(&client, PATH, options.clone()).expect("valid");
    let lock = RwLock::with(&client, PATH, options).expect("valid");
    let guards = world.runtime.block_on(async {
        let odd = format!("{PATH}/\u{202e}odd");
        client.create_all(&odd, b"", NodeKind::Persistent).await.expect("new");
        (mutex.acquire().await.expect("free"), lock.read().await.expect("free"))
    });
    let (code, report) = examine(&world);
    assert_eq!(code, Some(1), "{report}");
    for part in [
        "\nproblem locks of several kinds use this path",
        r"note    the node '\u{202e}odd' is no contender, and is ignored",
        "note    lock-1 cannot be read with these credentials",
        "note    READ-2 cannot be read with these credentials",
        "\nGive each kind of lock a path of its own.\n",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    drop(guards);
}

#[test]
fn a_server_that_lists_no_sessions_leaves_the_last_write_of_a_holder() {
    // The last line of a property counts.
    let extra = "4lw.commands.whitelist=srvr\n".to_owned();
    let settings = real::Settings { extra, ..real::Settings::default() };
    let Some(ensemble) = real::ensemble_with_or_skip(settings) else { return };
    let at = ensemble.connect_string();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let client = runtime.block_on(Client::connect(&at)).expect("connected");
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = runtime.block_on(mutex.acquire()).expect("free");
    let examine = || {
        let mut doctor = unignoring(env!("CARGO_BIN_EXE_zk-lock"));
        doctor.args(["--connect", &at, "doctor", PATH]);
        let done = output(doctor);
        assert_eq!(done.status.code(), Some(0), "{}", out(&done));
        out(&done)
    };
    let report = examine();
    for part in [
        ", connected or not\n",
        "\nnote    the session of lock-0 has not expired; its client may be connected or not\n",
        &*format!("\nnote    {at} does not list its sessions: 4lw.commands.whitelist "),
        "\nnote    the clocks were not compared\n",
        "\nLook for the holder's process; ",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    runtime.block_on(client.set_data(&guard.node_path(), b"alive", None)).expect("written");
    let report = examine();
    assert!(report.contains(", connected or not; wrote "), "{report}");
}
