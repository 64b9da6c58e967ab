use std::sync::mpsc;

use super::*;
use crate::threads::REFUSES;

#[test]
fn an_address_that_drops_packets_does_not_delay_the_others() {
    let addresses: Vec<_> = (1..=4).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
    let (end, swallowed) = mpsc::channel::<()>();
    let swallowed = Arc::new(Mutex::new(swallowed));
    let connect = move |address: &SocketAddr, _| match address.port() {
        1 | 3 => {
            let _ = swallowed.lock().unwrap().recv();
            Err(io::ErrorKind::TimedOut.into())
        }
        2 => Err(io::ErrorKind::ConnectionRefused.into()),
        port => Ok(port),
    };
    let first_of = |addresses: &[SocketAddr]| {
        first_of(Candidates::of(addresses), Duration::ZERO, MAX_WAIT, connect.clone())
    };
    assert_eq!(first_of(&addresses).unwrap(), 4);
    drop(end);
    assert!(first_of(&addresses[..3]).is_err());
    assert_eq!(first_of(&addresses[3..]).unwrap(), 4);
    assert_eq!(first_of(&[]).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn without_threads_the_addresses_are_tried_in_turn() {
    let addresses: Vec<_> = (1..=3).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
    let connect = |address: &SocketAddr, _| match address.port() {
        3 => Ok(3),
        _ => Err(io::ErrorKind::ConnectionRefused.into()),
    };
    REFUSES.set(true);
    let made = first_of(Candidates::of(&addresses), MAX_WAIT, MAX_WAIT, connect);
    REFUSES.set(false);
    assert_eq!(made.unwrap(), 3);
}

#[test]
fn a_look_up_that_hangs_does_not_outlive_the_attempt() {
    let (end, hangs) = mpsc::channel::<()>();
    let hangs = Mutex::new(hangs);
    let book = AddressBook::new(move |_| {
        let _ = hangs.lock().unwrap().recv();
        Err(io::ErrorKind::NotFound.into())
    });
    let tcp = TcpConnect { addresses: book };
    let server = ServerAddress { host: "name".into(), port: 1 };
    let made = tcp.connect(&server, MIN_WAIT).map(drop);
    assert_eq!(made.unwrap_err().kind(), io::ErrorKind::TimedOut);
    drop(end);
}
