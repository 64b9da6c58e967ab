use std::time::Duration;

use tokio::runtime::Builder;
use zk_session::proto::{ErrorCode, OpCode, SessionId, SyncResponse};
use zk_session::{End, Error, Outcome, State};

use crate::server::{connected, settle};

const CLOSED: Error = Error::Ended { end: End::Closed, outcome: Outcome::NotApplied };

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_closes_the_session_after_its_requests() {
    let (client, mut server, _listener) = connected().await;
    let clone = client.clone();
    drop(client);
    drop(clone.sync("/"));
    drop(clone);
    server.expect(OpCode::SYNC).await;
    server.expect(OpCode::CLOSE_SESSION).await;
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_the_server_and_fails_later_requests() {
    let (client, mut server, _listener) = connected().await;
    let (before, clone) = (client.sync("/"), client.clone());
    let serve = async {
        let sent = server.expect(OpCode::SYNC).await;
        assert_eq!(clone.sync("/").await.map_err(Error::from), Err(CLOSED), "it is being closed");
        server.reply(sent.xid, ErrorCode::OK, &SyncResponse { path: "/" }).await;
        let sent = server.expect(OpCode::CLOSE_SESSION).await;
        assert_eq!(clone.lease(), None);
        server.reply(sent.xid, ErrorCode::OK, &()).await;
        assert!(server.request().await.is_none(), "the client hangs up");
    };
    let ((), before, ()) = tokio::join!(client.close(), before, serve);
    assert_eq!(before, Ok(()));
    assert_eq!(clone.state(), State::Ended(End::Closed));
    assert_eq!(clone.sync("/").await.map_err(Error::from), Err(CLOSED));
    clone.close().await;
}

#[tokio::test(start_paused = true)]
async fn closing_ends_whatever_the_server_does() {
    let (client, server, _listener) = connected().await;
    let (closed, ()) = tokio::join!(client.close(), async { drop(server) });
    assert_eq!(closed, ());

    let (client, server, _listener) = connected().await;
    let before = tokio::time::Instant::now();
    client.close().await;
    assert!(before.elapsed() <= Duration::from_secs(4), "it is silent");
    drop(server);

    let (client, server, mut listener) = connected().await;
    drop(server);
    let _connecting = listener.accept().await;
    client.close().await;
}

/// The server answers pings but not the close: it has received the close, and ignores it.
#[tokio::test(start_paused = true)]
async fn closing_ends_although_the_server_answers_pings() {
    let (client, mut server, _listener) = connected().await;
    let before = tokio::time::Instant::now();
    let serve = tokio::spawn(async move {
        server.expect(OpCode::CLOSE_SESSION).await;
        assert!(server.request().await.is_none(), "the client hangs up");
    });
    client.close().await;
    assert!(before.elapsed() <= Duration::from_secs(4), "{:?}", before.elapsed());
    serve.await.expect("the client hangs up");
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_fails_pending_requests_with_the_reason() {
    let (client, mut server, mut listener) = connected().await;
    let mut states = client.states();
    let in_flight = client.sync("/");
    server.expect(OpCode::SYNC).await;
    drop(server);
    let mut server = listener.accept().await;
    assert_eq!(*states.borrow_and_update(), State::Suspended);
    let waiting = client.sync("/");
    assert_eq!(server.handshake().await, client.session_id());
    server.answer_handshake(0, SessionId::NONE).await;
    assert_eq!(in_flight.await.map_err(Error::from), Err(Error::ConnectionLost));
    let expired = Error::Ended { end: End::Expired, outcome: Outcome::NotApplied };
    assert_eq!(waiting.await.map_err(Error::from), Err(expired.clone()));
    assert_eq!(client.sync("/").await.map_err(Error::from), Err(expired));
    assert_eq!(client.ended().await, End::Expired);
    assert_eq!(*states.borrow_and_update(), State::Ended(End::Expired));
    client.close().await;
}

#[test]
fn waiting_tasks_fail_when_the_runtime_shuts_down() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (client, in_flight, waiting, watch) = first.block_on(async {
        let (client, mut server, mut listener) = connected().await;
        let (_, watch) = {
            let exists = client.exists_and_watch("/a");
            let sent = server.expect(OpCode::EXISTS).await;
            server.reply(sent.xid, ErrorCode::NO_NODE, &()).await;
            exists.await.unwrap()
        };
        let in_flight = client.sync("/");
        server.expect(OpCode::SYNC).await;
        let waiting = client.sync("/");
        // The connection stays open until the runtime ends.
        tokio::spawn(async move {
            let _server = server;
            listener.accept().await
        });
        (client, in_flight, waiting, watch)
    });
    drop(first);
    runtime().block_on(async {
        let lost = Error::Ended { end: End::Closed, outcome: Outcome::Unknown };
        assert_eq!(in_flight.await.map_err(Error::from), Err(lost));
        assert_eq!(waiting.await.map_err(Error::from), Err(CLOSED));
        assert_eq!(watch.await.unwrap_err(), CLOSED);
        assert_eq!(client.sync("/").await.map_err(Error::from), Err(CLOSED));
        assert_eq!(client.state(), State::Ended(End::Closed));
        assert_eq!(client.ended().await, End::Closed);
        client.close().await;
    });
}

/// A borrowed state holds a lock. No call of the client may need that lock.
#[test]
fn a_borrowed_state_blocks_no_call() {
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (client, server, _listener) = runtime.block_on(connected());
        let states = client.states();
        let state = states.borrow();
        drop(server);
        while client.state() != State::Suspended {
            std::thread::yield_now();
        }
        assert!(matches!(*state, State::Connected { .. }));
        drop(state);
        done.send(()).unwrap();
    });
    finished.recv_timeout(Duration::from_secs(60)).expect("no deadlock");
}

#[tokio::test(start_paused = true)]
async fn sessions_that_expire_at_once_are_renewed_after_a_pause() {
    let (pipes, mut listener) = crate::server::pipes(1 << 16);
    let builder = crate::server::builder().renew(true);
    let begin = async {
        let mut server = listener.accept().await;
        server.welcome().await;
        server
    };
    let (client, mut server) = tokio::join!(builder.connect_with(pipes), begin);
    let client = client.expect("a server answers");
    // Long after the beginning.
    let request = tokio::time::timeout(Duration::from_secs(60), server.request()).await;
    assert!(request.is_err(), "nothing but pings");
    drop(server);
    let before = tokio::time::Instant::now();
    for _ in 0..20 {
        let mut server = listener.accept().await;
        server.handshake().await;
        server.answer_handshake(0, SessionId::NONE).await;
    }
    assert!(before.elapsed() > Duration::from_secs(2), "{:?}", before.elapsed());
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_client_dropped_while_connecting_leaves_nothing_behind() {
    let (pipes, mut listener) = crate::server::pipes(1 << 16);
    let connecting = tokio::spawn(crate::server::builder().connect_with(pipes));
    let mut server = listener.accept().await;
    server.handshake().await;
    connecting.abort();
    settle().await;
    assert!(server.frame().await.is_none(), "it has hung up");
}
