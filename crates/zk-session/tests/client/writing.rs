//! Which task writes a request, and how many requests one write carries.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use zk_session::proto::{ErrorCode, ExistsResponse, OpCode, Stat, SyncResponse};
use zk_session::{Answer, Client, Connect, ServerAddress, Tokio};

use crate::server::{Listener, Pipes, Server, builder, pipes, settle};

/// The lengths of all writes.
type Writes = Arc<Mutex<Vec<usize>>>;

struct CountedPipes(Pipes, Writes);

struct Counted(DuplexStream, Writes);

impl Connect for CountedPipes {
    type Transport = Counted;

    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<Counted>> + Send>> {
        let (connecting, writes) = (self.0.connect(server), self.1.clone());
        Box::pin(async move { Ok(Counted(connecting.await?, writes)) })
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.0).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = written {
            self.1.lock().expect("no panic").push(count);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

struct Counting {
    client: Client,
    server: Server,
    listener: Listener,
    writes: Writes,
}

impl Counting {
    async fn connected() -> Self {
        let (pipes, mut listener) = pipes(1 << 16);
        let counted = CountedPipes(pipes, Writes::default());
        let writes = counted.1.clone();
        let (client, server) = tokio::join!(builder().connect_with(counted), listener.welcome());
        let counting = Self { client: client.expect("a server answers"), server, listener, writes };
        settle().await;
        counting.take_writes();
        counting
    }

    fn take_writes(&self) -> Vec<usize> {
        std::mem::take(&mut *self.writes.lock().expect("no panic"))
    }

    async fn answer(&mut self, answers: Vec<Answer<(), Tokio>>) {
        for _ in &answers {
            let sent = self.server.expect(OpCode::SYNC).await;
            self.server.reply(sent.xid, ErrorCode::OK, &SyncResponse { path: "/" }).await;
        }
        for answer in answers {
            answer.await.expect("an answer");
        }
    }
}

/// The length of `sync("/")`, in bytes: a length prefix, a header, the length of the path, and the
/// path.
const SYNC: usize = 4 + 8 + 4 + 1;

#[tokio::test(start_paused = true)]
async fn a_single_request_is_written_by_its_caller() {
    let mut counting = Counting::connected().await;
    for _ in 0..3 {
        let answer = counting.client.sync("/");
        assert_eq!(counting.take_writes(), [SYNC], "no other task has had a turn");
        counting.answer(vec![answer]).await;
        assert_eq!(counting.take_writes(), [], "once");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_are_written_together() {
    let mut counting = Counting::connected().await;
    let first = (0..10).map(|_| counting.client.sync("/")).collect();
    settle().await;
    assert_eq!(counting.take_writes(), [SYNC, 9 * SYNC], "the first was alone");
    counting.answer(first).await;
    for _ in 0..3 {
        let more = (0..10).map(|_| counting.client.sync("/")).collect();
        settle().await;
        assert_eq!(counting.take_writes(), [10 * SYNC], "none was expected to be");
        counting.answer(more).await;
    }
    let single = counting.client.sync("/");
    counting.answer(vec![single]).await;
    counting.take_writes();
    let _answer = counting.client.sync("/");
    assert_eq!(counting.take_writes(), [SYNC], "as the one before it was");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_written_together_at_once() {
    let mut counting = Counting::connected().await;
    for _ in 0..3 {
        let client = counting.client.clone();
        let answers = client.batch(|| {
            let inner = client.batch(|| [client.sync("/"), client.sync("/")]);
            assert_eq!(counting.take_writes(), [], "there may be more");
            inner.into_iter().chain([client.sync("/")]).collect()
        });
        assert_eq!(counting.take_writes(), [3 * SYNC], "no other task has had a turn");
        counting.answer(answers).await;
        assert_eq!(counting.take_writes(), [], "once");
    }
}

#[tokio::test(start_paused = true)]
async fn the_removal_of_a_dropped_watch_is_written_with_other_requests() {
    let mut counting = Counting::connected().await;
    let client = counting.client.clone();
    let watched = client.exists_and_watch("/a");
    let sent = counting.server.expect(OpCode::EXISTS).await;
    let body = ExistsResponse { stat: Stat::default() };
    counting.server.reply(sent.xid, ErrorCode::OK, &body).await;
    let (_, watch) = watched.await.expect("an answer");
    counting.take_writes();
    let answer = client.batch(|| {
        drop(watch);
        client.sync("/")
    });
    assert_eq!(counting.take_writes().len(), 1, "no other task has had a turn");
    let removal = counting.server.expect(OpCode::REMOVE_WATCHES).await;
    counting.server.reply(removal.xid, ErrorCode::OK, &()).await;
    counting.answer(vec![answer]).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_finds_the_connection_broken_is_sent_on_the_next() {
    let Counting { client, server, mut listener, writes } = Counting::connected().await;
    drop(server);
    let answer = client.sync("/");
    assert_eq!(*writes.lock().expect("no panic"), [], "nobody takes it any more");
    let server = listener.welcome().await;
    Counting { client, server, listener, writes }.answer(vec![answer]).await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_does_not_hold_back_requests_of_other_threads() {
    let mut counting = Counting::connected().await;
    let client = counting.client.clone();
    let other = client.clone();
    let (mine, others, written) = client.batch(|| {
        let others = std::thread::spawn(move || other.sync("/")).join().expect("no panic");
        let written = counting.take_writes().len();
        (client.sync("/"), others, written)
    });
    counting.answer(vec![mine, others]).await;
    assert_eq!(written, 1, "writes while one thread holds its own back");
}
