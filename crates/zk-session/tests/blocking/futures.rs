//! Answers and watches of the client of threads as futures, which tasks of any runtime await.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use zk_session::blocking::Client;
use zk_session::proto::{
    ErrorCode, ErrorResponse, EventType, ExistsResponse, GetDataResponse, OpCode, Stat,
    SyncResponse,
};
use zk_session::{Error, Outcome, WatchUpdate};

use crate::server::{Server, connected, connected_with};

/// Unparks the thread of a [`block_on`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor: it only parks between two polls.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn answer_sync(server: &mut Server) {
    let sent = server.expect(OpCode::SYNC);
    server.reply(sent.xid, ErrorCode::OK, &SyncResponse { path: "/" });
}

#[test]
fn a_bare_executor_awaits_answers_and_watches() {
    let (client, mut server, _listener) = connected();
    let task = thread::spawn(move || {
        block_on(async {
            let (_, _, changed) = client.get_data_and_watch("/a").await.expect("answered");
            let mut updates = client.watch("/b").await.expect("answered");
            assert_eq!(changed.await.expect("fired").event_type, EventType::NODE_DELETED);
            let Ok(WatchUpdate::Event(event)) = updates.next().await else { panic!("no event") };
            assert_eq!(event.path, "/b".into());
            client.ready().await.expect("there is room");
            client
        })
    });
    let sent = server.expect(OpCode::GET_DATA);
    let data = GetDataResponse { data: Some(b"x"), stat: Stat::default() };
    server.reply(sent.xid, ErrorCode::OK, &data);
    let sent = server.expect(OpCode::ADD_WATCH);
    server.reply(sent.xid, ErrorCode::OK, &ErrorResponse { err: ErrorCode::OK });
    server.notify(EventType::NODE_DELETED, "/a");
    server.notify(EventType::NODE_CREATED, "/b");
    drop(task.join().expect("no panic"));
}

#[test]
fn answers_to_tasks_come_at_once_while_threads_come_and_go() {
    const ROUNDS: usize = 200;
    let (client, mut server, _listener) = connected();
    let theirs = client.clone();
    server.stream.set_nodelay(true).expect("connected");
    let answers = thread::spawn(move || (0..4 * ROUNDS).for_each(|_| answer_sync(&mut server)));
    // A thread that has waited makes the session's own thread sleep for a while.
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        theirs.sync("/").wait().expect("answered");
        block_on(theirs.sync("/")).expect("answered");
        let (first, second) = (theirs.sync("/"), theirs.sync("/"));
        block_on(second).expect("answered");
        block_on(first).expect("answered");
        times.push(begun.elapsed());
    }
    // It sleeps for 5 ms. On a busy machine, many rounds take longer, but not all.
    times.sort_unstable();
    assert!(times[ROUNDS / 10] < Duration::from_millis(4), "{times:?}");
    answers.join().expect("no panic");
    drop(client);
}

#[test]
fn tasks_of_smol_share_a_client() {
    const TASKS: usize = 50;
    const REQUESTS: usize = 20;
    let (client, mut server, _listener) = connected();
    let serve = thread::spawn(move || {
        for _ in 0..TASKS * REQUESTS {
            let sent = server.expect(OpCode::EXISTS);
            server.reply(sent.xid, ErrorCode::OK, &ExistsResponse { stat: Stat::default() });
        }
        server
    });
    let answered = Arc::new(AtomicUsize::new(0));
    let task = |_| {
        let (client, answered) = (client.clone(), answered.clone());
        smol::spawn(async move {
            for _ in 0..REQUESTS {
                let found = client.exists("/a").await.expect("answered");
                answered.fetch_add(usize::from(found.is_some()), Ordering::Relaxed);
            }
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(task).collect();
    smol::block_on(async { futures(tasks).await });
    assert_eq!(answered.load(Ordering::Relaxed), TASKS * REQUESTS);
    drop(serve.join().expect("no panic"));
}

async fn futures(tasks: Vec<smol::Task<()>>) {
    for task in tasks {
        task.await;
    }
}

#[test]
fn a_time_limit_needs_no_timer_of_a_runtime() {
    let short = Duration::from_millis(50);
    let (client, mut server, _listener) = connected_with(|builder| builder.request_timeout(short));
    let late = block_on(client.get_data("/slow")).expect_err("nobody answers");
    assert_eq!(late.reason, Error::DeadlinePassed { outcome: Outcome::Unknown });
    assert_eq!((late.path.as_deref(), late.outcome()), (Some("/slow"), Outcome::NotApplied));
    server.expect(OpCode::GET_DATA);
}

#[test]
fn a_dropped_future_of_a_task_leaves_the_session_to_others() {
    let (client, mut server, _listener) = connected();
    let polled_once = |client: &Client| {
        let mut answer = client.sync("/");
        let pending = Pin::new(&mut answer).poll(&mut Context::from_waker(Waker::noop()));
        assert!(pending.is_pending());
    };
    polled_once(&client);
    answer_sync(&mut server);
    let thread = thread::spawn(move || client.sync("/").wait());
    answer_sync(&mut server);
    assert_eq!(thread.join().expect("no panic"), Ok(()));
}

#[test]
fn several_requests_are_one_answer() {
    let (client, mut server, _listener) = connected();
    // The first requests are sent at the call.
    let mut ensured = client.ensure_path("/a/b");
    let created = [server.expect(OpCode::CREATE), server.expect(OpCode::CREATE)];
    let pending = block_on(poll_fn(|cx| Poll::Ready(Pin::new(&mut ensured).poll(cx).is_pending())));
    assert!(pending);
    for sent in created {
        server.reply(sent.xid, ErrorCode::NODE_EXISTS, &());
    }
    assert_eq!(block_on(ensured), Ok(()));
    let mut late = client.ensure_path("/a");
    assert_eq!(late.wait_timeout(Duration::from_millis(10)), Ok(None));
    let sent = server.expect(OpCode::CREATE);
    server.reply(sent.xid, ErrorCode::NODE_EXISTS, &());
    assert_eq!(late.wait(), Ok(()));
}
