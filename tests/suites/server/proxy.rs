//! A proxy that cuts connections at chosen operations.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zk_proto::OpCode;
use zk_testkit::proxy::{Proxy, When};
use zk_testkit::serve::Embedded;

use crate::served::Client;
use crate::world::{create, exists};

/// Sends a `create` that the proxy cuts, behind another one. Returns what the server has of the two
/// nodes.
async fn cut(when: When) -> [bool; 2] {
    let servers = Embedded::start(1).await.expect("a free port");
    let proxy = Proxy::start(&servers.connect_string()).expect("a free port");
    let (mut direct, _) = Client::connect(servers.address(0)).await;
    let at = proxy.connect_string().parse().expect("one address");
    let (mut client, _) = Client::connect(at).await;
    assert!(client.ask(&create("/first")).await.starts_with("CREATE"), "nothing is cut yet");

    proxy.cut(when, OpCode::CREATE, 1);
    // Another operation passes.
    assert_ne!(client.ask(&exists("/first", false)).await, "closed");
    client.send(&create("/second")).await;
    assert!(client.next_message().await.is_none(), "no reply");
    assert_eq!(proxy.cuts().0, [((when, OpCode::CREATE), 1)].into());

    // Only one connection is cut.
    let (mut next, _) = Client::connect(at).await;
    assert_ne!(next.ask(&create("/third")).await, "closed");
    let mut found = [false; 2];
    for (found, path) in found.iter_mut().zip(["/first", "/second"]) {
        *found = !direct.ask(&exists(path, false)).await.contains("NO_NODE");
    }
    found
}

#[tokio::test]
async fn a_request_cut_before_never_reaches_the_server() {
    assert_eq!(cut(When::Before).await, [true, false]);
}

#[tokio::test]
async fn a_request_cut_after_is_executed_and_has_no_reply() {
    assert_eq!(cut(When::After).await, [true, true]);
}

#[tokio::test]
async fn a_message_that_cannot_be_read_ends_its_connection_and_is_reported() {
    let servers = Embedded::start(1).await.expect("a free port");
    let proxy = Proxy::start(&servers.connect_string()).expect("a free port");
    let mut client = TcpStream::connect(proxy.connect_string()).await.expect("a listener");
    assert_eq!(proxy.unreadable(), [""; 0]);
    // A frame of a negative length.
    client.write_all(&[0xff; 4]).await.expect("a connection");
    // Closed, or reset.
    assert_eq!(client.read(&mut [0]).await.unwrap_or_default(), 0);
    assert_eq!(proxy.unreadable().len(), 1);
}
