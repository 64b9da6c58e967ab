//! Transports, and how to connect them to servers.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Poll, Waker};
use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::client::{AddressBook, Candidates};
use crate::connect_string::ServerAddress;
use crate::threads::spawn;

/// The write timeout of sockets, as good as zero: the rest is written later.
const WRITE_TIMEOUT: Duration = Duration::from_millis(1);
/// How long to wait for one address of a server before the next one is tried as well.
const HEAD_START: Duration = Duration::from_millis(100);
/// The shortest read timeout of a transport.
pub(in crate::blocking) const MIN_WAIT: Duration = Duration::from_millis(1);
/// The longest read timeout of a transport.
pub(in crate::blocking) const MAX_WAIT: Duration = Duration::from_secs(3600);

/// A transport to a server, before the handshake.
///
/// At most one thread at a time reads from it, and at most one writes to it meanwhile.
///
/// A transport with one state for both directions, such as TLS, keeps it in a mutex.
/// [`read`](Self::read) must not hold that mutex while it waits: wait for bytes of the
/// [`TcpTransport`] below, then decrypt them under the mutex. The `ClientConnection` of rustls does
/// not own its socket and suits this. Its `StreamOwned` owns one and does not.
///
/// All users of the client wait while it writes, flushes, shuts down or is dropped. So these must
/// not use the client or panic, and should not block.
///
/// ```
/// # #[cfg(unix)] {
/// use std::io::{Read, Result, Write};
/// use std::net::Shutdown;
/// use std::os::unix::net::UnixStream;
/// use std::time::Duration;
/// use zk_session::ServerAddress;
/// use zk_session::blocking::{Connect, Transport};
///
/// /// A proxy on this machine, whichever the server.
/// struct Proxy(&'static str);
/// struct Pipe(UnixStream);
///
/// impl Connect for Proxy {
///     type Transport = Pipe;
///
///     fn connect(&self, _: &ServerAddress, _timeout: Duration) -> Result<Pipe> {
///         let stream = UnixStream::connect(self.0)?;
///         stream.set_write_timeout(Some(Duration::from_millis(1)))?;
///         Ok(Pipe(stream))
///     }
/// }
///
/// impl Transport for Pipe {
///     fn read(&self, buffer: &mut [u8], read_timeout: Duration) -> Result<usize> {
///         self.0.set_read_timeout(Some(read_timeout))?;
///         (&self.0).read(buffer)
///     }
///
///     fn write(&self, bytes: &[u8]) -> Result<usize> {
///         (&self.0).write(bytes)
///     }
///
///     fn shutdown(&self) {
///         let _ = self.0.shutdown(Shutdown::Both);
///     }
/// }
/// # }
/// ```
pub trait Transport: Send + Sync + 'static {
    /// Waits for bytes, at most for `read_timeout`. Returns how many arrived, or 0 at the end of
    /// the stream. Called by one thread at a time, which may be one of the caller's.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) or [`TimedOut`](io::ErrorKind::TimedOut) if none
    /// arrived in time; `read` is then called again. Any other error but
    /// [`Interrupted`](io::ErrorKind::Interrupted) ends the connection.
    fn read(&self, buffer: &mut [u8], read_timeout: Duration) -> io::Result<usize>;

    /// Accepts some of the bytes, and returns how many. Sends them at the latest when it is
    /// [flushed](Self::flush).
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) or [`TimedOut`](io::ErrorKind::TimedOut) if there
    /// is no room; `write` is called again a little later. Other errors are handled as in
    /// [`read`](Self::read). `Ok(0)` ends the connection.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Sends the accepted bytes. Called after writes, before more is written. A transport that
    /// wraps another one must flush that, too.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write), if bytes are left.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    /// Ends the connection in both directions. May be called by any thread while others read and
    /// write; a waiting read must then return. Not called on connections that only probe a server
    /// or are made too late: those are dropped.
    fn shutdown(&self);
}

/// Makes connections: plain ones, encrypted ones, or pipes to a server within the process.
pub trait Connect: Send + Sync + 'static {
    /// The type of transports.
    type Transport: Transport;

    /// Connects to `server` within `connect_timeout`, including any handshake of the transport.
    ///
    /// The addresses of a name can change, and any of them can accept connections without serving
    /// the session. So begin each attempt with another one, or pass the calls on to a
    /// [`TcpConnect`], which does.
    ///
    /// Each call has its own temporary thread, while another attempt may still run. No caller waits
    /// longer than `connect_timeout`; a later connection is dropped. If the system has no thread, the
    /// session's own thread makes the call, and handles nothing else meanwhile.
    ///
    /// # Errors
    ///
    /// Any error makes the session try another server.
    fn connect(
        &self,
        server: &ServerAddress,
        connect_timeout: Duration,
    ) -> io::Result<Self::Transport>;

    /// Returns how many addresses each of the client's servers has, as far as known.
    ///
    /// The session makes one attempt for each address in a round, and divides its time limits by
    /// their number. Called with each attempt. A transport on top of another one should pass the
    /// call on to it.
    fn addresses(&self, servers: &[ServerAddress]) -> Vec<usize> {
        alloc::vec![1; servers.len()]
    }

    /// Reports that the latest connection to `server` has served the session. Called before the
    /// next attempt. A transport on top of another one should pass the call on to it.
    fn served(&self, server: &ServerAddress) {
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
    type Transport = TcpTransport;

    /// Connects to the address of the server that answers first. Tries the next address when the
    /// previous one has failed, or has not answered for 100 ms. Begins with an address that has not
    /// failed, or else with the one that was tried least recently.
    fn connect(
        &self,
        server: &ServerAddress,
        connect_timeout: Duration,
    ) -> io::Result<TcpTransport> {
        let candidates = self.addresses.candidates(server);
        let stream = first_of(candidates, HEAD_START, connect_timeout, TcpStream::connect_timeout);
        TcpTransport::new(stream?)
    }

    fn addresses(&self, servers: &[ServerAddress]) -> Vec<usize> {
        self.addresses.count(servers)
    }

    fn served(&self, server: &ServerAddress) {
        self.addresses.served(server);
    }
}

/// Returns the first connection made to one of the addresses. An attempt without an answer remains
/// in its own thread until it ends.
fn first_of<S: Send + 'static>(
    mut candidates: Candidates,
    head_start: Duration,
    connect_timeout: Duration,
    connect: impl Fn(&SocketAddr, Duration) -> io::Result<S> + Clone + Send + 'static,
) -> io::Result<S> {
    let start = Instant::now();
    let left = move || connect_timeout.saturating_sub(start.elapsed());
    let results = Arc::new(Results { arrived: Mutex::default(), has_arrived: Condvar::new() });
    let waker = Waker::from(results.clone());
    let mut last = None;
    let mut running = 0;
    loop {
        let mut wait = left();
        match candidates.poll_next(&waker) {
            Poll::Ready(Some(address)) => {
                let (connect, theirs) = (connect.clone(), results.clone());
                let attempt = move || {
                    theirs.add(Some((address, connect(&address, left().max(MIN_WAIT)))));
                };
                // Without a thread, another address gets its turn after this one.
                if candidates.is_single()
                    || spawn("zookeeper-connect", Box::new(attempt.clone())).is_err()
                {
                    attempt();
                }
                running += 1;
                wait = wait.min(head_start);
            }
            Poll::Ready(None) if running == 0 => {
                return Err(last.unwrap_or_else(|| candidates.error()));
            }
            Poll::Ready(None) | Poll::Pending => {}
        }
        if let Some((address, made)) = results.next(wait) {
            candidates.tried(address, &made);
            match made {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
            running -= 1;
        } else if left().is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Results of threads, as they arrive, and `None` for a look-up that has ended. A channel of the
/// standard library takes 13 kB of code.
struct Results<T> {
    arrived: Mutex<VecDeque<Option<T>>>,
    has_arrived: Condvar,
}

impl<T> Results<T> {
    fn add(&self, result: Option<T>) {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).push_back(result);
        self.has_arrived.notify_one();
    }

    /// Waits for the next result, at most for `timeout`, or until a look-up has ended.
    fn next(&self, timeout: Duration) -> Option<T> {
        let arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.has_arrived.wait_timeout_while(arrived, timeout, |it| it.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop_front().flatten()
    }
}

impl<T: Send + 'static> Wake for Results<T> {
    fn wake(self: Arc<Self>) {
        self.add(None);
    }
}

/// A TCP connection, also as a basis for other transports.
#[derive(Debug)]
pub struct TcpTransport {
    stream: TcpStream,
    /// The read timeout of the socket in milliseconds; 0 before it is set.
    read_timeout: AtomicU32,
}

impl TcpTransport {
    /// Prepares a socket as [`Transport`] requires.
    ///
    /// # Errors
    ///
    /// An error of the operating system.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok(Self { stream, read_timeout: AtomicU32::new(0) })
    }

    /// Returns the socket. Each read sets its read timeout; its write timeout stays.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sets the read timeout of the socket, unless the current one is close enough: a system call
    /// per request would be too much.
    fn set_read_timeout(&self, read_timeout: Duration) -> io::Result<()> {
        let read_timeout = read_timeout.clamp(MIN_WAIT, MAX_WAIT);
        let most = u32::try_from(read_timeout.as_millis()).unwrap_or(u32::MAX);
        let set = self.read_timeout.load(Ordering::Relaxed);
        if set > most || set < most.div_ceil(2) {
            self.stream.set_read_timeout(Some(Duration::from_millis(most.into())))?;
            self.read_timeout.store(most, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Transport for TcpTransport {
    fn read(&self, buffer: &mut [u8], read_timeout: Duration) -> io::Result<usize> {
        self.set_read_timeout(read_timeout)?;
        (&self.stream).read(buffer)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.stream).write(bytes)
    }

    fn shutdown(&self) {
        // The other side may have closed it already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Returns whether an error means that a read or write timeout has passed.
pub(in crate::blocking) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Retries until success, or until the time has passed.
pub(super) fn retry<T>(
    left: impl Fn() -> Duration,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if is_timeout(&error) && !left().is_zero() => thread::sleep(MIN_WAIT),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests;
