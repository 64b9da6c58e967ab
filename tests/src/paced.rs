//! Connections that deliver the frames of a server one by one.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use zk_proto::{Decode, Reader, Xid, frame};
use zk_session::{Connect, ServerAddress, TcpConnect};

/// Makes TCP connections that can hold watch events back.
#[derive(Clone, Debug, Default)]
pub struct PacedConnect {
    /// The number of watch events to wait for.
    held: Arc<AtomicUsize>,
}

impl PacedConnect {
    /// Holds back what the server sends until `count` watch events have arrived. Then delivers one
    /// frame at a time. Between two frames, one read finds nothing, as if the server had written
    /// them a moment apart; no clock is involved.
    pub fn hold_events(&self, count: usize) {
        self.held.store(count, Ordering::Relaxed);
    }
}

impl Connect for PacedConnect {
    type Transport = Paced;

    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<Paced>> + Send>> {
        let (connecting, held) = (TcpConnect::default().connect(server), self.held.clone());
        Box::pin(async move {
            let stream = connecting.await?;
            Ok(Paced { stream, held, arrived: Vec::new(), frames: VecDeque::new(), rests: false })
        })
    }
}

/// A connection that can hold watch events back.
#[derive(Debug)]
pub struct Paced {
    stream: TcpStream,
    held: Arc<AtomicUsize>,
    /// Bytes received while events are held back, up to the end of the last whole frame.
    arrived: Vec<u8>,
    frames: VecDeque<Vec<u8>>,
    /// Whether the next read finds nothing.
    rests: bool,
}

impl Paced {
    /// Splits the received bytes after the last whole frame.
    fn split(&mut self) {
        while let Some((prefix, rest)) = self.arrived.split_first_chunk::<{ frame::PREFIX_LEN }>()
            && let length = u32::from_be_bytes(*prefix) as usize
            && rest.len() >= length
        {
            let after = self.arrived.split_off(frame::PREFIX_LEN + length);
            let whole = core::mem::replace(&mut self.arrived, after);
            self.frames.push_back(whole);
        }
    }

    fn events(&self) -> usize {
        let xid = |frame: &Vec<u8>| Xid::decode(&mut Reader::new(&frame[frame::PREFIX_LEN..])).ok();
        self.frames.iter().filter(|frame| xid(frame) == Some(Xid::NOTIFICATION)).count()
    }
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let held = self.held.load(Ordering::Relaxed);
        while held > self.events() {
            let mut bytes = [0; 1024];
            let mut into = ReadBuf::new(&mut bytes);
            let result = Pin::new(&mut self.stream).poll_read(cx, &mut into);
            if !matches!(result, Poll::Ready(Ok(()))) || into.filled().is_empty() {
                return result;
            }
            self.arrived.extend_from_slice(into.filled());
            self.split();
        }
        self.held.store(0, Ordering::Relaxed);
        if core::mem::take(&mut self.rests) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(frame) = self.frames.pop_front() {
            buffer.put_slice(&frame);
            self.rests = true;
            return Poll::Ready(Ok(()));
        }
        if !self.arrived.is_empty() {
            buffer.put_slice(&core::mem::take(&mut self.arrived));
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Paced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
