//! What `doctor` finds at a lock.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use zk_recipes::session::Client;
use zk_recipes::session::proto::{Acl, Id, NodeKind, Perms};
use zk_recipes::{Mutex, Options, RwLock, Semaphore, UnknownNodePolicy};
use zk_testkit::real;
use zk_testkit::server::{Config, Keeper};
use zk_testkit::suite::begun;

use crate::{
    LONG, PATH, World, ended, error_message, objects, out, output, ready, report, send, unignoring,
};

/// Runs `doctor`, and returns its exit code and its report.
fn examine(world: &World) -> (Option<i32>, String) {
    let output = world.run(&["doctor", PATH]);
    assert_eq!(error_message(&output), "");
    (output.status.code(), report(&output))
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
    let waiting = begun(mutex.acquire());
    world.eventually("a waiter", |world| world.contenders().len() == 2);
    let (code, report) = examine(&world);
    assert_eq!(code, Some(0), "{report}");
    let (pid, host) = (child.id(), host());
    for part in [
        &*format!("{PATH}: mutex\nholder  lock-0, "),
        &format!("s old: {host} pid {pid}: sh\n        session 0x"),
        ", connected from 127.0.0.1:",
        ", timeout 40s\n",
        "\nwaiter  lock-1, ",
        "s old: -\n",
        "\nok      the clients of all contenders are connected\n",
        "\nok      sequence numbers: 1 of 2147483647\n",
        "\nThe lock is busy: look at the holder's process, at 127.0.0.1:",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    drop((waiting, child.stdin.take()));
    ended(child);
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_of_this_host_that_is_stopped_or_gone_is_a_problem() {
    let world = World::new();
    let arguments = [&LONG[..], &["run", PATH, "sh", "-c", "echo ready; read x"]].concat();
    let mut command = world.command(&arguments);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("zk-lock starts");
    ready(&mut child);
    let pid = child.id();
    send("-STOP", &pid.to_string());
    let stopped = format!("\nproblem the process of lock-0, {pid} on this host, is stopped\n");
    world.eventually("a stopped process", |world| examine(world).1.contains(&stopped));
    let (code, report) = examine(&world);
    assert_eq!(code, Some(1), "{report}");
    assert!(report.contains(&format!("\nThe holder is stopped: `kill -CONT {pid}`")), "{report}");
    send("-CONT", &pid.to_string());
    drop(child.stdin.take());
    ended(child);

    let (_runtime, client) = (world.runtime.enter(), world.client());
    let options = Options::new().data(format!("{} pid {pid}: sh", host()));
    let mutex = Mutex::with(&client, PATH, options).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let (code, report) = examine(&world);
    let gone = format!("\nproblem the process of lock-1, {pid} on this host, has ended\n");
    assert!(code == Some(1) && report.contains(&gone), "{report}");
    drop(guard);
}

/// The name of this host, as `zk-lock` publishes it.
fn host() -> String {
    out(&output(unignoring("hostname"))).trim_end().to_owned()
}

#[test]
fn an_outage_is_a_problem_in_json() {
    let world = World::new();
    (0..3).for_each(|server| world.embedded.kill(server));
    let done = world.run(&["--connect-timeout", "0.1", "doctor", "--json", PATH]);
    assert_eq!(done.status.code(), Some(69));
    let message = error_message(&done);
    let objects = objects(&out(&done));
    assert_eq!(objects.len(), 1);
    assert_eq!((&objects[0]["path"], &objects[0]["level"]), (&PATH.into(), &"problem".into()));
    assert_eq!(format!("zk-lock: {}", objects[0]["text"].as_str().expect("text")), message);
}

#[test]
fn findings_and_advice_are_printed_as_json() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let node = format!("{PATH}/_c_f5fd6747-e1b7-4202-a4bc-9474a7659da6-lock-0000000007");
    let created = client.create_all(&node, b"", NodeKind::Persistent);
    world.runtime.block_on(created).expect("new");
    let output = world.run(&["doctor", "--json", PATH]);
    assert_eq!((output.status.code(), error_message(&output)), (Some(1), String::new()));
    let objects = objects(&out(&output));
    let levels: Vec<_> = objects.iter().map(|object| &object["level"]).collect();
    assert_eq!(levels, ["problem", "ok", "ok", "advice"]);
    assert!(objects.iter().all(|object| object["path"] == PATH));
    let texts = |at: usize| objects[at]["text"].as_str().expect("text");
    assert_eq!(texts(0), "no session owns lock-7, so no server deletes it");
    assert!(texts(3).ends_with("`zk-lock break /locks/cli --node lock-7`."), "{}", texts(3));
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
fn a_clickhouse_keeper_is_named() {
    let world = World::with(Config::servers(1).with_keeper(Keeper::Early));
    let (code, report) = examine(&world);
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains("\nnote    the servers seem to be ClickHouse Keeper: "), "{report}");
}

#[test]
fn an_empty_queue_has_a_sequence_number_and_a_path_need_not_exist() {
    let world = World::new();
    let (code, report) = examine(&world);
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains("\nnote    the path does not exist"), "{report}");
    assert!(!report.contains("sequence numbers"), "{report}");

    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    for _ in 0..3 {
        let guard = world.runtime.block_on(mutex.acquire()).expect("free");
        world.runtime.block_on(guard.release()).expect("held");
    }
    let (code, report) = examine(&world);
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains("\nok      sequence numbers: 2 of 2147483647\n"), "{report}");
    let listed = out(&world.run(&["ls", PATH]));
    assert_eq!(listed, format!("{PATH}: no holder, no waiters; the next sequence number is 3\n"));

    // Of a semaphore, the nodes that contenders create are below two others.
    let permits = format!("{PATH}/permits");
    let semaphore = Semaphore::new(&client, &permits, 5).expect("valid");
    for _ in 0..7 {
        let guard = world.runtime.block_on(semaphore.acquire()).expect("free");
        world.runtime.block_on(guard.release()).expect("held");
    }
    let report = report_of(&world, &permits);
    assert!(report.contains("\nok      sequence numbers: 6 of 2147483647\n"), "{report}");
    assert!(!report.contains("is no contender"), "{report}");
}

/// Returns the report of a lock at another path.
fn report_of(world: &World, path: &str) -> String {
    let output = world.run(&["doctor", path]);
    assert_eq!((output.status.code(), error_message(&output)), (Some(0), String::new()));
    report(&output)
}

/// Passes connections on to a server, but answers the command `dump` itself.
fn answering_dump(server: String, dump: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let at = listener.local_addr().expect("bound").to_string();
    let pass = move |mut client: TcpStream| -> io::Result<()> {
        let mut begin = [0; 4];
        client.read_exact(&mut begin)?;
        if &begin == b"dump" {
            return client.write_all(dump.as_bytes());
        }
        let mut server = TcpStream::connect(&server)?;
        server.write_all(&begin)?;
        let (mut from, mut to) = (server.try_clone()?, client.try_clone()?);
        thread::spawn(move || {
            let copied = io::copy(&mut from, &mut to);
            to.shutdown(Shutdown::Both).and(copied)
        });
        io::copy(&mut client, &mut server)?;
        server.shutdown(Shutdown::Both)
    };
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let pass = pass.clone();
            thread::spawn(move || pass(client));
        }
    });
    at
}

#[test]
fn a_holder_whose_session_has_ended_is_about_to_go() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let examine = |dump| {
        let at = answering_dump(world.embedded.connect_string(), dump);
        let mut doctor = unignoring(env!("CARGO_BIN_EXE_zk-lock"));
        doctor.args(["--connect", &at, "doctor", PATH]);
        let output = output(doctor);
        (output.status.code(), report(&output))
    };
    let (code, ended) = examine("SessionTracker dump:\nSession Sets (0)/(0):\n");
    assert_eq!(code, Some(0), "{ended}");
    for part in [
        ", which has ended\n",
        "\nnote    the session of lock-0 has ended: the servers delete lock-0\n",
        "\nLook again: the session of the holder has ended",
    ] {
        assert!(ended.contains(part), "{part}: {ended}");
    }
    // A follower may not know a new session yet.
    for dump in ["SessionTracker dump:\nGlobal Sessions(0):\n", "nonsense\n"] {
        let (code, busy) = examine(dump);
        assert_eq!(code, Some(0), "{busy}");
        assert!(busy.contains("\nok      the clients of all contenders are connected\n"), "{busy}");
    }
    drop(guard);
}

/// A real server that allows some commands of four letters, with a lock that is held.
fn examined_at_a_server_that_allows(words: &str, check: impl FnOnce(&dyn Fn() -> String, &str)) {
    // The last line of a property counts.
    let extra = format!("4lw.commands.whitelist={words}\n");
    let settings = real::Settings { extra, ..real::Settings::default() };
    let Some(ensemble) = real::ensemble_with_or_skip(settings) else { return };
    let at = ensemble.connect_string();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let client = runtime.block_on(Client::connect(&at)).expect("connected");
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = runtime.block_on(mutex.acquire()).expect("free");
    runtime.block_on(client.set_data(&guard.node_path(), b"alive", None)).expect("written");
    let examine = || {
        let mut doctor = unignoring(env!("CARGO_BIN_EXE_zk-lock"));
        doctor.args(["--connect", &at, "doctor", PATH]);
        let done = output(doctor);
        assert_eq!(done.status.code(), Some(0), "{}", out(&done));
        report(&done)
    };
    check(&examine, &at);
}

#[test]
fn a_server_that_lists_no_sessions_leaves_the_node_and_its_last_write() {
    examined_at_a_server_that_allows("srvr,conf", |examine, at| {
        let report = examine();
        for part in [
            ", connected or not; wrote ",
            "\nnote    lock-0 exists, so its session had not ended; whether its client is \
             connected is unknown\n",
            &*format!("\nnote    {at} does not list its sessions: 4lw.commands.whitelist "),
            "\nnote    the clocks were not compared\n",
            "\nok      sequence numbers: 0 of 2147483647\n",
            "\nLook for the holder's process; ",
        ] {
            assert!(report.contains(part), "{part}: {report}");
        }
    });
}

#[test]
fn a_server_that_lists_sessions_but_not_connections_shows_which_are_alive() {
    examined_at_a_server_that_allows("srvr,conf,dump", |examine, at| {
        let report = examine();
        for part in [
            ", alive, connected or not; wrote ",
            "\nnote    the session of lock-0 is alive; whether its client is connected is unknown\n",
            &*format!("\nnote    {at} does not list its sessions: 4lw.commands.whitelist "),
            "\nLook for the holder's process; ",
        ] {
            assert!(report.contains(part), "{part}: {report}");
        }
    });
}

#[test]
fn a_real_server_says_when_the_session_of_a_lost_client_ends() {
    let Some(ensemble) = real::ensemble_or_skip(1) else { return };
    let at = ensemble.connect_string();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let client = runtime.block_on(Client::connect(&at)).expect("connected");
    let mutex = Mutex::new(&client, PATH).expect("valid");
    std::mem::forget(runtime.block_on(mutex.acquire()).expect("free"));
    runtime.block_on(client.detach());
    let mut doctor = unignoring(env!("CARGO_BIN_EXE_zk-lock"));
    doctor.args(["--connect", &at, "doctor", PATH]);
    let done = output(doctor);
    let report = report(&done);
    assert_eq!(done.status.code(), Some(1), "{report}");
    for part in [
        ", not connected, expires at ",
        "\nproblem the client of lock-0 is not connected: it has died or lost the network\n",
        "\nWait until ",
        ": then the servers delete the node of the holder.\n",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
}
