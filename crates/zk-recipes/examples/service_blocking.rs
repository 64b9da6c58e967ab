//! `service.rs` without tokio: `service_blocking host:port`.

use std::error::Error;
use std::thread;
use std::time::Duration;

use zk_recipes::session::blocking::Client;
use zk_recipes::{Cache, Guard, LeaderElection, Leadership, Mutex};

fn main() -> Result<(), Box<dyn Error>> {
    let servers = std::env::args().nth(1).ok_or("the address of a server is missing")?;
    serve(&servers, |guard, colour, leads| {
        let role = if leads { "leader" } else { "follower" };
        println!("{}: prints in {colour}, as {role}", guard.fencing_token().0);
        // Work in steps, and stop between two of them when the lock is lost.
        for _ in (0..10).take_while(|_| !guard.is_lost()) {
            thread::sleep(Duration::from_millis(100));
        }
    })
}

pub(crate) fn serve(
    servers: &str,
    mut work: impl FnMut(&Guard<Client>, String, bool),
) -> Result<(), Box<dyn Error>> {
    let client = Client::builder(servers).renew(true).connect()?;
    let settings = Cache::new(&client, "/settings")?;
    settings.ready().wait()?;
    let candidate = LeaderElection::new(&client, "/leader")?.stand();
    let mutex = Mutex::new(&client, "/locks/printer")?;
    loop {
        let guard = mutex.acquire().wait()?;
        let colour = settings.get("/settings/colour").map_or("black".into(), |node| node.data);
        let colour = String::from_utf8_lossy(&colour).into_owned();
        let leads = matches!(candidate.leadership(), Leadership::Leader(_));
        work(&guard, colour, leads);
    }
}
