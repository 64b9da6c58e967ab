use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use zk_session::proto::{
    AddWatchMode, ErrorCode, ErrorResponse, EventType, OpCode, Request, SessionId, WatcherType,
};
use zk_session::{Client, End, Error, Outcome, PersistentWatch, Tokio, WatchUpdate};

use crate::server::{Server, connected, connected_with, settle};

async fn watch(client: &Client, server: &mut Server, mode: AddWatchMode) -> PersistentWatch<Tokio> {
    let granted = ErrorResponse { err: ErrorCode::OK };
    let serve = async {
        let sent = server.expect(OpCode::ADD_WATCH).await;
        let Request::AddWatch(body) = sent.request() else { unreachable!() };
        assert_eq!(body.mode, mode);
        server.reply(sent.xid, ErrorCode::OK, &granted).await;
    };
    let (watch, ()) = match mode {
        AddWatchMode::PERSISTENT => tokio::join!(client.watch("/a"), serve),
        _ => tokio::join!(client.watch_recursively("/a"), serve),
    };
    watch.unwrap()
}

fn reported(notice: Result<WatchUpdate, Error>) -> (EventType, String) {
    match notice.unwrap() {
        WatchUpdate::Event(event) => (event.event_type, event.path.to_string()),
        other => panic!("{other:?}, although nothing is missing"),
    }
}

#[tokio::test(start_paused = true)]
async fn everything_is_reported_in_order() {
    let (client, mut server, _listener) = connected_with(Client::builder("one/app"), 1 << 16).await;
    let mut watch = watch(&client, &mut server, AddWatchMode::PERSISTENT_RECURSIVE).await;
    for event in [EventType::NODE_CREATED, EventType::NODE_DATA_CHANGED, EventType::NODE_DELETED] {
        server.notify(event, "/app/a/b").await;
        assert_eq!(reported(watch.next().await), (event, "/a/b".to_string()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconnect_is_a_gap_between_earlier_and_later_events() {
    let (client, mut server, mut listener) = connected().await;
    let mut watch = watch(&client, &mut server, AddWatchMode::PERSISTENT).await;
    server.notify(EventType::NODE_DATA_CHANGED, "/a").await;
    settle().await;
    drop(server);
    let mut server = listener.welcome().await;
    let sent = server.expect(OpCode::SET_WATCHES2).await;
    server.reply(sent.xid, ErrorCode::OK, &()).await;
    server.notify(EventType::NODE_DELETED, "/a").await;
    assert_eq!(reported(watch.next().await).0, EventType::NODE_DATA_CHANGED);
    assert_eq!(watch.next().await, Ok(WatchUpdate::Gap));
    assert_eq!(reported(watch.next().await).0, EventType::NODE_DELETED);
}

#[tokio::test(start_paused = true)]
async fn unread_events_are_bounded_and_the_rest_is_a_gap() {
    let (client, mut server, _listener) = connected().await;
    let mut watch = watch(&client, &mut server, AddWatchMode::PERSISTENT).await;
    for _ in 0..PersistentWatch::<Tokio>::BUFFER + 10 {
        server.notify(EventType::NODE_DATA_CHANGED, "/a").await;
        settle().await;
    }
    for _ in 0..PersistentWatch::<Tokio>::BUFFER {
        assert_eq!(reported(watch.next().await).0, EventType::NODE_DATA_CHANGED);
    }
    assert_eq!(watch.next().await, Ok(WatchUpdate::Gap));
    server.notify(EventType::NODE_DELETED, "/a").await;
    assert_eq!(reported(watch.next().await).0, EventType::NODE_DELETED);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_dropped_is_removed() {
    let (client, mut server, _listener) = connected().await;
    let first = watch(&client, &mut server, AddWatchMode::PERSISTENT).await;
    drop(first);
    let sent = server.expect(OpCode::REMOVE_WATCHES).await;
    let Request::RemoveWatches(body) = sent.request() else { unreachable!() };
    assert_eq!((body.path, body.watcher_type), ("/a", WatcherType::PERSISTENT));
}

#[tokio::test(start_paused = true)]
async fn the_stream_ends_after_the_error_that_ended_the_watch() {
    use futures_core::Stream as _;
    let (client, mut server, mut listener) = connected().await;
    let mut watch = watch(&client, &mut server, AddWatchMode::PERSISTENT).await;
    server.notify(EventType::NODE_DATA_CHANGED, "/a").await;
    settle().await;
    drop(server);
    let mut server = listener.accept().await;
    server.handshake().await;
    server.answer_handshake(0, SessionId::NONE).await;
    client.ended().await;
    let expired = Error::Ended { end: End::Expired, outcome: Outcome::NotApplied };
    let mut next = async || poll_fn(|cx| Pin::new(&mut watch).poll_next(cx)).await;
    assert_eq!(reported(next().await.unwrap()).0, EventType::NODE_DATA_CHANGED);
    assert_eq!(next().await, Some(Err(expired.clone())));
    assert_eq!(next().await, None);
    assert_eq!(watch.next().await, Err(expired));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_too_old_ends_the_watch_and_not_the_session() {
    let (client, mut server, mut listener) = connected().await;
    let mut watch = watch(&client, &mut server, AddWatchMode::PERSISTENT).await;
    drop(server);
    let mut old = listener.welcome().await;
    let sent = old.expect(OpCode::SET_WATCHES2).await;
    old.reply(sent.xid, ErrorCode::UNIMPLEMENTED, &()).await;
    let _server = listener.welcome().await;
    let mut notice = watch.next().await;
    if notice == Ok(WatchUpdate::Gap) {
        notice = watch.next().await;
    }
    let opcode = OpCode::ADD_WATCH;
    assert_eq!(notice, Err(Error::Unsupported { opcode, needs: "ZooKeeper 3.6" }));
    let pending = poll_fn(|cx| {
        Poll::Ready(Pin::new(&mut Box::pin(client.ended())).as_mut().poll(cx).is_pending())
    });
    assert!(pending.await, "the session is alive");
}
