//! `ls`, `watch` and `break`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;
use std::time::Duration;

use zk_recipes::session::RequestError;
use zk_recipes::session::proto::{Acl, Id, NodeKind, OpCode, Perms};
use zk_recipes::{Mutex, Options, RwLock, Semaphore};
use zk_testkit::server::Config;
use zk_testkit::suite::begun;

use crate::run::requests;
use crate::{ENDLESS, PATH, World, ended, error_message, out, output, unignoring};

#[test]
fn all_holders_and_waiters_are_shown() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let lock = RwLock::with(&client, PATH, Options::new().data("host-7\u{7}\u{202e}  \u{5d0}"))
        .expect("valid");
    let reader = world.runtime.block_on(lock.read()).expect("free");
    let _writer = begun(lock.write());
    world.eventually("two", |world| world.contenders().len() == 2);
    let output = world.run(&["ls", PATH]);
    assert_eq!((output.status.code(), error_message(&output)), (Some(0), String::new()));
    let text = out(&output);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(lines[0], format!("{PATH}: read/write lock"));
    assert!(lines[1].starts_with("STATE"));
    assert!(lines[2].starts_with("holds  READ-0 "), "{text}");
    assert!(lines[2].ends_with(r"host-7\u{7}\u{202e} \u{20}\u{5d0}"), "{text}");
    assert!(lines[3].starts_with("waits  WRIT-1 "), "{text}");
    let details = out(&world.run(&["ls", "-v", PATH]));
    assert!(details.contains(&format!("\nholds, shared {}\n", reader.node())), "{details}");
    assert!(details.contains(&format!(", for {}\n", reader.node())), "{details}");

    // A path that does not exist looks the same, since servers delete the path of an unused lock.
    let nowhere = world.run(&["ls", "/nowhere"]);
    assert_eq!(nowhere.status.code(), Some(0));
    assert_eq!(out(&nowhere), "/nowhere: no holder, no waiters\n");
}

#[test]
fn a_chroot_that_does_not_exist_is_no_free_lock() {
    let world = World::new();
    let at = format!("{}/nowhere", world.embedded.connect_string());
    for arguments in [
        &["ls", PATH][..],
        &["ls", "--json", PATH],
        &["ls", "-q", PATH],
        &["doctor", PATH],
        &["doctor", "--json", PATH],
        &["top", "--count", "1"],
        &["top", "--json", "--count", "1", PATH],
        &["watch", PATH],
        &["break", "--yes", PATH, "--node", "lock-7"],
        &["run", PATH, "true"],
    ] {
        let mut command = unignoring(env!("CARGO_BIN_EXE_zk-lock"));
        let done = output({
            command.args(["--connect", &at]).args(arguments);
            command
        });
        assert_eq!(done.status.code(), Some(70), "{arguments:?}");
        let message = error_message(&done);
        assert!(message.contains("the chroot '/nowhere' does not exist"), "{message}");
    }
}

#[test]
fn a_parent_of_locks_is_left_to_top() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let _guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let text = out(&world.run(&["ls", "/locks"]));
    assert!(text.starts_with("/locks: no holder, no waiters; "), "{text}");
    assert!(text.ends_with("\nLocks below it: `zk-lock top /locks`\n"), "{text}");
}

#[test]
fn a_contender_is_removed_after_confirmation() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let arguments = ["break", PATH, "--node", guard.node()];
    let answered = |answer: &str| {
        let mut child =
            world.command(&arguments).stdin(Stdio::piped()).spawn().expect("zk-lock starts");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(answer.as_bytes()).expect("zk-lock reads");
        drop(stdin);
        ended(child)
    };
    assert_eq!(answered("n\n").status.code(), Some(1));
    assert_eq!(world.contenders().len(), 1);
    assert_eq!(answered("y\n").status.code(), Some(0));
    assert!(world.contenders().is_empty());
    let again = world.run(&[&arguments[..], &["--yes"]].concat());
    assert_eq!(again.status.code(), Some(70));
    assert!(error_message(&again).contains(guard.node()));
    let help = out(&world.run(&["break", "--help"]));
    assert!(help.contains("as `ls` shows it"), "{help}");
}

#[test]
fn an_unreadable_node_is_shown_and_can_be_removed() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let nobody_reads = [Acl { perms: Perms::DELETE, id: Id::ANYONE }];
    let mutex = Mutex::with(&client, PATH, Options::new().acl(&nobody_reads)).expect("valid");
    for how in [&["--yes"][..], &[]] {
        let guard = world.runtime.block_on(mutex.acquire()).expect("free");
        let output = world.run(&["ls", PATH]);
        assert_eq!((output.status.code(), error_message(&output)), (Some(0), String::new()));
        let text = out(&output);
        assert!(text.contains(" lock-") && text.contains("(not readable)"), "{text}");
        let arguments = [&["break", PATH, "--node", guard.node()], how].concat();
        let mut child =
            world.command(&arguments).stdin(Stdio::piped()).spawn().expect("zk-lock starts");
        // With `--yes` it does not read its input.
        let _ = child.stdin.take().expect("piped").write_all(b"y\n");
        assert_eq!(ended(child).status.code(), Some(0));
        assert!(world.contenders().is_empty());
    }
    for name in ["", "..", "leases", "a/b", "\u{202e}"] {
        let output = world.run(&["break", PATH, "--yes", "--node", name]);
        assert_eq!(output.status.code(), Some(70), "{name:?}");
        assert!(error_message(&output).is_ascii(), "{}", error_message(&output));
    }
}

#[test]
fn a_permit_node_is_removed_by_its_name() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let semaphore = Semaphore::new(&client, PATH, 1).expect("valid");
    let permit = world.runtime.block_on(semaphore.acquire()).expect("free");
    let output = world.run(&["break", PATH, "--yes", "--node", permit.node()]);
    assert_eq!((output.status.code(), error_message(&output)), (Some(0), String::new()));
    assert!(world.contenders().is_empty());
}

/// The nodes are those of kazoo 2.11, `recipe/lock.py`.
#[test]
fn a_semaphore_of_kazoo_is_shown() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let create = |path: &str, data: &str, kind| {
        let created = client.create(path, data.as_bytes(), kind);
        world.runtime.block_on(created).expect("created");
    };
    create("/locks", "", NodeKind::Persistent);
    create(PATH, "1", NodeKind::Persistent);
    let (permit, other) = ("f5fd6747e1b74202a4bc9474a7659da6", "0123456789abcdef0123456789abcdef");
    // Somebody else's node.
    create(&format!("{PATH}/{other}"), "", NodeKind::Persistent);
    let quiet = || world.run(&["ls", "-q", PATH]).status.code();
    assert_eq!(quiet(), Some(0));
    create(&format!("{PATH}/{permit}"), "worker-1", NodeKind::Ephemeral);
    let queue = format!("{PATH}-__lock__");
    create(&queue, "", NodeKind::Persistent);
    for waiter in ["worker-2", "worker-3"] {
        create(&format!("{queue}/{other}__lock__"), waiter, NodeKind::EphemeralSequential);
    }
    assert_eq!(quiet(), Some(1));
    let text = out(&world.run(&["ls", PATH]));
    let rows: Vec<Vec<_>> = text.lines().map(|row| row.split_whitespace().collect()).collect();
    assert_eq!(text.lines().next(), Some(&*format!("{PATH}: semaphore of kazoo with 1 permits")));
    let shown = [
        ("holds", permit, "worker-1"),
        ("waits", "lock-0", "worker-2"),
        ("waits", "lock-1", "worker-3"),
    ];
    let found = rows[2..].iter().map(|row| (row[0], row[1], row[5]));
    assert!(found.eq(shown), "{text}");
    let json = out(&world.run(&["ls", "--json", PATH]));
    assert!(
        json.contains(&format!("\"node_path\":\"{queue}/{other}__lock__0000000000\"")),
        "{json}"
    );
    assert_eq!(world.run(&["break", PATH, "--yes", "--node", permit]).status.code(), Some(0));
    assert_eq!(quiet(), Some(0));
}

#[test]
fn break_shows_whom_it_would_remove() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let waiting = begun(mutex.acquire());
    world.eventually("a waiter", |world| world.contenders().len() == 2);
    for (label, state) in [("lock-0", "holds "), ("lock-1", "waits ")] {
        let refused = world.run(&["break", PATH, "--node", label]);
        let question = out(&refused);
        assert!(question.starts_with(state), "{question}");
        for part in [" from 127.0.0.1:", "s old\n", "\nRemove it from /locks/cli? [y/N] "] {
            assert!(question.contains(part), "{question}");
        }
        assert!(question.ends_with("Nothing was removed.\n"), "{question}");
        assert_eq!(refused.status.code(), Some(1));
    }
    assert_eq!(world.contenders().len(), 2);
    drop((guard, waiting));
}

#[test]
fn break_removes_nothing_if_nobody_can_read_its_question() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let mut command = world.command(&["break", PATH, "--node", guard.node()]);
    command.stdout(std::io::pipe().expect("a pipe").1);
    let output = ended(command.spawn().expect("zk-lock starts"));
    assert_eq!(output.status.code(), Some(70));
    assert!(error_message(&output).contains("nothing was removed"));
    assert_eq!(world.contenders().len(), 1);
}

#[test]
fn the_session_stays_alive_while_break_waits_for_an_answer() {
    let min_session_timeout = Duration::from_secs(1);
    let world = World::with(Config { tick: ENDLESS, min_session_timeout, ..Config::servers(1) });
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let arguments = ["--session-timeout", "3", "break", PATH, "--node", guard.node()];
    let mut child =
        world.command(&arguments).stdin(Stdio::piped()).spawn().expect("zk-lock starts");
    let mut question = [0; 1];
    child.stdout.as_mut().expect("piped").read_exact(&mut question).expect("zk-lock asks");
    // A ping is due after a third of the session timeout, so five take longer than that timeout.
    let pings = |world: &World| {
        world.embedded.with(|ensemble| {
            let breaker = ensemble.sessions().max().expect("the last session");
            ensemble.session_counters(breaker).map_or(0, |it| it.requests(OpCode::PING))
        })
    };
    world.eventually("pings", |world| pings(world) >= 5);
    child.stdin.take().expect("piped").write_all(b"y\n").expect("zk-lock reads");
    let output = ended(child);
    assert_eq!((output.status.code(), error_message(&output)), (Some(0), String::new()));
    assert!(world.contenders().is_empty());
}

#[test]
fn a_waiter_for_permits_is_not_shown_as_a_holder() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let semaphore = Semaphore::new(&client, PATH, 2).expect("valid");
    let permits = world.runtime.block_on(semaphore.acquire_many(2)).expect("free");
    let waiting = begun(semaphore.acquire());
    world.eventually("three permit nodes", |world| {
        world.contenders().iter().filter(|node| node.contains("-lease-")).count() == 3
    });
    let text = out(&world.run(&["ls", PATH]));
    assert_eq!(text.lines().filter(|line| line.starts_with("holds")).count(), 2, "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("waits")).count(), 2, "{text}");
    drop((permits, waiting));
}

#[test]
fn watch_prints_changes() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let first = world.runtime.block_on(mutex.acquire()).expect("free");
    let mut child = world.command(&["watch", PATH]).spawn().expect("zk-lock starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert_eq!(line(), format!("+ holds {} -", first.node()));
    let second = begun(mutex.acquire());
    assert!(line().starts_with("+ waits"));
    world.runtime.block_on(first.release()).expect("held");
    assert!(line().starts_with("- holds"));
    assert!(line().starts_with("- waits"));
    assert!(line().starts_with("+ holds"));
    let _second = world.runtime.block_on(second).expect("acquired");
    child.kill().expect("zk-lock starts");
    child.wait().expect("an ended child");
}

#[test]
fn watch_reads_the_queue_once_for_many_changes() {
    const NODES: usize = 100;
    let world = World::new();
    let client = world.client();
    let create = async {
        client.ensure_path(PATH).await?;
        let node = format!("{PATH}/_c_f5fd6747-e1b7-4202-a4bc-9474a7659da6-lock-");
        for _ in 0..NODES {
            client.create(&node, b"", NodeKind::EphemeralSequential).await?;
        }
        Ok::<_, RequestError>(())
    };
    world.runtime.block_on(create).expect("created");
    let mut child = world.command(&["watch", PATH]).spawn().expect("zk-lock starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    (0..NODES).for_each(|_| assert!(line().starts_with('+')));
    let made = requests(&world, || {
        // All nodes vanish at once, with an event for each.
        world.runtime.block_on(client.close());
        (0..NODES).for_each(|_| assert!(line().starts_with('-')));
        // The looks that follow, if there are any.
        std::thread::sleep(Duration::from_millis(200));
    });
    assert!(made < NODES as u64 / 2, "{made} requests");
    child.kill().expect("it goes on");
    child.wait().expect("an ended child");
}

#[test]
fn ls_prints_a_json_object_for_each_contender() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = |data| Mutex::with(&client, PATH, Options::new().data(data)).expect("valid");
    let first = mutex("host-7 pid 12: a: \u{202e}\"\n");
    let guard = world.runtime.block_on(first.acquire()).expect("free");
    let second = mutex("");
    let _waiting = begun(second.acquire());
    world.eventually("two", |world| world.contenders().len() == 2);
    let output = world.run(&["ls", "--json", PATH]);
    assert_eq!((output.status.code(), error_message(&output)), (Some(0), String::new()));
    let text = out(&output);
    assert!(text.is_ascii(), "{text}");
    let objects: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let [holder, waiter] = &objects[..] else { panic!("{text}") };
    let field = |name: &str| (holder[name].clone(), waiter[name].clone());
    let both = |value: &str| (serde_json::json!(value), serde_json::json!(value));
    assert_eq!(field("path"), both(PATH));
    assert_eq!(field("kind"), both("mutex"));
    assert_eq!(field("mode"), both("exclusive"));
    assert_eq!(
        (holder["state"].as_str(), waiter["state"].as_str()),
        (Some("holds"), Some("waits"))
    );
    assert_eq!(holder["node"].as_str(), Some(guard.node()));
    assert_eq!(holder["node_path"].as_str(), Some(&*guard.node_path()));
    assert_eq!(waiter["waits_for"].as_str(), Some(guard.node()));
    assert!(holder["waits_for"].is_null());
    let token = guard.fencing_token().0;
    assert_eq!(holder["token"].as_i64(), Some(token));
    assert_eq!(holder["czxid"].as_str(), Some(&*format!("{token:#x}")));
    assert_eq!(holder["session"].as_str(), Some(&*format!("{:#x}", client.session_id().0)));
    assert_eq!(holder["owner"].as_str(), Some("host-7 pid 12: a: \u{202e}\"\n"));
    assert_eq!((holder["host"].as_str(), holder["pid"].as_u64()), (Some("host-7"), Some(12)));
    assert_eq!(holder["program"].as_str(), Some("a: \u{202e}\"\n"));
    assert!(waiter["host"].is_null() && waiter["pid"].is_null() && waiter["program"].is_null());
    assert!(holder["since_ms"].is_i64() && holder["age_s"].is_u64());
    assert_eq!(out(&world.run(&["ls", "--json", "/nowhere"])), "");
    // The documentation lists the fields.
    let page = include_str!("../../../../docs/zk-lock.md");
    for field in holder.as_object().expect("an object").keys() {
        assert!(page.contains(&format!("| `{field}` |")), "{field}");
    }
}

#[test]
fn watch_prints_json_objects() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    let guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let mut child = world.command(&["watch", "--json", PATH]).spawn().expect("zk-lock starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || -> serde_json::Value {
        serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("an object")
    };
    let node = guard.node().to_owned();
    let added = next();
    assert_eq!((added["change"].as_str(), added["node"].as_str()), (Some("added"), Some(&*node)));
    world.runtime.block_on(guard.release()).expect("held");
    let removed = next();
    assert_eq!((removed["change"].as_str(), &removed["node"]), (Some("removed"), &added["node"]));
    child.kill().expect("running");
    child.wait().expect("an ended child");
}

#[test]
fn quiet_is_the_exit_code_alone() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = Mutex::new(&client, PATH).expect("valid");
    for how in ["-q", "--quiet"] {
        let guard = world.runtime.block_on(mutex.acquire()).expect("free");
        let held = world.run(&["ls", how, PATH]);
        assert_eq!((held.status.code(), out(&held)), (Some(1), String::new()));
        world.runtime.block_on(guard.release()).expect("held");
        let free = world.run(&["ls", how, PATH]);
        assert_eq!((free.status.code(), out(&free)), (Some(0), String::new()));
    }
}

#[test]
fn a_table_fits_80_columns_and_its_names_can_be_removed() {
    let world = World::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let data = "a-host-with-a-long-name.example.org pid 4194304: a-program-with-a-long-name";
    let lock = RwLock::with(&client, PATH, Options::new().data(data)).expect("valid");
    let _reader = world.runtime.block_on(lock.read()).expect("free");
    let _writer = begun(lock.write());
    world.eventually("two", |world| world.contenders().len() == 2);
    let text = out(&world.run(&["ls", PATH]));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("a-host-with-a"), "{text}");
    let removed = world.run(&["break", PATH, "--yes", "--node", "WRIT-1"]);
    assert_eq!((removed.status.code(), error_message(&removed)), (Some(0), String::new()));
    assert_eq!(world.contenders().len(), 1);
}

#[test]
fn a_full_disk_is_an_error_and_a_closed_pipe_is_not() {
    let world = World::new();
    let at = world.embedded.connect_string();
    for (arguments, code) in [("ls /a", 70), ("ls --json /a", 0), ("--help", 70), ("ls --help", 70)]
    {
        let program = env!("CARGO_BIN_EXE_zk-lock");
        let line = format!("'{program}' --connect {at} {arguments} > /dev/full");
        let done =
            ended(unignoring("sh").args(["-c", &line]).stderr(Stdio::piped()).spawn().expect("sh"));
        assert_eq!(done.status.code(), Some(code), "{arguments}");
        let line = format!("'{program}' --connect {at} {arguments} | true");
        let done =
            ended(unignoring("sh").args(["-c", &line]).stderr(Stdio::piped()).spawn().expect("sh"));
        assert_eq!(
            (done.status.code(), error_message(&done)),
            (Some(0), String::new()),
            "{arguments}"
        );
    }
}
