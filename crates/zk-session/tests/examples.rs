//! Runs every example.
#![cfg(all(feature = "tokio", feature = "blocking"))]

use std::process::Command;

use zk_testkit::examples::printed;
use zk_testkit::serve::Embedded;
use zk_testkit::server::Config;
use zk_testkit::tls::{Authority, TlsFront};

macro_rules! example {
    ($name:ident, $file:literal) => {
        #[path = $file]
        #[allow(dead_code, reason = "the example's own `main`")]
        mod $name;
    };
}

example!(any_runtime, "../examples/any_runtime.rs");
example!(blocking, "../examples/blocking.rs");
example!(counter, "../examples/counter.rs");
example!(poll_loop, "../examples/poll_loop.rs");
example!(watch, "../examples/watch.rs");

#[test]
fn tasks_of_another_runtime_count_up_a_node() {
    assert_eq!(any_runtime::run(None).expect("it counts"), 5);
}

#[test]
fn threads_count_workers() {
    blocking::run(None).expect("it counts them");
}

#[test]
fn a_loop_on_a_socket_that_never_blocks() {
    poll_loop::run(None).expect("answered");
}

#[tokio::test]
async fn a_service_follows_its_configuration() {
    watch::run(None).await.expect("it is reported of the end");
}

#[tokio::test]
async fn machines_of_several_owners_share_a_counter() {
    let ensemble = Embedded::start(3).await.expect("an ensemble");
    let sum = counter::run(&ensemble.connect_string()).await.expect("the sum");
    assert_eq!(sum, 321);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_has_an_encrypted_session_and_nodes_of_their_own() {
    let users = [("alice".to_owned(), "secret".to_owned())].into();
    let ensemble = Embedded::with_config(Config { users, ..Config::servers(1) }).await;
    let ensemble = ensemble.expect("an ensemble");
    let authority = Authority::new("trusted");
    let front = TlsFront::trusted(ensemble.address(0), &authority).await.expect("a port");
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let command = |password| {
        let mut command = zk_testkit::examples::example(env!("CARGO_MANIFEST_DIR"), "secure");
        command.arg(front.address().to_string()).arg(file("ca.pem", &authority.pem()));
        command.arg("alice").arg(file("password", password));
        command
    };
    let run = async |mut command: Command, run: fn(&mut Command) -> Vec<String>| {
        tokio::task::spawn_blocking(move || run(&mut command)).await.expect("no panic")
    };
    let lines = run(command("secret\n"), printed).await;
    assert_eq!(lines, ["ip: 127.0.0.1", "sasl: alice", "a secret"]);
    let lines = run(command("wrong\n"), |command| {
        let output = command.output().expect("it starts");
        assert!(!output.status.success(), "{output:?}");
        vec![String::from_utf8_lossy(&output.stderr).into_owned()]
    });
    let error = lines.await.concat();
    assert!(error.contains("DIGEST-MD5"), "{error}");
}
