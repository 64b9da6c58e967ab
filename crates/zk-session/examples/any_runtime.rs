//! The client of threads on another runtime: tasks of smol count up one node, without tokio.
//!
//! `any_runtime [host:port,...]`. Without an address it starts its own ensemble, which has a runtime
//! on threads of its own.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use zk_session::RequestError;
use zk_session::blocking::Client;
use zk_session::proto::{ErrorCode, NodeKind};
use zk_test_server::serve::Embedded;

const COUNTER: &str = "/example/counter";
const TASKS: u64 = 5;

fn main() -> ExitCode {
    match run(std::env::args().nth(1)) {
        Ok(total) => {
            println!("{TASKS} tasks have counted to {total}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

pub(crate) fn run(address: Option<String>) -> Result<u64, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let embedded = match address {
        Some(_) => None,
        None => Some(runtime.block_on(Embedded::start(3))?),
    };
    let at = address.or_else(|| embedded.as_ref().map(Embedded::connect_string));
    smol::block_on(count(at.unwrap_or_default()))
}

async fn count(at: String) -> Result<u64, Box<dyn Error>> {
    // To connect and to close take a thread.
    let client = smol::unblock(move || {
        // A limit of each request, which needs no timer of the runtime.
        Client::builder(&at).request_timeout(Duration::from_secs(10)).connect()
    });
    let client = client.await?;
    client.delete_all(COUNTER).await?;
    client.create_all(COUNTER, b"0", NodeKind::Persistent).await?;

    let tasks: Vec<_> = (0..TASKS).map(|_| smol::spawn(count_up(client.clone()))).collect();
    for task in tasks {
        task.await?;
    }
    let (data, _) = client.get_data(COUNTER).await?;
    smol::unblock(|| client.close()).await;
    Ok(str::from_utf8(&data)?.parse()?)
}

/// Adds one, again if another task was faster.
async fn count_up(client: Client) -> Result<(), RequestError> {
    loop {
        let (data, stat, changed) = client.get_data_and_watch(COUNTER).await?;
        let count: u64 = str::from_utf8(&data).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        let next = (count + 1).to_string();
        match client.set_data(COUNTER, next.as_bytes(), Some(stat.version)).await {
            Err(error) if error.code() == Some(ErrorCode::BAD_VERSION) => {
                // Another task has set it, which the watch reports.
                let _ = changed.await;
            }
            set => return set.map(drop),
        }
    }
}
