//! The example `service_blocking`: it survives every end of its session.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use zk_recipes::{FencingToken, Mutex};
use zk_session::proto::NodeKind;

use super::*;
use crate::example::serve;

/// Longer than any step here takes.
const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_service_survives_the_end_of_its_session_at_work_and_in_the_queue() {
    let ensemble = Ensemble::start(1);
    let at = ensemble.embedded.connect_string();
    let other = Client::connect(&at).expect("connected");
    other.ensure_path("/settings").wait().expect("created");
    other.create("/settings/colour", b"blue", NodeKind::Persistent).wait().expect("created");
    let (worked, work) = mpsc::channel();
    // It ends with the test.
    thread::spawn(move || {
        let ended = serve(&at, |guard, colour, leads| {
            let _ = worked.send((guard.fencing_token(), colour, leads));
            thread::sleep(Duration::from_millis(20));
        });
        panic!("the service has ended: {:?}", ended.map_err(|error| error.to_string()));
    });
    let expire_service = || {
        let sessions = ensemble.embedded.with(|ensemble| ensemble.sessions().collect::<Vec<_>>());
        for session in sessions.into_iter().filter(|id| *id != other.session_id()) {
            assert!(ensemble.embedded.expire_session(session));
        }
    };
    let mut last = FencingToken(0, 0);
    let mut next = |wanted: &str| loop {
        let (token, colour, leads) = work.recv_timeout(LONG).expect("it goes on");
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
        if colour == wanted && leads {
            break;
        }
    };
    next("blue");
    // At work.
    expire_service();
    other.set_data("/settings/colour", b"red", None).wait().expect("set");
    next("red");
    // In the queue.
    let mutex = Mutex::new(&other, "/locks/printer").expect("a valid path");
    let held = mutex.acquire().timeout(LONG).wait().expect("acquired");
    while mutex.contenders().wait().expect("listed").len() < 2 {
        thread::sleep(Duration::from_millis(1));
    }
    expire_service();
    other.set_data("/settings/colour", b"green", None).wait().expect("set");
    held.release().wait().expect("released");
    next("green");
}
