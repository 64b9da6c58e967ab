//! [`Port`]: a port for a server that binds it later, or again.

use core::net::{Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::net::TcpListener;
use std::process;

/// The first of the ports in pairs. Systems choose ports of connections, and of listeners that do not
/// name theirs, from 32768 on.
const FIRST: u16 = 10_000;
const PAIRS: u16 = 11_000;

/// A port of the loopback interface on which nobody listens but its owner: systems choose it for
/// nobody, and no other process reserves it while this value exists.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Listens on the port below: who gets that one has both.
    _reservation: TcpListener,
}

impl Port {
    /// Reserves a port that is free.
    ///
    /// # Errors
    ///
    /// If none is free.
    pub fn reserve() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Processes begin at different pairs, so that a port is not soon used again: a client may
        // still look for its previous owner.
        let begin = process::id().wrapping_mul(97);
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
        // Others do not know of reservations.
        TcpListener::bind((Ipv4Addr::LOCALHOST, number))?;
        Ok(Self { number, _reservation: reservation })
    }

    /// Returns its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns its address.
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

        let listener = TcpListener::bind(port.address()).expect("its owner listens");
        let first = port.number - 1;
        drop(port);
        let in_use = Port::reserve_pair(first).expect_err("somebody listens");
        assert_eq!(in_use.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
    }
}
