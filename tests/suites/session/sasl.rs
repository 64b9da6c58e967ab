//! SASL with servers that are not set up for it. `suites/real/sasl.rs` has the others.

use core::time::Duration;

use zk_session::sasl::{DigestMd5, SaslError};
use zk_session::{Client, ConnectError, blocking};
use zk_testkit::scripted;
use zk_testkit::serve::Embedded;

/// A client that retried would do so all this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_server_without_sasl_ends_the_attempt_and_is_named() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let at = embedded.connect_string();
    let expected = ConnectError::AuthenticationFailed {
        mechanism: "DIGEST-MD5",
        server: at.clone(),
        error: SaslError::Unsupported,
    };
    let text = expected.to_string();
    assert!(text.ends_with("failed: the server is not set up for SASL"), "{text}");
    let mechanism = DigestMd5::new("alice", "secret");
    let builder = Client::builder(&at).connect_timeout(CONNECT_TIMEOUT).sasl(mechanism.clone());
    assert_eq!(builder.connect().await.map(drop), Err(expected.clone()));
    let blocking = tokio::task::spawn_blocking(move || {
        let builder = blocking::Client::builder(&at).connect_timeout(CONNECT_TIMEOUT);
        builder.sasl(mechanism).connect().map(drop)
    });
    assert_eq!(blocking.await.expect("no panic"), Err(expected));
}

/// The blocking client wakes up before the connect timeout, when it gives the server up.
#[test]
fn nobody_is_connected_before_the_exchange_is_over() {
    let at = scripted::listen(|_, mut peer| {
        peer.welcome(60_000)?;
        // The exchange begins, and is not answered.
        std::io::copy(&mut peer.stream, &mut std::io::sink()).map(drop)
    });
    let connect_timeout = Duration::from_secs(3);
    let servers = format!("{at},{at},{at}");
    let builder = blocking::Client::builder(&servers)
        .session_timeout(Duration::from_secs(3))
        .connect_timeout(connect_timeout)
        .sasl(DigestMd5::new("alice", "secret"));
    let error = builder.connect().map(drop).expect_err("nobody is authenticated");
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
}
