//! TLS over any transport, for both clients.

use std::io::{self, BufRead as _, Read, Write};

use bytes::BufMut;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::TlsConfig;

/// One connection. Each function fails with [`WouldBlock`](io::ErrorKind::WouldBlock) where the
/// transport does, and is then called again.
pub(crate) struct TlsConnection {
    rustls: ClientConnection,
    config: TlsConfig,
    /// What failed behind bytes that the caller has received.
    failure: Option<io::Error>,
}

impl TlsConnection {
    pub(crate) fn new(config: TlsConfig, server_name: ServerName<'static>) -> io::Result<Self> {
        let rustls = ClientConnection::new(config.config.clone(), server_name);
        Ok(Self { rustls: rustls.map_err(io::Error::other)?, config, failure: None })
    }

    /// Continues the handshake until it is complete.
    pub(crate) fn shake_hands(&mut self, io: &mut (impl Read + Write)) -> io::Result<()> {
        self.try_handshake(io).map_err(|error| self.config.explain_handshake(error))
    }

    // Not by `complete_io` of rustls: that does not return while the transport has no room.
    fn try_handshake(&mut self, io: &mut (impl Read + Write)) -> io::Result<()> {
        while self.rustls.is_handshaking() {
            self.flush(io)?;
            if self.receive(io)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.flush(io)
    }

    /// Deciphers until `buffer` is full or nothing is left, because a short read reports that
    /// nothing more has arrived. Leaves `buffer` as it is at the end of the stream.
    pub(crate) fn read(
        &mut self,
        buffer: &mut impl BufMut,
        io: &mut (impl Read + Write),
    ) -> io::Result<()> {
        let room = buffer.remaining_mut();
        let read = self.failure.take().map_or_else(|| self.decipher(buffer, io), Err);
        match read {
            Err(error) if buffer.remaining_mut() == room => self.config.explain_end(error),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                self.failure = Some(error);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn decipher(
        &mut self,
        buffer: &mut impl BufMut,
        io: &mut (impl Read + Write),
    ) -> io::Result<()> {
        while buffer.has_remaining_mut() {
            let mut reader = self.rustls.reader();
            match reader.fill_buf() {
                Ok([]) => break,
                Ok(bytes) => {
                    let count = bytes.len().min(buffer.remaining_mut());
                    buffer.put_slice(bytes.get(..count).unwrap_or_default());
                    reader.consume(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.receive(io)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads ciphertext once.
    fn receive(&mut self, io: &mut (impl Read + Write)) -> io::Result<usize> {
        let count = self.rustls.read_tls(io)?;
        let processed = self.rustls.process_new_packets();
        // There may be something to answer. What cannot be sent now is sent with the next request.
        let _ = self.flush(io);
        processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(count)
    }

    /// Accepts some of the bytes, and returns how many. Makes room for them if there is none.
    pub(crate) fn write(&mut self, bytes: &[u8], io: &mut impl Write) -> io::Result<usize> {
        match self.rustls.writer().write(bytes)? {
            0 => {
                self.flush(io)?;
                self.rustls.writer().write(bytes)
            }
            taken => Ok(taken),
        }
    }

    /// Sends the accepted bytes, and what the protocol has to send.
    pub(crate) fn flush(&mut self, io: &mut impl Write) -> io::Result<()> {
        while self.rustls.wants_write() {
            if self.rustls.write_tls(io)? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        io.flush()
    }

    /// Says that the connection ends, if it has begun.
    pub(crate) fn close(&mut self, io: &mut impl Write) -> io::Result<()> {
        if self.rustls.is_handshaking() {
            return Ok(());
        }
        self.rustls.send_close_notify();
        self.flush(io)
    }
}
