//! SASL GSSAPI on a real server, for both clients, with tickets of a private KDC.
//!
//! The library finds its tickets by variables of the environment. So each client is in a process of
//! its own: this test program again, with [`PROCESS`] as its only test.

use core::time::Duration;
use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;
use zk_session::proto::{Acl, Id, NodeKind, OpCode, Perms};
use zk_session::sasl::{Gssapi, SaslError};
use zk_session::{Client, ConnectError, blocking};
use zk_testkit::kerberos::{Kdc, REALM, kdc_or_skip};
use zk_testkit::real::{self, RealEnsemble, Settings};
use zk_testkit::suite::until;

const PROCESS: &str = "kerberos::a_process";
const SERVICE: &str = "zookeeper/localhost";
/// Tells a process which server principal to take; absent, it takes the default.
const SERVER_PRINCIPAL: &str = "ZK_TEST_SERVER_PRINCIPAL";
/// Tells a process that it must not succeed.
const FAILS: &str = "ZK_TEST_FAILS";
/// Tells a process that the server knows `whoAmI`.
const HAS_WHO_AM_I: &str = "ZK_TEST_HAS_WHO_AM_I";
const CONNECT_STRING: &str = "ZK_TEST_CONNECT_STRING";
/// Longer than it takes to restart a server.
const SESSION_TIMEOUT: Duration = Duration::from_secs(40);
/// A client that retried would do so all this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
const ALICE: &[Acl<'_>] =
    &[Acl { perms: Perms::ALL, id: Id { scheme: "sasl", id: Some("alice@ZK.TEST") } }];

/// A KDC, and a server that demands tickets of it.
struct World {
    kdc: Kdc,
    ensemble: RealEnsemble,
    _directory: TempDir,
}

impl World {
    fn start() -> Option<Self> {
        let kdc = kdc_or_skip(&[SERVICE, "nobody/localhost", "alice", "bob"])?;
        let directory = TempDir::new().expect("a temporary directory");
        let ensemble = ensemble(&kdc, directory.path())?;
        Some(Self { kdc, ensemble, _directory: directory })
    }

    /// Starts a process with the tickets in this cache.
    fn process(&self, cache: &str) -> Command {
        let program = env::current_exe().expect("this program");
        let mut command = self.kdc.command(program, cache);
        let at = self.ensemble.connect_string().replace("127.0.0.1", "localhost");
        command.args([PROCESS, "--exact", "--ignored", "--nocapture"]).env(CONNECT_STRING, at);
        if self.ensemble.version().serves(OpCode::WHO_AM_I) {
            command.env(HAS_WHO_AM_I, "");
        }
        command
    }

    /// Returns what a process printed that cannot connect.
    fn failures(&self, mut process: Command) -> Vec<String> {
        let output = process.env(FAILS, "").output().expect("this program runs");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
        let failed = |line: &str| line.split_once("failed: ").map(|(_, error)| error.to_string());
        let failures: Vec<_> = printed.lines().filter_map(failed).collect();
        assert_eq!(failures.len(), 2, "{printed}");
        failures
    }

    fn assert_fails(&self, process: Command, expected: &[&str]) {
        for failure in self.failures(process) {
            println!("{failure}");
            let missing = expected.iter().find(|part| !failure.contains(**part));
            assert_eq!(missing, None, "{failure}");
        }
    }
}

fn ensemble(kdc: &Kdc, directory: &Path) -> Option<RealEnsemble> {
    let jaas = directory.join("jaas.conf");
    let keytab = kdc.keytab(SERVICE);
    let login = format!(
        "Server {{
            com.sun.security.auth.module.Krb5LoginModule required
                useKeyTab=true storeKey=true useTicketCache=false
                keyTab=\"{}\" principal=\"{SERVICE}@{REALM}\";
        }};",
        keytab.display()
    );
    fs::write(&jaas, login).expect("a temporary directory is writable");
    real::ensemble_with_or_skip(Settings {
        tick: SESSION_TIMEOUT / 20,
        properties: vec![
            format!("java.security.auth.login.config={}", jaas.display()),
            format!("java.security.krb5.conf={}", kdc.config().display()),
            "zookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
                .into(),
            "zookeeper.sessionRequireClientSASLAuth=true".into(),
        ],
        ..Settings::default()
    })
}

/// A process that is connected, and waits for the end of its connection.
struct Connected {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Connected {
    fn start(mut process: Command) -> Self {
        let mut process = process.stdout(Stdio::piped()).spawn().expect("this program runs");
        let stdout = process.stdout.take().expect("it is piped");
        let mut connected = Self { process, lines: BufReader::new(stdout) };
        connected.wait_for("connected");
        connected
    }

    fn wait_for(&mut self, wanted: &str) {
        let mut line = String::new();
        while !line.starts_with(wanted) {
            line.clear();
            let read = self.lines.read_line(&mut line).expect("text");
            assert_ne!(read, 0, "{wanted}: {:?}", self.process.wait());
            print!("{line}");
        }
    }

    fn finish(mut self) {
        self.wait_for("reconnected");
        assert!(self.process.wait().expect("it ends").success());
    }
}

#[test]
fn a_ticket_opens_what_belongs_to_its_owner_on_every_connection() {
    let Some(mut world) = World::start() else { return };
    world.kdc.kinit("alice", "alice", 3600);
    let connected = Connected::start(world.process("alice"));
    // The session goes on with a ticket that it gets later.
    fs::remove_file(world.kdc.cache("alice")).expect("a cache");
    world.ensemble.restart(0).expect("it serves again");
    world.kdc.kinit("alice", "alice", 3600);
    connected.finish();

    // The library gets tickets by itself.
    let mut process = world.process("by-keytab");
    process.env("KRB5_CLIENT_KTNAME", world.kdc.keytab("alice"));
    let connected = Connected::start(process);
    world.ensemble.restart(0).expect("it serves again");
    connected.finish();
}

#[test]
fn a_ticket_that_is_missing_or_of_no_use_ends_the_attempt_and_says_why() {
    let Some(world) = World::start() else { return };
    world.kdc.kinit("alice", "expired", 1);
    world.assert_fails(world.process("none"), &["no ticket to begin with", "none.cache"]);
    world.kdc.wait_until_expired("expired");
    world.assert_fails(
        world.process("expired"),
        &["no ticket for zookeeper@localhost: Ticket expired"],
    );

    world.kdc.kinit("alice", "alice", 3600);
    for (principal, expected) in [
        (
            "unknown/localhost",
            &["no ticket for unknown/localhost", "not found in Kerberos database"][..],
        ),
        (
            "zookeeper/localhost@OTHER.TEST",
            &["no ticket for zookeeper/localhost@OTHER.TEST: ", "OTHER.TEST@ZK.TEST not found"],
        ),
        // The server has no key for this one.
        ("nobody/localhost", &["the server refused the credentials"]),
    ] {
        let mut process = world.process("alice");
        process.env(SERVER_PRINCIPAL, principal);
        world.assert_fails(process, expected);
    }

    let krb5 = world.kdc.config();
    let settings = fs::read_to_string(&krb5).expect("text");
    let unreachable = krb5.with_file_name("unreachable.conf");
    let lines = settings.lines().map(|line| match line.contains("kdc = ") {
        true => "kdc = 127.0.0.1:1\n".to_string(),
        false => format!("{line}\n"),
    });
    fs::write(&unreachable, lines.collect::<String>()).expect("a file");
    // Its cache has no ticket for this server yet.
    world.kdc.kinit("alice", "fresh", 3600);
    let mut process = world.process("fresh");
    process.env("KRB5_CONFIG", unreachable);
    world.assert_fails(process, &["no ticket for zookeeper@localhost", "contact any KDC"]);
}

/// Connects both clients, and prints what comes of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "part of the other tests"]
async fn a_process() {
    let at = env::var(CONNECT_STRING).expect("set by the test that starts this");
    let mechanism = match env::var(SERVER_PRINCIPAL) {
        Ok(principal) => Gssapi::new().server_principal(move |_| principal.clone()),
        Err(_) => Gssapi::new(),
    };
    let start = Instant::now();
    let (builder, theirs) = (Client::builder(&at), mechanism.clone());
    let builder = builder.session_timeout(SESSION_TIMEOUT).connect_timeout(CONNECT_TIMEOUT);
    let client = builder.sasl(mechanism).connect().await;
    let elapsed = start.elapsed();
    let threads = tokio::task::spawn_blocking(move || {
        let builder = blocking::Client::builder(&at).session_timeout(SESSION_TIMEOUT);
        builder.connect_timeout(CONNECT_TIMEOUT).sasl(theirs).connect()
    });
    let threads = threads.await.expect("no panic");
    let (client, threads) = match (client, threads) {
        (Ok(client), Ok(threads)) => (client, threads),
        (client, threads) => {
            let failures = [client.map(drop), threads.map(drop)].map(|end| end.expect_err("both"));
            for failure in &failures {
                println!("{elapsed:?}: {failure}");
                assert!(is_failure(failure), "{failure:?}");
            }
            return;
        }
    };

    assert!(env::var(FAILS).is_err(), "it connected");
    if env::var(HAS_WHO_AM_I).is_ok() {
        let identities = client.who_am_i().await.expect("since 3.7.0");
        let alice = ("sasl", "alice@ZK.TEST");
        assert!(identities.iter().any(|id| (&*id.auth_scheme, &*id.user) == alice));
    }
    let path = format!("/alice-{}", client.session_id());
    client.create_with_acl(&path, b"data", NodeKind::Persistent, ALICE).await.expect("new");
    println!("connected");
    let connections = || [client.statistics(), threads.statistics()].map(|it| it.connections);
    until("other connections", || connections().into_iter().all(|count| count >= 2)).await;
    let (data, _) = client.get_data(&path).await.expect("the new connection is authenticated");
    assert_eq!(&*data, b"data");
    let read = tokio::task::spawn_blocking(move || threads.get_data(&path).wait().map(drop));
    read.await.expect("no panic").expect("the new connection is authenticated");
    println!("reconnected");
}

fn is_failure(error: &ConnectError) -> bool {
    matches!(
        error,
        ConnectError::AuthenticationFailed {
            mechanism: "GSSAPI",
            error: SaslError::Refused | SaslError::Unanswered | SaslError::Mechanism(_),
            ..
        }
    )
}
