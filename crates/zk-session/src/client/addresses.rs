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
    hosts: Arc<Mutex<Vec<Host>>>,
    resolve: Arc<Resolve>,
}

/// A server by its name.
struct Host {
    server: ServerAddress,
    /// The newest addresses that a look-up has found, the least recently tried one first.
    known: Vec<Known>,
    /// The address of the latest connection.
    connected: Option<SocketAddr>,
    is_looked_up: bool,
    /// The last failure, of a look-up or of an address.
    error: Option<(io::ErrorKind, String)>,
    /// Wakes the attempts that wait for the look-up.
    wakers: Vec<Waker>,
}

struct Known {
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
    fn look_up(&self, host: &mut Host) {
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

    fn lock(&self) -> MutexGuard<'_, Vec<Host>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn host_of<'a>(hosts: &'a mut Vec<Host>, server: &ServerAddress) -> &'a mut Host {
    let place = hosts.iter().position(|host| host.server == *server).unwrap_or_else(|| {
        hosts.push(Host {
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
impl Host {
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
                self.known.insert(0, Known { address, has_failed: false, refused_at: None });
            }
        }
    }

    fn find(&mut self, address: SocketAddr) -> Option<&mut Known> {
        self.known.iter_mut().find(|known| known.address == address)
    }

    /// Takes the next address besides those that the attempt has tried. One that has served the
    /// session comes before one that has failed, and of several the least recently tried one first.
    fn take_next(&mut self, tried: &[SocketAddr], now: Instant) -> Option<SocketAddr> {
        let is_open = |known: &Known| {
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
    #[cfg(feature = "blocking")]
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
impl AddressBook {
    /// Makes one that knows these addresses of a name, in this order. Look-ups fail.
    pub(crate) fn of(server: &ServerAddress, addresses: &[SocketAddr]) -> Self {
        let book = Self::new(|_| Err(io::ErrorKind::NotFound.into()));
        let known =
            |address: &SocketAddr| Known { address: *address, has_failed: false, refused_at: None };
        host_of(&mut book.lock(), server).known = addresses.iter().map(known).collect();
        book
    }
}

#[cfg(test)]
impl Candidates {
    /// Makes those of a name with these addresses, in this order, without a look-up.
    pub(crate) fn of(addresses: &[SocketAddr]) -> Self {
        let server = ServerAddress { host: "name".into(), port: 2181 };
        Self { book: AddressBook::of(&server, addresses), server, tried: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::threads::REFUSES;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], 2181))
    }

    fn server(host: &str) -> ServerAddress {
        ServerAddress { host: host.into(), port: 2181 }
    }

    /// Waits for the next address.
    fn next(candidates: &mut Candidates) -> Option<SocketAddr> {
        loop {
            match candidates.poll_next(Waker::noop()) {
                Poll::Ready(next) => return next,
                Poll::Pending => std::thread::yield_now(),
            }
        }
    }

    fn all(book: &AddressBook) -> Vec<SocketAddr> {
        let mut candidates = book.candidates(&server("name"));
        core::iter::from_fn(|| next(&mut candidates)).collect()
    }

    /// Begins an attempt, whose first address accepts.
    fn connect(book: &AddressBook) -> SocketAddr {
        let mut candidates = book.candidates(&server("name"));
        let first = next(&mut candidates).expect("there is an address");
        candidates.tried(first, &Ok(()));
        first
    }

    #[test]
    fn an_address_that_does_not_serve_comes_last() {
        let book = AddressBook::new(|_| Ok((1..=3).map(address).collect()));
        let bad = connect(&book);
        let good = connect(&book);
        assert_ne!(bad, good);
        book.served(&server("name"));
        let other = connect(&book);
        assert!(![bad, good].contains(&other), "it was not tried yet");
        // The others have failed, this one has served.
        assert_eq!(connect(&book), good);
        // Now all have failed, and the least recently tried one comes first.
        assert_eq!([connect(&book), connect(&book), connect(&book)], [bad, other, good]);
        assert_eq!(all(&book), [bad, other, good]);
    }

    #[test]
    fn an_address_that_has_just_refused_is_not_tried_again_at_once() {
        let book = AddressBook::new(|_| Ok((1..=2).map(address).collect()));
        let mut candidates = book.candidates(&server("name"));
        while let Some(address) = next(&mut candidates) {
            candidates.tried::<()>(address, &Err(io::ErrorKind::ConnectionRefused.into()));
        }
        let again = book.candidates(&server("name"));
        assert_eq!(again.error().kind(), io::ErrorKind::ConnectionRefused);
        let mut hosts = book.lock();
        let host = host_of(&mut hosts, &server("name"));
        let refused_at = host.known[0].refused_at.expect("it has refused");
        host.known.iter_mut().for_each(|known| known.refused_at = Some(refused_at));
        let before = refused_at + REFUSED - Duration::from_nanos(1);
        assert_eq!(host.take_next(&[], before), None);
        assert!(host.take_next(&[], refused_at + REFUSED).is_some());
    }

    #[test]
    fn new_addresses_come_first_in_an_order_of_their_seed() {
        let of = |seed| {
            let book = AddressBook::of(&server("name"), &[address(1)]);
            let mut hosts = book.lock();
            let host = host_of(&mut hosts, &server("name"));
            host.learn((1..=9).map(address).collect(), seed);
            let now = Instant::now();
            let tried = core::iter::repeat_with(|| host.take_next(&[], now)).take(9);
            tried.collect::<Option<Vec<_>>>().expect("nine")
        };
        let [first, second] = [of(1), of(2)];
        assert_ne!(first, second);
        assert_eq!(first, of(1));
        for order in [first, second] {
            assert_eq!(order[8], address(1), "the one that was known");
        }
    }

    #[test]
    fn the_known_addresses_serve_while_one_look_up_is_under_way() {
        let (answer, answers) = mpsc::channel::<io::Result<Vec<SocketAddr>>>();
        let (asked, questions) = mpsc::channel();
        let answers = Mutex::new((answers, asked));
        let book = AddressBook::new(move |server| {
            let answers = answers.lock().unwrap();
            answers.1.send(server.host.clone()).unwrap();
            answers.0.recv().unwrap()
        });
        let servers = [server("name")];
        assert_eq!(book.count(&servers), [1]);
        assert_eq!(questions.recv().unwrap(), "name");
        let mut first = book.candidates(&servers[0]);
        assert!(first.poll_next(Waker::noop()).is_pending());
        answer.send(Ok(Vec::from([address(1)]))).unwrap();
        assert_eq!(next(&mut first), Some(address(1)));
        assert_eq!(next(&mut first), None);
        // The next attempts use it, and wait only if it fails.
        for _ in 0..3 {
            let mut later = book.candidates(&servers[0]);
            assert_eq!(later.poll_next(Waker::noop()), Poll::Ready(Some(address(1))));
            assert!(later.poll_next(Waker::noop()).is_pending());
        }
        let mut waiting = book.candidates(&servers[0]);
        assert_eq!(next(&mut waiting), Some(address(1)));
        questions.recv().unwrap();
        answer.send(Ok(Vec::from([address(2), address(3)]))).unwrap();
        // The attempt goes on with what was found meanwhile.
        let found = [next(&mut waiting), next(&mut waiting)];
        assert!(found.contains(&Some(address(2))) && found.contains(&Some(address(3))));
        assert_eq!(book.count(&servers), [2]);
        // A look-up that fails changes nothing.
        let mut last = book.candidates(&servers[0]);
        questions.recv().unwrap();
        answer.send(Err(io::ErrorKind::NotFound.into())).unwrap();
        assert!(next(&mut last).is_some() && next(&mut last).is_some());
        assert_eq!(next(&mut last), None);
        assert!(questions.try_recv().is_err(), "each look-up ended before the next one");
    }

    #[test]
    fn an_address_needs_no_look_up() {
        let book = AddressBook::new(|_| panic!("it is looked up"));
        for (host, ip) in [("::1", "::1"), ("127.0.0.9", "127.0.0.9")] {
            let mut candidates = book.candidates(&server(host));
            let address = SocketAddr::new(ip.parse().unwrap(), 2181);
            assert_eq!(candidates.poll_next(Waker::noop()), Poll::Ready(Some(address)));
            assert_eq!(candidates.poll_next(Waker::noop()), Poll::Ready(None));
        }
    }

    #[test]
    fn without_a_thread_the_attempt_fails_and_the_next_one_looks_up() {
        let book = AddressBook::new(|_| Ok(Vec::from([address(1)])));
        REFUSES.set(true);
        let mut candidates = book.candidates(&server("name"));
        assert_eq!(next(&mut candidates), None);
        assert_eq!(candidates.error().kind(), io::ErrorKind::WouldBlock);
        REFUSES.set(false);
        assert_eq!(all(&book), [address(1)]);
        REFUSES.set(true);
        assert_eq!(all(&book), [address(1)], "known from before");
        REFUSES.set(false);
    }

    #[test]
    fn servers_that_left_the_list_are_forgotten() {
        let book = AddressBook::new(|_| Ok(Vec::new()));
        book.count(&[server("127.0.0.1"), server("127.0.0.2")]);
        book.count(&[server("127.0.0.2")]);
        assert_eq!(book.lock().len(), 1);
    }
}
