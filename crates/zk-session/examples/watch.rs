//! A service that follows its configuration: it reads the newest version after each change.
//!
//! `watch [host:port,...]`. Without an address it starts its own ensemble.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use zk_session::Client;
use zk_session::proto::{ErrorCode, NodeKind};
use zk_test_server::serve::Embedded;

const CONFIG: &str = "/example/watch/config";
const VERSIONS: [&str; 4] = ["limit = 1", "limit = 2", "limit = 3", "end"];

#[tokio::main]
async fn main() -> ExitCode {
    match run(std::env::args().nth(1)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

pub(crate) async fn run(address: Option<String>) -> Result<(), Box<dyn Error>> {
    let embedded = match address {
        Some(_) => None,
        None => Some(Embedded::start(3).await?),
    };
    let at = address.or_else(|| embedded.as_ref().map(Embedded::connect_string));
    let builder = Client::builder(&at.unwrap_or_default()).connect_timeout(Duration::from_secs(3));
    let client = builder.connect().await?;

    let service = tokio::spawn(follow(client.clone()));
    for version in VERSIONS {
        match client.create_all(CONFIG, version.as_bytes(), NodeKind::Persistent).await {
            Err(error) if error.code() == Some(ErrorCode::NODE_EXISTS) => {
                client.set_data(CONFIG, version.as_bytes(), None).await?;
            }
            created => drop(created?),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    service.await?.map_err(|error| error as Box<dyn Error>)?;
    client.delete_all("/example/watch").await?;
    client.close().await;
    Ok(())
}

/// Prints the configuration now and after each change, until it is `end`.
///
/// Each read returns a state at least as new as the event before it. A version may be skipped if
/// another follows quickly, but never the last one.
async fn follow(client: Client) -> Result<(), Box<dyn Error + Send + Sync>> {
    loop {
        let (data, stat, changed) = match client.get_data_and_watch(CONFIG).await {
            Ok(read) => read,
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {
                let (stat, created) = client.exists_and_watch(CONFIG).await?;
                if stat.is_none() {
                    println!("there is no configuration yet");
                    created.await?;
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        println!("version {} says {}", stat.version, String::from_utf8_lossy(&data));
        if data == "end" {
            return Ok(());
        }
        let event = changed.await?;
        println!("{:?} of {}", event.event_type, event.path);
    }
}
