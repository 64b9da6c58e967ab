//! One of several replicas of a service: it works while it holds a lock, answers health checks, and
//! hands over at once when it is stopped.
//!
//! `replica host:port,... [address]`, where `address` is that of the health checks `/live` and
//! `/ready`. Of tokio it needs `io-util`, `macros`, `net`, `rt-multi-thread`, `signal` and `time`.

use std::error::Error;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use zk_recipes::session::{Client, State};
use zk_recipes::{Guard, Mutex};

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().ok_or("the address of a server is missing")?;
    let health = TcpListener::bind(arguments.next().as_deref().unwrap_or("127.0.0.1:0")).await?;
    println!("health check at {}", health.local_addr()?);
    let mut stop = signal(SignalKind::terminate())?;
    let client = OnceLock::new();
    let ended = tokio::select! {
        ended = run(&servers, &client) => ended,
        ended = answer(&health, &client) => ended,
        // The work ends at its next `await`.
        _ = stop.recv() => Ok(()),
    };
    // Deletes the lock node. Otherwise the others would wait for the session timeout.
    if let Some(client) = client.into_inner() {
        client.close().await;
    }
    println!("stopped");
    ended
}

/// Works whenever this replica holds the lock. Ends only with an error that no attempt can mend.
async fn run(servers: &str, client: &OnceLock<Client>) -> Result<(), Failure> {
    let connected = Client::builder(servers).renew(true).connect().await?;
    let mutex = Mutex::new(client.get_or_init(|| connected), "/locks/report")?;
    loop {
        let guard = mutex.acquire().await?;
        tokio::select! {
            () = work(&guard) => drop(guard),
            loss = guard.lost() => eprintln!("lost: {loss}"),
        }
    }
}

async fn work(guard: &Guard) {
    // Commit the token alone, first. From then on the database refuses every smaller one.
    println!("works with token {}", guard.fencing_token().0);
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// Answers from the start. In a service with axum, these are routes, and `client` their state.
async fn answer(health: &TcpListener, client: &OnceLock<Client>) -> Result<(), Failure> {
    loop {
        let (stream, _) = health.accept().await?;
        tokio::spawn(reply(stream, client.get().cloned()));
    }
}

async fn reply(mut stream: TcpStream, client: Option<Client>) {
    let state = client.as_ref().map_or(State::Suspended, Client::state);
    let is_ready = matches!(state, State::Connected { .. });
    let failure = client.filter(|_| !is_ready).and_then(|client| client.last_failure());
    let mut request = [0; 1024];
    let _ = stream.read(&mut request).await;
    let is_well = is_ready || request.starts_with(b"GET /live ");
    let status = if is_well { "200 OK" } else { "503 Service Unavailable" };
    let body = format!("{state:?}; last failure: {failure:?}\n");
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n", body.len());
    let _ = stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).await;
}
