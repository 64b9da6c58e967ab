//! A test of a service under chaos: its instances number pages, and no number is given twice.

use std::collections::BTreeSet;
use std::error::Error;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};
use zk_recipes::session::{Client, RequestError, proto::ErrorCode, proto::NodeKind};
use zk_recipes::{Guard, Mutex};
use zk_testkit::serve::Embedded;

type Failure = Box<dyn Error + Send + Sync>;
const PAGES: &str = "/printer/pages";

/// An instance of the service. Ends only with an error that no later attempt can mend.
async fn serve(servers: String, printed: UnboundedSender<u64>) -> Result<(), Failure> {
    let client = Client::builder(&servers).renew(true).connect().await?;
    let mutex = Mutex::new(&client, "/printer/lock")?;
    loop {
        let guard = mutex.acquire().await?;
        tokio::select! {
            page = print(&client, &guard) => match page {
                Ok(page) => drop(printed.send(page)),
                // With `Outcome::Unknown`, its number may be used, and is not given again.
                Err(error) => println!("a page fails: {error}, {:?}", error.outcome()),
            },
            loss = guard.lost() => println!("stopped: {loss}"),
        }
    }
}

async fn print(client: &Client, guard: &Guard) -> Result<u64, RequestError> {
    // Another instance may have created it.
    if let Err(error) = client.create_all(PAGES, b"0", NodeKind::Persistent).await
        && error.code() != Some(ErrorCode::NODE_EXISTS)
    {
        return Err(error);
    }
    let (count, _) = client.get_data(PAGES).await?;
    let page = String::from_utf8_lossy(&count).parse().unwrap_or(0) + 1;
    sleep(Duration::from_millis(10)).await;
    // Fails if the lock was lost meanwhile.
    guard.transaction().set_data(PAGES, page.to_string().as_bytes(), None).commit().await?;
    Ok(page)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ensemble = Embedded::start(3).await?;
    let (printed, mut pages) = unbounded_channel();
    for _ in 0..3 {
        tokio::spawn(serve(ensemble.connect_string(), printed.clone()));
    }
    drop(printed); // So that `pages` ends with the last instance.
    let mut seen = BTreeSet::new();
    for fault in 0..9 {
        // After each fault, some instance goes on.
        for _ in 0..20 {
            let page = timeout(Duration::from_secs(30), pages.recv()).await?;
            assert!(seen.insert(page.ok_or("all instances have ended")?), "{page:?} twice");
        }
        let leader = ensemble.with(|servers| servers.leader()).ok_or("there is no quorum")?;
        match fault % 3 {
            0 => ensemble.kill(leader),
            1 => ensemble.command(|servers, now| servers.cut_off(now, leader)),
            _ => {
                for session in ensemble.with(|servers| servers.sessions().collect::<Vec<_>>()) {
                    ensemble.expire_session(session);
                }
            }
        }
        sleep(Duration::from_millis(100)).await;
        ensemble.restart(leader).await?; // No effect on a server that runs.
        ensemble.command(|servers, now| servers.reunite(now, leader));
    }
    println!("{} pages, none twice", seen.len());
    Ok(())
}
