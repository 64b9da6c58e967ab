//! Measures how many locks and sessions an outage of all three servers of a real ensemble costs,
//! and how long it takes to recover.
//!
//! `cargo run -p zk-testkit --example outage -- <how> <timeout-ms> <outage-ms> [rounds] [clients]`
//!
//! There is a proxy in front of each server. With `refuse` it refuses connections, with `swallow`
//! it discards all bytes; `kill` kills and restarts the servers. Prints one line per round.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{sleep, timeout};
use zk_recipes::{Holding, Mutex};
use zk_session::{Client, State};
use zk_testkit::ports::Port;
use zk_testkit::real::RealEnsemble;

type Failure = Box<dyn Error + Send + Sync>;

/// What a proxy does with connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Pass,
    Refuse,
    Swallow,
}

/// Passes connections on to a server, as the mode says.
async fn proxy(
    server: String,
    port: Port,
    mut listener: Option<TcpListener>,
    mut modes: watch::Receiver<Mode>,
) -> Result<(), Failure> {
    let mut connections = JoinSet::new();
    loop {
        let mode = *modes.borrow_and_update();
        if mode == Mode::Refuse {
            listener = None;
            connections.shutdown().await;
        } else if listener.is_none() {
            listener = Some(TcpListener::bind(port.address()).await?);
        }
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = modes.changed() => changed?,
            accepted = accepted => {
                let (mut client, _) = accepted?;
                let (server, mut modes) = (server.clone(), modes.clone());
                connections.spawn(async move {
                    let passed = async {
                        let mut server = TcpStream::connect(server).await?;
                        copy_bidirectional(&mut client, &mut server).await
                    };
                    // Swallowed bytes never arrive, so the connection is cut afterwards.
                    let swallowed = modes.wait_for(|mode| *mode == Mode::Swallow);
                    tokio::select! {
                        _ = passed => return,
                        _ = swallowed => {}
                    }
                    let _ = modes.wait_for(|mode| *mode != Mode::Swallow).await;
                });
            }
        }
    }
}

/// The observations of one client.
struct Seen {
    lost: bool,
    expired: bool,
    back: Option<Duration>,
}

async fn hold(
    at: String,
    number: usize,
    session_timeout: Duration,
    ready: tokio::sync::mpsc::Sender<()>,
    mut reachable: watch::Receiver<Option<Instant>>,
) -> Result<Seen, Failure> {
    let builder = Client::builder(&at).session_timeout(session_timeout);
    let client = builder.connect_timeout(Duration::from_secs(60)).connect().await?;
    let guard = Mutex::new(&client, &format!("/outage-{number}"))?.acquire().await?;
    assert_eq!(client.session_timeout(), session_timeout);
    ready.send(()).await?;
    drop(ready);
    let since = reachable.wait_for(Option::is_some).await?.ok_or("observed")?;
    let mut states = client.states();
    let back = async {
        states
            .wait_for(|s| matches!(s, State::Connected { .. } | State::Ended(_)))
            .await
            .map(|_| ())
    };
    let is_back = timeout(session_timeout * 3, back).await.is_ok();
    let elapsed = since.elapsed();
    sleep(session_timeout / 2).await;
    let expired = matches!(client.state(), State::Ended(_));
    let lost = matches!(guard.state(), Holding::Lost(_));
    drop(guard);
    client.close().await;
    Ok(Seen { lost, expired, back: (is_back && !expired).then_some(elapsed) })
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, default: u64| {
        arguments.get(place).map_or(Ok(default), |argument| argument.parse::<u64>())
    };
    let how = arguments.first().map_or("refuse", String::as_str);
    let session_timeout = Duration::from_millis(number(1, 10_000)?);
    let outage = Duration::from_millis(number(2, 6_500)?);
    let (rounds, clients) = (number(3, 3)?, number(4, 12)? as usize);

    let mut ensemble = block_in_place(|| RealEnsemble::start(3))?;
    let modes = Arc::new(watch::Sender::new(Mode::Pass));
    let mut proxies = Vec::new();
    for server in 0..3 {
        let port = Port::reserve()?;
        proxies.push(port.address().to_string());
        let listener = TcpListener::bind(port.address()).await?;
        tokio::spawn(proxy(ensemble.address(server), port, Some(listener), modes.subscribe()));
    }
    let at = if how == "kill" { ensemble.connect_string() } else { proxies.join(",") };

    let mut totals = [0; 3];
    for round in 1..=rounds {
        let (reachable, seen) = watch::channel(None);
        let (ready, mut all_ready) = tokio::sync::mpsc::channel(clients);
        let mut holders = JoinSet::new();
        for number in 0..clients {
            holders.spawn(hold(at.clone(), number, session_timeout, ready.clone(), seen.clone()));
        }
        drop(ready);
        for _ in 0..clients {
            all_ready.recv().await.ok_or("a client has failed")?;
        }
        sleep(session_timeout.mul_f64(fastrand::f64() / 3.0)).await;
        let begun = Instant::now();
        match how {
            "kill" => block_in_place(|| -> std::io::Result<()> {
                (0..3).try_for_each(|server| ensemble.kill(server))?;
                std::thread::sleep(outage);
                ensemble.restart_all()?;
                // Until one server serves, which needs a quorum.
                while !(0..3).any(|server| {
                    ensemble.four_letter(server, "srvr").is_ok_and(|said| said.contains("Mode:"))
                }) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Ok(())
            })?,
            _ => {
                modes.send_replace(if how == "swallow" { Mode::Swallow } else { Mode::Refuse });
                sleep(outage).await;
                modes.send_replace(Mode::Pass);
            }
        }
        let lasted = begun.elapsed();
        reachable.send_replace(Some(Instant::now()));
        let (mut lost, mut expired, mut backs) = (0, 0, Vec::new());
        while let Some(seen) = holders.join_next().await {
            let seen = seen??;
            lost += u64::from(seen.lost);
            expired += u64::from(seen.expired);
            backs.extend(seen.back);
        }
        backs.sort_unstable();
        println!(
            "{how} T={session_timeout:?} round {round}: out for {lasted:.2?}; {lost} of {clients} locks lost, \
             {expired} sessions expired; {} back, {:.0?} to {:.0?} after",
            backs.len(),
            backs.first().copied().unwrap_or_default(),
            backs.last().copied().unwrap_or_default(),
        );
        totals = [totals[0] + lost, totals[1] + expired, totals[2] + clients as u64];
        block_in_place(|| ensemble.wait_until_all_serve())?;
    }
    let [lost, expired, all] = totals;
    println!(
        "{how} T={session_timeout:?} in all: {lost} of {all} locks lost, {expired} sessions expired"
    );
    Ok(())
}
