//! Connects, writes and reads on tokio alone.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let at = std::env::args().nth(1).ok_or("an address is needed")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let read = runtime.block_on(async {
        let task = tokio::spawn(async move {
            let mut stream = TcpStream::connect(at).await?;
            stream.write_all(b"ruok").await?;
            let mut reply = Vec::new();
            stream.read_to_end(&mut reply).await.map(|_| reply)
        });
        tokio::time::timeout(Duration::from_secs(10), task).await
    });
    println!("{:?}", read??);
    Ok(())
}
