//! The delivery of replies, events and room to waiting tasks.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;
use zk_session::proto::{
    ErrorCode, ErrorResponse, EventType, ExistsResponse, GetDataResponse, OpCode, ReplyHeader,
    SetDataResponse, Stat, SyncResponse, Zxid, frame,
};
use zk_session::{Client, End, State};

use crate::server::{Server, builder, connected, connected_with, settle};

const MANY: usize = 1000;
const GRANTED: ErrorResponse = ErrorResponse { err: ErrorCode::OK };

/// Polls all futures in one task until they are ready, and counts the polls.
async fn join<F: Future + Unpin>(futures: Vec<F>) -> (Vec<F::Output>, usize) {
    let (mut waiting, mut ready, mut polls) = (futures, Vec::new(), 0);
    poll_fn(|cx| {
        polls += 1;
        waiting.retain_mut(|future| match Pin::new(future).poll(cx) {
            Poll::Pending => true,
            Poll::Ready(output) => {
                ready.push(output);
                false
            }
        });
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (ready, polls)
}

async fn answer_sync(server: &mut Server) {
    let sent = server.expect(OpCode::SYNC).await;
    server.reply(sent.xid, ErrorCode::OK, &SyncResponse { path: "/" }).await;
}

#[tokio::test(start_paused = true)]
async fn one_task_can_await_many_answers_at_once() {
    let (client, mut server, _listener) = connected_with(builder(), 1 << 20).await;
    let answers: Vec<_> = (0..MANY).map(|_| client.sync("/")).collect();
    for _ in 0..MANY {
        answer_sync(&mut server).await;
    }
    settle().await;
    let (answers, polls) = join(answers).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(polls, 1);
}

#[tokio::test(start_paused = true)]
async fn one_task_can_await_many_watches_at_once() {
    let (client, mut server, _listener) = connected_with(builder(), 1 << 20).await;
    let mut watches = Vec::new();
    for number in 0..MANY {
        let path = format!("/{number}");
        let (watch, ()) = tokio::join!(client.exists_and_watch(&path), async {
            let sent = server.expect(OpCode::EXISTS).await;
            let stat = Stat::default();
            server.reply(sent.xid, ErrorCode::OK, &ExistsResponse { stat }).await;
        });
        watches.push(watch.unwrap().1);
    }
    for number in 0..MANY {
        server.notify(EventType::NODE_DELETED, &format!("/{number}")).await;
    }
    settle().await;
    let (events, polls) = join(watches).await;
    assert!(events.iter().all(Result::is_ok));
    assert_eq!(polls, 1);
}

#[tokio::test(start_paused = true)]
async fn one_task_can_await_the_end_of_many_sessions() {
    let mut clients = Vec::new();
    for _ in 0..200 {
        let (client, server, _listener) = connected_with(builder(), 1 << 10).await;
        drop(server);
        clients.push(client);
    }
    for client in &clients {
        client.clone().close().await;
    }
    let (ends, polls) = join(clients.iter().map(|client| Box::pin(client.ended())).collect()).await;
    assert!(ends.iter().all(|end| *end == End::Closed));
    assert_eq!(polls, 1);
}

/// A waker that uses the client whenever it is woken or dropped.
struct Curious {
    client: Mutex<Option<Client>>,
    uses: Arc<AtomicUsize>,
}

impl Curious {
    fn of(client: &Client) -> (Arc<Self>, Arc<AtomicUsize>) {
        let uses = Arc::<AtomicUsize>::default();
        let curious = Self { client: Mutex::new(Some(client.clone())), uses: uses.clone() };
        (Arc::new(curious), uses)
    }

    fn use_client(&self) {
        let client = self.client.lock().unwrap();
        let client = client.as_ref().unwrap();
        drop(client.sync("/"));
        let _ = (client.state(), client.lease(), client.session_id());
        self.uses.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wake for Curious {
    fn wake(self: Arc<Self>) {
        self.use_client();
    }
}

impl Drop for Curious {
    fn drop(&mut self) {
        self.use_client();
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_may_use_the_client() {
    let (client, mut server, _listener) = connected().await;
    let watched = client.exists_and_watch("/a");
    let (watched, ()) = tokio::join!(watched, async {
        let sent = server.expect(OpCode::EXISTS).await;
        server.reply(sent.xid, ErrorCode::OK, &ExistsResponse { stat: Stat::default() }).await;
    });
    let mut watch = watched.unwrap().1;
    let stays = client.watch("/b");
    let (stays, ()) = tokio::join!(stays, async {
        let sent = server.expect(OpCode::ADD_WATCH).await;
        server.reply(sent.xid, ErrorCode::OK, &GRANTED).await;
    });
    let mut stays = stays.unwrap();
    let mut answer = client.sync("/");
    let mut states = client.states();
    {
        let mut state = pin!(states.wait_for(|state| *state == State::Suspended));
        let mut next = pin!(stays.next());
        let (curious, uses) = Curious::of(&client);
        let waker = Waker::from(curious);
        let mut cx = Context::from_waker(&waker);
        assert!(Pin::new(&mut watch).poll(&mut cx).is_pending());
        assert!(Pin::new(&mut answer).poll(&mut cx).is_pending());
        assert!(next.as_mut().poll(&mut cx).is_pending());
        assert!(state.as_mut().poll(&mut cx).is_pending());
        server.notify(EventType::NODE_CREATED, "/a").await;
        settle().await;
        assert_eq!(uses.load(Ordering::Relaxed), 1, "the watch");
        server.notify(EventType::NODE_CREATED, "/b").await;
        settle().await;
        assert_eq!(uses.load(Ordering::Relaxed), 2, "the watch that stays");
        answer_sync(&mut server).await;
        settle().await;
        assert_eq!(uses.load(Ordering::Relaxed), 3, "the answer");
        drop(server);
        settle().await;
        assert_eq!(uses.load(Ordering::Relaxed), 4, "the state");
    }
    answer.await.unwrap();
    watch.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_replaced_waker_is_dropped_without_the_lock() {
    let (client, mut server, _listener) = connected_with(builder().max_pending(2), 1 << 16).await;
    let watched = client.exists_and_watch("/a");
    let (watched, ()) = tokio::join!(watched, async {
        let sent = server.expect(OpCode::EXISTS).await;
        server.reply(sent.xid, ErrorCode::OK, &ExistsResponse { stat: Stat::default() }).await;
    });
    let mut watch = watched.unwrap().1;
    let stays = client.watch("/b");
    let (stays, ()) = tokio::join!(stays, async {
        let sent = server.expect(OpCode::ADD_WATCH).await;
        server.reply(sent.xid, ErrorCode::OK, &GRANTED).await;
    });
    let mut stays = stays.unwrap();
    let mut answers = [client.sync("/"), client.sync("/")];
    let mut uses = Vec::new();
    let mut ready = Box::pin(client.ready());
    // Two tasks poll each one in turn, so that the previous waker is dropped.
    for _ in 0..2 {
        let [for_watch, for_stays, for_answer, for_room] = [(); 4].map(|()| {
            let (curious, used) = Curious::of(&client);
            uses.push(used);
            Waker::from(curious)
        });
        assert!(Pin::new(&mut watch).poll(&mut Context::from_waker(&for_watch)).is_pending());
        assert!(pin!(stays.next()).poll(&mut Context::from_waker(&for_stays)).is_pending());
        assert!(Pin::new(&mut answers[0]).poll(&mut Context::from_waker(&for_answer)).is_pending());
        assert!(ready.as_mut().poll(&mut Context::from_waker(&for_room)).is_pending());
    }
    drop((watch, stays, answers, ready));
    for used in uses {
        assert_eq!(used.load(Ordering::Relaxed), 1);
    }
}

/// A future that counts its polls.
struct Counted<F>(F, Arc<AtomicUsize>);

impl<F: Future + Unpin> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_wakes_the_first_task_that_waits_for_room() {
    const LIMIT: usize = 4;
    const WAITERS: usize = 100;
    let builder = builder().max_pending(LIMIT);
    let (client, mut server, _listener) = connected_with(builder, 1 << 16).await;
    for _ in 0..LIMIT {
        drop(client.sync("/"));
    }
    let (polls, order) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<usize>>>::default());
    let waiters: Vec<_> = (0..WAITERS)
        .map(|number| {
            let (client, polls, order) = (client.clone(), polls.clone(), order.clone());
            tokio::spawn(async move {
                Counted(Box::pin(client.ready()), polls).await.unwrap();
                order.lock().unwrap().push(number);
                client.sync("/").await.unwrap();
            })
        })
        .collect();
    for answered in 0..WAITERS {
        settle().await;
        assert_eq!(order.lock().unwrap().len(), answered);
        answer_sync(&mut server).await;
    }
    for _ in 0..LIMIT {
        answer_sync(&mut server).await;
    }
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert!(order.lock().unwrap().is_sorted());
    assert_eq!(polls.load(Ordering::Relaxed), 2 * WAITERS);
}

#[tokio::test(start_paused = true)]
async fn tasks_that_wait_for_room_in_bytes_are_served_in_order() {
    let (client, mut server, _listener) = connected_with(builder().max_unsent(1000), 100).await;
    let order = Arc::<Mutex<Vec<usize>>>::default();
    let writers: Vec<_> = (0..50)
        .map(|number| {
            let (client, order) = (client.clone(), order.clone());
            tokio::spawn(async move {
                client.ready().await.unwrap();
                order.lock().unwrap().push(number);
                client.set_data("/a", &[7; 400], None).await.unwrap();
            })
        })
        .collect();
    for _ in 0..writers.len() {
        let sent = server.expect(OpCode::SET_DATA).await;
        let stat = Stat::default();
        server.reply(sent.xid, ErrorCode::OK, &SetDataResponse { stat }).await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(order.lock().unwrap().is_sorted());
}

#[tokio::test(start_paused = true)]
async fn an_unused_turn_is_passed_on() {
    let (client, mut server, _listener) = connected_with(builder().max_pending(1), 1 << 16).await;
    drop(client.sync("/"));
    let mut gives_up = Box::pin(client.ready());
    let mut goes = Box::pin(client.ready());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(gives_up.as_mut().poll(&mut cx).is_pending());
    assert!(goes.as_mut().poll(&mut cx).is_pending());
    answer_sync(&mut server).await;
    settle().await;
    let mut late = Box::pin(client.ready());
    assert!(late.as_mut().poll(&mut cx).is_pending(), "others came first");
    drop(gives_up);
    assert_eq!(goes.await, Ok(()));
    assert_eq!(late.await, Ok(()), "whoever is ready need not ask for anything");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_room_another_caller_used_stays_first() {
    let (client, mut server, _listener) = connected_with(builder().max_pending(1), 1 << 16).await;
    drop(client.sync("/"));
    let mut cx = Context::from_waker(Waker::noop());
    let mut waiters = [(); 2].map(|()| Box::pin(client.ready()));
    assert!(waiters.iter_mut().all(|waiter| waiter.as_mut().poll(&mut cx).is_pending()));
    answer_sync(&mut server).await;
    settle().await;
    drop(client.sync("/"));
    let [first, second] = &mut waiters;
    assert!(first.as_mut().poll(&mut cx).is_pending());
    answer_sync(&mut server).await;
    settle().await;
    assert!(second.as_mut().poll(&mut cx).is_pending());
    assert!(first.as_mut().poll(&mut cx).is_ready());
}

/// Replies to pings wait behind it, so the lease ends meanwhile.
#[tokio::test(start_paused = true)]
async fn a_reply_over_a_slow_link_keeps_the_connection() {
    let (client, mut server, _listener) = connected().await;
    let start = Instant::now();
    let data = client.get_data("/");
    let request = server.expect(OpCode::GET_DATA).await;
    let header = ReplyHeader { xid: request.xid, zxid: Zxid(1), err: ErrorCode::OK };
    let body = GetDataResponse { data: Some(&[7; 100_000]), stat: Stat::default() };
    let mut reply = bytes::BytesMut::new();
    frame::encode(&(header, body), &mut reply).expect("it is short enough");
    let mut has_ended = false;
    for piece in reply.chunks(2_000) {
        tokio::time::sleep(Duration::from_millis(200)).await;
        server.stream.write_all(piece).await.unwrap();
        has_ended |= client.lease_has_ended();
    }
    assert!(start.elapsed() >= Duration::from_secs(10), "longer than the session timeout");
    assert_eq!(data.await.map(|(data, _)| data.len()), Ok(100_000));
    assert_eq!((client.statistics().connections, has_ended), (1, true));
}
