//! SASL: proof of identity at the start of each connection.
//!
//! A client authenticates on every connection, before it sends anything else. Pass a [`Mechanism`]
//! to `ClientBuilder::sasl`:
//!
//! ```no_run
//! # fn example() -> Result<(), zk_session::ConnectError> {
//! use zk_session::blocking::Client;
//! use zk_session::sasl::DigestMd5;
//!
//! let client = Client::builder("zk1,zk2,zk3").sasl(DigestMd5::new("alice", "secret")).connect()?;
//! # Ok(())
//! # }
//! ```
//!
//! | mechanism | type | feature |
//! |---|---|---|
//! | DIGEST-MD5, for a user and a password in the servers' JAAS file | `DigestMd5`, on boards by `with_nonces` | `sasl` |
//! | GSSAPI, for a Kerberos ticket | `Gssapi` | `gssapi` |
//! | any other | your own [`Mechanism`] | |
//!
//! # Failure
//!
//! A mechanism that cannot begin an exchange, for instance because a ticket has expired, counts as a
//! failed attempt to connect. `connect` gives up at once if that happens at every server. A session
//! that has begun tries its servers until it expires.
//!
//! If a server refuses the exchange, the client tries the next one: passwords may be changed at one
//! server after the other. Once all servers have refused in a row, the session ends with
//! [`End::AuthFailed`](crate::End::AuthFailed). It ends at once if the mechanism refuses the server.
//!
//! In these cases `connect` fails with `ConnectError::AuthenticationFailed`, which names the mechanism
//! and the reason.
//!
//! A connection that is lost during the exchange is no failure: the exchange begins anew on the next
//! one. But some servers refuse by closing the connection: all before 3.5.9, and later ones for some
//! names. So the exchange fails if servers close three connections in a row while the client waits for
//! the answer to its proof.
//!
//! # Without a client
//!
//! Set [`Config::authenticate`](crate::session::Config::authenticate), and let an [`Authenticator`]
//! handle the two events of the exchange, and lost connections.

#[cfg(feature = "sasl")]
mod digest_md5;
#[cfg(feature = "gssapi")]
mod gssapi;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use zk_proto::{ErrorCode, GetSaslRequest, Request, SetSaslResponse};

#[cfg(feature = "sasl")]
pub use self::digest_md5::{DigestMd5, NonceSource};
#[cfg(feature = "gssapi")]
pub use self::gssapi::Gssapi;
use crate::connect_string::ServerAddress;
use crate::dispatch::SharedSession;
use crate::error::Error;
use crate::session::{Cause, Reply};
use crate::sync::Arc;
use crate::time::Instant;

/// A way to prove an identity, which begins a new [`Exchange`] on each connection.
///
/// Clients call [`begin`](Self::begin) without the session's lock, in a thread that may block, as
/// soon as a connection is made. They call the exchange with the session locked, so it must not
/// block.
pub trait Mechanism: fmt::Debug + Send + Sync {
    /// Returns the registered name, such as `DIGEST-MD5`.
    fn name(&self) -> &'static str;

    /// Begins an exchange with a server. Returns it with its first token. May wait for the network;
    /// a client waits no longer than for the connection itself. Then it may call `begin` again, for
    /// the next attempt, while the earlier call still waits. The async client has at most four such
    /// calls in all, the blocking client four for each server; further attempts fail.
    ///
    /// # Errors
    ///
    /// If no exchange is possible, for instance because a ticket has expired. The client then tries
    /// the next server.
    fn begin(&self, server: &ServerAddress) -> Result<BegunExchange, SaslError>;
}

/// An exchange and its first token.
pub type BegunExchange = (Box<dyn Exchange>, Vec<u8>);

/// One exchange of tokens with a server.
pub trait Exchange: fmt::Debug + Send {
    /// Handles a token of the server. Returns the next token to send, or `None` if the exchange has
    /// succeeded.
    ///
    /// The challenge is `None` if the server sent null: a server without SASL does, and some
    /// mechanisms end so.
    ///
    /// # Errors
    ///
    /// If the token is malformed, or does not prove what it must. That ends the session.
    fn respond(&mut self, challenge: Option<&[u8]>) -> Result<Option<Vec<u8>>, SaslError>;
}

zk_proto::named! {
    /// The reason why an exchange failed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum SaslError {
        /// The server refused the identity or its proof. The reason is in the server's log.
        Refused,
        /// Three connections in a row were closed instead of a reply to the proof.
        Unanswered,
        /// The server is not set up for SASL.
        Unsupported,
        /// The server sent a token that this mechanism cannot use.
        Challenge(&'static str),
        /// The server did not prove that it knows the secret.
        ServerUnproven,
        /// The mechanism could not begin or continue, for a reason of its own.
        Mechanism(String),
        /// The session did not send the token, or could not read the reply.
        Session(Error),
    }
}

impl fmt::Display for SaslError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("the server refused the credentials"),
            Self::Unanswered => f.write_str(
                "the servers close the connection instead of answering: they refuse the credentials",
            ),
            Self::Unsupported => f.write_str("the server is not set up for SASL"),
            Self::Challenge(problem) => write!(f, "the server's challenge is unusable: {problem}"),
            Self::ServerUnproven => {
                f.write_str("the server did not prove that it knows the secret")
            }
            Self::Mechanism(reason) => f.write_str(reason),
            Self::Session(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for SaslError {}

/// Runs the exchange of a [`Mechanism`] on a session. Clients have one; a loop of your own can
/// use one.
///
/// If a method fails, it has ended the session.
#[derive(Debug)]
pub struct Authenticator {
    mechanism: Arc<dyn Mechanism>,
    /// Begun for this connection, before the session asked for it.
    begun: Option<BegunExchange>,
    exchange: Option<Box<dyn Exchange>>,
    /// Whether the server has not answered the client's proof: any token but the first.
    is_proof_unanswered: bool,
    /// How many connections in a row were closed by the server then.
    unanswered_proofs: u32,
}

/// How many unanswered proofs in a row are a refusal.
const MAX_UNANSWERED_PROOFS: u32 = 3;

impl Authenticator {
    /// Makes an authenticator. The session needs
    /// [`Config::authenticate`](crate::session::Config::authenticate).
    pub fn new(mechanism: Arc<dyn Mechanism>) -> Self {
        let (begun, exchange) = (None, None);
        Self { mechanism, begun, exchange, is_proof_unanswered: false, unanswered_proofs: 0 }
    }

    /// Returns the mechanism.
    pub fn mechanism(&self) -> &Arc<dyn Mechanism> {
        &self.mechanism
    }

    /// Takes the exchange for the connection that was just made. Without it, [`begin`](Self::begin)
    /// calls the mechanism, which may block.
    pub fn set_begun(&mut self, begun: BegunExchange) {
        self.begun = Some(begun);
    }

    /// Handles [`Event::Authenticate`](crate::session::Event::Authenticate): begins an exchange.
    ///
    /// # Errors
    ///
    /// If the mechanism cannot begin, or servers refuse by silence.
    pub fn begin<T>(
        &mut self,
        session: &mut SharedSession<T>,
        server: &ServerAddress,
    ) -> Result<(), SaslError> {
        self.first_token(server)
            .and_then(|token| send(session, &token))
            .inspect_err(|_| session.authentication_failed())
    }

    /// Handles [`Event::AuthenticationReply`](crate::session::Event::AuthenticationReply): sends
    /// the next token, or releases the session.
    ///
    /// # Errors
    ///
    /// If the server refused the exchange, or the mechanism refuses the server.
    pub fn handle_reply<T>(
        &mut self,
        session: &mut SharedSession<T>,
        now: Instant,
        result: Result<Reply, Error>,
    ) -> Result<(), SaslError> {
        let next = self.next_token(result).and_then(|token| match token {
            Some(token) => send(session, &token),
            None => {
                session.authenticated(now);
                Ok(())
            }
        });
        next.inspect_err(|_| session.authentication_failed())
    }

    /// Handles [`Event::Disconnected`](crate::session::Event::Disconnected). Only a server that
    /// closes the connection refuses by silence; one that is slow does not.
    pub fn handle_disconnected(&mut self, cause: Cause) {
        if core::mem::take(&mut self.is_proof_unanswered) {
            let is_refusal = cause == Cause::Transport;
            self.unanswered_proofs = if is_refusal { self.unanswered_proofs + 1 } else { 0 };
        }
    }

    fn first_token(&mut self, server: &ServerAddress) -> Result<Vec<u8>, SaslError> {
        if self.unanswered_proofs == MAX_UNANSWERED_PROOFS {
            return Err(SaslError::Unanswered);
        }
        let begun = self.begun.take();
        let (exchange, token) = begun.map_or_else(|| self.mechanism.begin(server), Ok)?;
        self.exchange = Some(exchange);
        Ok(token)
    }

    fn next_token(&mut self, result: Result<Reply, Error>) -> Result<Option<Vec<u8>>, SaslError> {
        if core::mem::take(&mut self.is_proof_unanswered) {
            self.unanswered_proofs = 0;
        }
        let reply = result.map_err(|error| match error {
            Error::Server(ErrorCode::AUTH_FAILED | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH) => {
                SaslError::Refused
            }
            error => SaslError::Session(error),
        })?;
        let challenge = reply.decode::<SetSaslResponse<'_>>().map_err(SaslError::Session)?.token;
        let exchange = self.exchange.as_mut().ok_or(SaslError::Challenge("none was asked for"))?;
        let next = exchange.respond(challenge)?;
        self.is_proof_unanswered = next.is_some();
        Ok(next)
    }
}

fn send<T>(session: &mut SharedSession<T>, token: &[u8]) -> Result<(), SaslError> {
    let request = Request::Sasl(GetSaslRequest { token: Some(token) });
    match session.authenticate(&request) {
        // The connection is lost. The exchange begins anew on the next one.
        Ok(()) | Err(Error::NoConnection) => Ok(()),
        Err(error) => Err(SaslError::Session(error)),
    }
}

#[cfg(test)]
mod tests;
