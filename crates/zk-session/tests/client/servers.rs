//! The choice of the server: read-only servers, and changes to the list.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;
use zk_session::proto::{ConnectRequest, ConnectResponse, Decode as _, ErrorCode, OpCode};
use zk_session::{Client, ConnectStringError, State};

use crate::server::{Listener, SESSION, Server, pipes};

/// Answers the handshake as a read-only or a read-write server.
async fn welcome(server: &mut Server, read_only: bool) {
    let payload = server.frame().await.expect("a handshake");
    assert_eq!(ConnectRequest::decode_all(&payload).unwrap().read_only, Some(true));
    let response = ConnectResponse {
        protocol_version: 0,
        timeout: 6_000,
        session_id: SESSION,
        password: Some(&[7; 16]),
        read_only: Some(read_only),
    };
    server.send(&response).await;
}

async fn asked_whether_it_can_write(listener: &mut Listener, answer: &[u8]) -> String {
    let mut server = listener.accept().await;
    let mut question = [0; 4];
    server.stream.read_exact(&mut question).await.unwrap();
    assert_eq!(&question, b"isro");
    server.stream.write_all(answer).await.unwrap();
    server.server
}

async fn connected_to_a_read_only_server() -> (Client, Server, Listener) {
    let (pipes, mut listener) = pipes(1 << 16);
    let connecting = Client::builder("one,two").seed(1).read_only(true).connect_with(pipes);
    let serve = async {
        let mut server = listener.accept().await;
        welcome(&mut server, true).await;
        server
    };
    let (client, server) = tokio::join!(connecting, serve);
    let client = client.unwrap();
    assert!(matches!(client.state(), State::ReadOnly { .. }));
    (client, server, listener)
}

#[tokio::test(start_paused = true)]
async fn a_read_only_server_is_left_for_a_read_write_one() {
    let (client, mut server, mut listener) = connected_to_a_read_only_server().await;
    for answer in [&b"ro"[..], b"rwx", b"", b"null"] {
        assert_ne!(asked_whether_it_can_write(&mut listener, answer).await, server.server);
        drop(client.sync("/"));
        server.expect(OpCode::SYNC).await;
    }
    let other = asked_whether_it_can_write(&mut listener, b"rw").await;
    let mut server = listener.accept().await;
    assert_eq!(server.server, other);
    welcome(&mut server, false).await;
    client.states().wait_for(|state| matches!(state, State::Connected { .. })).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_read_only_server_may_end_just_when_another_can_write() {
    let (client, server, mut listener) = connected_to_a_read_only_server().await;
    let other = asked_whether_it_can_write(&mut listener, b"rw").await;
    let start = Instant::now();
    drop(server);
    let mut server = listener.accept().await;
    assert_eq!((server.server.as_str(), start.elapsed()), (other.as_str(), Duration::ZERO));
    welcome(&mut server, false).await;
    client.states().wait_for(|state| matches!(state, State::Connected { .. })).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_removed_from_the_list_is_left() {
    let (pipes, mut listener) = pipes(1 << 16);
    let connecting = Client::builder("one").seed(1).connect_with(pipes);
    let (client, mut server) = tokio::join!(connecting, listener.welcome());
    let client = client.unwrap();
    assert_eq!(client.set_servers(","), Err(ConnectStringError::NoHost));
    client.set_servers("one,two:9").unwrap();
    client.set_servers("three").unwrap();
    assert!(server.request().await.is_none(), "the client hangs up");
    let mut server = listener.accept().await;
    while server.server != "three:2181" {
        server = listener.accept().await;
    }
    server.welcome().await;
    drop(client.sync("/"));
    let sent = server.expect(OpCode::SYNC).await;
    server.reply(sent.xid, ErrorCode::OK, &()).await;
    let servers: Vec<_> = client.servers().iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["three:2181"]);
    let State::Connected { server, .. } = client.state() else { panic!("not connected") };
    assert_eq!(server, 0);
}
