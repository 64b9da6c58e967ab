//! [`Embedded`]: the in-memory ensemble, served over TCP on the loopback interface.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::future::poll_fn;
use core::net::SocketAddr;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use zk_proto::SessionId;

use crate::ports::Port;
use crate::server::{Config, ConnId, Ensemble, Output};

/// A ZooKeeper ensemble inside this process, on ports of the loopback interface.
///
/// Runs on the tokio runtime that it was started on. Dropping it stops everything.
#[derive(Debug)]
pub struct Embedded {
    shared: Arc<Shared>,
    ports: Vec<Port>,
    /// The task that accepts connections, for each server that is alive.
    listeners: Mutex<Vec<Option<JoinHandle<()>>>>,
    timer: JoinHandle<()>,
}

impl Embedded {
    /// Starts an ensemble of this many servers.
    ///
    /// # Errors
    ///
    /// If no port is free.
    pub async fn start(servers: usize) -> io::Result<Self> {
        Self::with_config(Config::servers(servers)).await
    }

    /// Starts an ensemble with these settings.
    ///
    /// # Errors
    ///
    /// If no port is free.
    pub async fn with_config(config: Config) -> io::Result<Self> {
        let ports = (0..config.servers.max(1)).map(|_| Port::reserve());
        let ports = ports.collect::<io::Result<Vec<_>>>()?;
        let mut listeners = Vec::new();
        for port in &ports {
            listeners.push(bind(port.address()).await?);
        }
        Ok(Self::on(ports, listeners, config))
    }

    /// Starts an ensemble with these settings on chosen ports: `first` and the next ones.
    ///
    /// # Errors
    ///
    /// If one of them is in use, or does not exist.
    pub async fn at(first: u16, config: Config) -> io::Result<Self> {
        if first == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (mut ports, mut listeners) = (Vec::new(), Vec::new());
        for number in (usize::from(first)..).take(config.servers.max(1)) {
            let port = Port::chosen(u16::try_from(number).map_err(io::Error::other)?);
            listeners.push(TcpListener::bind(port.address()).await?);
            ports.push(port);
        }
        Ok(Self::on(ports, listeners, config))
    }

    fn on(ports: Vec<Port>, listeners: Vec<TcpListener>, mut config: Config) -> Self {
        config.client_addresses = ports.iter().map(Port::address).collect();
        let shared = Arc::new(Shared::new(Ensemble::new(config)));
        let timer = tokio::spawn(run_timer(Arc::clone(&shared)));
        let embedded = Self { shared, ports, listeners: Mutex::default(), timer };
        for (server, listener) in listeners.into_iter().enumerate() {
            embedded.listen(server, listener);
        }
        embedded
    }

    /// Returns the connect string of all servers: `127.0.0.1:2181,127.0.0.1:2182`.
    pub fn connect_string(&self) -> String {
        let addresses: Vec<_> = self.ports.iter().map(|port| port.address().to_string()).collect();
        addresses.join(",")
    }

    /// Returns the address of one server. A client that has only this address stays there; one with
    /// several servers chooses at random.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn address(&self, server: usize) -> SocketAddr {
        self.ports[server].address()
    }

    /// Kills a server: its connections break, and new ones are refused.
    pub fn kill(&self, server: usize) {
        if let Some(listener) = lock(&self.listeners).get_mut(server).and_then(Option::take) {
            listener.abort();
        }
        self.shared.input(|ensemble, now| ensemble.kill(now, server));
    }

    /// Starts a server again, on the port it had.
    ///
    /// # Errors
    ///
    /// If the port is in use.
    pub async fn restart(&self, server: usize) -> io::Result<()> {
        let Some(port) = self.ports.get(server) else { return Ok(()) };
        if self.with(|ensemble| ensemble.is_alive(server)) {
            return Ok(());
        }
        let listener = bind(port.address()).await?;
        self.shared.input(|ensemble, now| ensemble.restart(now, server));
        self.listen(server, listener);
        Ok(())
    }

    /// Expires a session. Returns whether it existed.
    pub fn expire_session(&self, session: SessionId) -> bool {
        self.shared.input(|ensemble, now| ensemble.expire_session(now, session))
    }

    /// Calls `look` with the ensemble.
    pub fn with<T>(&self, look: impl FnOnce(&Ensemble) -> T) -> T {
        look(&lock(&self.shared.state).ensemble)
    }

    /// Calls `command` with the ensemble and the current time.
    pub fn command<T>(&self, command: impl FnOnce(&mut Ensemble, Duration) -> T) -> T {
        self.shared.input(command)
    }

    fn listen(&self, server: usize, listener: TcpListener) {
        let task = tokio::spawn(accept(Arc::clone(&self.shared), server, listener));
        let mut listeners = lock(&self.listeners);
        if listeners.len() <= server {
            listeners.resize_with(server + 1, || None);
        }
        listeners[server] = Some(task);
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.timer.abort();
        for listener in lock(&self.listeners).iter().flatten() {
            listener.abort();
        }
        let mut state = lock(&self.shared.state);
        state.is_stopped = true;
        for (_, link) in core::mem::take(&mut state.links) {
            link.close();
        }
    }
}

/// Binds a reserved port. It is free only when the runtime has dropped the previous listener, and no
/// process is being started, which has a copy of it until its program runs.
async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    for _ in 0..1000 {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            done => return done,
        }
    }
    TcpListener::bind(address).await
}

/// The ensemble and its outputs, shared by all tasks.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Signals that the next timeout may be earlier than the timer.
    timeout_changed: Notify,
    started: Instant,
    started_since_1970: Duration,
}

#[derive(Debug)]
struct State {
    ensemble: Ensemble,
    links: BTreeMap<ConnId, Arc<Pipe>>,
    /// The time that the timer sleeps for.
    armed: Option<Duration>,
    is_stopped: bool,
}

/// The output of one connection.
#[derive(Debug, Default)]
struct Pipe {
    outgoing: Mutex<Outgoing>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Outgoing {
    bytes: BytesMut,
    /// Whether no more output will follow.
    is_closed: bool,
}

impl Pipe {
    fn close(&self) {
        lock(&self.outgoing).is_closed = true;
        self.changed.notify_one();
    }
}

impl Shared {
    fn new(ensemble: Ensemble) -> Self {
        let state = State { ensemble, links: BTreeMap::new(), armed: None, is_stopped: false };
        Self {
            state: Mutex::new(state),
            timeout_changed: Notify::new(),
            started: Instant::now(),
            started_since_1970: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }

    /// Returns the time of the ensemble.
    fn now(&self) -> Duration {
        self.started_since_1970 + self.started.elapsed()
    }

    fn instant(&self, time: Duration) -> Instant {
        self.started + time.saturating_sub(self.started_since_1970)
    }

    /// Calls `input` with the ensemble and the current time, and passes on the outputs.
    fn input<T>(&self, input: impl FnOnce(&mut Ensemble, Duration) -> T) -> T {
        let mut state = lock(&self.state);
        let result = input(&mut state.ensemble, self.now());
        state.pass_on();
        let timeout = state.ensemble.poll_timeout();
        let is_earlier = match (timeout, state.armed) {
            (Some(timeout), Some(armed)) => timeout < armed,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_earlier {
            self.timeout_changed.notify_one();
        }
        result
    }
}

impl State {
    fn pass_on(&mut self) {
        while let Some(output) = self.ensemble.poll_output() {
            match output {
                Output::Send { conn, frame } => {
                    if let Some(link) = self.links.get(&conn) {
                        lock(&link.outgoing).bytes.extend_from_slice(&frame);
                        link.changed.notify_one();
                    }
                }
                Output::Close { conn } => {
                    if let Some(link) = self.links.remove(&conn) {
                        link.close();
                    }
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A test that panics in [`Embedded::with`] must not make others fail.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn run_timer(shared: Arc<Shared>) {
    loop {
        let next = {
            let mut state = lock(&shared.state);
            state.armed = state.ensemble.poll_timeout();
            state.armed
        };
        let changed = shared.timeout_changed.notified();
        let Some(next) = next else {
            changed.await;
            continue;
        };
        if timeout_at(shared.instant(next), changed).await.is_err() {
            shared.input(|ensemble, now| ensemble.handle_timeout(now));
        }
    }
}

async fn accept(shared: Arc<Shared>, server: usize, listener: TcpListener) {
    loop {
        // An error concerns one connection, or a lack of file descriptors that may pass.
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let mut state = lock(&shared.state);
        if !state.is_stopped
            && let Some(conn) = state.ensemble.handle_connect_from(server, peer.ip())
        {
            let link = Arc::new(Pipe::default());
            state.links.insert(conn, Arc::clone(&link));
            tokio::spawn(serve(Arc::clone(&shared), conn, link, stream));
        }
    }
}

async fn serve(shared: Arc<Shared>, conn: ConnId, link: Arc<Pipe>, stream: TcpStream) {
    // Replies are already combined into one write, so Nagle's algorithm would only cost time.
    let _ = stream.set_nodelay(true);
    let (receiver, sender) = stream.into_split();
    let (mut reading, mut writing) =
        (pin!(read(&shared, conn, receiver)), pin!(write(&link, sender)));
    poll_fn(|cx| match reading.as_mut().poll(cx) {
        Poll::Pending => writing.as_mut().poll(cx).map(drop),
        Poll::Ready(_) => Poll::Ready(()),
    })
    .await;
    lock(&shared.state).links.remove(&conn);
    shared.input(|ensemble, _| ensemble.handle_disconnect(conn));
}

async fn read(shared: &Shared, conn: ConnId, mut receiver: OwnedReadHalf) -> io::Result<()> {
    let mut buffer = BytesMut::with_capacity(64 * 1024);
    while receiver.read_buf(&mut buffer).await? > 0 {
        shared.input(|ensemble, now| ensemble.handle_bytes(now, conn, &buffer));
        buffer.clear();
    }
    Ok(())
}

/// Writes the output that has accumulated since the last write, until no more will follow.
async fn write(link: &Pipe, mut sender: OwnedWriteHalf) -> io::Result<()> {
    loop {
        let (mut bytes, is_closed) = {
            let mut outgoing = lock(&link.outgoing);
            (outgoing.bytes.split(), outgoing.is_closed)
        };
        if !bytes.is_empty() {
            sender.write_all_buf(&mut bytes).await?;
        } else if is_closed {
            return sender.shutdown().await;
        } else {
            link.changed.notified().await;
        }
    }
}
