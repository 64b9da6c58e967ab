//! How a server is reached, and what a connection to it can do.

use alloc::string::ToString as _;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use crate::connect_string::ServerAddress;

/// How long a write may find no room before the rest is left for later. It is as good as none.
const WRITE_TIMEOUT: Duration = Duration::from_millis(1);
/// How long an address of a server may take before the next one is tried, too.
const HEAD_START: Duration = Duration::from_millis(100);
/// The shortest time that a transport is asked to wait.
pub(in crate::blocking) const MIN_WAIT: Duration = Duration::from_millis(1);
/// The longest time that a transport is asked to wait.
pub(in crate::blocking) const MAX_WAIT: Duration = Duration::from_secs(3600);

/// A connection to a server, before anything has been said on it.
///
/// One thread at a time reads from it, and meanwhile others write to it: one at a time, each with a
/// request of its own.
///
/// A transport with one state for both directions, such as TLS, keeps it in a mutex.
/// [`read`](Self::read) must not hold that mutex while it waits: wait for bytes of the
/// [`TcpTransport`] beneath, then decipher them under the mutex. The `ClientConnection` of rustls
/// has no socket of its own and suits this. Its `StreamOwned` has one and does not.
///
/// What writes, flushes, shuts down or is dropped has every user of the client wait, so it must not
/// use the client itself, nor panic, and should not block.
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
    /// Waits for bytes, no longer than `read_timeout`, and says how many came; 0 if no more will.
    /// Called by one thread at a time, be it one of the caller's.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) or [`TimedOut`](io::ErrorKind::TimedOut) if none
    /// came in time; it is called again then. Any other but
    /// [`Interrupted`](io::ErrorKind::Interrupted) ends the connection.
    fn read(&self, buffer: &mut [u8], read_timeout: Duration) -> io::Result<usize>;

    /// Takes some of the bytes, and says how many. Those that it takes it sends, at the latest when
    /// it is [flushed](Self::flush).
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) or [`TimedOut`](io::ErrorKind::TimedOut) if there
    /// is no room for any; it is called again a little later then. Others as in
    /// [`read`](Self::read). To take none and say `Ok(0)` ends the connection.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Sends what was taken and is not sent yet. Called behind whatever is written, before more is.
    /// Whoever wraps another transport hands this on as well.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), if something is left.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    /// Ends the connection in both directions. Called by any thread while others read and write;
    /// a read that waits must return then, in whatever way. A connection that only asks a server
    /// whether it can write, or comes too late, is dropped without.
    fn shutdown(&self);
}

/// Makes connections: plain ones, encrypted ones, or pipes to a server within the process.
pub trait Connect: Send + Sync + 'static {
    /// What it makes.
    type Transport: Transport;

    /// Connects to `server` within `connect_timeout`, including any handshake of the transport.
    /// Look up names anew each time.
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

    /// Connects to the address of the server that answers first. Each further address is tried when
    /// the one before it has failed, or has not answered for 100 ms.
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

/// The first connection that is made to one of the addresses. An attempt that does not answer is
/// left behind, in a thread of its own, for as long as it takes.
fn first_of<S: Send + 'static>(
    addresses: Vec<SocketAddr>,
    head_start: Duration,
    connect: impl Fn(&SocketAddr) -> io::Result<S> + Clone + Send + 'static,
) -> io::Result<S> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    if let [address] = &addresses[..] {
        return connect(address);
    }
    let (sender, made) = mpsc::channel();
    let mut left = addresses.len();
    for address in addresses {
        left -= 1;
        let (connect, sender) = (connect.clone(), sender.clone());
        let attempt = move || drop(sender.send(connect(&address)));
        thread::Builder::new().name("zookeeper-connect".to_string()).spawn(attempt)?;
        if left > 0 {
            match made.recv_timeout(head_start) {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => {}
            }
        }
    }
    drop(sender);
    for made in made {
        match made {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A connection by TCP, also for transports of yours to be built on.
#[derive(Debug)]
pub struct TcpTransport {
    stream: TcpStream,
    /// How long the socket waits for something to arrive, in milliseconds; 0 before it is set.
    read_timeout: AtomicU32,
}

impl TcpTransport {
    /// Sets a socket up as [`Transport`] asks for.
    ///
    /// # Errors
    ///
    /// Those of the operating system.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok(Self { stream, read_timeout: AtomicU32::new(0) })
    }

    /// The socket. Its read timeout is set anew with each read; its write timeout is not.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The deadline of the session moves with every request; the socket's read timeout need not, if
    /// it is less.
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
        // It may be cut already, from the other side.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Whether a transport has only waited as long as it was asked to.
pub(in crate::blocking) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn an_address_that_swallows_packets_does_not_keep_the_others_from_being_reached() {
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
