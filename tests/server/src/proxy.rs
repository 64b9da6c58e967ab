//! [`Proxy`]: stands between clients and servers, cuts connections at chosen operations, and slows
//! them down.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt;
use core::future::poll_fn;
use core::net::{Ipv4Addr, SocketAddr};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};
use zk_proto::conversation::{Conversation, Direction, Kind};
use zk_proto::{ConnectResponse, Decode as _, OpCode, SessionId, frame};

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after a connection that could not be accepted, such as without a free file descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A session takes more for a server that refuses the operation.
const MOST_IN_A_ROW: usize = 2;

/// A limited connection forwards so many pieces in a second.
const PIECES: usize = 20;

/// When a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// Before the server receives the request.
    Before,
    /// After the server has replied, and before the client receives the reply.
    After,
}

/// A proxy with one loopback listener for each server. Each listener forwards its connections to its
/// server.
///
/// The proxy reads the messages, so neither side may encrypt them. It runs on its own thread.
/// Dropping it closes all connections.
#[derive(Debug)]
pub struct Proxy {
    addresses: Vec<String>,
    plan: Arc<Mutex<Plan>>,
    runtime: Option<Runtime>,
}

#[derive(Debug, Default)]
struct Plan {
    at: Option<(When, OpCode)>,
    rest: usize,
    /// The connections that this plan has cut of each session.
    of_sessions: BTreeMap<SessionId, usize>,
    cuts: Cuts,
    unreadable: Vec<String>,
    /// The bytes that each connection forwards in a second, in each direction.
    rate: Option<usize>,
    is_mute: bool,
}

/// The number of connections that were cut, by operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts(pub BTreeMap<(When, OpCode), usize>);

impl Proxy {
    /// Starts a proxy for the servers of a connect string.
    ///
    /// # Errors
    ///
    /// If an address is invalid, or no port or thread is free.
    pub fn start(servers: &str) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let plan = Arc::<Mutex<Plan>>::default();
        let mut addresses = Vec::new();
        for server in servers.split(',') {
            let server: SocketAddr = server.parse().map_err(io::Error::other)?;
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            addresses.push(listener.local_addr()?.to_string());
            let guard = runtime.enter();
            let listener = TcpListener::from_std(listener)?;
            drop(guard);
            runtime.spawn(listen(listener, server, plan.clone()));
        }
        Ok(Self { addresses, plan, runtime: Some(runtime) })
    }

    /// Returns the connect string of its listeners.
    pub fn connect_string(&self) -> String {
        self.addresses.join(",")
    }

    /// Cuts the next `count` connections that reach this operation, but at most two of each session.
    /// Replaces the earlier plan.
    pub fn cut(&self, when: When, operation: OpCode, count: usize) {
        let mut plan = lock(&self.plan);
        (plan.at, plan.rest, plan.of_sessions) = (Some((when, operation)), count, BTreeMap::new());
    }

    /// Cuts no more connections.
    pub fn heal(&self) {
        lock(&self.plan).at = None;
    }

    /// Forwards at most `rate` bytes a second, on each connection and in each direction. `None` takes
    /// the limit away.
    pub fn limit(&self, rate: Option<usize>) {
        lock(&self.plan).rate = rate;
    }

    /// Forwards requests only: what the servers send from now on is lost.
    pub fn mute(&self) {
        lock(&self.plan).is_mute = true;
    }

    /// Returns the cuts so far, by operation.
    pub fn cuts(&self) -> Cuts {
        lock(&self.plan).cuts.clone()
    }

    /// Returns why messages could not be read. Each ended its connection.
    pub fn unreadable(&self) -> Vec<String> {
        lock(&self.plan).unreadable.clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Dropping a runtime blocks, which panics on a thread that runs tasks.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Cuts {
    /// Returns the number of all cuts.
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }
}

impl fmt::Display for Cuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} connections cut", self.total())?;
        for ((when, operation), count) in &self.0 {
            write!(f, ", {count} {} {operation}", format!("{when:?}").to_lowercase())?;
        }
        Ok(())
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plan {
    /// Returns whether to cut the connection in place of this message, and counts it.
    fn cuts(&mut self, when: When, operation: Option<OpCode>, session: SessionId) -> bool {
        let at = operation.map(|operation| (when, operation));
        let of_session = self.of_sessions.get(&session).copied().unwrap_or_default();
        let is_cut = at.is_some() && at == self.at && self.rest > 0 && of_session < MOST_IN_A_ROW;
        if let Some(at) = at
            && is_cut
        {
            self.rest -= 1;
            self.of_sessions.insert(session, of_session + 1);
            *self.cuts.0.entry(at).or_default() += 1;
        }
        is_cut
    }
}

async fn listen(listener: TcpListener, server: SocketAddr, plan: Arc<Mutex<Plan>>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let plan = plan.clone();
        // A client whose server fails sees its connection end.
        tokio::spawn(async move { drop(pass_on(client, server, &plan).await) });
    }
}

async fn pass_on(mut client: TcpStream, server: SocketAddr, plan: &Mutex<Plan>) -> io::Result<()> {
    let mut server = timeout(CONNECT_TIMEOUT, TcpStream::connect(server)).await??;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let connection = Mutex::new((Conversation::new(frame::DEFAULT_LIMIT), SessionId::NONE));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let mut requests =
        pin!(forward(Direction::ToServer, from_client, to_server, &connection, plan));
    let mut replies = pin!(forward(Direction::ToClient, from_server, to_client, &connection, plan));
    poll_fn(|cx| match requests.as_mut().poll(cx) {
        Poll::Pending => replies.as_mut().poll(cx),
        end => end,
    })
    .await
}

/// Forwards the messages of one direction until the connection ends or is cut.
async fn forward(
    direction: Direction,
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    connection: &Mutex<(Conversation, SessionId)>,
    plan: &Mutex<Plan>,
) -> io::Result<()> {
    let when = match direction {
        Direction::ToServer => When::Before,
        Direction::ToClient => When::After,
    };
    let mut bytes = BytesMut::new();
    loop {
        let mut is_cut = from.read_buf(&mut bytes).await? == 0;
        let mut whole = 0;
        while !is_cut {
            let (conversation, session) = &mut *lock(connection);
            let read = conversation.read(direction, &bytes[whole..]).map_err(|error| {
                lock(plan).unreadable.push(format!("{error}"));
                io::Error::other(error)
            });
            let Some((message, _)) = read? else { break };
            if message.kind == Kind::ConnectResponse
                && let Ok(response) = ConnectResponse::decode_all(message.payload())
            {
                *session = response.session_id;
            }
            is_cut = lock(plan).cuts(when, message.opcode(), *session);
            whole += if is_cut { 0 } else { message.bytes.len() };
        }
        let mut rest = bytes.split_to(whole);
        if direction == Direction::ToClient && lock(plan).is_mute {
            rest.clear();
        }
        while !rest.is_empty() {
            let rate = lock(plan).rate;
            let piece = rate.map_or(rest.len(), |rate| rate.div_ceil(PIECES).min(rest.len()));
            to.write_all(&rest.split_to(piece)).await?;
            if rate.is_some() {
                sleep(Duration::from_secs(1) / PIECES as u32).await;
            }
        }
        if is_cut {
            return Ok(());
        }
    }
}
