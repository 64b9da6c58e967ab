//! zk-session's async client.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use zk_session::proto::NodeKind;
use zk_session::{Client, Error, RequestError, Tokio, Watch};
use zk_testkit::watchers::{Load, Watchers};

use crate::changer::Changer;
use crate::report::{Figures, measured};
use crate::work::{DATA, Kind, PATH, Work, child, join_all};

pub(crate) const NAME: &str = "zk-session";

const IDLE_SESSIONS: usize = 1_000;

pub(crate) fn measure(at: &str, work: Work) -> io::Result<Figures> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match work.kind {
        kind if kind.is_watches() => watches_fired(&runtime, at, work),
        Kind::TasksForRoom => tasks_for_room(&runtime, at, work),
        Kind::WatchesBack => watches_back(&runtime, at, work),
        Kind::Sessions => {
            let mut sessions = Vec::with_capacity(work.operations);
            measured(work.operations, || {
                sessions = runtime.block_on(connect(at, work.operations))?;
                Ok(Vec::new())
            })
        }
        Kind::IdleSeconds => {
            let sessions = runtime.block_on(connect(at, IDLE_SESSIONS))?;
            let seconds = work.operations.div_ceil(sessions.len()) as u64;
            measured(work.operations, || {
                runtime.block_on(async { tokio::time::sleep(Duration::from_secs(seconds)).await });
                Ok(Vec::new())
            })
        }
        _ => {
            let client = runtime.block_on(Client::connect(at)).map_err(io::Error::other)?;
            measured(work.operations, || run(&runtime, requests(client, work)))
        }
    }
}

/// Runs the work in a task, as programs do. `block_on` polls its own future only after a look at
/// the sockets, which would cost a system call per reply.
fn run<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> io::Result<T> {
    runtime.block_on(runtime.spawn(work))?.map_err(io::Error::other)
}

async fn requests(client: Client, work: Work) -> Result<Vec<Duration>, Error> {
    match work.kind {
        Kind::SequentialGet => sequential(&client, work).await,
        Kind::PipelinedSet256 => pipelined(work, |_| client.set_data(PATH, &DATA, None)).await,
        Kind::CreateDelete256 => {
            let pairs = Work { operations: work.operations / 2, ..work };
            pipelined(pairs, |number| {
                let path = child(number);
                let create = client.create(&path, &DATA, NodeKind::Persistent);
                let delete = client.delete(&path, None);
                async { create.await.map(drop).and(delete.await) }
            })
            .await
        }
        _ => pipelined(work, |_| client.get_data(PATH)).await,
    }
}

async fn sequential(client: &Client, work: Work) -> Result<Vec<Duration>, Error> {
    let mut latencies = Vec::with_capacity(work.operations);
    for _ in 0..work.operations {
        let start = Instant::now();
        client.get_data(PATH).await?;
        latencies.push(start.elapsed());
    }
    Ok(latencies)
}

async fn pipelined<T, F>(work: Work, request: impl Fn(usize) -> F) -> Result<Vec<Duration>, Error>
where
    F: Future<Output = Result<T, RequestError>>,
{
    let mut under_way = VecDeque::with_capacity(work.in_flight);
    for number in 0..work.operations {
        if under_way.len() == work.in_flight
            && let Some(oldest) = under_way.pop_front()
        {
            oldest.await?;
        }
        under_way.push_back(request(number));
    }
    for answer in under_way {
        answer.await?;
    }
    Ok(Vec::new())
}

/// Creates sessions, as many at once as the backlog of a server's socket allows.
async fn connect(at: &str, count: usize) -> io::Result<Vec<Client>> {
    let mut clients = Vec::with_capacity(count);
    while clients.len() < count {
        let at_once = 50.min(count - clients.len());
        let connecting: Vec<_> = (0..at_once)
            .map(|_| {
                let builder = Client::builder(at).session_timeout(Duration::from_secs(30));
                tokio::spawn(builder.connect())
            })
            .collect();
        for client in connecting {
            clients.push(client.await?.map_err(io::Error::other)?);
        }
    }
    Ok(clients)
}

fn watches_fired(runtime: &Runtime, at: &str, work: Work) -> io::Result<Figures> {
    let mut changer = Changer::start(at, work.operations)?;
    let client = runtime.block_on(Client::connect(at)).map_err(io::Error::other)?;
    let watches = runtime.block_on(watch(&client, &changer.paths, work));
    let watches = watches.map_err(io::Error::other)?;
    measured(work.operations, || {
        changer.change()?;
        let events = async move {
            if work.kind == Kind::WatchesJoined {
                join_all(watches).await;
                return Ok(Vec::new());
            }
            for watch in watches {
                watch.await?;
            }
            Ok(Vec::new())
        };
        run(runtime, events)
    })
}

fn tasks_for_room(runtime: &Runtime, at: &str, work: Work) -> io::Result<Figures> {
    const EACH: usize = 4;
    let builder = Client::builder(at).max_pending(work.in_flight);
    let client = runtime.block_on(builder.connect()).map_err(io::Error::other)?;
    measured(work.operations, || {
        let tasks: Vec<_> = (0..work.operations / EACH)
            .map(|_| {
                let client = client.clone();
                runtime.spawn(async move {
                    for _ in 0..EACH {
                        request_in_turn(&client).await?;
                    }
                    Ok::<_, Error>(())
                })
            })
            .collect();
        runtime.block_on(async {
            for task in tasks {
                task.await?.map_err(io::Error::other)?;
            }
            Ok(Vec::new())
        })
    })
}

async fn request_in_turn(client: &Client) -> Result<(), Error> {
    loop {
        client.ready().await?;
        match client.get_data(PATH).await {
            Err(error) if error.reason.is_full() => {}
            answer => return answer.map(drop).map_err(Error::from),
        }
    }
}

async fn watch(client: &Client, paths: &[String], work: Work) -> Result<Vec<Watch<Tokio>>, Error> {
    let mut watches = Vec::with_capacity(paths.len());
    for paths in paths.chunks(work.in_flight) {
        let reads: Vec<_> = paths.iter().map(|path| client.get_data_and_watch(path)).collect();
        for read in reads {
            let (_, _, watch) = read.await?;
            watches.push(watch);
        }
    }
    Ok(watches)
}

fn watches_back(runtime: &Runtime, at: &str, work: Work) -> io::Result<Figures> {
    const CUTS: usize = 20;
    let load = Load { once: work.operations, persistent: 100, recursive: 100 };
    let watchers = runtime.block_on(Watchers::start(at, load)).map_err(io::Error::other)?;
    measured(CUTS * (load.once + load.persistent + load.recursive), || {
        let mut latencies = Vec::new();
        for _ in 0..CUTS {
            latencies.push(runtime.block_on(watchers.cut()).map_err(io::Error::other)?);
        }
        Ok(latencies)
    })
}
