//! SASL with servers that are not set up for it. `suites/real/sasl.rs` has the others.

use core::time::Duration;

use zk_session::sasl::{DigestMd5, SaslError};
use zk_session::{Client, ConnectError, blocking};
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
