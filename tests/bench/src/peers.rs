//! Other implementations of clients.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use tokio::runtime::Runtime;

use crate::changer::Changer;
use crate::report::{Figures, measured};
use crate::work::{DATA, Kind, PATH, Work, child, join_all};

const ZOOKEEPER_CLIENT: &str = "zookeeper-client";
const TOKIO_ZOOKEEPER: &str = "tokio-zookeeper";
pub(crate) const NAMES: [&str; 2] = [ZOOKEEPER_CLIENT, TOKIO_ZOOKEEPER];

pub(crate) fn measure(client: &str, at: &str, work: Work) -> io::Result<Figures> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match client {
        ZOOKEEPER_CLIENT => {
            let client = runtime
                .block_on(zookeeper_client::Client::connect(at))
                .map_err(io::Error::other)?;
            let client = Arc::new(client);
            if work.kind.is_watches() {
                return watches_fired(&runtime, at, work, move |path| {
                    let client = client.clone();
                    async move {
                        let read = client.get_and_watch_data(&path).await;
                        let (_, _, watcher) = read.map_err(io::Error::other)?;
                        Ok(async {
                            watcher.changed().await;
                            Ok(())
                        })
                    }
                });
            }
            run(&runtime, work, move |number| zookeeper_client(client.clone(), work.kind, number))
        }
        TOKIO_ZOOKEEPER => {
            let address = at.parse().map_err(io::Error::other)?;
            let (client, _events) = runtime
                .block_on(tokio_zookeeper::ZooKeeper::connect(&address))
                .map_err(|error| io::Error::other(error.to_string()))?;
            let client = Arc::new(client);
            if work.kind.is_watches() {
                return watches_fired(&runtime, at, work, move |path| {
                    let client = client.clone();
                    async move {
                        let read = client.with_watcher().get_data(&path).await;
                        let read = read.map_err(|error| io::Error::other(error.to_string()))?;
                        let (event, _, _) = read.ok_or(io::ErrorKind::NotFound)?;
                        Ok(async { event.await.map(drop).map_err(io::Error::other) })
                    }
                });
            }
            run(&runtime, work, move |number| tokio_zookeeper(client.clone(), work.kind, number))
        }
        other => Err(io::Error::other(format!("unknown client '{other}'"))),
    }
}

async fn zookeeper_client(
    client: Arc<zookeeper_client::Client>,
    kind: Kind,
    number: usize,
) -> io::Result<()> {
    let done = match kind {
        Kind::PipelinedSet256 => client.set_data(PATH, &DATA, None).await.map(drop),
        Kind::CreateDelete256 => {
            let options = zookeeper_client::CreateMode::Persistent
                .with_acls(zookeeper_client::Acls::anyone_all());
            let path = child(number);
            let create = client.create(&path, &DATA, &options);
            let delete = client.delete(&path, None);
            create.await.map(drop).and(delete.await)
        }
        _ => client.get_data(PATH).await.map(drop),
    };
    done.map_err(io::Error::other)
}

async fn tokio_zookeeper(
    client: Arc<tokio_zookeeper::ZooKeeper>,
    kind: Kind,
    number: usize,
) -> io::Result<()> {
    let other = |error: tokio_zookeeper::error::Error| io::Error::other(error.to_string());
    match kind {
        Kind::PipelinedSet256 => {
            client.set_data(PATH, None, &DATA[..]).await.map(drop).map_err(other)
        }
        Kind::CreateDelete256 => {
            let (path, mode) = (child(number), tokio_zookeeper::CreateMode::Persistent);
            let acl = tokio_zookeeper::Acl::open_unsafe();
            let create = client.create(&path, &DATA[..], acl, mode);
            let delete = client.delete(&path, None);
            let (created, deleted) = futures::join!(create, delete);
            created.map_err(other)?.map_err(io::Error::other)?;
            deleted.map_err(other)?.map_err(io::Error::other)
        }
        _ => client.get_data(PATH).await.map(drop).map_err(other),
    }
}

fn run<F: Future<Output = io::Result<()>> + Send + 'static>(
    runtime: &Runtime,
    work: Work,
    request: impl Fn(usize) -> F + Send + 'static,
) -> io::Result<Figures> {
    measured(work.operations, || runtime.block_on(runtime.spawn(requests(work, request)))?)
}

/// Waits for all watches, which `watch` sets one by one. Keeps the client alive meanwhile.
fn watches_fired<S, W>(
    runtime: &Runtime,
    at: &str,
    work: Work,
    watch: impl Fn(String) -> S,
) -> io::Result<Figures>
where
    S: Future<Output = io::Result<W>>,
    W: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut changer = Changer::start(at, work.operations)?;
    let setting = stream::iter(changer.paths.clone()).map(&watch).buffered(work.in_flight);
    let watches: Vec<_> = runtime.block_on(setting.try_collect())?;
    measured(work.operations, || {
        changer.change()?;
        let events = async move {
            if work.kind == Kind::WatchesJoined {
                join_all(watches.into_iter().map(Box::pin).collect()).await;
                return Ok(Vec::new());
            }
            for watch in watches {
                watch.await?;
            }
            Ok(Vec::new())
        };
        runtime.block_on(runtime.spawn(events))?
    })
}

async fn requests<F: Future<Output = io::Result<()>>>(
    work: Work,
    request: impl Fn(usize) -> F,
) -> io::Result<Vec<Duration>> {
    if work.in_flight == 1 {
        return sequential(work, request).await;
    }
    let calls = match work.kind {
        Kind::CreateDelete256 => work.operations / 2,
        _ => work.operations,
    };
    let requests = stream::iter(0..calls).map(move |number| Ok(request(number)));
    requests.try_buffered(work.in_flight).try_for_each(async |()| Ok(())).await?;
    Ok(Vec::new())
}

async fn sequential<F: Future<Output = io::Result<()>>>(
    work: Work,
    request: impl Fn(usize) -> F,
) -> io::Result<Vec<Duration>> {
    let mut latencies = Vec::with_capacity(work.operations);
    for number in 0..work.operations {
        let start = Instant::now();
        request(number).await?;
        latencies.push(start.elapsed());
    }
    Ok(latencies)
}
