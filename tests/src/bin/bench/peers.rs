//! Other people's clients.

use std::io;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};

use crate::report::{Figures, measured};
use crate::work::{DATA, PATH, Work};

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
            run(&runtime, work, async || match work.writes {
                true => {
                    client.set_data(PATH, &DATA, None).await.map(drop).map_err(io::Error::other)
                }
                false => client.get_data(PATH).await.map(drop).map_err(io::Error::other),
            })
        }
        TOKIO_ZOOKEEPER => {
            let address = at.parse().map_err(io::Error::other)?;
            let (client, _events) = runtime
                .block_on(tokio_zookeeper::ZooKeeper::connect(&address))
                .map_err(|error| io::Error::other(error.to_string()))?;
            let other = |error: tokio_zookeeper::error::Error| io::Error::other(error.to_string());
            run(&runtime, work, async || match work.writes {
                true => client.set_data(PATH, None, &DATA[..]).await.map(drop).map_err(other),
                false => client.get_data(PATH).await.map(drop).map_err(other),
            })
        }
        other => Err(io::Error::other(format!("there is no client '{other}'"))),
    }
}

fn run(
    runtime: &tokio::runtime::Runtime,
    work: Work,
    request: impl AsyncFn() -> io::Result<()>,
) -> io::Result<Figures> {
    let mut result = Ok(());
    let figures = measured(work.operations, || {
        let done = runtime.block_on(async {
            if work.in_flight == 1 {
                return sequential(work, &request).await;
            }
            let requests = stream::iter(0..work.operations).map(|_| Ok(request()));
            requests.try_buffered(work.in_flight).try_for_each(async |()| Ok(())).await?;
            Ok(Vec::new())
        });
        done.unwrap_or_else(|error| {
            result = Err(error);
            Vec::new()
        })
    });
    result.map(|()| figures)
}

async fn sequential(
    work: Work,
    request: &impl AsyncFn() -> io::Result<()>,
) -> io::Result<Vec<Duration>> {
    let mut latencies = Vec::with_capacity(work.operations);
    for _ in 0..work.operations {
        let start = Instant::now();
        request().await?;
        latencies.push(start.elapsed());
    }
    Ok(latencies)
}
