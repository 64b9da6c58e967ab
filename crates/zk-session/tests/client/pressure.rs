use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;
use zk_session::proto::{ErrorCode, OpCode, Request, SetDataResponse, Stat, SyncResponse};
use zk_session::{End, Error, Outcome, State};

use crate::server::{builder, connected, connected_with, settle};

#[tokio::test(start_paused = true)]
async fn room_wakes_all_waiting_tasks() {
    let (client, mut server, _listener) = connected_with(builder().max_pending(1), 1 << 16).await;
    client.ready().await.unwrap();
    let first = client.sync("/");
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.ready().await })
        })
        .collect();
    settle().await;
    assert!(waiting.iter().all(|ready| !ready.is_finished()));
    let sent = server.expect(OpCode::SYNC).await;
    server.reply(sent.xid, ErrorCode::OK, &SyncResponse { path: "/" }).await;
    first.await.unwrap();
    for ready in waiting {
        assert_eq!(ready.await.unwrap(), Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_has_ended_never_has_room() {
    let (client, server, _listener) = connected().await;
    drop(server);
    client.clone().close().await;
    let closed = Error::Ended { end: End::Closed, outcome: Outcome::NotApplied };
    assert_eq!(client.ready().await, Err(closed));
}

#[tokio::test(start_paused = true)]
async fn unsent_requests_are_bounded_in_bytes() {
    let (client, mut server, _listener) = connected_with(builder().max_unsent(1000), 100).await;
    let data = [7; 400];
    let mut writes = Vec::new();
    for _ in 0..3 {
        writes.push(client.set_data("/a", &data, None));
        settle().await;
    }
    let refused = client.set_data("/a", &data, None);
    let refused = refused.await.unwrap_err();
    assert!(matches!(refused.reason, Error::BufferFull { .. }), "{refused:?}");
    assert_eq!(refused.outcome(), Outcome::NotApplied);
    let serve = async {
        for _ in 0..writes.len() {
            let sent = server.expect(OpCode::SET_DATA).await;
            let Request::SetData(body) = sent.request() else { unreachable!() };
            assert_eq!(body.data, Some(&data[..]), "whole, in spite of the pipe");
            let stat = Stat::default();
            server.reply(sent.xid, ErrorCode::OK, &SetDataResponse { stat }).await;
        }
        client.ready().await.unwrap();
    };
    serve.await;
    for write in writes {
        write.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_error_says_whether_the_request_was_sent() {
    let (client, mut server, mut listener) = connected().await;
    let limit = Duration::from_secs(1);
    let hurried = client.with_request_timeout(Some(limit));
    let start = Instant::now();
    let sent = Error::DeadlinePassed { outcome: Outcome::Unknown };
    assert_eq!(hurried.sync("/").await.map_err(Error::from), Err(sent));
    assert_eq!(start.elapsed(), limit);
    server.expect(OpCode::SYNC).await;
    drop(server);
    settle().await;
    let unsent = Error::DeadlinePassed { outcome: Outcome::NotApplied };
    assert_eq!(hurried.sync("/").await.map_err(Error::from), Err(unsent));
    let mut server = listener.welcome().await;
    drop(client.delete("/a", None));
    server.expect(OpCode::DELETE).await;
}

/// The server reads everything and replies to nothing more.
#[tokio::test(start_paused = true)]
async fn a_half_open_connection_is_abandoned_in_time_without_renewing_the_lease() {
    let (client, silent, mut listener) = connected().await;
    let lease = client.lease();
    let start = Instant::now();
    let lost = client.sync("/");
    let (lost, mut server) = tokio::join!(lost, listener.accept());
    assert_eq!(lost.map_err(Error::from), Err(Error::ConnectionLost));
    assert!(start.elapsed() <= Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(client.lease(), lease);
    assert_eq!(server.handshake().await, client.session_id());
    drop(silent);
}

/// Single bytes are neither silence nor a frame.
#[tokio::test(start_paused = true)]
async fn a_peer_that_never_completes_a_frame_is_abandoned() {
    let (client, mut server, mut listener) = connected().await;
    server.stream.write_all(&[0, 1, 0, 0]).await.unwrap();
    let drip = tokio::spawn(async move {
        while server.stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let start = Instant::now();
    let mut next = listener.accept().await;
    assert!(start.elapsed() <= Duration::from_secs(6), "{:?}", start.elapsed());
    next.handshake().await;
    assert_eq!(client.state(), State::Suspended);
    drip.await.unwrap();
}
