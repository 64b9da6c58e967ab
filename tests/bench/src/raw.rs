//! The floor: prepared frames over one blocking socket, whose replies are only counted.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use zk_proto::{
    Acl, ConnectRequest, CreateMode, CreateRequest, DeleteRequest, Encode, GetDataRequest, List,
    Request, RequestHeader, SessionId, SetDataRequest, Xid, Zxid, frame,
};

use crate::changer::Changer;
use crate::report::{Figures, measured};
use crate::work::{DATA, Kind, PATH, Work, child};

pub(crate) const NAME: &str = "raw-socket";

pub(crate) fn measure(at: &str, work: Work) -> io::Result<Figures> {
    let mut connection = Connection::connect(at)?;
    match work.kind {
        Kind::SequentialGet => {
            let request = encode(&get(false, PATH))?;
            measured(work.operations, || connection.sequential(work, &request))
        }
        Kind::CreateDelete256 => {
            let paths: Vec<_> = (0..work.in_flight / 2).map(child).collect();
            let pairs = paths.iter().flat_map(|path| [create(path), delete(path)]);
            let cycle = pairs.map(|request| encode(&request)).collect::<Result<Vec<_>, _>>()?;
            measured(work.operations, || connection.pipelined(work, &cycle))
        }
        Kind::WatchesFired => watches_fired(&mut connection, at, work),
        kind => {
            let request = match kind {
                Kind::PipelinedSet256 => {
                    Request::SetData(SetDataRequest { path: PATH, data: Some(&DATA), version: -1 })
                }
                _ => get(false, PATH),
            };
            let cycle = vec![encode(&request)?; work.in_flight];
            measured(work.operations, || connection.pipelined(work, &cycle))
        }
    }
}

pub(crate) fn get(watch: bool, path: &str) -> Request<'_> {
    Request::GetData(GetDataRequest { path, watch })
}

/// Encodes a request. All requests have the same xid.
pub(crate) fn encode(request: &Request<'_>) -> io::Result<Vec<u8>> {
    let header = RequestHeader { xid: Xid::FIRST, opcode: request.opcode() };
    framed(&(header, request))
}

fn handshake() -> io::Result<Vec<u8>> {
    framed(&ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout: 30_000,
        session_id: SessionId::NONE,
        password: Some(&[0; 16]),
        read_only: Some(false),
    })
}

fn framed(message: &impl Encode) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    frame::encode(message, &mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

pub(crate) fn create(path: &str) -> Request<'_> {
    const OPEN: &[Acl<'_>] = &[Acl::OPEN];
    let (data, mode) = (Some(&DATA[..]), CreateMode::PERSISTENT);
    Request::Create(CreateRequest { path, data, acl: List::new(OPEN), mode })
}

pub(crate) fn delete(path: &str) -> Request<'_> {
    Request::Delete(DeleteRequest { path, version: -1 })
}

fn watches_fired(connection: &mut Connection, at: &str, work: Work) -> io::Result<Figures> {
    let mut changer = Changer::start(at, work.operations)?;
    connection.watch(&changer.paths, work)?;
    measured(work.operations, || {
        changer.change()?;
        connection.replies.wait_for(work.operations).map(|_| Vec::new())
    })
}

pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    replies: Replies,
}

impl Connection {
    pub(crate) fn connect(at: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(at)?;
        stream.set_nodelay(true)?;
        let replies = Replies { stream: stream.try_clone()?, buffer: vec![0; 1 << 18], filled: 0 };
        let mut connection = Self { stream, replies };
        connection.exchange(&handshake()?, 1)?;
        Ok(connection)
    }

    /// Sends frames, and waits for this many replies and events.
    pub(crate) fn exchange(&mut self, frames: &[u8], answers: usize) -> io::Result<()> {
        self.stream.write_all(frames)?;
        self.replies.wait_for(answers).map(drop)
    }

    /// Sets a watch on each node.
    pub(crate) fn watch(&mut self, paths: &[String], work: Work) -> io::Result<()> {
        for paths in paths.chunks(work.in_flight) {
            let frames = paths.iter().map(|path| encode(&get(true, path)));
            let frames = frames.collect::<io::Result<Vec<_>>>()?;
            self.exchange(&frames.concat(), frames.len())?;
        }
        Ok(())
    }

    fn sequential(&mut self, work: Work, request: &[u8]) -> io::Result<Vec<Duration>> {
        let mut latencies = Vec::with_capacity(work.operations);
        for _ in 0..work.operations {
            let start = Instant::now();
            self.exchange(request, 1)?;
            latencies.push(start.elapsed());
        }
        Ok(latencies)
    }

    /// Sends the frames of `cycle` over and over. Each reply allows another request, so the window
    /// stays full.
    fn pipelined(&mut self, work: Work, cycle: &[Vec<u8>]) -> io::Result<Vec<Duration>> {
        let ends = cycle.iter().scan(0, |end, frame| {
            *end += frame.len();
            Some(*end)
        });
        let places: Vec<_> = core::iter::once(0).chain(ends).collect();
        let bytes = cycle.concat();
        let (mut sent, mut answered) = (0, 0);
        while answered < work.operations {
            let mut more = (answered + work.in_flight).min(work.operations) - sent;
            while more > 0 {
                let first = sent % cycle.len();
                let count = more.min(cycle.len() - first);
                self.stream.write_all(&bytes[places[first]..places[first + count]])?;
                sent += count;
                more -= count;
            }
            answered += self.replies.wait_for(1)?;
        }
        Ok(Vec::new())
    }
}

/// Counts frames.
struct Replies {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
}

impl Replies {
    /// Waits for at least `least` frames. Returns how many came.
    fn wait_for(&mut self, least: usize) -> io::Result<usize> {
        let mut frames = 0;
        while frames < least {
            let count = self.stream.read(&mut self.buffer[self.filled..])?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.filled += count;
            let mut rest = &self.buffer[..self.filled];
            while let Ok(Some((_, behind))) = frame::split(rest, frame::DEFAULT_LIMIT) {
                rest = behind;
                frames += 1;
            }
            let left = rest.len();
            self.buffer.copy_within(self.filled - left..self.filled, 0);
            self.filled = left;
        }
        Ok(frames)
    }
}
