//! The authentication exchange that comes first on a connection.
//!
//! SASL is such an exchange. The session knows nothing about its requests and replies, except that
//! they come first: [`sasl`](crate::sasl) makes the requests. Submitted requests wait until the
//! exchange is over.

use super::*;

/// An authentication request that waits for its reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct AuthRequest {
    xid: Xid,
    opcode: OpCode,
}

/// # The exchange that comes first
/// The servers that have refused the identity of the session since one was lost for another reason.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusals {
    /// How many did so since one closed the handshake.
    pub(super) in_a_row: usize,
    /// When the first one did.
    pub(super) since: Option<Instant>,
}

impl<T> Session<T> {
    /// Sends an authentication request after [`Event::Authenticate`].
    ///
    /// The reply comes as an [`Event::AuthenticationReply`]. If the connection is lost first, there is
    /// none, and the exchange is over. Only one request can be in flight.
    ///
    /// # Errors
    ///
    /// The session sends nothing:
    ///
    /// * [`Error::NoConnection`] if the session does not wait for an exchange.
    /// * [`Error::Invalid`] if the request is too long or [harms servers](Invalid::HarmsServer).
    /// * [`Error::QueueFull`] if the previous request has no reply yet.
    pub fn authenticate(&mut self, request: &Request<'_>) -> Result<(), Error> {
        self.recorder.authenticate(request);
        let authenticating = |open: &&mut Connection<T>| open.stage == Stage::Authenticating;
        let connection =
            self.connection.as_mut().filter(authenticating).ok_or(Error::NoConnection)?;
        if request.harms_servers() {
            return Err(Invalid::HarmsServer(request.opcode()).into());
        }
        let (length, limit) = (outbox::request_length(request), self.config.max_request);
        if length > limit {
            return Err(Invalid::TooLarge { length, limit }.into());
        }
        if connection.exchange.is_some() {
            return Err(Error::QueueFull { limit: 1 });
        }
        let (xid, opcode) = (self.outbox.take_xid(), request.opcode());
        outbox::put_frame(&(RequestHeader { xid, opcode }, request), &mut connection.prelude);
        connection.exchange = Some(AuthRequest { xid, opcode });
        Ok(())
    }

    /// Ends the exchange successfully: the session now sends what it held back.
    ///
    /// Does nothing while a request of the exchange has no reply. After a failed exchange, call
    /// [`authentication_failed`](Self::authentication_failed), or report the connection as
    /// [lost](Self::handle_disconnected) to try again on the next one.
    pub fn authenticated(&mut self, now: Instant) {
        self.recorder.input(Kind::AUTHENTICATED, Some(now), &[]);
        if let Some(Connection { stage: Stage::Authenticating, exchange: None, .. }) =
            &self.connection
        {
            self.serve(now);
        }
    }

    /// Ends the session with [`End::AuthFailed`], because the exchange failed in a way that every
    /// other server would repeat. Does nothing if no exchange is asked for.
    pub fn authentication_failed(&mut self) {
        self.recorder.input(Kind::AUTHENTICATION_FAILED, None, &[]);
        if let Some(Connection { stage: Stage::Authenticating, .. }) = &self.connection {
            self.actions.push_back(Action::Disconnect);
            self.finish(End::AuthFailed);
        }
    }

    pub(super) fn handle_exchange(&mut self, now: Instant, payload: Bytes) -> Result<(), Cause> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if !connection.prelude.is_empty() {
            return Err(Cause::Unasked);
        }
        let mut reader = Reader::new(&payload);
        let header = ReplyHeader::decode(&mut reader).map_err(Cause::Malformed)?;
        let expected = connection.exchange.as_ref().map(|exchange| exchange.xid);
        let Some(AuthRequest { opcode, .. }) =
            connection.exchange.take_if(|exchange| exchange.xid == header.xid)
        else {
            return Err(Cause::UnexpectedReply { expected, received: header.xid });
        };
        let server = connection.server;
        let body = payload.slice(reader.position()..);
        let result = match header.err {
            ErrorCode::OK => Ok(Reply::new(opcode, header.zxid, body)),
            code => Err(Error::Server(code)),
        };
        self.events.push_back(Event::AuthenticationReply { server, result });
        if let ErrorCode::AUTH_FAILED | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH = header.err {
            self.refused(now, header.err);
        }
        Ok(())
    }

    /// Leaves a server that refused the identity of the session. Others may accept it, for example
    /// while a password is changed at one server after the other. Once every server has refused it
    /// in a row, the session ends; if some close the handshake meanwhile, after a session timeout.
    /// Without `full` there is nothing to accept, so it ends at once.
    pub(super) fn refused(&mut self, now: Instant, code: ErrorCode) {
        if !AUTHENTICATION {
            self.actions.push_back(Action::Disconnect);
            return self.finish(End::AuthFailed);
        }
        if let Some(connection) = &mut self.connection {
            connection.has_served = false;
        }
        self.refusals.in_a_row += 1;
        self.refusals.since.get_or_insert(now);
        self.disconnect(now, Cause::AuthRefused(code));
    }
}
