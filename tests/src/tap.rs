//! A network interface whose other end is in this process, for TCP without the system's sockets.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::net::{TcpListener, TcpStream};

use crate::skipped::skip;

/// A TAP interface. It is gone when both this and the program that has opened it have ended.
#[derive(Debug)]
pub struct Tap {
    name: String,
    subnet: u8,
}

impl Tap {
    /// Makes an interface with an address. Without the rights to do so, prints that the test is
    /// skipped.
    #[must_use]
    pub fn start_or_skip() -> Option<Self> {
        static COUNT: AtomicU8 = AtomicU8::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = std::process::id();
        let subnet = (id as u8).wrapping_add(count);
        let tap = Self { name: format!("zk{id}-{count}"), subnet };
        let address = format!("{}/24", tap.host());
        let is_made = tap.ip(&["tuntap", "add", "mode", "tap", "dev", &tap.name])
            && tap.ip(&["address", "add", &address, "dev", &tap.name])
            && tap.ip(&["link", "set", &tap.name, "up"]);
        if !is_made {
            skip("no right to make a network interface");
            return None;
        }
        Some(tap)
    }

    fn ip(&self, arguments: &[&str]) -> bool {
        let output = Command::new("ip").args(arguments).output();
        output.is_ok_and(|output| output.status.success())
    }

    /// Returns the name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address of the system.
    #[must_use]
    pub fn host(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.subnet, 1)
    }

    /// Returns the address of the other end.
    #[must_use]
    pub fn guest(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.subnet, 2)
    }

    /// Returns an address of the system that refuses connections.
    #[must_use]
    pub fn closed(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.host(), 1)
    }

    /// Forwards connections to a server, and returns the address for them.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub async fn forward(&self, server: SocketAddr) -> io::Result<SocketAddrV4> {
        let listener = TcpListener::bind((self.host(), 0)).await?;
        let address = SocketAddrV4::new(self.host(), listener.local_addr()?.port());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(server).await?;
                    server.set_nodelay(true)?;
                    client.set_nodelay(true)?;
                    tokio::io::copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
        Ok(address)
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.ip(&["link", "delete", &self.name]);
    }
}
