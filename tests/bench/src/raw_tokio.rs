//! The floor of a session on tokio: one socket, one task, and a timer that never fires.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use zk_proto::frame;

use crate::changer::Changer;
use crate::raw;
use crate::report::{Figures, measured};
use crate::work::{Kind, PATH, Work};

pub(crate) const NAME: &str = "raw-tokio";

/// Returns whether a kind of work takes many polls of the runtime. For others its cost is small.
pub(crate) fn does(kind: Kind) -> bool {
    matches!(kind, Kind::SequentialGet | Kind::WatchesFired)
}

pub(crate) fn measure(at: &str, work: Work) -> io::Result<Figures> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.spawn(async { tokio::time::sleep(Duration::from_secs(600)).await });
    let mut connection = raw::Connection::connect(at)?;
    match work.kind {
        Kind::WatchesFired => {
            let mut changer = Changer::start(at, work.operations)?;
            connection.watch(&changer.paths, work)?;
            let mut connection = Connection::new(&runtime, connection)?;
            measured(work.operations, || {
                changer.change()?;
                let events = async move { connection.wait_for(work.operations).await };
                runtime.block_on(runtime.spawn(events))?.map(|()| Vec::new())
            })
        }
        _ => {
            let mut connection = Connection::new(&runtime, connection)?;
            let request = raw::encode(&raw::get(false, PATH))?;
            measured(work.operations, || {
                let reads = async move { connection.sequential(work, &request).await };
                runtime.block_on(runtime.spawn(reads))?
            })
        }
    }
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn new(runtime: &Runtime, connection: raw::Connection) -> io::Result<Self> {
        let _entered = runtime.enter();
        connection.stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(connection.stream)?;
        Ok(Self { stream, buffer: Vec::with_capacity(1 << 13) })
    }

    async fn wait_for(&mut self, frames: usize) -> io::Result<()> {
        let mut found = 0;
        while found < frames {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut rest = &self.buffer[..];
            while let Ok(Some((_, behind))) = frame::split(rest, frame::DEFAULT_LIMIT) {
                rest = behind;
                found += 1;
            }
            let left = rest.len();
            self.buffer.drain(..self.buffer.len() - left);
        }
        Ok(())
    }

    async fn sequential(&mut self, work: Work, request: &[u8]) -> io::Result<Vec<Duration>> {
        let mut latencies = Vec::with_capacity(work.operations);
        for _ in 0..work.operations {
            let start = Instant::now();
            self.stream.write_all(request).await?;
            self.wait_for(1).await?;
            latencies.push(start.elapsed());
        }
        Ok(latencies)
    }
}
