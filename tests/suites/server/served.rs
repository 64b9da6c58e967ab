//! The ensemble over TCP.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::ErrorKind;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zk_proto::{OpCode, Request, Zxid};
use zk_testkit::ports::Port;
use zk_testkit::raw::{Credentials, Message, RawClient};
use zk_testkit::serve::Embedded;
use zk_testkit::server::Config;

use crate::world::{create, exists, set_data, text};

pub(super) struct Client {
    stream: TcpStream,
    raw: RawClient,
}

impl Client {
    async fn open(address: SocketAddr, handshake: &[u8]) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("a listening server");
        stream.write_all(handshake).await.expect("a connection");
        Self { stream, raw: RawClient::new() }
    }

    pub(super) async fn connect(address: SocketAddr) -> (Self, Credentials) {
        let mut client = Self::open(address, &RawClient::connect(10_000)).await;
        match client.next_message().await {
            Some(Message::Connected(session)) => (client, session),
            other => panic!("no session: {other:?}"),
        }
    }

    pub(super) async fn send(&mut self, request: &Request<'_>) {
        let frame = self.raw.request(request);
        self.stream.write_all(&frame).await.expect("a connection");
    }

    /// Returns the next message, or `None` if the connection is closed.
    pub(super) async fn next_message(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.raw.poll() {
                return Some(message);
            }
            let mut buffer = vec![0; 64 * 1024];
            match self.stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.raw.receive(&buffer[..count]),
            }
        }
    }

    pub(super) async fn ask(&mut self, request: &Request<'_>) -> String {
        self.send(request).await;
        self.next_message().await.as_ref().map_or("closed".into(), text)
    }
}

#[tokio::test]
async fn servers_have_the_ports_that_were_chosen() {
    let reserved = Port::reserve().expect("a free port");
    let number = reserved.number();
    let embedded = Embedded::at(number, Config::servers(1)).await.expect("a free port");
    assert_eq!(embedded.connect_string(), format!("127.0.0.1:{number}"));
    let (_client, _) = Client::connect(embedded.address(0)).await;

    let refused = |first, servers| Embedded::at(first, Config::servers(servers));
    let in_use = refused(number, 1).await.expect_err("it is in use");
    assert_eq!(in_use.kind(), ErrorKind::AddrInUse);
    // The port before it is in use, too.
    let in_use = refused(number - 1, 2).await.expect_err("it is reserved");
    assert_eq!(in_use.kind(), ErrorKind::AddrInUse);
    for (first, servers) in [(0, 1), (u16::MAX, 2)] {
        assert!(refused(first, servers).await.is_err(), "{first}");
    }
}

#[tokio::test]
async fn an_embedded_ensemble_serves_and_stops() {
    let embedded = Embedded::start(1).await.unwrap();
    assert_eq!(embedded.connect_string(), embedded.address(0).to_string());
    let (mut client, _) = Client::connect(embedded.address(0)).await;
    assert_eq!(client.ask(&create("/a")).await, "CREATE /a");
    assert_eq!(client.ask(&exists("/b", true)).await, "EXISTS NO_NODE");
    client.send(&create("/b")).await;
    assert_eq!(client.next_message().await.as_ref().map(text).as_deref(), Some("NODE_CREATED /b"));
    assert_eq!(client.next_message().await.as_ref().map(text).as_deref(), Some("CREATE /b"));
    assert!(embedded.with(|ensemble| ensemble.node("/b").is_some()));
    let creates = embedded.with(|ensemble| ensemble.counters().requests(OpCode::CREATE));
    assert_eq!(creates, 2);
    drop(embedded);
    assert_eq!(client.next_message().await, None);
}

#[tokio::test]
async fn a_word_is_answered_and_the_connection_closed() {
    let embedded = Embedded::start(1).await.unwrap();
    let mut stream = TcpStream::connect(embedded.address(0)).await.unwrap();
    stream.write_all(b"ruok").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "imok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_refuses_connections_and_restarts_on_its_port() {
    let embedded = Embedded::start(3).await.unwrap();
    let (mut client, session) = Client::connect(embedded.address(0)).await;
    embedded.kill(0);
    assert_eq!(client.next_message().await, None);
    // Until the runtime has dropped the listener, connections are accepted and closed.
    let refused = loop {
        if let Err(error) = TcpStream::connect(embedded.address(0)).await {
            break error.kind();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(refused, ErrorKind::ConnectionRefused);

    let resume = RawClient::resume(Zxid::ZERO, &session);
    let mut moved = Client::open(embedded.address(1), &resume).await;
    assert!(matches!(moved.next_message().await, Some(Message::Connected(_))));
    embedded.restart(0).await.unwrap();
    let (mut client, _) = Client::connect(embedded.address(0)).await;
    assert_eq!(client.ask(&create("/a")).await, "CREATE /a");
}

#[tokio::test]
async fn sessions_expire_by_the_clock_and_on_command() {
    let config = Config::default().with_tick(Duration::from_millis(50));
    let embedded = Embedded::with_config(config).await.unwrap();
    let mut silent = Client::open(embedded.address(0), &RawClient::connect(100)).await;
    assert!(matches!(silent.next_message().await, Some(Message::Connected(_))));
    assert_eq!(silent.next_message().await, None);
    assert_eq!(embedded.with(|ensemble| ensemble.sessions().count()), 0);

    let embedded = Embedded::start(1).await.unwrap();
    let (mut client, session) = Client::connect(embedded.address(0)).await;
    assert!(embedded.expire_session(session.id));
    assert_eq!(client.next_message().await, None);
    let resume = RawClient::resume(Zxid::ZERO, &session);
    let mut late = Client::open(embedded.address(0), &resume).await;
    assert_eq!(late.next_message().await, Some(Message::Expired));
    assert_eq!(late.next_message().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order() {
    const COUNT: usize = 5_000;
    let embedded = Embedded::start(1).await.unwrap();
    let (mut client, _) = Client::connect(embedded.address(0)).await;
    client.ask(&create("/a")).await;
    let mut bytes = Vec::new();
    for _ in 0..COUNT {
        bytes.extend_from_slice(&client.raw.request(&set_data("/a", -1)));
    }
    client.stream.write_all(&bytes).await.unwrap();
    let mut last = 0;
    for _ in 0..COUNT {
        let Some(Message::Reply(reply)) = client.next_message().await else { panic!("no answer") };
        assert!(reply.header.xid.0 > last);
        last = reply.header.xid.0;
    }
    let version = embedded.with(|ensemble| ensemble.node("/a").map(|node| node.stat().version));
    assert_eq!(version, Some(COUNT as i32));
}

/// The harness of `docs/fuzzing.md` runs, and the server executes most of its requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fuzzing_harness_reads_every_reply() {
    let embedded = Embedded::start(1).await.expect("a free port");
    let address = embedded.address(0).to_string();
    let harness = tokio::task::spawn_blocking(move || super::fuzz_server::fuzz(&address, 1000, ""));
    let executed = harness.await.expect("no panic").expect("an answer to every request");
    assert!(executed > 200, "only {executed} of 1000 requests were executed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fuzzing_harness_stays_below_its_path() {
    let embedded = Embedded::start(1).await.expect("a free port");
    let address = embedded.address(0).to_string();
    let fuzz = move || super::fuzz_server::fuzz(&address, 1000, "/fuzz");
    tokio::task::spawn_blocking(fuzz).await.expect("no panic").expect("an answer to every request");
    let (mut children, changes) = embedded.with(|ensemble| {
        let root = ensemble.node("/").expect("always there");
        (root.children().map(str::to_owned).collect::<Vec<_>>(), root.stat().aversion)
    });
    children.sort();
    assert_eq!((children, changes), (vec!["fuzz".to_owned(), "zookeeper".to_owned()], 0));
}
