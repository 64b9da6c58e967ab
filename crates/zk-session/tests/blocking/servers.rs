//! The choice of the server.

use std::io::{Read as _, Write as _};
use std::thread;

use zk_session::State;
use zk_session::blocking::Client;

use crate::server::{Listener, PATIENCE, SESSION};

const FIRST_FIRST: u64 = 1;

/// A read-write server answers exactly `rw`.
#[test]
fn a_read_only_server_is_left_for_a_read_write_one() {
    let (read_only, other) = (Listener::new(), Listener::new());
    let both = format!("{},{}", read_only.address(), other.address());
    // With this seed the first server is tried first.
    let builder = Client::builder(&both).read_only(true).seed(FIRST_FIRST);
    let connecting = thread::spawn(move || builder.connect().expect("a server answers"));
    let mut server = read_only.accept();
    server.handshake();
    server.answer_handshake_as(20_000, SESSION, true);
    let client = connecting.join().unwrap();
    assert!(matches!(client.state(), State::ReadOnly { .. }));
    for answer in [&b"ro"[..], b"rw\n", b"", b"rw"] {
        let mut asked = other.accept();
        let mut question = [0; 4];
        asked.stream.read_exact(&mut question).unwrap();
        assert_eq!(&question, b"isro");
        asked.stream.write_all(answer).unwrap();
    }
    let mut server = other.accept();
    server.handshake();
    server.answer_handshake_as(20_000, SESSION, false);
    let can_write = |state| matches!(state, State::Connected { .. });
    assert!(can_write(client.wait_for_state(can_write, Some(PATIENCE))));
}
