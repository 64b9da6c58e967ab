use std::sync::{Mutex, mpsc};

use tokio::io::DuplexStream;

use super::*;
use crate::sasl::SaslError;
use crate::threads::REFUSES;

struct Pipes;

impl Connect for Pipes {
    type Transport = DuplexStream;

    fn connect(
        &mut self,
        _: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>> {
        Box::pin(async { Ok(tokio::io::duplex(1).0) })
    }
}

/// Reports that it begins, and waits.
#[derive(Debug)]
struct Waiting(mpsc::Sender<()>, Mutex<mpsc::Receiver<()>>);

impl Mechanism for Waiting {
    fn name(&self) -> &'static str {
        "WAITING"
    }

    fn begin(&self, _: &ServerAddress) -> Result<BegunExchange, SaslError> {
        self.0.send(()).expect("the test runs");
        let _ = self.1.lock().expect("nobody panics").recv();
        Err(SaslError::Mechanism("it was only waiting".into()))
    }
}

#[tokio::test]
async fn a_mechanism_that_hangs_occupies_few_threads() {
    let (begins, begun) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let mechanism: Arc<dyn Mechanism> = Arc::new(Waiting(begins, Mutex::new(released)));
    let mut connector = Connector::new(Pipes, Some(mechanism));
    let server = ServerAddress { host: "one".into(), port: 2181 };
    let mut cx = Context::from_waker(core::task::Waker::noop());
    for _ in 0..MOST_BEGINS {
        connector.connect_to(Some(server.clone()));
        connector.poll(&mut cx);
        begun.recv().expect("it begins");
        assert!(connector.take_made().is_none());
    }
    connector.connect_to(Some(server));
    connector.poll(&mut cx);
    let made = connector.take_made().expect("it fails at once").map(drop);
    assert_eq!(made.map_err(|error| error.kind()), Err(io::ErrorKind::ResourceBusy));
    drop(release);
}

#[tokio::test]
async fn without_a_thread_for_a_mechanism_the_attempt_fails() {
    let (begins, begun) = mpsc::channel();
    let (release, released) = mpsc::channel();
    drop(release);
    let mechanism: Arc<dyn Mechanism> = Arc::new(Waiting(begins, Mutex::new(released)));
    let mut connector = Connector::new(Pipes, Some(mechanism));
    let server = ServerAddress { host: "one".into(), port: 2181 };
    // More often than there are permits.
    for _ in 0..2 * MOST_BEGINS {
        connector.connect_to(Some(server.clone()));
        REFUSES.set(true);
        connector.poll(&mut Context::from_waker(core::task::Waker::noop()));
        REFUSES.set(false);
        let made = connector.take_made().expect("it fails at once").map(drop);
        assert_eq!(made.map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));
    }
    connector.connect_to(Some(server));
    let made = core::future::poll_fn(|cx| {
        connector.poll(cx);
        connector.take_made().map_or(Poll::Pending, Poll::Ready)
    });
    assert!(made.await.is_err());
    assert!(begun.try_recv().is_ok(), "the mechanism has begun");
}
