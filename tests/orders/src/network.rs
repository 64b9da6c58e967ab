//! A server in a thread of its own, and connections to it within the process.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shuttle::sync::{Condvar, Mutex, MutexGuard};
use shuttle::thread::{self, JoinHandle};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zk_session::time::Instant;
use zk_session::{ServerAddress, blocking};
use zk_test_server::server::{Config, ConnId, Ensemble, Output};

/// The longest read timeout that passes by itself.
const SHORT: Duration = Duration::from_millis(500);

/// A server, and the connections to it.
#[derive(Clone)]
pub(super) struct Network(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The number of times that a clock was read.
    ticks: AtomicU64,
    /// An injected bug: readers are woken before their bytes are there.
    wakes_early: bool,
}

struct State {
    ensemble: Ensemble,
    now: Duration,
    /// What the server has not handled yet.
    inbox: VecDeque<Input>,
    streams: BTreeMap<ConnId, Stream>,
    is_stopped: bool,
}

enum Input {
    Bytes(ConnId, Vec<u8>),
    End(ConnId),
    ExpireAll,
}

/// What the server has sent on a connection, and the client has not read.
#[derive(Default)]
struct Stream {
    bytes: VecDeque<u8>,
    is_over: bool,
    reader: Option<Waker>,
}

impl Network {
    pub(super) fn new() -> Self {
        Self::with(false)
    }

    pub(super) fn waking_early() -> Self {
        Self::with(true)
    }

    fn with(wakes_early: bool) -> Self {
        let state = State {
            ensemble: Ensemble::new(Config::servers(1)),
            now: Duration::ZERO,
            inbox: VecDeque::new(),
            streams: BTreeMap::new(),
            is_stopped: false,
        };
        let (changed, ticks) = (Condvar::new(), AtomicU64::new(0));
        Self(Arc::new(Shared { state: Mutex::new(state), changed, ticks, wakes_early }))
    }

    /// Returns how many handles there are. A client and its threads have some.
    pub(super) fn handles(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no panic")
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.0.changed.wait(state).expect("no panic")
    }

    /// Returns a clock that advances by a millisecond whenever it is read.
    pub(super) fn clock(&self) -> impl Fn() -> Instant + Send + Sync + 'static {
        let shared = self.0.clone();
        move || {
            let ticks = shared.ticks.fetch_add(1, Ordering::Relaxed);
            Instant::after_start(Duration::from_millis(ticks))
        }
    }

    /// Starts the server.
    pub(super) fn serve(&self) -> Server {
        let network = self.clone();
        Server { network: self.clone(), thread: Some(thread::spawn(move || network.run())) }
    }

    fn run(&self) {
        let mut state = self.state();
        while !state.is_stopped {
            match state.inbox.pop_front() {
                Some(input) => {
                    if self.0.wakes_early {
                        drop(state);
                        self.0.changed.notify_all();
                        state = self.state();
                    }
                    let readers = state.handle(input);
                    drop(state);
                    if !self.0.wakes_early {
                        self.0.changed.notify_all();
                    }
                    readers.into_iter().for_each(Waker::wake);
                    state = self.state();
                }
                None => state = self.wait(state),
            }
        }
    }

    /// Expires all sessions.
    pub(super) fn expire_all(&self) {
        self.send(Input::ExpireAll);
    }

    fn send(&self, input: Input) {
        self.state().inbox.push_back(input);
        self.0.changed.notify_all();
    }

    /// Opens a connection.
    pub(super) fn open(&self) -> Connection {
        let mut state = self.state();
        let conn = state.ensemble.handle_connect(0).expect("the server is alive");
        state.streams.insert(conn, Stream::default());
        Connection { network: self.clone(), conn }
    }
}

impl State {
    /// Returns the wakers of those that read.
    fn handle(&mut self, input: Input) -> Vec<Waker> {
        self.now += Duration::from_millis(1);
        match input {
            Input::Bytes(conn, bytes) => self.ensemble.handle_bytes(self.now, conn, &bytes),
            Input::End(conn) => self.ensemble.handle_disconnect(conn),
            Input::ExpireAll => {
                for session in self.ensemble.sessions().collect::<Vec<_>>() {
                    self.ensemble.expire_session(self.now, session);
                }
            }
        }
        let mut readers = Vec::new();
        while let Some(output) = self.ensemble.poll_output() {
            let (Output::Send { conn, .. } | Output::Close { conn }) = &output;
            let Some(stream) = self.streams.get_mut(conn) else { continue };
            match &output {
                Output::Send { frame, .. } => stream.bytes.extend(frame.iter().copied()),
                Output::Close { .. } => stream.is_over = true,
            }
            readers.extend(stream.reader.take());
        }
        readers
    }
}

/// The thread of a server. Dropping it waits for its end.
pub(super) struct Server {
    network: Network,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Stops the server after it has handled everything, and checks that no session is left.
    pub(super) fn finish(mut self) {
        let mut state = self.network.state();
        while !state.inbox.is_empty() || state.ensemble.sessions().next().is_some() {
            state = self.network.wait(state);
        }
        let is_left = |path: &&str| path.contains("_c_");
        assert_eq!(state.ensemble.paths().find(is_left), None);
        state.is_stopped = true;
        drop(state);
        self.network.0.changed.notify_all();
        self.thread.take().into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}

/// The client's end of a connection.
pub(super) struct Connection {
    network: Network,
    conn: ConnId,
}

impl Connection {
    fn end(&self) -> Option<Waker> {
        let mut state = self.network.state();
        let stream = state.streams.entry(self.conn).or_default();
        stream.is_over = true;
        let reader = stream.reader.take();
        state.inbox.push_back(Input::End(self.conn));
        drop(state);
        self.network.0.changed.notify_all();
        reader
    }

    fn read_into(stream: &mut Stream, most: usize) -> Option<Vec<u8>> {
        let count = stream.bytes.len().min(most);
        (count > 0 || stream.is_over).then(|| stream.bytes.drain(..count).collect())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !shuttle::thread::panicking() {
            drop(self.end());
        }
    }
}

// ---- For threads --------------------------------------------------------------------------------

impl blocking::Transport for Connection {
    fn read(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<usize> {
        let mut state = self.network.state();
        let mut has_waited = false;
        loop {
            let stream = state.streams.entry(self.conn).or_default();
            if let Some(bytes) = Self::read_into(stream, buffer.len()) {
                buffer[..bytes.len()].copy_from_slice(&bytes);
                return Ok(bytes.len());
            }
            if timeout > SHORT {
                state = self.network.wait(state);
            } else if has_waited {
                return Err(io::ErrorKind::WouldBlock.into());
            } else {
                drop(state);
                thread::yield_now();
                has_waited = true;
                state = self.network.state();
            }
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.network.send(Input::Bytes(self.conn, bytes.to_vec()));
        Ok(bytes.len())
    }

    fn shutdown(&self) {
        self.end();
    }
}

impl blocking::Connect for Network {
    type Transport = Connection;

    fn connect(&self, _: &ServerAddress, _: Duration) -> io::Result<Connection> {
        Ok(self.open())
    }
}

// ---- For tasks ----------------------------------------------------------------------------------

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.network.state();
        let stream = state.streams.entry(self.conn).or_default();
        match Self::read_into(stream, buffer.remaining()) {
            Some(bytes) => {
                buffer.put_slice(&bytes);
                Poll::Ready(Ok(()))
            }
            None => {
                stream.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.network.send(Input::Bytes(self.conn, bytes.to_vec()));
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }
}

impl zk_session::Connect for Network {
    type Transport = Connection;

    fn connect(
        &mut self,
        _: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<Connection>> + Send>> {
        let connection = self.open();
        Box::pin(async { Ok(connection) })
    }
}
