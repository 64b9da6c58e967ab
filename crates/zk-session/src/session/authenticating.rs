//! The exchange by which the session shows who it is, before anything else is said.
//!
//! SASL is such a one: some requests and answers, of which the core knows nothing but that they
//! come first. Whoever drives the session makes the requests. What was submitted waits.

use super::*;

/// A request of the exchange, which waits for its answer.
#[derive(Clone, Debug)]
pub(super) struct Exchange<T> {
    xid: Xid,
    opcode: OpCode,
    token: T,
}

/// # The exchange that comes first
impl<T> Session<T> {
    /// Sends a request of the exchange that [`Event::Authenticate`] has asked for, at once. Its
    /// answer comes back with `token`, by [`Event::Reply`]; so does the loss of the connection,
    /// with which the exchange is over. There can be one at a time.
    ///
    /// # Errors
    ///
    /// [`Error::NoConnection`] when no exchange is asked for, [`Error::Invalid`] when the request
    /// is too long or [harms servers](Invalid::HarmsServer), [`Error::QueueFull`] when the one
    /// before is not answered yet; `token` is dropped then.
    pub fn authenticate(&mut self, request: &Request<'_>, token: T) -> Result<(), Error> {
        let Phase::Authenticating(_) = self.phase else {
            return Err(Error::NoConnection);
        };
        if request.harms_servers() {
            return Err(Invalid::HarmsServer(request.opcode()).into());
        }
        let (length, limit) = (outbox::request_length(request), self.config.max_request);
        if length > limit {
            return Err(Invalid::TooLarge { length, limit }.into());
        }
        if self.exchange.is_some() {
            return Err(Error::QueueFull { limit: 1 });
        }
        let (xid, opcode) = (self.outbox.take_xid(), request.opcode());
        frame::encode(&(RequestHeader { xid, opcode }, request), &mut self.prelude)
            .expect("its length was just looked at");
        self.exchange = Some(Exchange { xid, opcode, token });
        Ok(())
    }

    /// The exchange is over, and has succeeded: what was held back is sent now. One that has failed
    /// is ended by [`close`](Self::close), or tried again by
    /// [`handle_disconnected`](Self::handle_disconnected) and on the next connection. Does nothing
    /// while a request of the exchange is not answered.
    pub fn authenticated(&mut self, now: Instant) {
        if let Phase::Authenticating(member) = self.phase
            && self.exchange.is_none()
        {
            self.serve(now, member);
        }
    }

    pub(super) fn handle_exchange(&mut self, payload: Bytes) -> Result<(), Cause> {
        if !self.prelude.is_empty() {
            return Err(Cause::Unasked);
        }
        let mut reader = Reader::new(&payload);
        let header = ReplyHeader::decode(&mut reader).map_err(Cause::Malformed)?;
        let expected = self.exchange.as_ref().map(|exchange| exchange.xid);
        let Some(Exchange { opcode, token, .. }) =
            self.exchange.take_if(|exchange| exchange.xid == header.xid)
        else {
            return Err(Cause::UnexpectedReply { expected, received: header.xid });
        };
        let body = payload.slice(reader.position()..);
        let result = match header.err {
            ErrorCode::OK => Ok(Reply { opcode, zxid: header.zxid, body }),
            code => Err(Error::Server(code)),
        };
        self.events.push_back(Event::Reply { token, result });
        if matches!(
            header.err,
            ErrorCode::AUTH_FAILED | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH
        ) {
            self.refused();
        }
        Ok(())
    }

    /// The connection is gone, or the session is.
    pub(super) fn end_exchange(&mut self, error: Error) {
        if let Some(Exchange { token, .. }) = self.exchange.take() {
            self.events.push_back(Event::Reply { token, result: Err(error) });
        }
    }

    /// The member does not accept who this is, and no other one would.
    pub(super) fn refused(&mut self) {
        self.actions.push_back(Action::Disconnect);
        self.finish(End::AuthFailed);
    }
}
