use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf};
use tokio::time::Instant;
use zk_session::proto::{ErrorCode, OpCode, SyncResponse};
use zk_session::{Client, Connect, ConnectError, ConnectStringError, Error, ServerAddress, State};

use crate::server::{Pipes, SESSION, builder, connected, pipes};

/// A transport whose connections are refused.
struct Nobody;

impl Connect for Nobody {
    type Transport = DuplexStream;

    fn connect(
        &mut self,
        _: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>> {
        Box::pin(async { Err(io::Error::other("nobody is there")) })
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_ensemble_is_reported_with_the_last_error() {
    let connect_timeout = Duration::from_secs(3);
    let start = Instant::now();
    let client = builder().connect_timeout(connect_timeout).connect_with(Nobody).await;
    let last = Some(("one:2181".to_string(), "nobody is there".to_string()));
    let error = ConnectError::Unreachable { connect_timeout, last };
    assert_eq!(client.unwrap_err(), error);
    assert_eq!(
        error.to_string(),
        "no server answered within 3s; the last tried was one:2181: nobody is there"
    );
    assert_eq!(start.elapsed(), connect_timeout);
}

/// A transport whose connections fail until this moment.
struct Late {
    pipes: Pipes,
    from: Instant,
}

impl Connect for Late {
    type Transport = DuplexStream;

    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>> {
        if Instant::now() < self.from {
            return Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) });
        }
        self.pipes.connect(server)
    }
}

#[tokio::test(start_paused = true)]
async fn connecting_continues_until_its_time_limit() {
    for seed in 0..10 {
        let (pipes, mut listener) = pipes(1 << 16);
        let late = Late { pipes, from: Instant::now() + Duration::from_secs(50) };
        // For any session timeout.
        let builder = Client::builder("one,two,three").session_timeout(Duration::from_secs(4));
        let builder = builder.connect_timeout(Duration::from_secs(52)).seed(seed);
        let serve = tokio::spawn(async move { listener.welcome().await });
        builder.connect_with(late).await.expect("a server comes in time");
        serve.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn connecting_takes_fifteen_seconds_or_the_session_timeout_by_default() {
    for (timeout, limit) in [(4, 15), (10, 15), (40, 40)]
        .map(|(a, b): (u64, u64)| (Duration::from_secs(a), Duration::from_secs(b)))
    {
        let start = Instant::now();
        let client = builder().session_timeout(timeout).connect_with(Nobody).await;
        let Err(ConnectError::Unreachable { connect_timeout, last: Some(_) }) = client else {
            panic!("{client:?}")
        };
        assert_eq!((connect_timeout, start.elapsed()), (limit, limit));
    }
}

/// A server that reads and never replies.
struct Silent;

impl Connect for Silent {
    type Transport = DuplexStream;

    fn connect(
        &mut self,
        _: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_not_answered_at_the_limit_is_named() {
    let builder = builder().connect_timeout(Duration::from_secs(3));
    let error = builder.connect_with(Silent).await.unwrap_err();
    let text = "no server answered within 3s; the last tried was one:2181: no reply within the connect timeout";
    assert_eq!(error.to_string(), text);
}

#[tokio::test(start_paused = true)]
async fn the_session_leaves_a_silent_server_for_the_next_one() {
    let (pipes, mut listener) = pipes(1 << 16);
    let client = Client::builder("one,two").connect_with(pipes);
    let serve = async {
        let silent = listener.accept().await;
        let start = Instant::now();
        let server = listener.welcome().await;
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        assert_ne!(silent.server, server.server);
        server
    };
    let (client, server) = tokio::join!(client, serve);
    let client = client.unwrap();
    let State::Connected { server: index, session } = client.state() else {
        panic!("not connected")
    };
    assert_eq!((client.servers()[index].to_string(), session), (server.server, SESSION));
}

#[tokio::test(start_paused = true)]
async fn an_invalid_address_is_reported_at_once() {
    let error = Client::builder(" , ").connect_with(Nobody).await.unwrap_err();
    assert_eq!(error, ConnectError::Address(ConnectStringError::NoHost));
    let error = Client::connect("one:port").await.expect_err("no number");
    assert!(matches!(error, ConnectError::Address(_)));
    let printed = error.to_string();
    assert!(
        printed.ends_with("\"one:port\": the port is not a number from 1 to 65535"),
        "{printed}"
    );
    assert!(core::error::Error::source(&error).is_none());
}

#[tokio::test(start_paused = true)]
async fn an_infinite_timeout_does_not_panic() {
    let client = builder()
        .session_timeout(Duration::MAX)
        .connect_timeout(Duration::from_secs(1))
        .connect_with(Nobody)
        .await;
    assert!(matches!(client, Err(ConnectError::Unreachable { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_no_server_is_abandoned_for_the_next() {
    for garbage in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        &[0xff; 64],
        &[0; 64],
        &[0x7f, 0xff, 0xff, 0xff, 0, 0],
        &[0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 1, 9],
    ] {
        let (pipes, mut listener) = pipes(1 << 16);
        let client = Client::builder("one,two").connect_with(pipes);
        let serve = async {
            let mut odd = listener.accept().await;
            odd.stream.write_all(garbage).await.unwrap();
            let server = listener.welcome().await;
            assert_ne!(odd.server, server.server);
            server
        };
        let (client, _server) = tokio::join!(client, serve);
        client.expect("the other is in its right mind");
    }
}

#[tokio::test(start_paused = true)]
async fn garbage_behind_the_handshake_costs_the_connection_only() {
    let (client, mut server, mut listener) = connected().await;
    let lost = client.sync("/");
    server.expect(OpCode::SYNC).await;
    server.stream.write_all(&[0xff; 40]).await.unwrap();
    assert_eq!(lost.await.map_err(Error::from), Err(Error::ConnectionLost));
    let mut server = listener.welcome().await;
    let sync = client.sync("/");
    let sent = server.expect(OpCode::SYNC).await;
    server.reply(sent.xid, ErrorCode::OK, &SyncResponse { path: "/" }).await;
    assert_eq!(sync.await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn the_session_is_resumed_elsewhere_when_a_server_falls_silent() {
    let (client, mut server, mut listener) = connected().await;
    let start = Instant::now();
    let lost = client.sync("/");
    server.frame().await;
    assert_eq!(lost.await.map_err(Error::from), Err(Error::ConnectionLost));
    assert_eq!(start.elapsed(), Duration::from_secs(4));
    assert_eq!(client.state(), State::Suspended);
    let waiting = client.sync("/");
    let mut server = listener.accept().await;
    assert_eq!(server.handshake().await, SESSION);
    server.answer_handshake(6_000, SESSION).await;
    let sent = server.expect(OpCode::SYNC).await;
    server.reply(sent.xid, ErrorCode::OK, &SyncResponse { path: "/" }).await;
    assert_eq!(waiting.await, Ok(()));
    assert_eq!(client.statistics().connections, 2);
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_is_kept_alive() {
    let (client, mut server, _listener) = connected().await;
    let serve = tokio::spawn(async move { server.request().await });
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(matches!(client.state(), State::Connected { .. }));
    assert!(client.lease() > Some(Instant::now() + Duration::from_secs(3)));
    assert_eq!(client.statistics().connections, 1);
    serve.abort();
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_during_a_suspension_if_the_clock_continues() {
    let slept = Arc::new(AtomicU64::new(0));
    let (start, sleeping) = (Instant::now(), slept.clone());
    let clock = move || {
        let slept = Duration::from_secs(sleeping.load(Ordering::Relaxed));
        zk_session::time::Instant::after_start(start.elapsed() + slept)
    };
    let (pipes, mut listener) = pipes(1 << 16);
    let connecting = builder().clock(clock).connect_with(pipes);
    let (client, _server) = tokio::join!(connecting, listener.welcome());
    let client = client.unwrap();
    assert!(client.lease() > Some(Instant::now() + Duration::from_secs(3)));
    let mut states = client.states();
    states.mark_unchanged();
    slept.store(60, Ordering::Relaxed);
    assert!(client.lease() < Some(Instant::now()));
    // Whatever else is due, the client looks at the clock soon.
    let woken = Instant::now();
    states.changed().await.unwrap();
    assert!(woken.elapsed() <= Duration::from_millis(500), "{:?}", woken.elapsed());
    assert!(client.lease_has_ended());
    // The read timeout has passed as well.
    assert_eq!(listener.accept().await.handshake().await, SESSION);
    assert!(woken.elapsed() <= Duration::from_millis(600), "{:?}", woken.elapsed());
}

/// A transport that cannot flush, until it breaks.
struct Stuck {
    pipe: DuplexStream,
    breaks: Option<Instant>,
}

impl AsyncRead for Stuck {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stuck {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.breaks {
            Some(breaks) if Instant::now() < breaks => Poll::Pending,
            Some(_) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(cx)
    }
}

/// The first transport is [`Stuck`]. It breaks just when the session gives it up.
struct FirstStuck {
    pipes: Pipes,
    breaks: Option<Instant>,
}

impl Connect for FirstStuck {
    type Transport = Stuck;

    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<Stuck>> + Send>> {
        let (pipe, breaks) = (self.pipes.connect(server), self.breaks.take());
        Box::pin(async move { Ok(Stuck { pipe: pipe.await?, breaks }) })
    }
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_an_abandoned_connection_does_not_affect_the_next() {
    let (pipes, mut listener) = pipes(1 << 16);
    let breaks = Some(Instant::now() + Duration::from_secs(5));
    let client = Client::builder("one,two").connect_with(FirstStuck { pipes, breaks });
    let serve = async {
        let _stuck = listener.accept().await;
        let mut next = listener.accept().await;
        assert!(next.frame().await.is_some(), "it is used");
        next.answer_handshake(6_000, SESSION).await;
        next
    };
    let (client, _server) = tokio::join!(client, serve);
    assert_eq!(client.unwrap().session_id(), SESSION);
}

/// A waker that uses its client whenever it can.
struct Nosy {
    pipes: Pipes,
    client: Arc<OnceLock<Client>>,
}

/// A value that uses the client when it is dropped.
struct Look(Arc<OnceLock<Client>>);

impl Look {
    fn look(&self) {
        if let Some(client) = self.0.get() {
            client.state();
            client.statistics();
        }
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        self.look();
    }
}

impl Connect for Nosy {
    type Transport = DuplexStream;

    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>> {
        let (pipe, look) = (self.pipes.connect(server), Look(self.client.clone()));
        look.look();
        Box::pin(async move {
            look.look();
            // The session gives it up after the third attempt.
            tokio::time::sleep(Duration::from_millis(10)).await;
            look.look();
            pipe.await
        })
    }
}

#[test]
fn a_connector_may_use_the_client() {
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let builder = tokio::runtime::Builder::new_current_thread().enable_all().build();
        builder.expect("a runtime").block_on(async {
            let (pipes, mut listener) = pipes(1 << 16);
            let known = Arc::new(OnceLock::new());
            let nosy = Nosy { pipes, client: known.clone() };
            let builder = Client::builder("one").seed(1);
            let (client, server) = tokio::join!(builder.connect_with(nosy), listener.welcome());
            let client = client.expect("a server answers");
            known.set(client.clone()).expect("it is the first");
            drop(server);
            let server = listener.welcome().await;
            client.states().wait_for(|state| matches!(state, State::Connected { .. })).await.ok();
            drop(server);
            let _server = listener.accept().await;
            client.close().await;
        });
        done.send(()).expect("somebody waits");
    });
    finished.recv_timeout(Duration::from_secs(60)).expect("a deadlock");
}
