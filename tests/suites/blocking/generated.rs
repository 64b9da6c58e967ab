//! The blocking client under generated replies.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use zk_session::Transaction;
use zk_session::blocking::Client;
use zk_session::proto::NodeKind;

use super::{SESSION_TIMEOUT, fuzz_client};

/// Sends requests until `is_over`, whatever they return.
fn ask(at: &str, is_over: &AtomicBool) {
    let client = Client::builder(at).session_timeout(SESSION_TIMEOUT).connect().expect("a session");
    while !is_over.load(Ordering::Relaxed) {
        let _ = client.get_data("/a").wait();
        let _ = client.exists("/a").wait();
        let _ = client.get_children("/a").wait();
        let _ = client.create("/a/b-", b"", NodeKind::EphemeralSequential).wait();
        let _ = client.set_data("/a", b"1", None).wait();
        let _ = client
            .transaction(
                Transaction::new().create("/a", b"", NodeKind::Persistent).delete("/b", None),
            )
            .wait();
        let _ = client.delete("/a", None).wait();
    }
}

#[test]
fn no_generated_reply_silences_the_client() {
    for (is_odd, count) in [(false, 3_000), (true, 300)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let at = listener.local_addr().expect("bound").to_string();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let client = scope.spawn(|| ask(&at, &is_over));
            let mut ended = || client.is_finished().then(|| "the client ended".to_owned());
            let found = fuzz_client::fuzz(&listener, is_odd, 1, count, &mut ended);
            is_over.store(true, Ordering::Relaxed);
            drop(listener);
            assert_eq!(found.expect("no panic"), None);
        });
    }
}
