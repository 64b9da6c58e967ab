//! TLS over the connections that another [`Connect`] makes.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustls::ClientConnection;

use super::connect::{Connect, MIN_WAIT, Transport, is_timeout};
use crate::blocking::Client;
use crate::client::ClientBuilder;
use crate::client::tls::TlsConfig;
use crate::connect_string::ServerAddress;

/// How much to read at once: the longest TLS record, with its header and what its cipher adds.
const READ: usize = 17 * 1024;

impl ClientBuilder<Client> {
    /// Encrypts the connections; without it, they are plain. Also encrypts those of
    /// [`connect_with`](Self::connect_with).
    ///
    /// The servers have another port for it, their `secureClientPort`.
    ///
    /// ```no_run
    /// use zk_session::TlsConfig;
    /// use zk_session::blocking::Client;
    ///
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let tls = TlsConfig::from_ca_pem(&std::fs::read("ca.pem")?)?
    ///     .client_certificate(&std::fs::read("client.pem")?, &std::fs::read("client.key")?)?;
    /// let client = Client::builder("zk1:2281,zk2:2281,zk3:2281").tls(tls).connect()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn tls(mut self, tls: TlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }
}

pub(crate) struct TlsConnect<C> {
    pub(crate) connect: C,
    pub(crate) tls: TlsConfig,
}

impl<C: Connect> Connect for TlsConnect<C> {
    type Transport = TlsTransport<C::Transport>;

    fn connect(
        &self,
        server: &ServerAddress,
        connect_timeout: Duration,
    ) -> io::Result<Self::Transport> {
        let end = Instant::now() + connect_timeout;
        let name = self.tls.name_of(server)?;
        let connection =
            ClientConnection::new(self.tls.rustls(), name).map_err(io::Error::other)?;
        let transport = TlsTransport {
            inner: self.connect.connect(server, connect_timeout)?,
            tls: self.tls.clone(),
            connection: Mutex::new(connection),
            received: Mutex::new(Ciphertext {
                bytes: vec![0; READ].into(),
                unread: 0..0,
                failure: None,
            }),
        };
        let mut io = Patient { transport: &transport.inner, end };
        let shaken = lock(&transport.connection).complete_io(&mut io);
        shaken.map_err(|error| self.tls.explain_handshake(error))?;
        Ok(transport)
    }

    fn addresses(&self, servers: &[ServerAddress]) -> Vec<usize> {
        self.connect.addresses(servers)
    }

    fn served(&self, server: &ServerAddress) {
        self.connect.served(server);
    }
}

/// TLS over another transport.
///
/// The thread that reads waits for the transport with `received` locked, and locks `connection`
/// only to decipher. So others can write meanwhile.
pub(crate) struct TlsTransport<T> {
    inner: T,
    tls: TlsConfig,
    connection: Mutex<ClientConnection>,
    received: Mutex<Ciphertext>,
}

/// Ciphertext that has arrived.
struct Ciphertext {
    bytes: Box<[u8]>,
    /// The part that is not deciphered yet.
    unread: Range<usize>,
    /// What failed behind bytes that the caller has received.
    failure: Option<io::Error>,
}

impl<T: Transport> TlsTransport<T> {
    /// Deciphers until `buffer` is full or nothing is left, because a short read reports that
    /// nothing more has arrived.
    fn decipher(&self, received: &mut Ciphertext, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(failure) = received.failure.take() {
            return Err(failure);
        }
        let mut count = 0;
        while count < buffer.len() {
            match self.decipher_some(received, &mut buffer[count..]) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if count == 0 => return Err(error),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    received.failure = Some(error);
                    break;
                }
            }
        }
        Ok(count)
    }

    fn decipher_some(&self, received: &mut Ciphertext, buffer: &mut [u8]) -> io::Result<usize> {
        let mut connection = lock(&self.connection);
        loop {
            match connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            let mut unread = received.bytes.get(received.unread.clone()).unwrap_or_default();
            if unread.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            received.unread.start += connection.read_tls(&mut unread)?;
            let processed = connection.process_new_packets();
            // There may be something to answer. What cannot be sent now is sent with the next request.
            let _ = self.send(&mut connection);
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    fn send(&self, connection: &mut ClientConnection) -> io::Result<()> {
        while connection.wants_write() {
            connection.write_tls(&mut Direct(&self.inner))?;
        }
        self.inner.flush()
    }
}

impl<T: Transport> Transport for TlsTransport<T> {
    fn read(&self, buffer: &mut [u8], read_timeout: Duration) -> io::Result<usize> {
        let mut received = lock(&self.received);
        let mut read = self.decipher(&mut received, buffer);
        if read.as_ref().is_err_and(is_timeout) {
            let count = self.inner.read(&mut received.bytes, read_timeout)?;
            received.unread = 0..count;
            if count == 0 {
                lock(&self.connection).read_tls(&mut io::empty())?;
            }
            read = self.decipher(&mut received, buffer);
        }
        read.or_else(|error| self.tls.explain_end(error).map(|()| 0))
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match lock(&self.connection).writer().write(bytes)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            taken => Ok(taken),
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.send(&mut lock(&self.connection))
    }

    /// Says first that it ends, if that can be sent at once.
    fn shutdown(&self) {
        let mut connection = lock(&self.connection);
        connection.send_close_notify();
        let _ = self.send(&mut connection);
        self.inner.shutdown();
    }
}

/// Writes without waiting.
struct Direct<'a, T>(&'a T);

impl<T: Transport> io::Write for Direct<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes)? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            count => Ok(count),
        }
    }

    /// Writes all records at once. A server that refuses the first may answer and hang up before the
    /// second is written, and the failure to write that would hide the answer.
    fn write_vectored(&mut self, records: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match records {
            [record] => self.write(record),
            records => {
                let bytes = records.iter().map(|record| &**record).collect::<Vec<_>>().concat();
                self.write(&bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Reads and writes until a deadline, for the handshake.
struct Patient<'a, T> {
    transport: &'a T,
    end: Instant,
}

impl<T: Transport> Patient<'_, T> {
    fn retry<R>(&self, mut attempt: impl FnMut(Duration) -> io::Result<R>) -> io::Result<R> {
        loop {
            let left = self.end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match attempt(left.max(MIN_WAIT)) {
                Err(error) if is_timeout(&error) => {}
                done => return done,
            }
        }
    }
}

impl<T: Transport> io::Read for Patient<'_, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.retry(|left| self.transport.read(buffer, left))
    }
}

impl<T: Transport> io::Write for Patient<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.retry(|_| Direct(self.transport).write(bytes))
    }

    fn write_vectored(&mut self, records: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.retry(|_| Direct(self.transport).write_vectored(records))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.retry(|_| self.transport.flush())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
