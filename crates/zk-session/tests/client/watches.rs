use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};
use std::time::Duration;

use tokio::time::Instant;
use zk_session::proto::{
    AddWatchMode, AddWatchRequest, ErrorCode, EventType, ExistsResponse, GetDataRequest,
    GetDataResponse, OpCode, Request, SessionId, Stat, WatcherType,
};
use zk_session::{Client, End, Error, Outcome, State, Tokio, Watch};

use crate::server::{Server, connected, settle};

/// Sets a watch on the data of an existing node.
async fn watch(client: &Client, server: &mut Server, path: &str) -> Watch<Tokio> {
    let data = client.get_data_and_watch(path);
    let sent = server.expect(OpCode::GET_DATA).await;
    let body = GetDataResponse { data: None, stat: Stat::default() };
    server.reply(sent.xid, ErrorCode::OK, &body).await;
    let (data, _, watch) = data.await.unwrap();
    assert_eq!(data, "", "no data is empty data");
    watch
}

async fn expect_removal(server: &mut Server, path: &str) {
    let sent = server.expect(OpCode::REMOVE_WATCHES).await;
    let Request::RemoveWatches(body) = sent.request() else { unreachable!() };
    assert_eq!((body.path, body.watcher_type), (path, WatcherType::DATA));
    server.reply(sent.xid, ErrorCode::OK, &()).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_reports_its_event() {
    let (client, mut server, _listener) = connected().await;
    let watch = watch(&client, &mut server, "/a").await;
    server.notify(EventType::NODE_DELETED, "/a").await;
    let event = watch.await.unwrap();
    assert_eq!((event.event_type, &*event.path), (EventType::NODE_DELETED, "/a"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_dropped_is_removed() {
    let (client, mut server, _listener) = connected().await;
    let first = watch(&client, &mut server, "/a").await;
    let second = watch(&client, &mut server, "/a").await;
    let start = Instant::now();
    drop(first);
    drop(client.sync("/"));
    let sent = server.expect(OpCode::SYNC).await;
    server.reply(sent.xid, ErrorCode::OK, &()).await;
    settle().await;
    drop(second);
    expect_removal(&mut server, "/a").await;
    assert_eq!(start.elapsed(), Duration::ZERO, "at once, not when something else is due");
}

#[tokio::test(start_paused = true)]
async fn dropping_a_fired_watch_sends_nothing() {
    let (client, mut server, _listener) = connected().await;
    let watch = watch(&client, &mut server, "/a").await;
    server.notify(EventType::NODE_DELETED, "/a").await;
    settle().await;
    drop(watch);
    drop(client.sync("/"));
    server.expect(OpCode::SYNC).await;
}

#[tokio::test(start_paused = true)]
async fn the_watch_of_a_cancelled_request_is_removed_once_it_is_set() {
    let (client, mut server, _listener) = connected().await;
    drop(client.exists_and_watch("/a"));
    let sent = server.expect(OpCode::EXISTS).await;
    let body = ExistsResponse { stat: Stat::default() };
    server.reply(sent.xid, ErrorCode::OK, &body).await;
    expect_removal(&mut server, "/a").await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_leaves_no_watch() {
    let (client, mut server, _listener) = connected().await;
    let data = client.get_data_and_watch("/a");
    let sent = server.expect(OpCode::GET_DATA).await;
    server.reply(sent.xid, ErrorCode::NO_NODE, &()).await;
    assert_eq!(data.await.unwrap_err().reason, Error::Server(ErrorCode::NO_NODE));
    drop(client.sync("/"));
    server.expect(OpCode::SYNC).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_survives_a_reconnect() {
    let (client, mut server, mut listener) = connected().await;
    let watch = watch(&client, &mut server, "/a").await;
    drop(server);
    let mut server = listener.welcome().await;
    let sent = server.expect(OpCode::SET_WATCHES).await;
    let Request::SetWatches(body) = sent.request() else { unreachable!() };
    assert_eq!(body.data_watches, (&["/a"]).into());
    server.notify(EventType::NODE_DATA_CHANGED, "/a").await;
    server.reply(sent.xid, ErrorCode::OK, &()).await;
    assert_eq!(watch.await.unwrap().event_type, EventType::NODE_DATA_CHANGED);
}

#[tokio::test(start_paused = true)]
async fn a_watch_reports_how_the_session_ended() {
    let (client, mut server, mut listener) = connected().await;
    let watch = watch(&client, &mut server, "/a").await;
    drop(server);
    let mut server = listener.accept().await;
    server.handshake().await;
    server.answer_handshake(0, SessionId::NONE).await;
    let expired = Error::Ended { end: End::Expired, outcome: Outcome::NotApplied };
    assert_eq!(watch.await.unwrap_err(), expired);
    assert_eq!(client.exists_and_watch("/a").await.unwrap_err().reason, expired);
}

#[tokio::test(start_paused = true)]
async fn a_watch_does_not_keep_the_session_alive() {
    let (client, mut server, _listener) = connected().await;
    let watch = watch(&client, &mut server, "/a").await;
    drop(client);
    let sent = server.expect(OpCode::CLOSE_SESSION).await;
    server.reply(sent.xid, ErrorCode::OK, &()).await;
    assert_eq!(watch.await.unwrap_err().end(), Some(End::Closed));
}

/// Records the published state when it is woken.
struct Look {
    states: tokio::sync::watch::Receiver<State>,
    seen: Mutex<Option<State>>,
}

impl Wake for Look {
    fn wake(self: Arc<Self>) {
        *self.seen.lock().unwrap() = Some(*self.states.borrow());
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_after_a_state_change_finds_the_state_published() {
    let (client, mut server, mut listener) = connected().await;
    let mut watch = pin!(watch(&client, &mut server, "/a").await);
    drop(server);
    let mut server = listener.accept().await;
    server.handshake().await;
    let look = Arc::new(Look { states: client.states(), seen: Mutex::new(None) });
    assert!(watch.as_mut().poll(&mut Context::from_waker(&look.clone().into())).is_pending());
    assert_eq!(*look.states.borrow(), State::Suspended);
    // Both are ready before the client polls them.
    server.answer_handshake(6_000, client.session_id()).await;
    server.notify(EventType::NODE_DELETED, "/a").await;
    settle().await;
    assert!(watch.await.is_ok());
    assert!(matches!(*look.seen.lock().unwrap(), Some(State::Connected { .. })));
}

async fn grant(server: &mut Server, opcode: OpCode) {
    let sent = server.expect(opcode).await;
    server.reply(sent.xid, ErrorCode::OK, &()).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_handle_is_removed_once_it_is_set() {
    let (client, mut server, _listener) = connected().await;
    let once = Request::GetData(GetDataRequest { path: "/a", watch: true });
    let mode = AddWatchMode::PERSISTENT;
    let stays = Request::AddWatch(AddWatchRequest { path: "/a", mode });
    for request in [&once, &stays] {
        drop(client.submit(request));
        grant(&mut server, request.opcode()).await;
        grant(&mut server, OpCode::REMOVE_WATCHES).await;
    }
    let (_answer, watch) = client.submit_and_watch(&stays);
    assert!(watch.is_none(), "it would never fire");
    grant(&mut server, OpCode::ADD_WATCH).await;
    grant(&mut server, OpCode::REMOVE_WATCHES).await;
    let (_answer, watch) = client.submit_and_watch(&once);
    let sent = server.expect(OpCode::GET_DATA).await;
    let body = GetDataResponse { data: None, stat: Stat::default() };
    server.reply(sent.xid, ErrorCode::OK, &body).await;
    server.notify(EventType::NODE_DATA_CHANGED, "/a").await;
    assert_eq!(watch.unwrap().await.unwrap().event_type, EventType::NODE_DATA_CHANGED);
}
