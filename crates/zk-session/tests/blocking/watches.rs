use std::time::Duration;

use zk_session::blocking::{Client, Threads};
use zk_session::proto::{
    AddWatchMode, ErrorCode, ErrorResponse, EventType, GetDataRequest, GetDataResponse, OpCode,
    Request, SessionId, Stat, WatcherType,
};
use zk_session::{End, Error, Outcome, PersistentWatch, Watch, WatchUpdate};

use crate::server::{PATIENCE, Server, connected, during};

fn watch(client: &Client, server: &mut Server) -> Watch<Threads> {
    let serve = || {
        let sent = server.expect(OpCode::GET_DATA);
        let body = GetDataResponse { data: None, stat: Stat::default() };
        server.reply(sent.xid, ErrorCode::OK, &body);
    };
    during(|| client.get_data_and_watch("/a").wait(), serve).unwrap().2
}

fn watch_persistently(client: &Client, server: &mut Server) -> PersistentWatch<Threads> {
    let serve = || {
        let sent = server.expect(OpCode::ADD_WATCH);
        let Request::AddWatch(body) = sent.request() else { unreachable!() };
        assert_eq!(body.mode, AddWatchMode::PERSISTENT_RECURSIVE);
        server.reply(sent.xid, ErrorCode::OK, &ErrorResponse { err: ErrorCode::OK });
    };
    during(|| client.watch_recursively("/a").wait(), serve).unwrap()
}

fn expect_removal(server: &mut Server, watcher_type: WatcherType) {
    let sent = server.expect(OpCode::REMOVE_WATCHES);
    let Request::RemoveWatches(body) = sent.request() else { unreachable!() };
    assert_eq!((body.path, body.watcher_type), ("/a", watcher_type));
    server.reply(sent.xid, ErrorCode::OK, &());
}

#[test]
fn a_watch_returns_its_event_once() {
    let (client, mut server, _listener) = connected();
    let mut watch = watch(&client, &mut server);
    assert_eq!(watch.wait_timeout(Duration::from_millis(10)), Ok(None));
    server.notify(EventType::NODE_DELETED, "/a");
    assert_eq!(watch.wait().unwrap().event_type, EventType::NODE_DELETED);
}

#[test]
fn a_watch_that_is_dropped_is_removed() {
    let (client, mut server, _listener) = connected();
    drop(watch(&client, &mut server));
    expect_removal(&mut server, WatcherType::DATA);
    drop(watch_persistently(&client, &mut server));
    expect_removal(&mut server, WatcherType::PERSISTENT_RECURSIVE);
}

#[test]
fn a_persistent_watch_reports_every_event_and_every_gap() {
    let (client, mut server, listener) = connected();
    let mut watch = watch_persistently(&client, &mut server);
    assert_eq!(watch.wait_timeout(Duration::from_millis(10)), Ok(None));
    server.notify(EventType::NODE_CREATED, "/a/b");
    server.notify(EventType::NODE_DATA_CHANGED, "/a/b");
    let happened = |notice| match notice {
        WatchUpdate::Event(event) => event.event_type,
        other => panic!("{other:?}, although nothing is missing"),
    };
    assert_eq!(happened(watch.wait().unwrap()), EventType::NODE_CREATED);
    assert_eq!(happened(watch.wait().unwrap()), EventType::NODE_DATA_CHANGED);
    drop(server);
    let mut server = listener.welcome();
    assert_eq!(watch.wait(), Ok(WatchUpdate::Gap));
    let sent = server.expect(OpCode::SET_WATCHES2);
    server.reply(sent.xid, ErrorCode::OK, &());
    server.notify(EventType::NODE_DELETED, "/a/b");
    assert_eq!(happened(watch.wait().unwrap()), EventType::NODE_DELETED);
}

#[test]
fn watches_report_how_the_session_ended() {
    let (client, mut server, listener) = connected();
    let once = watch(&client, &mut server);
    let mut stays = watch_persistently(&client, &mut server);
    drop(server);
    let mut server = listener.accept();
    server.handshake();
    server.answer_handshake(0, SessionId::NONE);
    let expired = Error::Ended { end: End::Expired, outcome: Outcome::NotApplied };
    assert_eq!(once.wait(), Err(expired.clone()));
    assert_eq!(stays.wait_timeout(PATIENCE), Err(expired.clone()));
    assert_eq!(stays.collect::<Vec<_>>(), [Err(expired)]);
}

#[test]
fn a_raw_request_keeps_its_watch_only_if_requested() {
    let (client, mut server, _listener) = connected();
    let request = Request::GetData(GetDataRequest { path: "/a", watch: true });
    let answer = |server: &mut Server| {
        let sent = server.expect(OpCode::GET_DATA);
        let body = GetDataResponse { data: None, stat: Stat::default() };
        server.reply(sent.xid, ErrorCode::OK, &body);
    };
    let _answer = client.submit(&request);
    answer(&mut server);
    expect_removal(&mut server, WatcherType::DATA);
    let (_answer, watch) = client.submit_and_watch(&request);
    answer(&mut server);
    server.notify(EventType::NODE_DELETED, "/a");
    assert_eq!(watch.unwrap().wait().unwrap().event_type, EventType::NODE_DELETED);
    assert!(client.submit_and_watch(&Request::WhoAmI(())).1.is_none());
}
