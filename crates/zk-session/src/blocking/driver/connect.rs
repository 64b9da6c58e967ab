//! Transports, and how to connect them to servers.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

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
    /// Look up names again each time.
    ///
    /// Each call has its own temporary thread, while another attempt may still run. No caller waits
    /// longer than `connect_timeout`; a later connection is dropped.
    ///
    /// # Errors
    ///
    /// Any error makes the session try another server.
    fn connect(
        &self,
        server: &ServerAddress,
        connect_timeout: Duration,
    ) -> io::Result<Self::Transport>;
}

/// Plain TCP, without delay.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnect;

impl Connect for TcpConnect {
    type Transport = TcpTransport;

    /// Connects to the address of the server that answers first. Tries the next address when the
    /// previous one has failed, or has not answered for 100 ms.
    fn connect(
        &self,
        server: &ServerAddress,
        connect_timeout: Duration,
    ) -> io::Result<TcpTransport> {
        let start = Instant::now();
        let addresses: Vec<_> = (server.host.as_str(), server.port).to_socket_addrs()?.collect();
        let connect = move |address: &SocketAddr| {
            let left = connect_timeout.saturating_sub(start.elapsed()).max(MIN_WAIT);
            TcpStream::connect_timeout(address, left)
        };
        TcpTransport::new(first_of(addresses, HEAD_START, connect)?)
    }
}

/// Returns the first connection made to one of the addresses. An attempt without an answer remains
/// in its own thread until it ends.
fn first_of<S: Send + 'static>(
    addresses: Vec<SocketAddr>,
    head_start: Duration,
    connect: impl Fn(&SocketAddr) -> io::Result<S> + Clone + Send + 'static,
) -> io::Result<S> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    if let [address] = &addresses[..] {
        return connect(address);
    }
    let results = Arc::new(Results { arrived: Mutex::default(), has_arrived: Condvar::new() });
    let mut addresses = addresses.into_iter();
    let mut running = 0;
    loop {
        if let Some(address) = addresses.next() {
            let (connect, theirs) = (connect.clone(), results.clone());
            let attempt = move || theirs.add(connect(&address));
            spawn("zookeeper-connect", Box::new(attempt))?;
            running += 1;
        } else if running == 0 {
            return Err(last);
        }
        match results.next(if addresses.len() > 0 { head_start } else { MAX_WAIT }) {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(error)) => {
                last = error;
                running -= 1;
            }
            None => {}
        }
    }
}

/// Results of threads, as they arrive. A channel of the standard library takes 13 kB of code.
struct Results<T> {
    arrived: Mutex<VecDeque<T>>,
    has_arrived: Condvar,
}

impl<T> Results<T> {
    fn add(&self, result: T) {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).push_back(result);
        self.has_arrived.notify_one();
    }

    /// Waits for the next result, at most for `timeout`.
    fn next(&self, timeout: Duration) -> Option<T> {
        let arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.has_arrived.wait_timeout_while(arrived, timeout, |it| it.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn an_address_that_drops_packets_does_not_delay_the_others() {
        let addresses: Vec<_> =
            (1..=4).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        let (end, swallowed) = mpsc::channel::<()>();
        let swallowed = Arc::new(Mutex::new(swallowed));
        let connect = move |address: &SocketAddr| match address.port() {
            1 | 3 => {
                let _ = swallowed.lock().unwrap().recv();
                Err(io::ErrorKind::TimedOut.into())
            }
            2 => Err(io::ErrorKind::ConnectionRefused.into()),
            port => Ok(port),
        };
        let made = first_of(addresses.clone(), Duration::ZERO, connect.clone());
        assert_eq!(made.unwrap(), 4);
        drop(end);
        let refused = first_of(addresses[..3].to_vec(), Duration::ZERO, connect.clone());
        assert!(refused.is_err());
        assert_eq!(first_of(addresses[3..].to_vec(), Duration::ZERO, connect.clone()).unwrap(), 4);
        let nowhere = first_of(Vec::new(), Duration::ZERO, connect);
        assert_eq!(nowhere.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
