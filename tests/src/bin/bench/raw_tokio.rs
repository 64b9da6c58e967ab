//! The floor of a session on tokio: one of its sockets, one task, a timer that is far away, and
//! nothing else.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zk_proto::frame;

use crate::raw;
use crate::report::{Figures, measured};
use crate::work::{PATH, Work};

pub(crate) const NAME: &str = "raw-tokio";

/// Reads, one by one: what tokio adds to work in bulk is small.
pub(crate) fn measure(at: &str, work: Work) -> io::Result<Figures> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut link = runtime.block_on(Link::connect(at))?;
    runtime.spawn(async { tokio::time::sleep(Duration::from_secs(600)).await });
    let request = raw::encode(&raw::get(false, PATH))?;
    measured(work.operations, || {
        runtime.block_on(runtime.spawn(async move { link.sequential(work, &request).await }))?
    })
}

struct Link {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Link {
    async fn connect(at: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(at).await?;
        stream.set_nodelay(true)?;
        let mut link = Self { stream, buffer: Vec::with_capacity(1 << 13) };
        link.exchange(&raw::handshake()?).await?;
        Ok(link)
    }

    /// Sends a frame, and waits for one.
    async fn exchange(&mut self, frame: &[u8]) -> io::Result<()> {
        self.stream.write_all(frame).await?;
        self.buffer.clear();
        while let Ok(None) = frame::split(&self.buffer, frame::DEFAULT_LIMIT) {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    async fn sequential(&mut self, work: Work, request: &[u8]) -> io::Result<Vec<Duration>> {
        let mut latencies = Vec::with_capacity(work.operations);
        for _ in 0..work.operations {
            let start = Instant::now();
            self.exchange(request).await?;
            latencies.push(start.elapsed());
        }
        Ok(latencies)
    }
}
