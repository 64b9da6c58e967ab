//! A connection for one request at a time, of any bytes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use zk_proto::{
    Decode, Encode, ErrorCode, OpCode, Reader, ReplyHeader, RequestHeader, Xid, frame, owned,
};
use zk_testkit::raw::RawClient;
use zk_testkit::real::RealEnsemble;
use zk_testkit::suite::HANG_TIMEOUT;

/// How long to wait for a reply that may never arrive.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection with its own session.
pub(crate) struct Line {
    stream: TcpStream,
}

impl Line {
    pub(crate) fn new(ensemble: &RealEnsemble) -> io::Result<Self> {
        Self::with_timeouts(ensemble, SESSION_TIMEOUT, READ_TIMEOUT)
    }

    /// Sends no pings, so that the session expires unless there are requests.
    pub(crate) fn with_timeouts(
        ensemble: &RealEnsemble,
        session: Duration,
        read: Duration,
    ) -> io::Result<Self> {
        let mut line = Self { stream: TcpStream::connect(ensemble.address(0))? };
        line.stream.set_read_timeout(Some(HANG_TIMEOUT))?;
        let session = i32::try_from(session.as_millis()).map_err(io::Error::other)?;
        line.stream.write_all(&RawClient::connect(session))?;
        line.read()?;
        line.stream.set_read_timeout(Some(read))?;
        Ok(line)
    }

    /// Ends the direction to the server.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    pub(crate) fn write(&mut self, message: &impl Encode) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame::encode(message, &mut bytes).map_err(io::Error::other)?;
        self.stream.write_all(&bytes)
    }

    /// Returns the next frame.
    pub(crate) fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut payload = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut payload)?;
        Ok(payload)
    }

    /// Returns the server's reply, or `None` if there is none.
    pub(crate) fn ask(&mut self, request: &owned::Request) -> Option<ErrorCode> {
        let header = RequestHeader { xid: Xid(1), opcode: request.opcode() };
        self.write(&(header, request)).ok()?;
        self.reply().ok().map(|(header, _)| header.err)
    }

    /// Sends a request with a body of any bytes.
    pub(crate) fn write_raw(&mut self, opcode: OpCode, body: &[&[u8]]) -> io::Result<()> {
        let body = body.concat();
        let length = u32::try_from(8 + body.len()).map_err(io::Error::other)?;
        let header = [length.to_be_bytes(), 1_i32.to_be_bytes(), opcode.0.to_be_bytes()];
        self.stream.write_all(&[&header.concat()[..], &body].concat())
    }

    /// Returns the header and the body of the next reply.
    pub(crate) fn reply(&mut self) -> io::Result<(ReplyHeader, Vec<u8>)> {
        loop {
            let payload = self.read()?;
            let mut reader = Reader::new(&payload);
            let header = ReplyHeader::decode(&mut reader).map_err(io::Error::other)?;
            if header.xid != Xid::NOTIFICATION {
                return Ok((header, reader.rest().to_vec()));
            }
        }
    }

    /// Sends a request with a body of any bytes. Returns the error code and the body of its reply.
    pub(crate) fn ask_raw(&mut self, opcode: OpCode, body: &[&[u8]]) -> (ErrorCode, Vec<u8>) {
        self.write_raw(opcode, body).expect("the peer reads");
        let (header, body) = self.reply().expect("a reply");
        (header.err, body)
    }
}
