//! What a client has recorded about itself: its connections.

use std::collections::BTreeMap;
use std::time::Duration;

use zk_proto::conversation::Direction;
use zk_proto::recording::{FieldReader, Kind, Malformed, Reader, Record, Writer};

use crate::Failure;
use crate::output::Output;

/// Returns whether the bytes are such a recording.
pub(crate) fn is_recording(bytes: &[u8]) -> bool {
    bytes.starts_with(&Writer::MAGIC)
}

/// Shows the messages of a recording. Zeros stand for what it leaves out.
pub(crate) fn read(recording: &[u8], output: &mut Output) -> Result<(), Failure> {
    let (start, servers, server) = Default::default();
    let submitted = BTreeMap::new();
    let mut connections = Connections { output, start, servers, server, open: None, submitted };
    for record in Reader::new(recording)? {
        connections.add(&record?)?;
    }
    connections.close()
}

struct Connections<'o> {
    output: &'o mut Output,
    /// What to add to the client's times, so that they count from 1970.
    start: Duration,
    servers: Vec<String>,
    /// The server of the current attempt to connect.
    server: String,
    open: Option<usize>,
    /// Requests that are not sent yet, by their xids.
    submitted: BTreeMap<u64, Vec<u8>>,
}

impl Connections<'_> {
    fn add(&mut self, record: &Record<'_>) -> Result<(), Failure> {
        let mut fields = record.fields();
        match record.kind {
            Kind::BEGIN => {
                self.start = Duration::from_nanos(fields.number()?).saturating_sub(record.time);
            }
            Kind::SERVERS => self.servers = names(&mut fields)?,
            Kind::ACTION => {
                let (action, server) = (fields.number()?, fields.small::<usize>()?);
                self.close()?;
                if action == 0 {
                    let unnamed = || format!("server {}", server + 1);
                    self.server = self.servers.get(server).cloned().unwrap_or_else(unnamed);
                }
            }
            Kind::CONNECTED => {
                self.close()?;
                self.open(true)?;
            }
            Kind::DISCONNECTED => self.close()?,
            Kind::SUBMIT => {
                let (xid, _deadline, _pieces) =
                    (fields.number()?, fields.number()?, fields.number()?);
                let (opcode, body) = (fields.signed()?, fields.message()?);
                let header = [8 + body.len() as u32, xid as u32, opcode as u32];
                let frame = [header.map(u32::to_be_bytes).as_flattened(), &body].concat();
                if xid != 0 {
                    self.submitted.insert(xid, frame);
                }
            }
            Kind::SENT => {
                let (_bytes, count) = (fields.number()?, fields.number()?);
                for _ in 0..count {
                    let frame = match fields.number()? {
                        0 => self.submitted.remove(&fields.number()?).unwrap_or_default(),
                        _ => fields.message()?,
                    };
                    self.bytes(Direction::ToServer, &frame, record.time)?;
                }
            }
            Kind::FRAME => {
                let payload = fields.message()?;
                let frame = [&(payload.len() as u32).to_be_bytes()[..], &payload].concat();
                self.bytes(Direction::ToClient, &frame, record.time)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The beginning of a connection may be missing.
    fn open(&mut self, is_whole: bool) -> Result<usize, Failure> {
        let connection = self.output.open_captured("client", &self.server, is_whole)?;
        self.open = Some(connection);
        Ok(connection)
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.open.take().map_or(Ok(()), |connection| self.output.close(connection))
    }

    fn bytes(&mut self, direction: Direction, bytes: &[u8], time: Duration) -> Result<(), Failure> {
        let connection = match self.open {
            Some(connection) => connection,
            None => self.open(false)?,
        };
        self.output.bytes(connection, direction, bytes, Some(self.start + time))
    }
}

fn names(fields: &mut FieldReader<'_>) -> Result<Vec<String>, Malformed> {
    let count = fields.number()?;
    (0..count).map(|_| Ok(String::from_utf8_lossy(fields.bytes()?).into_owned())).collect()
}
