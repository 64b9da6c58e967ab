//! A modem for a board in QEMU: connects it to the servers of an ensemble.
//!
//! `modem [host:port,...]`. Without addresses, it starts an ensemble of three servers. In the folder
//! `tests/firmware`, `cargo run` then runs the board.

#[path = "../suites/firmware/modem.rs"]
mod modem;

use std::error::Error;
use std::net::SocketAddr;

use tokio::net::TcpListener;
use zk_recipes::session::{Client, proto::NodeKind};
use zk_testkit::serve::Embedded;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let embedded = Embedded::start(3).await?;
    let servers = std::env::args().nth(1).unwrap_or_else(|| embedded.connect_string());
    let client = Client::connect(&servers).await?;
    // The node that the board writes to. It may be there.
    let _ = client.create("/turns-of-firmware", b"", NodeKind::Persistent).await;
    let addresses = servers.split(',').map(str::parse).collect::<Result<Vec<SocketAddr>, _>>()?;
    let listener = TcpListener::bind("127.0.0.1:7213").await?;
    println!("waiting for boards; the servers are {servers}");
    loop {
        let (uart, _) = listener.accept().await?;
        uart.set_nodelay(true)?;
        tokio::spawn(modem::run(uart, addresses.clone()));
    }
}
