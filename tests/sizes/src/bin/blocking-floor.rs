//! Connects, writes and reads in a thread.

use std::io::{Read, Write};
use std::net::TcpStream;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let at = std::env::args().nth(1).ok_or("an address is needed")?;
    let thread = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(at)?;
        stream.write_all(b"ruok")?;
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).map(|_| reply)
    });
    println!("{:?}", thread.join().map_err(|_| "the thread panicked")??);
    Ok(())
}
