//! zk-session's blocking client.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use zk_proto::{GetDataRequest, Request, SetDataRequest};
use zk_session::blocking::{Client, Threads};
use zk_session::session::Reply;
use zk_session::{Answer, Error};

use crate::report::{Figures, measured};
use crate::work::{DATA, Kind, PATH, Work};

pub(crate) const NAME: &str = "zk-session-blocking";

/// Returns whether this client is measured with a kind of work.
pub(crate) fn does(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::SequentialGet
            | Kind::PipelinedGet256
            | Kind::PipelinedGet1024
            | Kind::PipelinedSet256
    )
}

pub(crate) fn measure(at: &str, work: Work) -> io::Result<Figures> {
    let client = Client::connect(at).map_err(io::Error::other)?;
    measured(work.operations, || run(&client, work).map_err(io::Error::other))
}

fn run(client: &Client, work: Work) -> Result<Vec<Duration>, Error> {
    let get = Request::GetData(GetDataRequest { path: PATH, watch: false });
    let set = Request::SetData(SetDataRequest { path: PATH, data: Some(&DATA), version: -1 });
    match work.kind {
        Kind::SequentialGet => sequential(client, work),
        Kind::PipelinedSet256 => pipelined(client, work, &set),
        _ => pipelined(client, work, &get),
    }
}

fn sequential(client: &Client, work: Work) -> Result<Vec<Duration>, Error> {
    let mut latencies = Vec::with_capacity(work.operations);
    for _ in 0..work.operations {
        let start = Instant::now();
        client.get_data(PATH).wait()?;
        latencies.push(start.elapsed());
    }
    Ok(latencies)
}

fn pipelined(client: &Client, work: Work, request: &Request<'_>) -> Result<Vec<Duration>, Error> {
    let mut under_way = VecDeque::with_capacity(work.in_flight);
    for _ in 0..work.operations {
        if under_way.len() == work.in_flight
            && let Some(oldest) = under_way.pop_front()
        {
            wait(oldest)?;
        }
        under_way.push_back(client.submit(request));
    }
    under_way.into_iter().try_for_each(wait)?;
    Ok(Vec::new())
}

fn wait(answer: Answer<Reply, Threads>) -> Result<(), Error> {
    answer.wait().map(drop).map_err(Error::from)
}
