//! What does not connect, what the error says, and how soon.

use core::time::Duration;
use std::net::TcpListener;

use zk_session::TlsError;
use zk_session::rustls::SupportedProtocolVersion;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Flaw {
    RogueCa,
    RogueCaOfTheSameName,
    WrongHost,
    Expired,
    NoClientCertificate,
    RogueClientCertificate,
}

impl Flaw {
    fn server(
        self,
        authority: &Authority,
        version: &'static SupportedProtocolVersion,
    ) -> Arc<ServerConfig> {
        let here = &["127.0.0.1"];
        let identity = match self {
            Self::RogueCa => Authority::new("rogue").issue(here),
            Self::RogueCaOfTheSameName => Authority::new("trusted").issue(here),
            Self::WrongHost => authority.issue(&["zk1.example.com"]),
            Self::Expired => authority.issue_expired(here),
            Self::NoClientCertificate | Self::RogueClientCertificate => authority.issue(here),
        };
        let clients = match self {
            Self::NoClientCertificate | Self::RogueClientCertificate => Some(authority),
            _ => None,
        };
        server_config(&identity, clients, &[version])
    }

    fn client(self, tls: TlsConfig) -> TlsConfig {
        match self {
            Self::RogueClientCertificate => {
                let rogue = Authority::new("trusted").issue(&["client"]);
                tls.client_certificate(rogue.certificate.as_bytes(), rogue.key.as_bytes())
                    .expect("they match")
            }
            _ => tls,
        }
    }

    fn is(self, error: &TlsError) -> bool {
        match self {
            Self::RogueCa | Self::RogueCaOfTheSameName => *error == TlsError::UnknownCa,
            Self::WrongHost => matches!(error, TlsError::WrongName(_)),
            Self::Expired => matches!(error, TlsError::Expired(_)),
            Self::NoClientCertificate => *error == TlsError::CertificateRequired,
            Self::RogueClientCertificate => matches!(error, TlsError::CertificateRefused(_)),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_failed_is_named_at_the_first_attempt() {
    for flaw in [
        Flaw::RogueCa,
        Flaw::RogueCaOfTheSameName,
        Flaw::WrongHost,
        Flaw::Expired,
        Flaw::NoClientCertificate,
        Flaw::RogueClientCertificate,
    ] {
        for version in [&TLS12, &TLS13] {
            for members in [1, 3] {
                let ensemble = Ensemble::start(|authority| {
                    (0..members).map(|_| flaw.server(authority, version)).collect()
                });
                let ensemble = ensemble.await;
                let tls = flaw.client(ensemble.tls());
                let [first, second] = connect_failures(&ensemble.connect_string(), &tls).await;
                for (error, elapsed) in [first, second] {
                    println!("{flaw:?}, {:?}, {members}: {elapsed:?}: {error}", version.version);
                    let ConnectError::Tls { error, server } = error else { panic!("{error}") };
                    assert!(flaw.is(&error), "{error:?}");
                    assert!(ensemble.connect_string().contains(&server), "{server}");
                }
                // Each of the two clients has tried each server once.
                for front in &ensemble.fronts {
                    assert_eq!(front.accepted(), 2, "{flaw:?}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_one_server_lacks_does_not_keep_the_client_from_the_others() {
    let ensemble = Ensemble::start(|authority| {
        let bad = || Flaw::RogueCa.server(authority, &TLS13);
        vec![bad(), bad(), good(authority)]
    });
    let ensemble = ensemble.await;
    for seed in 0..4 {
        let builder = Client::builder(&ensemble.connect_string()).seed(seed).tls(ensemble.tls());
        let client = builder.connect().await.expect("one is good");
        client.close().await;
        spawn_blocking({
            let client = ensemble.blocking_client().await;
            move || client.close()
        })
        .await
        .expect("it closes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_out_of_reach_is_tried_again_although_another_one_is_not_trusted() {
    let ensemble = Ensemble::start(|authority| vec![Flaw::Expired.server(authority, &TLS13)]);
    let ensemble = ensemble.await;
    // Bound, but nobody accepts: the handshake has no answer.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = format!("{},{}", ensemble.connect_string(), silent.local_addr().expect("it is bound"));
    let limit = Duration::from_millis(500);
    let builder = Client::builder(&at).connect_timeout(limit).tls(ensemble.tls());
    let error = builder.connect().await.map(drop).expect_err("none is good");
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_port_is_said_to_close_the_connection() {
    let ensemble = Ensemble::trusted(1).await;
    let at = ensemble.embedded.connect_string();
    let limit = Duration::from_secs(3);
    let builder = blocking::Client::builder(&at).connect_timeout(limit).tls(ensemble.tls());
    let in_thread = spawn_blocking(|| builder.connect().map(drop));
    let builder = Client::builder(&at).connect_timeout(limit).tls(ensemble.tls());
    let in_task = builder.connect().await.map(drop);
    for result in [in_task, in_thread.await.expect("it does not panic")] {
        let error = result.expect_err("it is plain").to_string();
        assert!(error.contains("during the TLS handshake"), "{error}");
    }
}
