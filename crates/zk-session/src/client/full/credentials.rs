//! Credentials of the client: those that it adds, and SASL.

use alloc::sync::Arc;

use zk_proto::OpCode;

use crate::client::answer::Decoder;
use crate::client::driver::Driver;
use crate::client::{Answer, Client, ClientBuilder, decode, slot};
use crate::dispatch::Token;
use crate::error::RequestError;
use crate::sasl::Mechanism;

/// # Credentials
impl<D: Driver> Client<D> {
    /// Presents a credential now, and on every later connection before any other request. With
    /// the scheme `digest`, `auth` is `user:password` in plain text. A wrong password is another
    /// identity, not an error.
    ///
    /// It counts for all later requests, and may already count for those in flight: there is no
    /// need to wait for the answer, which takes a connection. The request timeout limits
    /// `wait` in a thread, but no `.await`.
    ///
    /// # Errors
    ///
    /// - [`Error::Server`](crate::Error::Server) with `AUTH_FAILED`: the server refuses the
    ///   credential, for example because it does not know the scheme. The client forgets the
    ///   credential and connects again; `last_failure` names the server.
    /// - [`Invalid::Scheme`](crate::Invalid::Scheme): no server has such a scheme.
    /// - After [`Error::DeadlinePassed`](crate::Error::DeadlinePassed) the credential is still
    ///   presented.
    ///
    /// A server may refuse on a later connection what another one has accepted, for example while
    /// passwords are changed. The client then tries the next one. Once all servers have refused
    /// in a row, the session ends with [`End::AuthFailed`](crate::End::AuthFailed).
    ///
    /// # Cancellation
    ///
    /// The credential is still presented.
    #[doc(alias = "addAuthInfo")]
    pub fn add_auth(&self, scheme: &str, auth: &[u8]) -> Answer<(), D> {
        let (sender, receiver) = slot();
        let (mut sender, mut added) = (Some(sender), Ok(()));
        self.driver().act(&mut |router, _| {
            if let Some(sender) = sender.take() {
                added = router.session_mut().add_auth(scheme, auth, Token::Caller(sender));
            }
        });
        Answer::of(|| {
            added.map_err(|reason| RequestError::new(OpCode::AUTH, None, reason))?;
            let pending = self.pending(OpCode::AUTH, receiver);
            Ok(Answer::new(pending, Decoder::Reply(decode::nothing)))
        })
    }
}

impl<C> ClientBuilder<C> {
    /// Authenticates by SASL on each connection, before anything else is sent. See
    /// [`sasl`](crate::sasl).
    ///
    /// `connect` fails with
    /// [`ConnectError::AuthenticationFailed`](crate::ConnectError::AuthenticationFailed) if all
    /// servers refuse. Later, that ends the session with
    /// [`End::AuthFailed`](crate::End::AuthFailed). One server that refuses is a failed attempt, and
    /// `last_failure` names it.
    ///
    /// ```
    /// use zk_session::blocking::Client;
    /// use zk_session::sasl::DigestMd5;
    ///
    /// let builder = Client::builder("zk1,zk2,zk3").sasl(DigestMd5::new("alice", "secret"));
    /// # drop(builder);
    /// ```
    #[must_use]
    pub fn sasl(mut self, mechanism: impl Mechanism + 'static) -> Self {
        self.config.authenticate = true;
        self.mechanism = Some(Arc::new(mechanism));
        self
    }
}
