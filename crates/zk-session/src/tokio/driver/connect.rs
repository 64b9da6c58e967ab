//! Transports, and how to connect them to servers.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Poll, ready};
use core::time::Duration;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::client::{AddressBook, Candidates};
use crate::connect_string::ServerAddress;
use crate::threads::{Sleep, sleep};

/// How long to wait for one address of a server before the next one is tried as well.
const HEAD_START: Duration = Duration::from_millis(100);

/// A transport to a server, before the handshake.
///
/// The client's task reads from it. That task, or a method of the client on any thread, writes to
/// it. Calls come one at a time, always with the waker of the client's task. All users of the
/// client wait meanwhile: the transport must not use the client, and should not block. A panic ends
/// the session as if it were closed.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Transport for T {}

/// Makes connections: plain ones, encrypted ones, or pipes to a server within the process. A panic
/// ends the session as if it were closed.
pub trait Connect: Send + 'static {
    /// The type of transports.
    type Transport: Transport;

    /// Connects to `server`. May use the client, but must not wait for an answer, which needs this
    /// connection.
    ///
    /// The addresses of a name can change, and any of them can accept connections without serving
    /// the session. So begin each attempt with another one, or pass the calls on to a
    /// [`TcpConnect`], which does.
    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<Self::Transport>> + Send>>;

    /// Returns how many addresses each of the client's servers has, as far as known.
    ///
    /// The session makes one attempt for each address in a round, and divides its time limits by
    /// their number. Called with each attempt. A transport on top of another one should pass the
    /// call on to it.
    fn addresses(&mut self, servers: &[ServerAddress]) -> Vec<usize> {
        alloc::vec![1; servers.len()]
    }

    /// Reports that the latest connection to `server` has served the session. Called before the
    /// next attempt. A transport on top of another one should pass the call on to it.
    fn served(&mut self, server: &ServerAddress) {
        let _ = server;
    }
}

/// Plain TCP, without delay.
///
/// It remembers the addresses of each name, and which of them have failed. Names are looked up
/// again with each attempt, in threads of their own. Meanwhile the attempt uses the addresses that
/// are known. At most one look-up for each name is under way. Clones share what they know.
#[derive(Clone, Debug, Default)]
pub struct TcpConnect {
    addresses: AddressBook,
}

impl Connect for TcpConnect {
    type Transport = TcpStream;

    /// Connects to the address of the server that answers first. Tries the next address when the
    /// previous one has failed, or has not answered for 100 ms. Begins with an address that has not
    /// failed, or else with the one that was tried least recently.
    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>> {
        let candidates = self.addresses.candidates(server);
        Box::pin(async move {
            let stream = first_of(candidates, TcpStream::connect).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
    }

    fn addresses(&mut self, servers: &[ServerAddress]) -> Vec<usize> {
        self.addresses.count(servers)
    }

    fn served(&mut self, server: &ServerAddress) {
        self.addresses.served(server);
    }
}

/// Returns the first connection made to one of the addresses.
async fn first_of<S, F: Future<Output = io::Result<S>>>(
    mut candidates: Candidates,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<S> {
    // In tasks of their own, they would take more code. There are few, and each wakes all.
    let mut attempts: Vec<(SocketAddr, Pin<Box<F>>)> = Vec::new();
    let mut head_start: Option<Pin<Box<Sleep>>> = None;
    let mut last = None;
    poll_fn(move |cx| {
        loop {
            let mut place = 0;
            while let Some((address, attempt)) = attempts.get_mut(place) {
                let Poll::Ready(made) = attempt.as_mut().poll(cx) else {
                    place += 1;
                    continue;
                };
                candidates.tried(*address, &made);
                drop(attempts.swap_remove(place));
                match made {
                    Ok(stream) => return Poll::Ready(Ok(stream)),
                    Err(error) => (last, head_start) = (Some(error), None),
                }
            }
            if let Some(waits) = &mut head_start {
                ready!(waits.as_mut().poll(cx));
                head_start = None;
            }
            match candidates.poll_next(cx.waker()) {
                Poll::Ready(Some(address)) => {
                    attempts.push((address, Box::pin(connect(address))));
                    head_start = Some(Box::pin(sleep(HEAD_START)));
                }
                Poll::Ready(None) if attempts.is_empty() => {
                    return Poll::Ready(Err(last.take().unwrap_or_else(|| candidates.error())));
                }
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
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
        let addresses: Vec<_> =
            (1..=4).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
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
            while headless.connections() == first
                || !matches!(client.state(), State::Connected { .. })
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
}
