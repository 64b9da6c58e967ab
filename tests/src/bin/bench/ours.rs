//! zk-session.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use zk_session::{Client, Error};

use crate::report::{Figures, measured};
use crate::work::{DATA, PATH, Work};

pub(crate) const NAME: &str = "zk-session";

pub(crate) fn measure(at: &str, work: Work) -> io::Result<Figures> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = runtime.block_on(Client::connect(at)).map_err(io::Error::other)?;
    let mut result = Ok(());
    let figures = measured(work.operations, || {
        let done = match work {
            Work { in_flight: 1, .. } => runtime.block_on(sequential(&client, work)),
            Work { writes: true, .. } => {
                runtime.block_on(pipelined(work, || client.set_data(PATH, &DATA, None)))
            }
            _ => runtime.block_on(pipelined(work, || client.get_data(PATH))),
        };
        match done {
            Ok(latencies) => latencies,
            Err(error) => {
                result = Err(io::Error::other(error));
                Vec::new()
            }
        }
    });
    result.map(|()| figures)
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

async fn pipelined<T, F>(work: Work, request: impl Fn() -> F) -> Result<Vec<Duration>, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut under_way = VecDeque::with_capacity(work.in_flight);
    for _ in 0..work.operations {
        if under_way.len() == work.in_flight
            && let Some(oldest) = under_way.pop_front()
        {
            oldest.await?;
        }
        under_way.push_back(request());
    }
    for answer in under_way {
        answer.await?;
    }
    Ok(Vec::new())
}
