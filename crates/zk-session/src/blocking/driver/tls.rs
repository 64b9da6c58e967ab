//! TLS over the connections that another [`Connect`] makes.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;
use std::io::{self, Read as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::connect::{Connect, MIN_WAIT, Transport, is_timeout, retry};
use crate::connect_string::ServerAddress;
use crate::tls::config::{TlsConfig, TlsConnection};

/// How much to read at once: the longest TLS record, with its header and what its cipher adds.
const READ: usize = 17 * 1024;

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
        let left = || end.saturating_duration_since(Instant::now());
        let name = self.tls.name_of(server)?;
        let inner = self.connect.connect(server, connect_timeout)?;
        let mut tls = TlsConnection::new(self.tls.clone(), name)?;
        let read = |buffer: &mut [u8]| match left() {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => inner.read(buffer, left.max(MIN_WAIT)),
        };
        let mut io = Joined { transport: &inner, read };
        retry(left, || tls.shake_hands(&mut io)).map_err(|error| match is_timeout(&error) {
            true => io::ErrorKind::TimedOut.into(),
            false => error,
        })?;
        Ok(TlsTransport { inner, tls: Mutex::new(tls), received: Mutex::default() })
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
/// The thread that reads waits for the transport with `received` locked, and locks `tls` only to
/// decipher. So others can write meanwhile.
pub(crate) struct TlsTransport<T> {
    inner: T,
    tls: Mutex<TlsConnection>,
    received: Mutex<Ciphertext>,
}

impl<T: Transport> TlsTransport<T> {
    fn decipher(&self, received: &mut Ciphertext, buffer: &mut [u8]) -> io::Result<usize> {
        let (room, mut rest) = (buffer.len(), buffer);
        let mut io =
            Joined { transport: &self.inner, read: |bytes: &mut [u8]| received.take(bytes) };
        lock(&self.tls).read(&mut rest, &mut io)?;
        Ok(room - rest.len())
    }

    /// Returns the transport to write to.
    fn output(&self) -> Joined<'_, T, ()> {
        Joined { transport: &self.inner, read: () }
    }
}

impl<T: Transport> Transport for TlsTransport<T> {
    fn read(&self, buffer: &mut [u8], read_timeout: Duration) -> io::Result<usize> {
        let mut received = lock(&self.received);
        let read = self.decipher(&mut received, buffer);
        if !read.as_ref().is_err_and(is_timeout) {
            return read;
        }
        received.fill(&self.inner, read_timeout)?;
        self.decipher(&mut received, buffer)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.tls).write(bytes, &mut self.output())
    }

    fn flush(&self) -> io::Result<()> {
        lock(&self.tls).flush(&mut self.output())
    }

    /// Says first that it ends, if that can be sent at once.
    fn shutdown(&self) {
        let _ = lock(&self.tls).close(&mut self.output());
        self.inner.shutdown();
    }
}

/// Ciphertext that has arrived.
#[derive(Default)]
struct Ciphertext {
    bytes: Box<[u8]>,
    /// The part that is not deciphered yet.
    unread: Range<usize>,
    has_ended: bool,
}

impl Ciphertext {
    /// Waits for more, in place of what is deciphered.
    fn fill(&mut self, transport: &impl Transport, read_timeout: Duration) -> io::Result<()> {
        if self.bytes.is_empty() {
            self.bytes = vec![0; READ].into();
        }
        let count = transport.read(&mut self.bytes, read_timeout)?;
        self.unread = 0..count;
        self.has_ended = count == 0;
        Ok(())
    }

    fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut unread = self.bytes.get(self.unread.clone()).unwrap_or_default();
        if unread.is_empty() && !self.has_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = unread.read(buffer)?;
        self.unread.start += count;
        Ok(count)
    }
}

/// How to read, and a transport that writes without waiting.
struct Joined<'a, T, R> {
    transport: &'a T,
    read: R,
}

impl<T, R: FnMut(&mut [u8]) -> io::Result<usize>> io::Read for Joined<'_, T, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (self.read)(buffer)
    }
}

impl<T: Transport, R> io::Write for Joined<'_, T, R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.transport.write(bytes)
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
        self.transport.flush()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
