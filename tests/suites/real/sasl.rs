//! SASL on a real server, for both clients.

use core::time::Duration;
use std::fs;
use std::path::Path;
use std::time::Instant;

use tempfile::TempDir;
use zk_recipes::{Holding, Mutex};
use zk_session::proto::{Acl, ErrorCode, Id, NodeKind, OpCode, Perms};
use zk_session::sasl::{DigestMd5, SaslError};
use zk_session::{Client, ConnectError, End, Error, State, blocking};
use zk_testkit::real::{self, RealEnsemble, Settings};
use zk_testkit::server::Version;
use zk_testkit::suite::{HANG_TIMEOUT, SESSION_TIMEOUT};

/// The servers' users. Not all characters of the second password are ASCII.
const JAAS: &str = r#"
    Server {
        org.apache.zookeeper.server.auth.DigestLoginModule required
            user_alice="secret"
            user_bob="größe";
    };
"#;
const JAAS_FILE: &str = "jaas.conf";
const ALICE: &[Acl<'_>] =
    &[Acl { perms: Perms::ALL, id: Id { scheme: "sasl", id: Some("alice") } }];
/// A client that retried would do so all this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

fn ensemble(directory: &Path) -> Option<RealEnsemble> {
    real::ensemble_with_or_skip(settings(directory))
}

/// Returns settings of servers that serve only users of [`JAAS`].
pub(super) fn settings(directory: &Path) -> Settings {
    set_password(directory, "secret");
    let jaas = directory.join(JAAS_FILE);
    Settings {
        properties: vec![
            format!("java.security.auth.login.config={}", jaas.display()),
            "zookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
                .into(),
            "zookeeper.sessionRequireClientSASLAuth=true".into(),
        ],
        ..Settings::default()
    }
}

/// Sets the password of Alice at the servers that start from now on.
fn set_password(directory: &Path, password: &str) {
    let jaas = JAAS.replace("\"secret\"", &format!("\"{password}\""));
    fs::write(directory.join(JAAS_FILE), jaas).expect("a temporary directory is writable");
}

fn no_auth<T>() -> Result<T, Error> {
    Err(Error::Server(ErrorCode::NO_AUTH))
}

#[tokio::test]
async fn a_password_opens_what_belongs_to_its_user_on_every_connection() {
    let directory = TempDir::new().expect("a temporary directory");
    let Some(mut ensemble) = ensemble(directory.path()) else { return };
    let at = ensemble.connect_string();
    let alice = Client::builder(&at).sasl(DigestMd5::new("alice", "secret"));
    let alice = alice.connect().await.expect("the password is right");
    if ensemble.version().serves(OpCode::WHO_AM_I) {
        let identities = alice.who_am_i().await.expect("it answers");
        let is_alice = |id: &zk_session::proto::owned::ClientInfo| {
            (&*id.auth_scheme, &*id.user) == ("sasl", "alice")
        };
        assert!(identities.iter().any(is_alice), "{identities:?}");
    }
    let node = ("/hers", b"data");
    alice.create_with_acl(node.0, node.1, NodeKind::Persistent, ALICE).await.expect("new");

    let other = Client::builder(&at).sasl(DigestMd5::new("bob", "größe"));
    let other = other.connect().await.expect("the password is right");
    assert_eq!(other.get_data("/hers").await.map_err(Error::from).map(drop), no_auth());

    ensemble.restart(0).expect("it serves again");
    let (data, _) = loop {
        match alice.get_data("/hers").await.map_err(Error::from) {
            Err(Error::ConnectionLost) => {}
            answer => break answer.expect("the new connection is authenticated, too"),
        }
    };
    assert_eq!(&*data, node.1);
    assert_eq!(alice.statistics().connections, 2);

    let joined = tokio::task::spawn_blocking(move || {
        let alice = blocking::Client::builder(&at).sasl(DigestMd5::new("alice", "secret"));
        let alice = alice.connect().expect("the password is right");
        assert_eq!(&*alice.get_data("/hers").wait().expect("hers").0, node.1);
    });
    joined.await.expect("no panic");
}

#[tokio::test]
async fn a_refusal_ends_the_attempt_and_names_the_mechanism() {
    let directory = TempDir::new().expect("a temporary directory");
    let Some(ensemble) = ensemble(directory.path()) else { return };
    let at = ensemble.connect_string();
    for (user, password, error) in [
        ("alice", "wrong", SaslError::Refused),
        ("nobody", "wrong", SaslError::Refused),
        // The server closes the connection without an answer.
        ("", "wrong", SaslError::Unanswered),
    ] {
        let mechanism = DigestMd5::new(user, password);
        let builder = Client::builder(&at).connect_timeout(CONNECT_TIMEOUT);
        let failed = builder.sasl(mechanism.clone()).connect().await.expect_err("refused");
        let (mechanism_name, server) = ("DIGEST-MD5", at.clone());
        let expected =
            ConnectError::AuthenticationFailed { mechanism: mechanism_name, server, error };
        assert_eq!(failed, expected);
        println!("{user:?}: {failed}");
        let at = at.clone();
        let blocking = tokio::task::spawn_blocking(move || {
            let builder = blocking::Client::builder(&at).connect_timeout(CONNECT_TIMEOUT);
            builder.sasl(mechanism).connect().map(drop)
        });
        assert_eq!(blocking.await.expect("no panic"), Err(expected));
    }
}

#[tokio::test]
async fn before_3_9_an_unknown_user_is_accepted_with_the_password_of_the_last_one() {
    let directory = TempDir::new().expect("a temporary directory");
    let Some(ensemble) = ensemble(directory.path()) else { return };
    let connect = async |user| {
        let client = Client::builder(&ensemble.connect_string());
        client.sasl(DigestMd5::new(user, "secret")).connect().await
    };
    connect("alice").await.expect("the password is right").close().await;
    match connect("nobody").await {
        Ok(client) => {
            assert!(ensemble.version() < Version::V3_9);
            client.close().await;
        }
        Err(error) => assert!(ensemble.version() >= Version::V3_9, "{error}"),
    }
}

#[tokio::test]
async fn a_server_that_demands_sasl_ends_a_session_without() {
    let directory = TempDir::new().expect("a temporary directory");
    let Some(ensemble) = ensemble(directory.path()) else { return };
    let client = Client::connect(&ensemble.connect_string()).await.expect("sessions are for all");
    assert!(client.exists("/").await.is_err());
    assert_eq!(client.ended().await, End::AuthFailed);
}

/// Servers change a password one after the other, while clients have the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_and_locks_outlive_a_server_with_another_password() {
    let directory = TempDir::new().expect("a temporary directory");
    let directory = directory.path();
    let tick = SESSION_TIMEOUT / 20;
    let settings = Settings { servers: 3, tick, ..settings(directory) };
    let Some(mut ensemble) = real::ensemble_with_or_skip(settings) else { return };
    let (at, changed) = (ensemble.connect_string(), ensemble.address(0));
    let old = DigestMd5::new("alice", "secret");
    let tasks = Client::builder(&at).session_timeout(SESSION_TIMEOUT).sasl(old.clone());
    let tasks = tasks.connect().await.expect("the password is right");
    let threads = blocking::Client::builder(&at).session_timeout(SESSION_TIMEOUT);
    let threads = threads.sasl(old.clone());
    let threads = tokio::task::spawn_blocking(|| threads.connect().expect("the password is right"));
    let threads = threads.await.expect("no panic");
    let lock = Mutex::new(&tasks, "/tasks").expect("valid").acquire().await.expect("free");
    let of_threads = Mutex::new(&threads, "/threads").expect("valid").acquire();
    let of_threads = tokio::task::spawn_blocking(|| of_threads.wait().expect("free"));
    let of_threads = of_threads.await.expect("no panic");
    let sessions = (tasks.session_id(), threads.session_id());
    let failures = || [tasks.last_failure(), threads.last_failure()].map(Option::unwrap_or_default);

    set_password(directory, "new");
    ensemble.restart(0).expect("it serves again");
    set_password(directory, "secret");
    let mut refused = [false; 2];
    let end = Instant::now() + HANG_TIMEOUT;
    // Each client tries the server sooner or later, and finds another one.
    for server in [1, 2].into_iter().cycle() {
        ensemble.restart(server).expect("it serves again");
        loop {
            assert!(Instant::now() < end, "refused: {refused:?}");
            let is_connected = |state| matches!(state, State::Connected { .. });
            let are_held = [lock.state(), of_threads.state()] == [Holding::Held; 2];
            if is_connected(tasks.state()) && is_connected(threads.state()) && are_held {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for (refused, (server, reason)) in refused.iter_mut().zip(failures()) {
            println!("{server}: {reason}");
            *refused |= server == changed && reason.contains("refused the credentials");
        }
        if refused == [true; 2] {
            break;
        }
    }
    assert_eq!((tasks.session_id(), threads.session_id()), sessions);

    set_password(directory, "new");
    for server in [1, 2] {
        ensemble.restart(server).expect("it serves again");
    }
    // A server that has seen no write since the election may close the handshakes of sessions that
    // have.
    assert_eq!(tasks.ended().await, End::AuthFailed);
    let of_threads = tokio::task::spawn_blocking(move || {
        assert_eq!(threads.ended(), End::AuthFailed);
        (threads.last_failure(), of_threads.state())
    });
    let (failure, holding) = of_threads.await.expect("no panic");
    for (server, reason) in [tasks.last_failure(), failure].map(|it| it.expect("a failure")) {
        println!("{server}: {reason}");
        assert!(at.contains(&server) && reason.contains("refused the credentials"), "{reason}");
    }
    for holding in [lock.state(), holding] {
        assert!(matches!(holding, Holding::Lost(_)), "{holding:?}");
    }
    let error = Client::builder(&at).sasl(old).connect().await.expect_err("the old password");
    let ConnectError::AuthenticationFailed { server, error, .. } = error else { panic!("{error}") };
    assert!(at.contains(&server) && error == SaslError::Refused, "{server}: {error}");
}
