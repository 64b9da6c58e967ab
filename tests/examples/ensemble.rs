//! Serves an ensemble in memory, to try programs with: `ensemble [servers]`.
//!
//! Prints its addresses, and ends with its standard input.

use std::io::{self, Read as _};

use zk_testkit::serve::Embedded;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let servers = std::env::args().nth(1).map_or(Ok(3), |servers| servers.parse())?;
    let ensemble = Embedded::start(servers).await?;
    println!("{}", ensemble.connect_string());
    tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new())).await??;
    Ok(())
}
