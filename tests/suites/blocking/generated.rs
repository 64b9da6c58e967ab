//! The blocking client under generated replies.

use std::net::TcpListener;
use std::thread;

use zk_session::blocking::Client;
use zk_session::proto::NodeKind;

use super::{SESSION_TIMEOUT, fuzz_client};

/// Sends requests for ever, whatever they return.
fn ask(at: &str) {
    let client = Client::builder(at).session_timeout(SESSION_TIMEOUT).connect().expect("a session");
    loop {
        let _ = client.get_data("/a").wait();
        let _ = client.exists("/a").wait();
        let _ = client.get_children("/a").wait();
        let _ = client.create("/a/b-", b"", NodeKind::EphemeralSequential).wait();
        let _ = client.set_data("/a", b"1", None).wait();
        let transaction = client.transaction().create("/a", b"", NodeKind::Persistent);
        let _ = transaction.delete("/b", None).commit().wait();
        let _ = client.delete("/a", None).wait();
    }
}

#[test]
fn no_generated_reply_silences_the_client() {
    for (is_odd, count) in [(false, 3_000), (true, 60)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let at = listener.local_addr().expect("bound").to_string();
        // It waits for a server until this process ends.
        let client = thread::spawn(move || ask(&at));
        let mut ended = || client.is_finished().then(|| "the client ended".to_owned());
        let found = fuzz_client::fuzz(&listener, is_odd, 1, count, &mut ended);
        assert_eq!(found.expect("readable requests"), None);
    }
}
