//! The network and the clock of embassy, for the driver of [`io_async`](super::io_async).

use core::future::pending;
use core::time::Duration;

use embassy_futures::select::select;
use embassy_net::IpEndpoint;
use embassy_net::tcp::TcpSocket;
use embassy_sync::blocking_mutex::raw::RawMutex;
use embassy_sync::signal::Signal;
use embassy_time::{Instant as Clock, Timer};
use embedded_io_async::{Read, Write};
use zk_session::time::Instant;

use super::io_async::Network;

/// A socket, and the servers in the order of the session's indices.
pub struct Socket<'a> {
    /// The socket.
    pub socket: TcpSocket<'a>,
    /// The servers.
    pub servers: &'a [IpEndpoint],
}

impl Network for Socket<'_> {
    async fn connect(&mut self, server: usize) -> bool {
        match self.servers.get(server) {
            Some(server) => self.socket.connect(*server).await.is_ok(),
            None => false,
        }
    }

    async fn hang_up(&mut self) {
        self.socket.abort();
        // Without the flush, the reset never leaves. It cannot if nobody has the address any more.
        select(self.socket.flush(), Timer::after_secs(1)).await;
    }

    fn split(&mut self) -> (impl Read, impl Write) {
        self.socket.split()
    }
}

/// Returns the time. The time driver must count while the processor sleeps.
pub fn now() -> Instant {
    Instant::after_start(Duration::from_micros(Clock::now().as_micros()))
}

/// Waits until a time, or until the program signals that it has something to do.
pub async fn wait(signal: &Signal<impl RawMutex, ()>, until: Option<Instant>) {
    let timer = async {
        match until {
            Some(until) => {
                // Rounded up: an early timer would find nothing due.
                let micros = until.since_start().as_nanos().div_ceil(1_000);
                Timer::at(Clock::from_micros(micros as u64)).await;
            }
            None => pending().await,
        }
    };
    select(timer, signal.wait()).await;
}
