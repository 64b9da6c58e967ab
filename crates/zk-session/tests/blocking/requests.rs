use std::future::poll_fn;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use zk_session::proto::{
    ErrorCode, GetChildrenRequest, GetDataRequest, OpCode, Request, SetDataRequest, SyncRequest,
    SyncResponse,
};
use zk_session::{AnyClient, Error, Outcome, State};

use crate::server::{Listener, PATIENCE, SESSION, connected, connected_with, during};

#[test]
fn requests_of_several_threads_are_in_flight_at_once() {
    let (client, mut server, _listener) = connected();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| client.sync("/").wait().unwrap());
        }
        let sent: Vec<_> = (0..8).map(|_| server.expect(OpCode::SYNC)).collect();
        for sent in sent {
            server.reply(sent.xid, ErrorCode::OK, &SyncResponse { path: "/" });
        }
    });
}

#[test]
fn one_thread_can_have_many_requests_in_flight() {
    let (client, mut server, _listener) = connected();
    let request = Request::GetData(GetDataRequest { path: "/a", watch: false });
    let answers: Vec<_> = (0..100).map(|_| client.submit(&request)).collect();
    let sent: Vec<_> = (0..100).map(|_| server.expect(OpCode::GET_DATA)).collect();
    for (place, sent) in sent.iter().enumerate() {
        let err = if place % 2 == 0 { ErrorCode::NO_NODE } else { ErrorCode::NO_AUTH };
        server.reply(sent.xid, err, &());
    }
    for (place, answer) in answers.into_iter().enumerate() {
        let err = if place % 2 == 0 { ErrorCode::NO_NODE } else { ErrorCode::NO_AUTH };
        assert_eq!(answer.wait().map_err(Error::from), Err(Error::Server(err)));
    }
}

#[test]
fn block_on_runs_a_future_until_it_is_ready_or_gives_up() {
    let (client, mut server, _listener) = connected();
    let limit = Instant::now() + Duration::from_millis(50);
    let patient = async { AnyClient::exists(&client, "/a").await.map(|stat| stat.is_some()) };
    let mut late = std::pin::pin!(AnyClient::get_data(&client, "/a"));
    let hurried = poll_fn(|cx| match late.as_mut().poll(cx) {
        Poll::Pending if Instant::now() >= limit => Poll::Ready(None),
        polled => polled.map(Some),
    });
    assert_eq!(client.block_on(Some(limit), hurried), None);
    let missing = server.expect(OpCode::GET_DATA);
    thread::scope(|scope| {
        let ran = scope.spawn(|| client.block_on(None, patient));
        let stat = server.expect(OpCode::EXISTS);
        server.reply(missing.xid, ErrorCode::NO_NODE, &());
        server.reply(stat.xid, ErrorCode::NO_NODE, &());
        assert_eq!(ran.join().unwrap(), Ok(false));
    });
}

#[test]
fn a_reply_that_is_too_long_fails_its_request_alone_and_is_skipped() {
    let (client, mut server, _listener) = connected_with(|builder| builder.max_reply(1_000));
    let request = Request::GetChildren2(GetChildrenRequest { path: "/", watch: true });
    let (listed, watch) = client.submit_and_watch(&request);
    let synced = client.submit(&Request::Sync(SyncRequest { path: "/" }));
    let list = server.expect(OpCode::GET_CHILDREN2);
    let sync = server.expect(OpCode::SYNC);
    server.reply(list.xid, ErrorCode::OK, &"x".repeat(100_000).as_str());
    server.reply(sync.xid, ErrorCode::OK, &SyncResponse { path: "/" });
    let outcome = Outcome::NotApplied;
    let too_large = Error::ReplyTooLarge { length: 100_020, limit: 1_000, outcome };
    assert_eq!(listed.wait().err().map(Error::from), Some(too_large));
    assert!(synced.wait().is_ok());
    // Removes the watch that the server has set.
    server.expect(OpCode::REMOVE_WATCHES);
    drop(watch);
    assert_eq!(client.statistics().connections, 1);
}

#[test]
fn a_deadline_is_kept_without_traffic_and_affects_no_other_request() {
    let (client, mut server, _listener) = connected();
    let limit = Duration::from_millis(50);
    let hurried = client.with_request_timeout(Some(limit));
    let start = Instant::now();
    let passed = Error::DeadlinePassed { outcome: Outcome::Unknown };
    assert_eq!(hurried.sync("/").wait().map_err(Error::from), Err(passed));
    assert!(start.elapsed() >= limit && start.elapsed() < PATIENCE, "{:?}", start.elapsed());

    let late = server.expect(OpCode::SYNC);
    let serve = || {
        let sent = server.expect(OpCode::DELETE);
        server.reply(late.xid, ErrorCode::OK, &SyncResponse { path: "/" });
        server.reply(sent.xid, ErrorCode::NO_NODE, &());
    };
    let deleted = during(|| client.delete("/a", None).wait(), serve);
    assert_eq!(deleted.map_err(Error::from), Err(Error::Server(ErrorCode::NO_NODE)));
}

/// More than the buffers of both sockets hold.
#[test]
fn a_server_that_does_not_read_for_a_while_receives_everything_later() {
    let (client, mut server, _listener) = connected();
    let data = vec![7; 512 * 1024];
    let request = Request::SetData(SetDataRequest { path: "/a", data: Some(&data), version: -1 });
    // The server reads afterwards, and no thread waits for it.
    let answers: Vec<_> = (0..32).map(|_| client.submit(&request)).collect();
    thread::sleep(Duration::from_millis(50));
    for _ in 0..32 {
        let sent = server.expect(OpCode::SET_DATA);
        let Request::SetData(body) = sent.request() else { unreachable!() };
        assert_eq!(body.data, Some(&data[..]));
        server.reply(sent.xid, ErrorCode::BAD_VERSION, &());
    }
    for answer in answers {
        assert_eq!(answer.wait().map_err(Error::from), Err(Error::Server(ErrorCode::BAD_VERSION)));
    }
    assert_eq!(client.statistics().connections, 1);
}

#[test]
fn ready_waits_for_room() {
    let (client, mut server, _listener) = connected_with(|builder| builder.max_pending(1));
    client.ready().wait().unwrap();
    let request = Request::GetData(GetDataRequest { path: "/a", watch: false });
    let first = client.submit(&request);
    let full = Error::QueueFull { limit: 1 };
    assert_eq!(client.sync("/").wait().map_err(Error::from), Err(full));
    let serve = || {
        let sent = server.expect(OpCode::GET_DATA);
        server.reply(sent.xid, ErrorCode::NO_NODE, &());
    };
    assert_eq!(during(|| client.ready().wait(), serve), Ok(()));
    assert_eq!(first.wait().map_err(Error::from), Err(Error::Server(ErrorCode::NO_NODE)));
}

#[test]
fn sent_requests_fail_with_the_connection_and_unsent_ones_use_the_next() {
    let (client, mut server, listener) = connected();
    let sent_before = during(
        || client.sync("/").wait(),
        || {
            server.expect(OpCode::SYNC);
            drop(server);
        },
    );
    assert_eq!(sent_before.map_err(Error::from), Err(Error::ConnectionLost));
    let waiting = during(
        || client.delete("/a", None).wait(),
        || {
            let mut server = listener.accept();
            assert_eq!(server.handshake(), SESSION);
            server.answer_handshake(20_000, SESSION);
            let sent = server.expect(OpCode::DELETE);
            server.reply(sent.xid, ErrorCode::OK, &());
        },
    );
    assert_eq!(waiting, Ok(()));
}

#[test]
fn a_server_that_falls_silent_is_abandoned() {
    let listener = Listener::new();
    let builder = listener.builder();
    let connecting = thread::spawn(move || builder.connect());
    let mut silent = listener.accept();
    let start = Instant::now();
    silent.welcome(300);
    let client = connecting.join().unwrap().unwrap();
    let mut server = listener.accept();
    assert!(start.elapsed() >= Duration::from_millis(150), "{:?}", start.elapsed());
    assert_eq!(server.handshake(), SESSION);
    server.answer_handshake(20_000, SESSION);
    let is_back = |state| matches!(state, State::Connected { .. });
    assert!(is_back(client.wait_for_state(is_back, Some(PATIENCE))));
}

#[test]
fn garbage_costs_the_connection_only() {
    use std::io::Write as _;
    let (client, mut server, listener) = connected();
    server.stream.write_all(&[0xff; 100]).unwrap();
    let mut server = listener.welcome();
    let serve = || {
        let sent = server.expect(OpCode::SYNC);
        server.reply(sent.xid, ErrorCode::OK, &SyncResponse { path: "/" });
    };
    assert_eq!(during(|| client.sync("/").wait(), serve), Ok(()));
}

#[test]
fn a_condition_may_use_the_client_and_its_state_is_returned() {
    let (client, server, _listener) = connected();
    let seen = std::sync::Mutex::new(Vec::new());
    let condition = |state| {
        seen.lock().unwrap().push(state);
        matches!(client.state(), State::Suspended) && state == State::Suspended
    };
    let state = during(|| client.wait_for_state(condition, Some(PATIENCE)), || drop(server));
    assert_eq!(state, State::Suspended);
    assert_eq!(seen.lock().unwrap().last(), Some(&state));
}

#[test]
fn wait_for_state_ends_with_its_time_limit() {
    let (client, _server, _listener) = connected();
    let state = client.wait_for_state(|_| false, Some(Duration::from_millis(20)));
    assert_eq!(state, client.state());
}

#[test]
fn an_answer_can_be_awaited_with_a_time_limit() {
    let (client, mut server, _listener) = connected();
    let request = Request::GetData(GetDataRequest { path: "/a", watch: false });
    let short = Duration::from_millis(20);
    let mut answer = client.submit(&request);
    assert_eq!(answer.wait_timeout(Duration::ZERO), Ok(None));
    assert_eq!(answer.wait_timeout(short), Ok(None));
    let sent = server.expect(OpCode::GET_DATA);
    server.reply(sent.xid, ErrorCode::NO_NODE, &());
    assert_eq!(
        answer.wait_timeout(PATIENCE).map_err(Error::from),
        Err(Error::Server(ErrorCode::NO_NODE))
    );

    let mut answer = client.with_request_timeout(Some(short)).submit(&request);
    let passed = Error::DeadlinePassed { outcome: Outcome::Unknown };
    assert_eq!(answer.wait_timeout(PATIENCE).map_err(Error::from), Err(passed));
}

#[test]
fn an_error_names_the_operation_and_the_path() {
    let (client, mut server, _listener) = connected();
    let error = during(
        || client.get_data("/a").wait().unwrap_err(),
        || {
            let sent = server.expect(OpCode::GET_DATA);
            server.reply(sent.xid, ErrorCode::NO_NODE, &());
        },
    );
    assert_eq!(error.to_string(), "GET_DATA \"/a\": the server refused the request: NO_NODE");
    assert_eq!(error.code(), Some(ErrorCode::NO_NODE));
}
