//! A leader with a worker: one candidate works at a time, and another one takes over.
//!
//! `leader [host:port,...]`. Without an address it starts its own ensemble.

use std::error::Error;
use std::time::Duration;

use zk_recipes::session::{Client, proto::NodeKind};
use zk_recipes::{Candidate, LeaderElection, Leadership, Options};
use zk_test_server::serve::Embedded;

const ELECTION: &str = "/example/leader/election";
const WORK: &str = "/example/leader/work";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let ensemble = Embedded::start(3).await?;
    let servers = std::env::args().nth(1).unwrap_or_else(|| ensemble.connect_string());
    let client = Client::connect(&servers).await?;
    client.create_all(WORK, b"", NodeKind::Persistent).await?;
    tokio::try_join!(stand("Ada", &servers), stand("Bob", &servers))?;
    client.delete_all("/example/leader").await?;
    client.close().await;
    Ok(())
}

/// Stands for election until the work is done once.
async fn stand(name: &str, servers: &str) -> Result<(), Box<dyn Error>> {
    // The candidacy continues on the next session if this one expires.
    let client = Client::builder(servers).renew(true).connect().await?;
    let options = Options::new().data(name.to_owned());
    let candidate = LeaderElection::with(&client, ELECTION, options)?.stand();
    loop {
        let term = candidate.elected().await?;
        println!("{name} leads, with token {}", term.token.0);
        tokio::select! {
            () = work(name, &candidate) => break,
            // The worker is dropped at its next `await`.
            _ = candidate.changed(&Leadership::Leader(term)) => {
                println!("{name} stops");
            }
        }
    }
    candidate.close().await?;
    println!("{name} resigns");
    client.close().await;
    Ok(())
}

/// Works in three steps. Each is written only if the candidate still leads, as the ensemble sees it.
async fn work(name: &str, candidate: &Candidate) {
    let mut step = 1;
    while step <= 3 {
        let text = format!("{name}: step {step}");
        if let Some(transaction) = candidate.transaction() {
            match transaction.set_data(WORK, text.as_bytes(), None).commit().await {
                Ok(_) => {
                    println!("{text}");
                    step += 1;
                }
                Err(error) => println!("{text} fails: {error}"),
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
