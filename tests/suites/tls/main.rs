//! Both clients over TLS, to the embedded ensemble behind a TLS acceptor.

mod failures;
mod narrow;
mod reconnect;
mod system;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use zk_session::proto::NodeKind;
use zk_session::rustls::ServerConfig;
use zk_session::rustls::version::{TLS12, TLS13};
use zk_session::{Client, ConnectError, TlsConfig, blocking};
use zk_testkit::serve::Embedded;
use zk_testkit::suite::SESSION_TIMEOUT;
use zk_testkit::tls::{
    Authority, TlsFront, connect_blocking, connect_failures, load, server_config, write_and_read,
};
use zk_testkit::watchdog::Watchdog;

/// An ensemble that is reached by TLS only.
struct Ensemble {
    embedded: Embedded,
    fronts: Vec<TlsFront>,
    authority: Authority,
    _watchdog: Watchdog,
}

impl Ensemble {
    /// Starts a server for each of the settings that `configs` makes.
    async fn start(configs: impl FnOnce(&Authority) -> Vec<Arc<ServerConfig>>) -> Self {
        let authority = Authority::new("trusted");
        let configs = configs(&authority);
        let embedded = Embedded::start(configs.len()).await.expect("an ensemble");
        let mut fronts = Vec::new();
        for (member, config) in configs.into_iter().enumerate() {
            let front = TlsFront::start(embedded.address(member), config).await;
            fronts.push(front.expect("a port"));
        }
        Self { embedded, fronts, authority, _watchdog: Watchdog::start() }
    }

    /// Starts this many servers with good certificates.
    async fn trusted(members: usize) -> Self {
        Self::start(|authority| vec![good(authority); members]).await
    }

    fn connect_string(&self) -> String {
        connect_string(self.fronts.iter().map(TlsFront::address))
    }

    fn tls(&self) -> TlsConfig {
        TlsConfig::from_ca_pem(self.authority.pem().as_bytes()).expect("an authority")
    }

    async fn client(&self) -> Client {
        let builder = Client::builder(&self.connect_string()).session_timeout(SESSION_TIMEOUT);
        builder.tls(self.tls()).connect().await.expect("it answers")
    }

    async fn blocking_client(&self) -> blocking::Client {
        let (at, tls) = (self.connect_string(), self.tls());
        connect_blocking(at, tls).await.expect("it answers")
    }
}

fn good(authority: &Authority) -> Arc<ServerConfig> {
    server_config(&authority.issue(&["127.0.0.1"]), None, &[&TLS13, &TLS12])
}

fn connect_string(addresses: impl Iterator<Item = SocketAddr>) -> String {
    addresses.map(|address| address.to_string()).collect::<Vec<_>>().join(",")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_clients_read_and_write_up_to_900_kb_with_tls_12_and_13() {
    for version in [&TLS12, &TLS13] {
        let ensemble = Ensemble::start(|authority| {
            vec![server_config(&authority.issue(&["127.0.0.1"]), None, &[version])]
        });
        let ensemble = ensemble.await;
        let client = ensemble.client().await;
        write_and_read(&client, "async").await;
        client.close().await;
        let client = ensemble.blocking_client().await;
        spawn_blocking(move || {
            client.block_on(None, write_and_read(&client, "blocking"));
            client.close();
        })
        .await
        .expect("it works");
        assert_eq!(ensemble.fronts[0].handshakes().len(), 2, "{version:?}");
    }
}

#[tokio::test]
async fn a_client_certificate_is_shown_to_a_server_that_requires_one() {
    let clients = Authority::new("clients");
    for version in [&TLS12, &TLS13] {
        let ensemble = Ensemble::start(|authority| {
            let identity = authority.issue(&["127.0.0.1"]);
            vec![server_config(&identity, Some(&clients), &[version])]
        });
        let ensemble = ensemble.await;
        let mine = clients.issue(&["client"]);
        let tls = ensemble
            .tls()
            .client_certificate(mine.certificate.as_bytes(), mine.key.as_bytes())
            .expect("they match");
        let at = ensemble.connect_string();
        Client::builder(&at).tls(tls.clone()).connect().await.expect("it is let in").close().await;
        let client = connect_blocking(at, tls).await.expect("it is let in");
        spawn_blocking(|| client.close()).await.expect("it closes");
    }
}

#[tokio::test]
async fn a_server_is_known_by_the_name_that_the_caller_gives_it() {
    let ensemble = Ensemble::start(|authority| {
        let config = |name| server_config(&authority.issue(&[name]), None, &[&TLS13]);
        vec![config("zk1.example.com"), config("zk2.example.com")]
    });
    let ensemble = ensemble.await;
    let first = ensemble.fronts[0].address().port();
    let tls = ensemble.tls().server_name(move |server| {
        let number = if server.port == first { 1 } else { 2 };
        format!("zk{number}.example.com")
    });
    for front in &ensemble.fronts {
        let at = front.address().to_string();
        Client::builder(&at).tls(tls.clone()).connect().await.expect("it is named").close().await;
    }
}

#[tokio::test]
async fn the_server_learns_the_end_of_a_connection_by_tls() {
    let ensemble = Ensemble::trusted(1).await;
    // The server ends the connection of a session that is closed. The client that is detached ends it.
    ensemble.client().await.close().await;
    drop(ensemble.client().await.detach().await);
    let (closed, detached) = (ensemble.blocking_client().await, ensemble.blocking_client().await);
    spawn_blocking(move || {
        closed.close();
        drop(detached.detach());
    })
    .await
    .expect("they end");
    assert_eq!(ensemble.fronts[0].ends(4).await, [true; 4]);
}

#[test]
fn invalid_settings_are_named() {
    use zk_session::TlsError;
    let authority = Authority::new("trusted");
    let [one, other] = ["one", "other"].map(|name| authority.issue(&[name]));
    let tls = TlsConfig::from_ca_pem(authority.pem().as_bytes()).expect("an authority");
    let encrypted = [
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n\
         AAAA\n-----END EC PRIVATE KEY-----\n",
    ];
    let [pkcs8, older] = encrypted
        .map(|key| tls.clone().client_certificate(one.certificate.as_bytes(), key.as_bytes()));
    let mismatch = tls.client_certificate(one.certificate.as_bytes(), other.key.as_bytes());
    let no_key = TlsConfig::from_ca_pem(one.key.as_bytes());
    for (invalid, word) in [
        (mismatch, "key of the client"),
        (no_key, "none found"),
        (pkcs8, "it is encrypted"),
        (older, "it is encrypted"),
    ] {
        let Err(TlsError::Settings(reason)) = invalid else { panic!("{invalid:?}") };
        assert!(reason.contains(word), "{reason}");
    }
}
