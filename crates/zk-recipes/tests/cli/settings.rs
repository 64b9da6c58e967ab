//! The settings of `zk-lock` for its connection: options, variables and the configuration file.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use zk_recipes::session::proto::{Acl, Id, NodeKind, Perms};
use zk_testkit::real::{self, Settings};
use zk_testkit::tls::{Authority, TlsFront, server_config};

use crate::{PATH, World, ended, error_message, out, output, unignoring};

fn zk_lock(arguments: &[&str]) -> Command {
    let mut command = unignoring(env!("CARGO_BIN_EXE_zk-lock"));
    command.args(arguments);
    // Keep the files of the user who runs the tests out.
    command.env("HOME", "/nonexistent").env("ZK_LOCK_CONFIG", "/dev/null");
    command
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().expect("a temporary folder"))
    }

    fn file(&self, name: &str, text: &str) -> String {
        let file = self.0.path().join(name);
        fs::write(&file, text).expect("a file");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("ours");
        file.display().to_string()
    }
}

#[test]
fn arguments_precede_variables_and_those_precede_the_file() {
    let world = World::new();
    let folder = Folder::new();
    let at = world.embedded.connect_string();
    let nowhere = "127.0.0.1:1";
    let good = folder.file("good", &format!("# servers\n\n connect = {at}\nconnect-timeout=5\n"));
    let bad = folder.file("bad", &format!("connect = {nowhere}\nconnect-timeout = 0.1\n"));
    let run = ["run", PATH, "echo", "ran"];
    for (arguments, variables, is_reached) in [
        (vec![], vec![("ZK_LOCK_CONNECT", &at)], true),
        (vec![], vec![("ZK_LOCK_CONFIG", &good)], true),
        (vec!["--config", &good], vec![], true),
        (vec!["--config", &bad], vec![], false),
        (vec!["--config", &bad], vec![("ZK_LOCK_CONNECT", &at)], true),
        (vec!["--config", &bad, "--connect", &at], vec![("ZK_LOCK_CONNECT", &bad)], true),
        (vec!["--config", &good, "--connect", nowhere, "--connect-timeout", "0.1"], vec![], false),
    ] {
        let mut command = zk_lock(&[&arguments[..], &run].concat());
        command.envs(variables.iter().copied());
        let done = output(command);
        let expected = if is_reached { (Some(0), "ran\n") } else { (Some(69), "") };
        let message = error_message(&done);
        let got = (done.status.code(), &*out(&done));
        assert_eq!(got, expected, "{arguments:?} {variables:?} {message}");
    }
    // Without `--config`, the file in the home directory.
    fs::create_dir(folder.0.path().join(".config")).expect("a folder");
    folder.file(".config/zk-lock.conf", &format!("connect={at}"));
    let mut command = zk_lock(&run);
    command.env("HOME", folder.0.path()).env_remove("ZK_LOCK_CONFIG");
    assert_eq!(out(&output(command)), "ran\n");
    // Without a home directory there is none, least of all in the current directory.
    folder.file(".config/zk-lock.conf", "nonsense");
    for home in [None, Some(""), Some(".")] {
        let mut command = zk_lock(&run);
        command.current_dir(&folder.0).env_remove("ZK_LOCK_CONFIG").env_remove("HOME");
        command.env("ZK_LOCK_CONNECT", &at).envs(home.map(|home| ("HOME", home)));
        assert_eq!(out(&output(command)), "ran\n", "{home:?}");
    }
}

#[test]
fn a_flag_can_be_set_with_the_usual_words() {
    let world = World::new();
    let at = world.embedded.connect_string();
    for (value, code) in [("no", 0), ("false", 0), ("0", 0), ("yes", 69), ("1", 69), ("maybe", 64)]
    {
        let limit = if code == 0 { "15" } else { "0.1" };
        let mut command = zk_lock(&["--connect", &at, "--connect-timeout", limit, "run", PATH]);
        command.arg("true").env("ZK_LOCK_TLS", value);
        assert_eq!(output(command).status.code(), Some(code), "{value}");
    }
}

#[test]
fn the_configuration_can_come_from_a_pipe() {
    let world = World::new();
    let folder = Folder::new();
    let text = format!("connect = {}\n", world.embedded.connect_string());
    let file = folder.file("file", &text);
    // The supervisor reads the pipe to its end, and the keeper has the same settings.
    let script = "cat \"$0\" | \"$@\" sh -c 'echo \"ran ${ZK_LOCK_CONFIG_TEXT-}\"'";
    let mut shell = unignoring("sh");
    shell.args(["-c", script, &file, env!("CARGO_BIN_EXE_zk-lock"), "--config", "/dev/stdin"]);
    shell.args(["--connect-timeout", "15", "run", PATH]).env_remove("ZK_LOCK_CONNECT");
    // Without a supervisor, the variable means nothing.
    let done = output({
        shell.env("ZK_LOCK_CONFIG_TEXT", "connect = 127.0.0.1:1\n");
        shell
    });
    assert_eq!((error_message(&done), out(&done)), (String::new(), "ran \n".to_owned()));
}

#[test]
fn a_configuration_for_run_may_have_100_kilobytes() {
    let world = World::new();
    let folder = Folder::new();
    let connect = format!("connect = {}\n#", world.embedded.connect_string());
    for (length, code) in [(100_000, 0), (100_001, 64)] {
        let text = connect.clone() + &"-".repeat(length - connect.len());
        let file = folder.file("long", &text);
        let mut run = zk_lock(&["--config", &file, "run", PATH, "true"]);
        run.env_remove("ZK_LOCK_CONNECT");
        let done = output(run);
        assert_eq!(done.status.code(), Some(code), "{}", error_message(&done));
        assert_eq!(error_message(&done).contains("longer than 100 KB"), code == 64);
    }
}

#[test]
fn the_options_of_run_have_variables_too() {
    let world = World::new();
    let folder = Folder::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let mutex = zk_recipes::Mutex::new(&client, PATH).expect("valid");
    let _guard = world.runtime.block_on(mutex.acquire()).expect("free");
    let file = folder.file("file", "wait = 0.01\nconflict-exit-code = 9\n");
    let at = world.embedded.connect_string();
    for (variables, code) in [
        ([("ZK_LOCK_WAIT", "0.01"), ("ZK_LOCK_CONFLICT_EXIT_CODE", "7")], 7),
        ([("ZK_LOCK_CONFIG", &*file), ("ZK_LOCK_CONFLICT_EXIT_CODE", "7")], 7),
        ([("ZK_LOCK_CONFIG", &*file), ("ZK_LOCK_CONNECT", &*at)], 9),
    ] {
        let mut command = zk_lock(&["--connect", &at, "run", PATH, "echo", "not me"]);
        command.envs(variables);
        let done = output(command);
        assert_eq!((done.status.code(), out(&done)), (Some(code), String::new()), "{variables:?}");
    }
    // On the command line, `-n` counts more than a variable.
    let mut command = zk_lock(&["--connect", &at, "run", "-n", PATH, "echo", "not me"]);
    assert_eq!(
        output({
            command.env("ZK_LOCK_WAIT", "60");
            command
        })
        .status
        .code(),
        Some(1)
    );
}

#[test]
fn an_unknown_or_wrong_setting_is_named() {
    let folder = Folder::new();
    for (text, part) in [
        ("connect = a:1\nshared = true\n", "line 2: expected `name = value`"),
        ("connect\n", "line 1"),
        ("config = /x\n", "line 1"),
        ("sasl-password = hunter4\n", "line 1"),
        ("hunter4\n", "line 1"),
        ("session-timeout = soon\n", "session-timeout"),
    ] {
        let file = folder.file("file", text);
        let done = output(zk_lock(&["--config", &file, "ls", PATH]));
        let message = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(64), "{text}");
        assert!(message.contains(part) && !message.contains("hunter4"), "{message}");
    }
    for arguments in [
        &["--config", "/nonexistent/file", "ls", PATH][..],
        &["--tls-key", "/dev/null", "ls", PATH],
        &["--sasl-user", "alice", "ls", PATH],
        &["--auth-file", "/nonexistent/file", "ls", PATH],
    ] {
        assert_eq!(output(zk_lock(arguments)).status.code(), Some(64), "{arguments:?}");
    }
}

#[test]
fn credentials_come_from_a_file_or_a_variable_and_are_not_printed() {
    let world = World::new();
    let folder = Folder::new();
    let (_runtime, client) = (world.runtime.enter(), world.client());
    let creator = [Acl { perms: Perms::ALL, id: Id { scheme: "auth", id: None } }];
    let made = async {
        client.add_auth("digest", b"alice:secret").await?;
        client.create_with_acl("/hers", b"", NodeKind::Persistent, &creator).await
    };
    world.runtime.block_on(made).expect("new");
    let at = world.embedded.connect_string();
    let run = || zk_lock(&["--connect", &at, "run", "/hers/lock", "echo", "ran"]);
    let denied = output(run());
    assert_eq!((denied.status.code(), out(&denied)), (Some(70), String::new()));
    let mut by_variable = run();
    by_variable.env("ZK_LOCK_AUTH", "digest:alice:secret");
    let mut by_file = run();
    by_file.env("ZK_LOCK_AUTH_FILE", folder.file("auth", "\ndigest:bob:x\ndigest:alice:secret\n"));
    for command in [by_variable, by_file] {
        let done = output(command);
        assert_eq!((error_message(&done), out(&done)), (String::new(), "ran\n".to_owned()));
    }
    let mut wrong = run();
    wrong.env("ZK_LOCK_AUTH", "secret");
    let wrong = output(wrong);
    assert_eq!(wrong.status.code(), Some(64));
    assert!(!error_message(&wrong).contains("secret"), "{}", error_message(&wrong));
    let mut help = zk_lock(&["ls", "--help"]);
    help.env("ZK_LOCK_AUTH", "secret").env("ZK_LOCK_SASL_PASSWORD", "secret");
    assert!(!out(&output(help)).contains("secret"));
}

#[test]
fn a_session_is_recorded_to_a_new_file_without_secrets() {
    let world = World::new();
    let folder = Folder::new();
    let file = folder.file("recording", "");
    let at = world.embedded.connect_string();
    let run = || {
        let mut command = zk_lock(&["--connect", &at, "--record", &file, "run", PATH, "true"]);
        command.env("ZK_LOCK_AUTH", "digest:alice:hunter4");
        output(command)
    };
    assert_eq!(run().status.code(), Some(64));
    fs::remove_file(&file).expect("removed");
    let done = run();
    assert_eq!((done.status.code(), error_message(&done)), (Some(0), String::new()));
    let recording = fs::read(&file).expect("a recording");
    let replayed = zk_recipes::session::recording::replay(&recording).expect("replayed");
    assert!(replayed.inputs > 10);
    assert!(!recording.windows(7).any(|window| window == b"hunter4"));
}

#[test]
fn a_command_inherits_no_secrets() {
    let world = World::new();
    let folder = Folder::new();
    let file = folder.file("file", "wait = 17\n");
    let at = world.embedded.connect_string();
    let mut command = zk_lock(&["--connect", &at, "--config", &file, "run", PATH, "env"]);
    command.env("ZK_LOCK_AUTH", "digest:alice:hunter4").env("ZK_LOCK_SASL_PASSWORD", "hunter4");
    command.env("ZK_LOCK_WAIT", "19");
    let text = out(&output(command));
    let has = |name: &str| text.lines().any(|line| line.starts_with(&format!("{name}=")));
    assert!(has("ZK_LOCK_TOKEN") && has("ZK_LOCK_WAIT"), "{text}");
    let secrets = ["ZK_LOCK_AUTH", "ZK_LOCK_SASL_PASSWORD", "ZK_LOCK_CONFIG_TEXT"];
    assert_eq!(secrets.map(has), [false; 3], "{text}");
    assert!(!text.contains("hunter4"), "{text}");
}

#[test]
fn servers_are_reached_by_tls_with_certificates_from_files() {
    let world = World::new();
    let folder = Folder::new();
    let authority = Authority::new("trusted");
    let other = Authority::new("other");
    let server = authority.issue(&["127.0.0.1"]);
    let config =
        server_config(&server, Some(&authority), zk_recipes::session::rustls::ALL_VERSIONS);
    let front = TlsFront::start(world.embedded.address(0), config);
    let front = world.runtime.block_on(front).expect("a port");
    let client = authority.issue(&["client"]);
    let file = |name: &str, text: &str| folder.file(name, text);
    let (ca, other) = (file("ca", &authority.pem()), file("other", &other.pem()));
    let (certificate, key) = (file("certificate", &client.certificate), file("key", &client.key));
    let at = front.address().to_string();
    let start = |limit| ["--connect", &at, "--connect-timeout", limit];
    let run = ["run", PATH, "echo", "ran"];
    let with = ["--tls-ca", &ca, "--tls-cert", &certificate, "--tls-key", &key];
    let done = output(zk_lock(&[&start("15")[..], &with, &run].concat()));
    assert_eq!((error_message(&done), out(&done)), (String::new(), "ran\n".to_owned()));
    for with in [
        &[][..],
        &["--tls-ca", &other, "--tls-cert", &certificate, "--tls-key", &key],
        &["--tls-ca", &ca],
    ] {
        let done = output(zk_lock(&[&start("1")[..], with, &run].concat()));
        assert_eq!(done.status.code(), Some(69), "{with:?} {}", error_message(&done));
    }
}

#[test]
fn a_secret_that_every_user_can_read_is_reported() {
    let world = World::new();
    let folder = Folder::new();
    let at = world.embedded.connect_string();
    let auth = folder.file("auth", "digest:alice:secret\n");
    for (mode, is_reported) in [(0o600, false), (0o640, false), (0o644, true)] {
        fs::set_permissions(&auth, Permissions::from_mode(mode)).expect("ours");
        let done = output(zk_lock(&["--connect", &at, "--auth-file", &auth, "run", PATH, "true"]));
        let message = error_message(&done);
        assert_eq!((done.status.code(), !message.is_empty()), (Some(0), is_reported), "{message}");
        assert!(message.is_empty() || message.contains(&format!("chmod o-r {auth}")), "{message}");
    }
}

#[test]
fn the_nodes_of_a_run_have_the_access_control_list_that_was_set() {
    let world = World::new();
    let folder = Folder::new();
    let at = world.embedded.connect_string();
    let auth = folder.file("auth", "digest:alice:secret\n");
    let acl = "auth::cdrwa,world:anyone:r";
    let mut holder = zk_lock(&["--connect", &at, "--auth-file", &auth, "run", PATH, "cat"]);
    holder.env("ZK_LOCK_ACL", acl).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = holder.spawn().expect("zk-lock starts");
    world.eventually("a holder", |world| world.contenders().len() == 1);
    let node = world.contenders().remove(0);
    let (_runtime, client) = (world.runtime.enter(), world.client());
    for node in [PATH, &node] {
        let (acl, _) = world.runtime.block_on(client.get_acl(node)).expect("readable");
        let perms: Vec<_> = acl.iter().map(|entry| (&*entry.id.scheme, entry.perms)).collect();
        assert_eq!(perms, [("digest", Perms::ALL), ("world", Perms::READ)], "{node}");
    }
    // Others see the lock, and can neither queue nor break it.
    assert_eq!(output(zk_lock(&["--connect", &at, "ls", "-q", PATH])).status.code(), Some(1));
    for arguments in [&["run", PATH, "true"][..], &["break", PATH, "--yes", "--node", "lock-0"]] {
        let done = output(zk_lock(&[&["--connect", &at], arguments].concat()));
        assert_eq!(done.status.code(), Some(70), "{arguments:?} {}", error_message(&done));
    }
    drop(holder.stdin.take());
    assert_eq!(ended(holder).status.code(), Some(0));
    let wrong =
        output(zk_lock(&["--connect", &at, "run", "--acl", "world:anyone:x", PATH, "true"]));
    assert_eq!(wrong.status.code(), Some(64));
}

#[test]
fn a_real_server_takes_the_password_of_sasl() {
    let folder = Folder::new();
    let jaas = folder.file(
        "jaas.conf",
        "Server { org.apache.zookeeper.server.auth.DigestLoginModule required\n\
         user_alice=\"secret\"; };\n",
    );
    let ensemble = real::ensemble_with_or_skip(Settings {
        properties: vec![
            format!("java.security.auth.login.config={jaas}"),
            "zookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
                .into(),
            "zookeeper.sessionRequireClientSASLAuth=true".into(),
        ],
        ..Settings::default()
    });
    let Some(ensemble) = ensemble else { return };
    let at = ensemble.connect_string();
    for (password, code, text) in [("secret", 0, "ran\n"), ("wrong", 70, "")] {
        let arguments = ["--connect", &at, "--sasl-user", "alice", "run", PATH, "echo", "ran"];
        let mut by_variable = zk_lock(&arguments);
        by_variable.env("ZK_LOCK_SASL_PASSWORD", password);
        let mut by_file = zk_lock(&arguments);
        let file = folder.file("password", &format!("{password}\n"));
        by_file.env("ZK_LOCK_SASL_PASSWORD_FILE", file);
        for command in [by_variable, by_file] {
            let done = output(command);
            assert_eq!((done.status.code(), &*out(&done)), (Some(code), text));
            assert!(!error_message(&done).contains(password), "{}", error_message(&done));
        }
    }
}
