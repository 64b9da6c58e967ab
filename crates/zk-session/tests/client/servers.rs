//! The choice of the server: read-only servers, and changes to the list.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;
use zk_session::proto::{
    ConnectRequest, ConnectResponse, Decode as _, ErrorCode, EventType, GetDataRequest,
    GetDataResponse, OpCode, Request, Stat,
};
use zk_session::{Client, ConnectStringError, State};

use crate::server::{Listener, SESSION, Server, builder, connected_with, pipes, settle};

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

/// Answers the next request, which must read the configuration.
async fn show(server: &mut Server, code: ErrorCode, config: &str) {
    let sent = server.expect(OpCode::GET_DATA).await;
    let expected = GetDataRequest { path: "/zookeeper/config", watch: true };
    assert_eq!(sent.request(), Request::GetData(expected), "wherever the root is");
    let response = GetDataResponse { data: Some(config.as_bytes()), stat: Stat::default() };
    match code {
        ErrorCode::OK => server.reply(sent.xid, code, &response).await,
        _ => server.reply(sent.xid, code, &()).await,
    }
    settle().await;
}

fn servers(client: &Client) -> Vec<String> {
    client.servers().iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn the_configuration_of_the_ensemble_is_followed() {
    let builder = Client::builder("one/app").seed(1).follow_config(true);
    let (client, mut server, mut listener) = connected_with(builder, 1 << 16).await;
    let first = "server.1=one:2888:3888:participant;0.0.0.0:2181\nversion=1";
    show(&mut server, ErrorCode::OK, first).await;
    assert_eq!(servers(&client), ["one:2181"]);
    server.notify(EventType::NODE_DATA_CHANGED, "/zookeeper/config").await;
    let second = "server.2=two:2888:3888;2182\nversion=2";
    show(&mut server, ErrorCode::OK, second).await;
    assert_eq!(servers(&client), ["two:2182", "one:2181"], "the current server stays");
    drop(server);
    let mut server = listener.accept().await;
    while server.server != "two:2182" {
        server = listener.accept().await;
    }
    server.welcome().await;
    // The watch is set again, so nothing is read.
    server.expect(OpCode::SET_WATCHES).await;
    settle().await;
    assert_eq!(servers(&client), ["two:2182"]);
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_a_server_does_not_show_is_read_from_the_next_one() {
    for code in [ErrorCode::NO_AUTH, ErrorCode::NO_NODE] {
        let following = builder().follow_config(true);
        let (client, mut server, mut listener) = connected_with(following, 1 << 16).await;
        show(&mut server, code, "").await;
        drop(client.sync("/"));
        server.expect(OpCode::SYNC).await;
        assert_eq!(servers(&client), ["one:2181"]);
        drop(server);
        let mut server = listener.welcome().await;
        show(&mut server, ErrorCode::OK, "server.1=two:2888:3888;2181").await;
        assert_eq!(servers(&client), ["two:2181", "one:2181"]);
    }
}
