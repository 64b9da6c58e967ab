//! A mechanism that needs something before it can begin.

use std::thread;

use zk_session::blocking::Client;
use zk_session::proto::{ErrorCode, OpCode, SetSaslResponse};
use zk_session::sasl::{BegunExchange, Exchange, Mechanism, SaslError};
use zk_session::{ConnectError, ServerAddress};

use crate::server::{Listener, PATIENCE};

/// Has a ticket only for this server.
#[derive(Clone, Debug)]
struct Ticket(String);

impl Mechanism for Ticket {
    fn name(&self) -> &'static str {
        "TICKET"
    }

    fn begin(&self, server: &ServerAddress) -> Result<BegunExchange, SaslError> {
        if server.to_string() != self.0 {
            return Err(no_ticket());
        }
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

#[test]
fn a_mechanism_that_can_begin_at_no_server_ends_the_attempt() {
    let (listener, other) = (Listener::new(), Listener::new());
    let at = format!("{},{}", listener.address(), other.address());
    let builder = Client::builder(&at).connect_timeout(PATIENCE).sasl(Ticket("another".into()));
    let failed = builder.connect().map(drop).unwrap_err();
    assert!(
        matches!(&failed, ConnectError::AuthenticationFailed { mechanism: "TICKET", error, .. }
            if *error == no_ticket()),
        "{failed:?}"
    );
}

#[test]
fn the_next_server_is_tried_if_a_mechanism_cannot_begin() {
    let (listener, other) = (Listener::new(), Listener::new());
    let at = format!("{},{}", listener.address(), other.address());
    let builder = Client::builder(&at).connect_timeout(PATIENCE).sasl(Ticket(other.address()));
    let connecting = thread::spawn(move || builder.connect());
    let mut server = other.welcome();
    let request = server.expect(OpCode::SASL);
    server.reply(request.xid, ErrorCode::OK, &SetSaslResponse { token: None });
    connecting.join().unwrap().expect("there is a ticket for one server");
}
