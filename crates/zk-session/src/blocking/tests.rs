//! A member whose socket is slow to connect to: its queue of connections is full.

use alloc::vec::Vec;
use core::net::SocketAddr;
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::error::Outcome;
use crate::session::Config;

/// More than the standard library has a listener keep.
const MOST_QUEUED: usize = 5000;
const HANG: Duration = Duration::from_millis(50);

/// A listener to which no connection can be made until what it has queued is accepted.
fn full_listener() -> (TcpListener, Vec<TcpStream>, SocketAddr) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&address, HANG);
    let queued: Vec<_> = core::iter::repeat_with(connect).map_while(Result::ok).collect();
    assert!(queued.len() < MOST_QUEUED);
    (listener, queued, address)
}

#[test]
fn deadlines_of_requests_pass_while_a_connection_is_made_and_do_not_end_the_attempt() {
    let (_listener, _queued, address) = full_listener();
    let at: ConnectString = address.to_string().parse().unwrap();
    let patience = Duration::from_millis(100);
    let config = Config { patience: Some(patience), ..Config::new(1, 0) };
    let shared = Arc::new(Shared::new(at.members, TcpConnect, |now| Session::new(now, config)));
    let handle = Arc::new(Handle { shared: shared.clone() });
    let client = Client { handle, chroot: at.chroot, request_timeout: None };
    driver::start(shared.clone(), 1 << 20).unwrap();
    let hurried = client.with_request_timeout(Some(patience / 5));
    for _ in 0..2 {
        // By the deadline; or, on a slow machine, for want of patience.
        assert_eq!(hurried.sync("/").unwrap_err().outcome(), Outcome::NotApplied);
    }
    assert_eq!(client.sync("/"), Err(Error::NoConnection), "told by the session's thread");
    assert_eq!(shared.last_failure(), None);
}
