//! Credentials that servers refuse.

use zk_session::proto::{ErrorCode, NodeKind};
use zk_session::{Client, blocking};
use zk_testkit::serve::Embedded;

#[tokio::test]
async fn the_wrong_name_of_a_scheme_fails_alone() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let at = embedded.connect_string();
    let client = Client::connect(&at).await.expect("connected");
    client.create("/async", b"", NodeKind::Ephemeral).await.expect("created");
    let refused = client.add_auth("password", b"me:secret").await.expect_err("unknown");
    assert_eq!(refused.code(), Some(ErrorCode::AUTH_FAILED), "{refused}");
    assert_eq!(client.last_failure().map(|(server, _)| server), Some(at.clone()));
    client.add_auth("digest", b"me:secret").await.expect("accepted");
    assert!(client.exists("/async").await.expect("it goes on").is_some());
    let blocking = tokio::task::spawn_blocking(move || {
        let client = blocking::Client::connect(&at).expect("connected");
        client.create("/blocking", b"", NodeKind::Ephemeral).wait().expect("created");
        let refused = client.add_auth("password", b"me:secret").wait().expect_err("unknown");
        assert_eq!(refused.code(), Some(ErrorCode::AUTH_FAILED), "{refused}");
        assert_eq!(client.last_failure().map(|(server, _)| server), Some(at));
        client.add_auth("digest", b"me:secret").wait().expect("accepted");
        assert!(client.exists("/blocking").wait().expect("it goes on").is_some());
    });
    blocking.await.expect("no panic");
}
