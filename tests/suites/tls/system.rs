//! The authorities of the system, and the crypto provider of the process. Both belong to a process, so
//! each test starts one: this program again, with [`PROCESS`] as its only test.

use std::env;
use std::process::Command;

use zk_session::rustls::crypto::{CryptoProvider, ring};

use super::*;

const PROCESS: &str = "system::a_process";
const CONNECT_STRING: &str = "ZK_TEST_CONNECT_STRING";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_authorities_of_the_system_are_trusted_with_the_provider_of_the_process() {
    let ensemble = Ensemble::trusted(1).await;
    let directory = tempfile::TempDir::with_prefix("tls-").expect("a directory");
    let (system, empty) = (directory.path().join("system.pem"), directory.path().join("empty.pem"));
    std::fs::write(&system, ensemble.authority.pem()).expect("a file");
    std::fs::write(&empty, "").expect("a file");
    for (file, expected) in [(&system, "connected, then refused"), (&empty, "no CA certificates")] {
        let mut process = Command::new(env::current_exe().expect("this program"));
        process.args([PROCESS, "--exact", "--ignored", "--nocapture"]).env_remove("SSL_CERT_DIR");
        process.env("SSL_CERT_FILE", file).env(CONNECT_STRING, ensemble.connect_string());
        let output = spawn_blocking(move || process.output().expect("this program runs")).await;
        let output = output.expect("no panic");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(printed.contains(expected), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[tokio::test]
#[ignore = "part of the other test"]
async fn a_process() {
    let at = env::var(CONNECT_STRING).expect("set by the test that starts this");
    let tls = match TlsConfig::from_system_roots() {
        Ok(tls) => tls,
        Err(error) => return println!("{error}"),
    };
    Client::builder(&at).tls(tls).connect().await.expect("the system trusts it").close().await;
    // The server has ciphers, but this client none in common with it.
    let provider = CryptoProvider { kx_groups: Vec::new(), ..ring::default_provider() };
    provider.install_default().expect("the first");
    let failed = match TlsConfig::from_system_roots() {
        Ok(tls) => Client::builder(&at).tls(tls).connect().await.map(drop).expect_err("no groups"),
        Err(error) => return println!("connected, then refused: {error}"),
    };
    println!("connected, then refused: {failed}");
}
