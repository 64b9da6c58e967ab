//! Settings of a service, which it reads at any time and which change while it runs.
//!
//! `settings [host:port,...]`. Without an address it starts its own ensemble.

use std::error::Error;

use zk_recipes::session::{Client, proto::NodeKind};
use zk_recipes::{Cache, CacheChange, CacheChanges};
use zk_test_server::serve::Embedded;

const SETTINGS: &str = "/example/settings";
const COLOUR: &str = "/example/settings/colour";
const SIZE: &str = "/example/settings/size";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let ensemble = Embedded::start(3).await?;
    let servers = std::env::args().nth(1).unwrap_or_else(|| ensemble.connect_string());
    let operator = Client::connect(&servers).await?;
    operator.create_all(COLOUR, b"blue", NodeKind::Persistent).await?;

    // The cache continues on the next session if this one expires.
    let client = Client::builder(&servers).renew(true).connect().await?;
    let settings = Cache::new(&client, SETTINGS)?;
    settings.ready().await?;
    // From memory, without a request. It also works while there is no connection.
    println!("{:?}", settings.get(COLOUR).map(|node| node.data));

    let changes = settings.changes();
    operator.set_data(COLOUR, b"red", None).await?;
    println!("{}", next(&settings, &changes).await?);
    operator.create(SIZE, b"A4", NodeKind::Persistent).await?;
    println!("{}", next(&settings, &changes).await?);
    println!("{:?}", settings.children(SETTINGS));
    operator.delete(SIZE, None).await?;
    println!("{}", next(&settings, &changes).await?);

    operator.delete_all(SETTINGS).await?;
    client.close().await;
    operator.close().await;
    Ok(())
}

/// Waits for the next change of a setting.
async fn next(settings: &Cache, changes: &CacheChanges) -> Result<String, Box<dyn Error>> {
    loop {
        match changes.next().await? {
            CacheChange::Added { path, node } | CacheChange::Changed { path, node } => {
                return Ok(format!("{path} is {}", String::from_utf8_lossy(&node.data)));
            }
            CacheChange::Removed { path, .. } => return Ok(format!("{path} is gone")),
            // Changes may be missing before this: apply all settings.
            CacheChange::Ready => println!("{} nodes", settings.snapshot().len()),
            _ => {}
        }
    }
}
