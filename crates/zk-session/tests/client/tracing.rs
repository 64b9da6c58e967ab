use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use zk_session::proto::{ErrorCode, OpCode, SessionId};
use zk_session::{Client, End, State};

use crate::server::{builder, connected_with, settle};

/// The log, line by line.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<u8>>>);

impl Told {
    fn take(&self) -> String {
        let reported = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8(reported).unwrap()
    }
}

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Told {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Sets the subscriber of this thread, until the result is dropped.
///
/// If there is only one subscriber, `tracing` asks the thread that first reaches an event whether
/// anybody wants it, which may be that of another test. If there are two, it asks both.
fn set_subscriber(subscriber: impl Subscriber + Send + Sync) -> DefaultGuard {
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
    LazyLock::force(&SECOND);
    tracing::subscriber::set_default(subscriber)
}

/// A subscriber that uses the client for each line, as a health check may do.
#[derive(Clone, Default)]
struct Curious {
    client: Arc<Mutex<Option<Client>>>,
    seen: Arc<Mutex<Vec<State>>>,
}

impl Write for Curious {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(client) = &*self.client.lock().unwrap() {
            drop(client.sync("/"));
            self.seen.lock().unwrap().push(client.state());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_may_use_the_client() {
    let curious = Curious::default();
    let writer = curious.clone();
    let lines = tracing_subscriber::fmt().with_writer(move || writer.clone());
    let _guard = set_subscriber(lines.finish());

    let (client, mut server, mut listener) = connected_with(builder(), 1 << 16).await;
    *curious.client.lock().unwrap() = Some(client.clone());
    let ((), answer) = tokio::join!(
        async {
            let sync = server.expect(OpCode::SYNC).await;
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            server.reply(sync.xid, ErrorCode::NO_NODE, &()).await;
        },
        client.sync("/")
    );
    assert!(answer.is_err());
    assert_eq!(curious.seen.lock().unwrap().drain(..).count(), 1, "the slow request");
    drop(server);
    settle().await;
    assert_eq!(*curious.seen.lock().unwrap(), [State::Suspended; 2], "connection and state");
    // The request made after the loss is sent on the next connection.
    let mut server = listener.welcome().await;
    server.expect(OpCode::SYNC).await;
    *curious.client.lock().unwrap() = None;
}

#[tokio::test(start_paused = true)]
async fn connections_slow_requests_and_the_end_are_logged() {
    let reported = Told::default();
    let lines =
        tracing_subscriber::fmt().with_writer(reported.clone()).without_time().with_ansi(false);
    let _guard = set_subscriber(lines.with_target(false).finish());

    let (client, mut server, mut listener) = connected_with(builder(), 1 << 16).await;
    assert_eq!(reported.take(), " INFO session connected server=one:2181 session=0x77\n");

    let (answer, ()) = tokio::join!(client.sync("/"), async {
        let sync = server.expect(OpCode::SYNC).await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        server.reply(sync.xid, ErrorCode::NO_NODE, &()).await;
    });
    assert!(answer.is_err());
    assert_eq!(
        reported.take(),
        " WARN slow request failed elapsed=1.5s operation=SYNC error=the server refused the request: NO_NODE\n"
    );

    drop(server);
    settle().await;
    assert_eq!(client.state(), State::Suspended);
    assert_eq!(
        reported.take(),
        " WARN connection failed server=one:2181 reason=the connection was closed\n \
         WARN session without a connection session=0x77 state=Suspended\n"
    );

    let mut server = listener.accept().await;
    server.handshake().await;
    server.answer_handshake(0, SessionId::NONE).await;
    assert_eq!(client.ended().await, End::Expired);
    assert_eq!(reported.take(), " INFO session ended session=0x77 end=the session has expired\n");
}

#[tokio::test(start_paused = true)]
async fn the_log_names_the_session_that_has_expired_and_the_next_one() {
    let reported = Told::default();
    let lines =
        tracing_subscriber::fmt().with_writer(reported.clone()).without_time().with_ansi(false);
    let _guard = set_subscriber(lines.with_target(false).finish());

    let (client, server, mut listener) = connected_with(builder().renew(true), 1 << 16).await;
    drop(server);
    settle().await;
    reported.take();
    let mut server = listener.accept().await;
    server.handshake().await;
    server.answer_handshake(0, SessionId::NONE).await;
    let mut server = listener.accept().await;
    assert_eq!(server.handshake().await, SessionId::NONE);
    server.answer_handshake(6_000, SessionId(0x78)).await;
    settle().await;
    assert_eq!(client.session_id(), SessionId(0x78));
    assert_eq!(
        reported.take(),
        " WARN session expired; opening a new one session=0x77\n \
         INFO session renewed server=one:2181 session=0x78 expired=0x77\n"
    );

    // A new connection of the same session is no renewal.
    drop(server);
    settle().await;
    reported.take();
    let mut server = listener.accept().await;
    server.handshake().await;
    server.answer_handshake(6_000, SessionId(0x78)).await;
    settle().await;
    assert_eq!(reported.take(), " INFO session connected server=one:2181 session=0x78\n");
    drop(client);
}
