//! One of several replicas of a service: it works while it holds a lock, answers health checks, and
//! hands over at once when it is stopped.
//!
//! `replica host:port,... [address]`, where `address` is that of the health check.

use std::error::Error;
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
    let client = Client::builder(&servers).renew(true).connect().await?;
    let mut stop = signal(SignalKind::terminate())?;
    let ended = tokio::select! {
        ended = run(&client) => ended,
        ended = answer(&health, &client) => ended,
        // The work ends at its next `await`.
        _ = stop.recv() => Ok(()),
    };
    // Deletes the lock node. Otherwise the others would wait for the session timeout.
    client.close().await;
    println!("stopped");
    ended
}

/// Works whenever this replica holds the lock. Ends only with an error that no attempt can mend.
async fn run(client: &Client) -> Result<(), Failure> {
    let mutex = Mutex::new(client, "/locks/report")?;
    loop {
        let guard = mutex.acquire().await?;
        tokio::select! {
            () = work(&guard) => drop(guard),
            loss = guard.lost() => eprintln!("lost: {loss}"),
        }
    }
}

async fn work(guard: &Guard) {
    // Every write carries the token, and the database refuses it behind a greater one.
    println!("works with token {}", guard.fencing_token().0);
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// Answers every request. In a service with axum, this is a route, and `client` its state.
async fn answer(health: &TcpListener, client: &Client) -> Result<(), Failure> {
    loop {
        let (stream, _) = health.accept().await?;
        tokio::spawn(reply(stream, client.state(), client.last_failure()));
    }
}

async fn reply(mut stream: TcpStream, state: State, failure: Option<(String, String)>) {
    let is_ready = matches!(state, State::Connected { .. });
    let status = if is_ready { "200 OK" } else { "503 Service Unavailable" };
    let body = format!("{state:?}; last failure: {failure:?}\n");
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n", body.len());
    let reply = format!("{head}Connection: close\r\n\r\n{body}");
    // A caller that goes away does no harm.
    let _ = stream.read(&mut [0; 1024]).await;
    let _ = stream.write_all(reply.as_bytes()).await;
}
