//! A service that survives the end of its session: `service host:port`.
//!
//! One instance works at a time, with the settings of that moment, and one instance leads.

use std::error::Error;
use std::time::Duration;

use zk_recipes::session::Client;
use zk_recipes::{Cache, FencingToken, LeaderElection, Leadership, Mutex};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let servers = std::env::args().nth(1).ok_or("the address of a server is missing")?;
    serve(&servers, async |token, colour, leads| {
        println!("{token}: prints in {colour}, as {}", if leads { "leader" } else { "follower" });
        tokio::time::sleep(Duration::from_secs(1)).await;
    })
    .await
}

pub(crate) async fn serve(
    servers: &str,
    mut work: impl AsyncFnMut(FencingToken, String, bool),
) -> Result<(), Box<dyn Error>> {
    let client = Client::builder(servers).renew(true).connect().await?;
    let settings = Cache::new(&client, "/settings")?;
    settings.ready().await?;
    let candidate = LeaderElection::new(&client, "/leader")?.stand();
    let mutex = Mutex::new(&client, "/locks/printer")?;
    loop {
        let guard = mutex.acquire().await?;
        let colour = settings.get("/settings/colour").map_or("black".into(), |node| node.data);
        let colour = String::from_utf8_lossy(&colour).into_owned();
        let leads = matches!(candidate.leadership(), Leadership::Leader(_));
        tokio::select! {
            () = work(guard.fencing_token(), colour, leads) => drop(guard),
            loss = guard.lost() => eprintln!("stopped: {loss}"),
        }
    }
}
