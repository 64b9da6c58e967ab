//! The addresses of servers: which of them to try next, and the look-ups of their names.
//!
//! A name can have several addresses, such as that of a headless service. Each of them can fail by
//! itself, so each is tried by itself, and its failure is remembered.

use alloc::boxed::Box;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::task::{Poll, Waker};
use core::time::Duration;
use std::io;
use std::net::ToSocketAddrs as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::connect_string::ServerAddress;
use crate::threads::spawn;

/// How long an address that has refused a connection is not tried again.
///
/// One attempt tries all addresses that refuse, and the session then makes an attempt for each of
/// them, without a pause. The pause between rounds is longer than this.
const REFUSED: Duration = Duration::from_millis(40);

type Resolve = dyn Fn(&ServerAddress) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The addresses of the servers of a client. Clones share them.
#[derive(Clone)]
pub(crate) struct AddressBook {
    hosts: Arc<Mutex<Vec<KnownHost>>>,
    resolve: Arc<Resolve>,
}

/// A server by its name.
struct KnownHost {
    server: ServerAddress,
    /// The newest addresses that a look-up has found, the least recently tried one first.
    known: Vec<KnownAddress>,
    /// The address of the latest connection.
    connected: Option<SocketAddr>,
    is_looked_up: bool,
    /// The last failure, of a look-up or of an address.
    error: Option<(io::ErrorKind, String)>,
    /// Wakes the attempts that wait for the look-up.
    wakers: Vec<Waker>,
}

struct KnownAddress {
    address: SocketAddr,
    /// Whether the address was tried, and has not served the session since.
    has_failed: bool,
    refused_at: Option<Instant>,
}

impl Default for AddressBook {
    fn default() -> Self {
        Self::new(|server| {
            (server.host.as_str(), server.port).to_socket_addrs().map(Iterator::collect)
        })
    }
}

impl fmt::Debug for AddressBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressBook").finish_non_exhaustive()
    }
}

impl AddressBook {
    pub(crate) fn new(
        resolve: impl Fn(&ServerAddress) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self { hosts: Arc::default(), resolve: Arc::new(resolve) }
    }

    /// Returns how many addresses each server has, as far as known. Looks up the names without any,
    /// so that no attempt has to wait for its own look-up. Forgets all other servers.
    pub(crate) fn count(&self, servers: &[ServerAddress]) -> Vec<usize> {
        let mut hosts = self.lock();
        hosts.retain(|host| servers.contains(&host.server));
        let count = |server| {
            let host = host_of(&mut hosts, server);
            if host.known.is_empty() {
                self.look_up(host);
            }
            host.known.len().max(1)
        };
        servers.iter().map(count).collect()
    }

    /// Begins an attempt to connect, and looks the name up meanwhile.
    pub(crate) fn candidates(&self, server: &ServerAddress) -> Candidates {
        self.look_up(host_of(&mut self.lock(), server));
        Candidates { book: self.clone(), server: server.clone(), tried: Vec::new() }
    }

    /// Records that the latest connection to the server has served the session.
    pub(crate) fn served(&self, server: &ServerAddress) {
        let mut hosts = self.lock();
        let host = host_of(&mut hosts, server);
        if let Some(known) = host.connected.and_then(|address| host.find(address)) {
            known.has_failed = false;
        }
    }

    /// Looks up a name in a thread of its own, since no look-up has a time limit. At most one is
    /// under way for each name.
    fn look_up(&self, host: &mut KnownHost) {
        if let Ok(address) = host.server.host.parse::<IpAddr>() {
            return host.learn([SocketAddr::new(address, host.server.port)].into(), 0);
        }
        if host.is_looked_up {
            return;
        }
        let (book, server) = (self.clone(), host.server.clone());
        let look_up = move || {
            let found = (book.resolve)(&server);
            let mut hosts = book.lock();
            let host = host_of(&mut hosts, &server);
            host.is_looked_up = false;
            match found {
                Ok(found) => host.learn(found, fastrand::u64(..)),
                Err(error) => host.error = Some((error.kind(), error.to_string())),
            }
            let wakers = core::mem::take(&mut host.wakers);
            drop(hosts);
            wakers.into_iter().for_each(Waker::wake);
        };
        match spawn("zookeeper-lookup", Box::new(look_up)) {
            Ok(()) => host.is_looked_up = true,
            Err(error) => host.error = Some((error.kind(), error.to_string())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<KnownHost>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn host_of<'a>(hosts: &'a mut Vec<KnownHost>, server: &ServerAddress) -> &'a mut KnownHost {
    let place = hosts.iter().position(|host| host.server == *server).unwrap_or_else(|| {
        hosts.push(KnownHost {
            server: server.clone(),
            known: Vec::new(),
            connected: None,
            is_looked_up: false,
            error: None,
            wakers: Vec::new(),
        });
        hosts.len() - 1
    });
    &mut hosts[place]
}

/// Which address to try next: without a clock and randomness of its own.
impl KnownHost {
    /// Replaces the addresses by those that a look-up has found. New ones come first, in random
    /// order, so that clients spread over them.
    fn learn(&mut self, mut found: Vec<SocketAddr>, seed: u64) {
        if found.is_empty() {
            return;
        }
        self.known.retain(|known| found.contains(&known.address));
        fastrand::Rng::with_seed(seed).shuffle(&mut found);
        for address in found {
            if self.find(address).is_none() {
                self.known.insert(0, KnownAddress { address, has_failed: false, refused_at: None });
            }
        }
    }

    fn find(&mut self, address: SocketAddr) -> Option<&mut KnownAddress> {
        self.known.iter_mut().find(|known| known.address == address)
    }

    /// Takes the next address besides those that the attempt has tried. One that has served the
    /// session comes before one that has failed, and of several the least recently tried one first.
    fn take_next(&mut self, tried: &[SocketAddr], now: Instant) -> Option<SocketAddr> {
        let is_open = |known: &KnownAddress| {
            !tried.contains(&known.address)
                && known.refused_at.is_none_or(|at| now.duration_since(at) >= REFUSED)
        };
        let works = self.known.iter().position(|known| is_open(known) && !known.has_failed);
        let mut next = self.known.remove(works.or_else(|| self.known.iter().position(is_open))?);
        let address = next.address;
        next.has_failed = true;
        self.known.push(next);
        Some(address)
    }
}

/// The addresses for one attempt to connect to a server.
pub(crate) struct Candidates {
    book: AddressBook,
    server: ServerAddress,
    tried: Vec<SocketAddr>,
}

impl Candidates {
    /// Takes the next address. Returns `None` if there is none. Without one, waits for a look-up
    /// that is under way.
    pub(crate) fn poll_next(&mut self, waker: &Waker) -> Poll<Option<SocketAddr>> {
        let mut hosts = self.book.lock();
        let host = host_of(&mut hosts, &self.server);
        if let Some(address) = host.take_next(&self.tried, Instant::now()) {
            self.tried.push(address);
            return Poll::Ready(Some(address));
        }
        if !host.is_looked_up {
            return Poll::Ready(None);
        }
        if !host.wakers.iter().any(|known| known.will_wake(waker)) {
            host.wakers.push(waker.clone());
        }
        Poll::Pending
    }

    /// Returns whether the name has one address, and no look-up could find another one.
    pub(crate) fn is_single(&self) -> bool {
        let mut hosts = self.book.lock();
        let host = host_of(&mut hosts, &self.server);
        host.known.len() == 1 && !host.is_looked_up
    }

    /// Records the result of the attempt at an address.
    pub(crate) fn tried<S>(&self, address: SocketAddr, made: &io::Result<S>) {
        let mut hosts = self.book.lock();
        let host = host_of(&mut hosts, &self.server);
        match made {
            Ok(_) => host.connected = Some(address),
            Err(error) => {
                host.error = Some((error.kind(), error.to_string()));
                if let Some(known) = host.find(address) {
                    known.refused_at = Some(Instant::now());
                }
            }
        }
    }

    /// Returns why no address is left.
    pub(crate) fn error(&self) -> io::Error {
        match &host_of(&mut self.book.lock(), &self.server).error {
            Some((kind, error)) => io::Error::new(*kind, error.clone()),
            None => io::Error::new(io::ErrorKind::NotFound, "the name has no address"),
        }
    }
}

#[cfg(test)]
mod tests;
