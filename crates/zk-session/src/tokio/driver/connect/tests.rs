use alloc::sync::Arc;
use alloc::vec;
use std::sync::Mutex;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::Instant;
use zk_proto::{ConnectResponse, ErrorCode, ReplyHeader, SessionId, Xid, Zxid, frame};

use super::*;
use crate::{Client, State};

#[tokio::test(start_paused = true)]
async fn an_address_that_drops_packets_does_not_delay_the_others() {
    let addresses: Vec<_> = (1..=4).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
    let connect = |address: SocketAddr| async move {
        match address.port() {
            1 | 3 => {
                sleep(HEAD_START * 10).await;
                Err(io::ErrorKind::TimedOut.into())
            }
            2 => Err(io::ErrorKind::ConnectionRefused.into()),
            port => Ok(port),
        }
    };
    let start = Instant::now();
    assert_eq!(first_of(Candidates::of(&addresses), connect).await.unwrap(), 4);
    assert!(start.elapsed() < HEAD_START * 3, "{:?}", start.elapsed());
    let failed = first_of(Candidates::of(&addresses[..3]), connect).await;
    assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(first_of(Candidates::of(&addresses[3..]), connect).await.unwrap(), 4);
    let nowhere = first_of(Candidates::of(&[]), connect).await;
    assert_eq!(nowhere.unwrap_err().kind(), io::ErrorKind::NotFound);
}

const TIMEOUT: Duration = Duration::from_secs(10);

/// A name with three addresses, each of which accepts connections.
#[derive(Clone)]
struct Headless {
    tcp: TcpConnect,
    servers: Arc<Mutex<Servers>>,
}

#[derive(Default)]
struct Servers {
    /// Whether each answers.
    answers: [bool; 3],
    /// The connections in their order, by their server.
    connections: Vec<usize>,
}

impl Headless {
    fn new(answers: [bool; 3]) -> Self {
        let address = |last| SocketAddr::from(([127, 0, 0, last], 2181));
        let addresses: Vec<_> = (0..3).map(address).collect();
        let server = ServerAddress { host: "headless".into(), port: 2181 };
        let book = AddressBook::of(&server, &addresses);
        let servers = Servers { answers, ..Servers::default() };
        Self { tcp: TcpConnect { addresses: book }, servers: Arc::new(Mutex::new(servers)) }
    }

    fn connections(&self) -> Vec<usize> {
        self.servers.lock().unwrap().connections.clone()
    }

    /// Accepts a connection, and serves it as long as the server answers.
    fn accept(servers: &Arc<Mutex<Servers>>, address: SocketAddr) -> DuplexStream {
        let (client, stream) = tokio::io::duplex(1 << 12);
        let SocketAddr::V4(v4) = address else { panic!("{address}") };
        let server = usize::from(v4.ip().octets()[3]);
        servers.lock().unwrap().connections.push(server);
        tokio::spawn(serve(servers.clone(), server, stream));
        client
    }
}

async fn serve(servers: Arc<Mutex<Servers>>, server: usize, mut stream: DuplexStream) {
    let mut is_new = true;
    while let Ok(length) = stream.read_u32().await {
        let mut request = vec![0; length as usize];
        stream.read_exact(&mut request).await.expect("the rest");
        if !servers.lock().unwrap().answers[server] {
            continue;
        }
        let mut out = BytesMut::new();
        let welcome = ConnectResponse {
            protocol_version: 0,
            timeout: TIMEOUT.as_millis() as i32,
            session_id: SessionId(7),
            password: Some(&[1; 16]),
            read_only: Some(false),
        };
        let pong = ReplyHeader { xid: Xid::PING, zxid: Zxid(1), err: ErrorCode::OK };
        match core::mem::replace(&mut is_new, false) {
            true => frame::encode(&welcome, &mut out),
            false => frame::encode(&pong, &mut out),
        }
        .expect("short");
        if stream.write_all(&out).await.is_err() {
            return;
        }
    }
}

impl Connect for Headless {
    type Transport = DuplexStream;

    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>> {
        let candidates = self.tcp.addresses.candidates(server);
        let servers = self.servers.clone();
        Box::pin(first_of(candidates, move |address| {
            let client = Self::accept(&servers, address);
            async { Ok(client) }
        }))
    }

    fn addresses(&mut self, servers: &[ServerAddress]) -> Vec<usize> {
        self.tcp.addresses(servers)
    }

    fn served(&mut self, server: &ServerAddress) {
        self.tcp.served(server);
    }
}

async fn connected(headless: &Headless) -> Client {
    let builder = Client::builder("headless").session_timeout(TIMEOUT);
    builder.connect_with(headless.clone()).await.expect("an address serves")
}

#[tokio::test(start_paused = true)]
async fn an_address_that_accepts_and_does_not_serve_does_not_starve_the_others() {
    let start = Instant::now();
    let headless = Headless::new([false, true, false]);
    let client = connected(&headless).await;
    // In any order.
    assert!(start.elapsed() <= TIMEOUT, "{:?}", start.elapsed());
    let tried = headless.connections();
    assert!(tried.len() <= 3 && tried.ends_with(&[1]), "{tried:?}");
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_session_finds_the_address_that_serves_before_its_lease_ends() {
    for after in [[true, false, false], [false, true, false], [false, false, true]] {
        let headless = Headless::new([true; 3]);
        let client = connected(&headless).await;
        let first = headless.connections();
        headless.servers.lock().unwrap().answers = after;
        // Until the silence is noticed, and a server that answers is found.
        let mut states = client.states();
        let mut lost = false;
        while headless.connections() == first || !matches!(client.state(), State::Connected { .. })
        {
            if after[first[0]] {
                break;
            }
            states.changed().await.expect("the client lives");
            lost |= client.lease_has_ended();
        }
        assert!(!lost, "{:?}", headless.connections());
    }
}
