//! Runs every example.
#![cfg(all(feature = "tokio", feature = "blocking"))]

use zk_testkit::serve::Embedded;

macro_rules! example {
    ($name:ident, $file:literal) => {
        #[path = $file]
        #[allow(dead_code, reason = "the example's own `main`")]
        mod $name;
    };
}

example!(blocking, "../examples/blocking.rs");
example!(counter, "../examples/counter.rs");
example!(poll_loop, "../examples/poll_loop.rs");
example!(watch, "../examples/watch.rs");

#[test]
fn threads_count_workers() {
    blocking::run(None).expect("it counts them");
}

#[test]
fn a_loop_on_a_socket_that_never_blocks() {
    poll_loop::run(None).expect("answered");
}

#[tokio::test]
async fn a_service_follows_its_configuration() {
    watch::run(None).await.expect("it is reported of the end");
}

#[tokio::test]
async fn machines_of_several_owners_share_a_counter() {
    let ensemble = Embedded::start(3).await.expect("an ensemble");
    let sum = counter::run(&ensemble.connect_string()).await.expect("the sum");
    assert_eq!(sum, 321);
}
