use std::sync::mpsc;

use super::*;
use crate::threads::REFUSES;

impl AddressBook {
    /// Makes one that knows these addresses of a name, in this order. Look-ups fail.
    pub(crate) fn of(server: &ServerAddress, addresses: &[SocketAddr]) -> Self {
        let book = Self::new(|_| Err(io::ErrorKind::NotFound.into()));
        let known = |address: &SocketAddr| KnownAddress {
            address: *address,
            has_failed: false,
            refused_at: None,
        };
        host_of(&mut book.lock(), server).known = addresses.iter().map(known).collect();
        book
    }
}

impl Candidates {
    /// Makes those of a name with these addresses, in this order, without a look-up.
    pub(crate) fn of(addresses: &[SocketAddr]) -> Self {
        let server = ServerAddress { host: "name".into(), port: 2181 };
        Self { book: AddressBook::of(&server, addresses), server, tried: Vec::new() }
    }
}

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
