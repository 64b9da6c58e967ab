//! [`Port`]: a port for a server that binds it later, or again.

use core::net::{Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::net::TcpListener;
use std::process;

/// The first port of the first pair. All pairs are below the ports that systems choose for
/// connections, and for listeners on any port: from 32768 on Linux, from 49152 on macOS.
const FIRST: u16 = 10_000;
const PAIRS: u16 = 11_000;

/// A TCP port of the loopback interface.
///
/// While a [reserved](Self::reserve) one exists, no other one in any process has the same number.
/// Systems do not choose it for connections.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Bound to the port below. Its owner has both. `None` if the number was chosen.
    _reservation: Option<TcpListener>,
}

impl Port {
    /// Reserves a free port.
    ///
    /// # Errors
    ///
    /// If none is free.
    pub fn reserve() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Processes that follow each other begin far apart: clients may still connect to ports that
        // were reserved before. The factor and the number of pairs have no common divisor.
        let begin = process::id().wrapping_mul(6_797);
        for _ in 0..PAIRS {
            let next = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
            let pair = u16::try_from(next % u32::from(PAIRS)).expect("a remainder of a u16");
            match Self::reserve_pair(FIRST + 2 * pair) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                done => return done,
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    fn reserve_pair(first: u16) -> io::Result<Self> {
        let reservation = TcpListener::bind((Ipv4Addr::LOCALHOST, first))?;
        let number = first + 1;
        // Programs that reserve nothing may listen here.
        TcpListener::bind((Ipv4Addr::LOCALHOST, number))?;
        Ok(Self { number, _reservation: Some(reservation) })
    }

    /// Returns the port of this number. Nothing is reserved.
    pub(crate) const fn chosen(number: u16) -> Self {
        Self { number, _reservation: None }
    }

    /// Returns the number of the port.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the address with this port.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_gets_a_port_while_it_is_reserved() {
        let port = Port::reserve().expect("a free port");
        let again = Port::reserve_pair(port.number - 1).expect_err("it is reserved");
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_port_on_which_somebody_listens_is_not_reserved() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let number = listener.local_addr().expect("it is bound").port();
        let in_use = Port::reserve_pair(number - 1).expect_err("somebody listens");
        assert_eq!(in_use.kind(), io::ErrorKind::AddrInUse);
    }
}
