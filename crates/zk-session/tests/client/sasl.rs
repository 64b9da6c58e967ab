//! Mechanisms that need something before they can begin.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use zk_session::proto::{ErrorCode, OpCode, SetSaslResponse};
use zk_session::sasl::{BegunExchange, Exchange, Mechanism, SaslError};
use zk_session::{Client, ConnectError, ServerAddress};

use crate::server::{Server, builder, pipes};

/// Has no ticket for the server `one`, and waits for those of others.
#[derive(Debug)]
struct Tickets(Mutex<mpsc::Receiver<()>>, Arc<AtomicUsize>);

impl Tickets {
    fn new(tickets: mpsc::Receiver<()>) -> Self {
        Self(Mutex::new(tickets), Arc::default())
    }
}

impl Mechanism for Tickets {
    fn name(&self) -> &'static str {
        "TICKETS"
    }

    fn begin(&self, server: &ServerAddress) -> Result<BegunExchange, SaslError> {
        if server.host == "one" {
            self.1.fetch_add(1, Ordering::Relaxed);
            return Err(no_ticket());
        }
        self.0.lock().unwrap().recv().unwrap();
        Ok((Box::new(OneToken), b"ticket".to_vec()))
    }
}

fn no_ticket() -> SaslError {
    SaslError::Mechanism("no ticket".to_string())
}

#[derive(Debug)]
struct OneToken;

impl Exchange for OneToken {
    fn respond(&mut self, _: Option<&[u8]>) -> Result<Option<Vec<u8>>, SaslError> {
        Ok(None)
    }
}

// A thread of a mechanism does not hold up a paused clock, so the clock runs while one begins.

#[tokio::test]
async fn a_mechanism_that_can_begin_at_no_server_ends_the_attempt() {
    let (pipes, _listener) = pipes(1 << 16);
    let (_sender, tickets) = mpsc::channel();
    let tickets = Tickets::new(tickets);
    let begun = tickets.1.clone();
    let client = builder().sasl(tickets).connect_with(pipes).await;
    let (mechanism, server) = ("TICKETS", "one:2181".to_string());
    let error = ConnectError::AuthenticationFailed { mechanism, server, error: no_ticket() };
    assert_eq!(client.unwrap_err(), error);
    assert_eq!(begun.load(Ordering::Relaxed), 1, "it was retried");
}

/// One thread runs all, so the mechanism must not have it.
#[tokio::test]
async fn a_mechanism_may_block_and_the_next_server_is_tried_if_it_fails() {
    let (pipes, mut listener) = pipes(1 << 16);
    let (ticket, tickets) = mpsc::channel();
    let builder = Client::builder("one,two").seed(1).sasl(Tickets::new(tickets));
    let server = async {
        let mut server = listener.accept().await;
        while server.server != "two:2181" {
            server = listener.accept().await;
        }
        tokio::task::yield_now().await;
        ticket.send(()).unwrap();
        welcome(&mut server).await;
        server
    };
    let (client, _server) = tokio::join!(builder.connect_with(pipes), server);
    client.expect("there is a ticket for the second server");
}

async fn welcome(server: &mut Server) {
    server.welcome().await;
    let request = server.expect(OpCode::SASL).await;
    server.reply(request.xid, ErrorCode::OK, &SetSaslResponse { token: None }).await;
}

#[tokio::test]
async fn a_later_connection_lasts_as_long_as_the_first() {
    let (pipes, mut listener) = pipes(1 << 16);
    let (ticket, tickets) = mpsc::channel();
    let builder = Client::builder("two").seed(1).sasl(Tickets::new(tickets));
    ticket.send(()).unwrap();
    let begin = async {
        let mut server = listener.accept().await;
        welcome(&mut server).await;
        server
    };
    let (client, mut server) = tokio::join!(builder.connect_with(pipes), begin);
    let client = client.expect("a server answers");
    tokio::time::pause();
    // Longer than a server may be silent.
    let request = tokio::time::timeout(Duration::from_secs(5), server.request()).await;
    assert!(request.is_err(), "nothing but pings");
    tokio::time::resume();
    drop(server);
    ticket.send(()).unwrap();
    let mut server = listener.accept().await;
    welcome(&mut server).await;
    tokio::time::pause();
    let request = tokio::time::timeout(Duration::from_secs(5), server.request()).await;
    assert!(request.is_err(), "nothing but pings, and no end");
    assert_eq!(client.statistics().connections, 2);
}
