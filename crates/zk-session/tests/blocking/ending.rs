use std::net::TcpListener;
use std::time::{Duration, Instant};

use zk_session::blocking::Client;
use zk_session::proto::{ErrorCode, OpCode, SessionId};
use zk_session::{ConnectError, End, Error, Outcome, State};

use crate::server::{Listener, PATIENCE, connected, during};

#[test]
fn what_crosses_threads_can() {
    fn shared<T: Send + Sync + Clone>() {}
    fn sent<T: Send>() {}
    shared::<Client>();
    sent::<zk_session::blocking::Watch>();
    sent::<zk_session::blocking::PersistentWatch>();
    sent::<zk_session::blocking::Answer>();
    // Named so with any features.
    sent::<zk_session::ClientBuilder<Client>>();
    sent::<(zk_session::Transaction<'_, Client>, zk_session::MultiRead<'_, Client>)>();
}

#[test]
fn nobody_there_is_told_with_the_last_error() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let at = listener.local_addr().unwrap().to_string();
    drop(listener);
    let patience = Duration::from_millis(200);
    let start = Instant::now();
    let error = Client::builder(&at).connect_timeout(patience).connect().unwrap_err();
    let ConnectError::Unreachable { last: Some((member, _)), .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(member, at);
    assert!(start.elapsed() >= patience && start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assert!(matches!(Client::connect("one,,two"), Err(ConnectError::Address(_))));
}

#[test]
fn closing_waits_for_the_server_and_fails_what_comes_after() {
    let (client, mut server, _listener) = connected();
    let clone = client.clone();
    let serve = || {
        let sent = server.expect(OpCode::CLOSE_SESSION);
        server.reply(sent.xid, ErrorCode::OK, &());
        assert!(server.request().is_none(), "the client hangs up");
    };
    during(|| client.close(), serve);
    assert_eq!(clone.state(), State::Ended(End::Closed));
    let closed = Error::Ended { end: End::Closed, outcome: Outcome::NotApplied };
    assert_eq!(clone.sync("/"), Err(closed.clone()));
    assert_eq!(clone.ready(), Err(closed));
    assert_eq!(clone.session(), None);
}

#[test]
fn the_last_handle_that_is_dropped_closes_the_session() {
    let (client, mut server, _listener) = connected();
    drop(client.clone());
    drop(client);
    server.expect(OpCode::CLOSE_SESSION);
}

#[test]
fn an_expired_session_fails_whoever_waits() {
    let (client, server, listener) = connected();
    drop(server);
    let failed = during(
        || (client.sync("/"), client.ended()),
        || {
            let mut server = listener.accept();
            server.handshake();
            server.answer_handshake(0, SessionId::NONE);
        },
    );
    // Lost or never sent: it depends on whether the request or the loss came first.
    assert!(matches!(failed.0, Err(Error::Ended { .. } | Error::ConnectionLost)), "{failed:?}");
    assert_eq!(failed.1, End::Expired);
}

#[test]
fn a_session_is_taken_up_by_another_client() {
    let (first, server, _listener) = connected();
    let session = first.session().expect("it lives");
    drop(server);
    let listener = Listener::new();
    let builder = listener.builder().resume(session.clone());
    // Kept until the client has seen that it is connected.
    let mut kept = None;
    let second = during(
        || builder.connect(),
        || {
            let mut server = listener.accept();
            assert_eq!(server.handshake(), session.id);
            server.answer_handshake(20_000, session.id);
            kept = Some(server);
        },
    );
    assert_eq!(second.unwrap().session_id(), session.id);
}
