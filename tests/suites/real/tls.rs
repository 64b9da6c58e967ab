//! Both clients over TLS, to real servers with the Netty server factory.

use std::fs;
use std::future::ready;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use zk_session::proto::{Acl, NodeKind};
use zk_session::rustls::crypto::ring;
use zk_session::rustls::pki_types::CertificateDer;
use zk_session::rustls::pki_types::pem::PemObject as _;
use zk_session::rustls::version::{TLS12, TLS13};
use zk_session::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use zk_session::{AnyClient, Client, ConnectError, State, TlsConfig, TlsError, blocking};
use zk_testkit::contention::Contention;
use zk_testkit::oracle::percentile;
use zk_testkit::ports::Port;
use zk_testkit::real::{self, RealEnsemble, Settings};
use zk_testkit::suite::{HANG_TIMEOUT, SESSION_TIMEOUT, eventually, is_long};
use zk_testkit::tls::{
    Authority, Identity, connect_blocking, connect_failures, load, write_and_read,
};

pub(super) const NETTY: &str =
    "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n";
const PASSWORD: &str = "a password";
/// By default, a server knows only TLS 1.2, and only its ciphers.
const TLS_12_AND_13: &str = "ssl.protocol=TLSv1.3\n\
                             ssl.enabledProtocols=TLSv1.3,TLSv1.2\n\
                             ssl.ciphersuites=TLS_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\n";

/// Starts servers with these lines in their configuration.
fn start(servers: usize, lines: &str) -> Option<RealEnsemble> {
    let extra = format!("{NETTY}{lines}");
    real::ensemble_with_or_skip(Settings { servers, extra, ..Settings::default() })
}

/// Returns the lines for servers that serve plain and encrypted connections at one port.
pub(super) fn lines_for_both(directory: &Path, authority: &Authority) -> String {
    let stores = pem_stores(directory, &authority.issue(&["127.0.0.1"]), authority);
    format!("client.portUnification=true\nssl.clientAuth=none\n{stores}{TLS_12_AND_13}")
}

/// A key store and a trust store as PEM.
fn pem_stores(directory: &Path, identity: &Identity, trusted: &Authority) -> String {
    let (key, trust) = (directory.join("server.pem"), directory.join("trusted.pem"));
    fs::write(&key, format!("{}{}", identity.certificate, identity.key)).expect("a file");
    fs::write(&trust, trusted.pem()).expect("a file");
    format!(
        "ssl.keyStore.location={}\nssl.trustStore.location={}\n",
        key.display(),
        trust.display()
    )
}

/// A key store and a trust store as PKCS12.
fn pkcs12_stores(directory: &Path, identity: &Identity, trusted: &Authority) -> String {
    pem_stores(directory, identity, trusted);
    let run = |program: &str, arguments: &[&str]| {
        let done = Command::new(program).args(arguments).current_dir(directory).output();
        let done = done.unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let pass = format!("pass:{PASSWORD}");
    run(
        "openssl",
        &["pkcs12", "-export", "-in", "server.pem", "-out", "server.p12", "-passout", &pass],
    );
    // Java trusts only certificates that it has marked itself.
    let import = ["-importcert", "-noprompt", "-alias", "ca", "-file", "trusted.pem"];
    let into = ["-keystore", "trusted.p12", "-storetype", "PKCS12", "-storepass", PASSWORD];
    run("keytool", &[&import[..], &into[..]].concat());
    let mut lines = String::new();
    for (store, file) in [("keyStore", "server.p12"), ("trustStore", "trusted.p12")] {
        let location = directory.join(file);
        lines += &format!("ssl.{store}.location={}\n", location.display());
        lines += &format!("ssl.{store}.password={PASSWORD}\n");
    }
    lines
}

pub(super) fn trusting(authority: &Authority) -> TlsConfig {
    TlsConfig::from_ca_pem(authority.pem().as_bytes()).expect("an authority")
}

fn trusting_with(authority: &Authority, version: &'static SupportedProtocolVersion) -> TlsConfig {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(authority.pem().as_bytes());
    roots.add(certificate.expect("a certificate")).expect("an authority");
    let config = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_protocol_versions(&[version])
        .expect("a version of the provider")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConfig::from_rustls(config)
}

fn showing(tls: TlsConfig, identity: &Identity) -> TlsConfig {
    tls.client_certificate(identity.certificate.as_bytes(), identity.key.as_bytes())
        .expect("they match")
}

/// Has both clients write and read.
async fn use_both(at: &str, tls: &TlsConfig, name: &str) {
    let client = Client::builder(at).session_timeout(SESSION_TIMEOUT).tls(tls.clone()).connect();
    let client = client.await.expect("the server is trusted");
    write_and_read(&client, &format!("{name}-async")).await;
    client.close().await;
    let client = connect_blocking(at.into(), tls.clone()).await.expect("the server is trusted");
    let name = format!("{name}-blocking");
    spawn_blocking(move || {
        client.block_on(None, write_and_read(&client, &name));
        client.close();
    })
    .await
    .expect("it works");
}

/// Has both clients fail for one reason, before `connect` gives up.
async fn assert_fails(what: &str, at: &str, tls: &TlsConfig, is_expected: fn(&TlsError) -> bool) {
    for (error, elapsed) in connect_failures(at, tls).await {
        println!("{what}: {elapsed:?}: {error}");
        let ConnectError::Tls { error, .. } = error else { panic!("{what}: {error}") };
        assert!(is_expected(&error), "{what}: {error:?}");
        assert!(elapsed < Duration::from_secs(10), "{what}: {elapsed:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secure_port_with_pem_stores_serves_both_clients() {
    let authority = Authority::new("trusted");
    let directory = TempDir::with_prefix("tls-").expect("a directory");
    let stores = pem_stores(directory.path(), &authority.issue(&["127.0.0.1"]), &authority);
    let secure = Port::reserve().expect("a free port");
    let number = secure.number();
    let lines = format!("secureClientPort={number}\nssl.clientAuth=none\n{stores}{TLS_12_AND_13}");
    let Some(ensemble) = start(1, &lines) else { return };
    let at = secure.address().to_string();
    use_both(&at, &trusting_with(&authority, &TLS12), "tls-12").await;
    use_both(&at, &trusting_with(&authority, &TLS13), "tls-13").await;

    let rogue = trusting(&Authority::new("rogue"));
    assert_fails("unknown CA", &at, &rogue, |error| *error == TlsError::UnknownCa).await;
    let other = trusting(&authority).server_name(|_| "zk1.example.com".into());
    let is_wrong_name = |error: &_| matches!(error, TlsError::WrongName(_));
    assert_fails("wrong name", &at, &other, is_wrong_name).await;

    let plain = Client::builder(&ensemble.connect_string()).connect_timeout(Duration::from_secs(1));
    let error = plain.clone().tls(trusting(&authority)).connect().await.map(drop);
    println!("TLS to the plain port: {}", error.expect_err("it is plain"));
    plain.connect().await.expect("it is plain").close().await;
    let builder = Client::builder(&at).connect_timeout(Duration::from_secs(1));
    println!(
        "plain to the TLS port: {}",
        builder.connect().await.map(drop).expect_err("it is TLS")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_certificate_is_refused() {
    let authority = Authority::new("trusted");
    let directory = TempDir::with_prefix("tls-").expect("a directory");
    let expired = authority.issue_expired(&["127.0.0.1"]);
    let stores = pem_stores(directory.path(), &expired, &authority);
    let lines = format!("client.portUnification=true\nssl.clientAuth=none\n{stores}");
    let Some(ensemble) = start(1, &lines) else { return };
    let is_expired = |error: &_| matches!(error, TlsError::Expired(_));
    assert_fails("expired", &ensemble.connect_string(), &trusting(&authority), is_expired).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_port_for_plain_and_tls_with_pkcs12_stores_requires_client_certificates() {
    let authority = Authority::new("trusted");
    let directory = TempDir::with_prefix("tls-").expect("a directory");
    let stores = pkcs12_stores(directory.path(), &authority.issue(&["127.0.0.1"]), &authority);
    for (name, versions) in [("tls-12", ""), ("tls-13", TLS_12_AND_13)] {
        let lines = format!(
            "client.portUnification=true\nssl.clientAuth=need\n\
             authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider\n\
             {stores}{versions}"
        );
        let Some(mut ensemble) = start(3, &lines) else { return };
        let at = ensemble.connect_string();
        let tls = showing(trusting(&authority), &authority.issue(&["client"]));
        use_both(&at, &tls, name).await;
        Client::connect(&at).await.expect("it is also plain").close().await;

        let none = trusting(&authority);
        let is_required = |error: &_| *error == TlsError::CertificateRequired;
        assert_fails(&format!("no certificate, {name}"), &at, &none, is_required).await;
        let rogue = showing(trusting(&authority), &Authority::new("rogue").issue(&["client"]));
        let is_refused = |error: &_| matches!(error, TlsError::CertificateRefused(_));
        assert_fails(&format!("rogue certificate, {name}"), &at, &rogue, is_refused).await;

        survive_kills(&mut ensemble, tls).await;
    }
}

/// Has tasks and threads go on while one server after another is killed.
async fn survive_kills(ensemble: &mut RealEnsemble, tls: TlsConfig) {
    let at = ensemble.connect_string();
    let builder = Client::builder(&at).session_timeout(SESSION_TIMEOUT).tls(tls.clone());
    let client = builder.connect().await.expect("the servers are trusted");
    let threads = connect_blocking(at, tls).await.expect("the servers are trusted");
    let sessions = (client.session_id(), threads.session_id());
    let loads: Vec<_> = (0..2)
        .map(|number| {
            let (client, threads) = (client.clone(), threads.clone());
            let in_task =
                tokio::spawn(async move { load(&client, &format!("/task-{number}")).await });
            let in_thread = spawn_blocking(move || {
                threads.block_on(None, load(&threads, &format!("/thread-{number}")))
            });
            (in_task, in_thread)
        })
        .collect();
    for _ in 0..if is_long() { 2 } else { 1 } {
        for server in [server_of(client.state()), server_of(threads.state())].into_iter().flatten()
        {
            ensemble.kill(server).expect("a process");
            ensemble.restart(server).expect("it serves again");
        }
    }
    let mut lost = 0;
    for (in_task, in_thread) in loads {
        let both = async { (in_task.await, in_thread.await) };
        let (task, thread) = tokio::time::timeout(HANG_TIMEOUT, both).await.expect("in time");
        lost += task.expect("requests go on") + thread.expect("requests go on");
    }
    let connections = || client.statistics().connections.min(threads.statistics().connections);
    eventually(ensemble, "another connection of each client", |_| connections() > 1).await;
    println!("{lost} requests lost; {:?}, {:?}", client.statistics(), threads.statistics());
    assert_eq!((client.session_id(), threads.session_id()), sessions);
    client.close().await;
    spawn_blocking(|| threads.close()).await.expect("it closes");
}

fn server_of(state: State) -> Option<usize> {
    match state {
        State::Connected { server, .. } => Some(server),
        _ => None,
    }
}

/// Prints what encryption costs: plain and encrypted connections to one server take turns.
///
/// A server that only starts quickly is slow at ciphers. For the time that requests take, set
/// `_JAVA_OPTIONS=-XX:TieredStopAtLevel=4`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn overhead() {
    let authority = Authority::new("trusted");
    let directory = TempDir::with_prefix("tls-").expect("a directory");
    let lines = lines_for_both(directory.path(), &authority);
    let Some(ensemble) = start(1, &lines) else { return };
    let at = ensemble.connect_string();
    println!("client, connection, node: time and the client's CPU time for each request");
    // The first round warms the server up.
    for round in 0..3 {
        for tls in [None, Some(trusting(&authority))] {
            let name = if tls.is_some() { "TLS 1.3" } else { "plain" };
            let mut clients = Vec::new();
            for _ in 0..2 {
                let builder = Client::builder(&at);
                let builder = match &tls {
                    Some(tls) => builder.tls(tls.clone()),
                    None => builder,
                };
                clients.push(builder.connect().await.expect("it answers"));
            }
            let title = format!("{round}: async, {name}");
            measure(&clients[0], &title).await;
            measure_hand_over(&clients, &title).await;
            for client in clients {
                client.close().await;
            }
            let title = format!("{round}: blocking, {name}");
            let builder = blocking::Client::builder(&at);
            let builder = match tls {
                Some(tls) => builder.tls(tls),
                None => builder,
            };
            spawn_blocking(move || {
                let client = builder.connect().expect("it answers");
                client.block_on(None, measure(&client, &title));
                client.close();
            })
            .await
            .expect("it works");
        }
    }
}

/// Sessions take a mutex by turns: each release wakes the next.
async fn measure_hand_over(clients: &[Client], name: &str) {
    let path = "/handed-over".to_owned();
    let contention = Contention { path, rounds: 1000, hold: Duration::ZERO };
    let cpu = ProcessTime::now();
    let oracle = contention.run(clients, |_| ready(())).await.expect("every contender acquires");
    let acquired = u32::try_from(oracle.acquisitions()).expect("few");
    let cpu = cpu.elapsed() / acquired;
    assert!(oracle.violations().is_empty(), "{:?}", oracle.violations());
    let hand_overs = oracle.hand_overs();
    let median = percentile(&hand_overs, 50).expect("two clients hand over");
    println!("{name}, {} hand-overs: {median:?} (median), {cpu:?}", hand_overs.len());
}

async fn measure<C: AnyClient>(client: &C, name: &str) {
    for (length, alone, together) in [(100, 2000, 20_000), (900_000, 50, 50)] {
        let path = format!("/measured-{length}");
        // It may be there from an earlier round.
        let _ = client
            .create_with_acl(&path, &vec![7; length], NodeKind::Persistent, &[Acl::OPEN])
            .await;
        for (how, count) in [("one after the other", alone), ("under way together", together)] {
            let (start, cpu) = (Instant::now(), ProcessTime::now());
            if how == "one after the other" {
                for _ in 0..count {
                    client.get_data(&path).await.expect("it is there");
                }
            } else {
                let answers: Vec<_> = (0..count).map(|_| client.get_data(&path)).collect();
                for answer in answers {
                    answer.await.expect("it is there");
                }
            }
            let (elapsed, cpu) = (start.elapsed() / count, cpu.elapsed() / count);
            println!("{name}, {length} B, {how}: {elapsed:?}, {cpu:?}");
        }
    }
}
