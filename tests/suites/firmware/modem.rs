//! The modem at the board's UART. `tests/firmware/src/line.rs` describes its blocks.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const HANG_UP: u8 = 0xff;

/// A block from the board.
enum Block {
    Data(Vec<u8>),
    Control { connection: u8, server: u8 },
}

/// Connects the board to these servers, as it asks, until its UART is closed.
pub(super) async fn run(uart: TcpStream, servers: Vec<SocketAddr>) {
    let (from_board, mut to_board) = uart.into_split();
    let (sender, mut blocks) = unbounded_channel();
    tokio::spawn(read_blocks(from_board, sender));
    let mut connection = 0;
    let mut server = None;
    // An error means that QEMU has ended.
    while let Ok(true) =
        step(&mut blocks, &mut to_board, &servers, &mut connection, &mut server).await
    {}
}

async fn step(
    blocks: &mut UnboundedReceiver<Block>,
    to_board: &mut OwnedWriteHalf,
    servers: &[SocketAddr],
    connection: &mut u8,
    server: &mut Option<TcpStream>,
) -> std::io::Result<bool> {
    let mut buffer = [0; 255];
    tokio::select! {
        block = blocks.recv() => match block {
            None => return Ok(false),
            Some(Block::Data(bytes)) => {
                if let Some(stream) = server {
                    // If it is broken, reading reports it.
                    let _ = stream.write_all(&bytes).await;
                }
            }
            Some(Block::Control { server: HANG_UP, .. }) => *server = None,
            Some(Block::Control { connection: new, server: index }) => {
                *connection = new;
                let address = servers[usize::from(index) % servers.len()];
                *server = TcpStream::connect(address).await.ok();
                to_board.write_all(&[0, new, u8::from(server.is_some())]).await?;
            }
        },
        read = read(server, &mut buffer) => match read {
            Ok(length @ 1..) => {
                to_board.write_all(&[length as u8]).await?;
                to_board.write_all(&buffer[..length]).await?;
            }
            _ => {
                *server = None;
                to_board.write_all(&[0, *connection, 0]).await?;
            }
        },
    }
    Ok(true)
}

async fn read(server: &mut Option<TcpStream>, buffer: &mut [u8]) -> std::io::Result<usize> {
    match server {
        Some(stream) => stream.read(buffer).await,
        None => std::future::pending().await,
    }
}

async fn read_blocks(mut uart: OwnedReadHalf, blocks: UnboundedSender<Block>) {
    while let Ok(length) = uart.read_u8().await {
        let mut bytes = vec![0; if length == 0 { 2 } else { length.into() }];
        if uart.read_exact(&mut bytes).await.is_err() {
            return;
        }
        let block = match (length, &bytes[..]) {
            (0, &[connection, server]) => Block::Control { connection, server },
            _ => Block::Data(bytes),
        };
        if blocks.send(block).is_err() {
            return;
        }
    }
}
