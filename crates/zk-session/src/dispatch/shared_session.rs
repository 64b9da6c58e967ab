//! What the owner of a dispatcher, and its driver, may do with the session.

use core::ops::Deref;

use bytes::Bytes;
use zk_proto::{Request, frame::FrameError};

use super::token::Token;
use crate::error::Error;
use crate::session::{Action, RequestId, Session, SessionTicket};
use crate::time::Instant;

/// The session of a [`Dispatcher`](super::Dispatcher).
///
/// It has no method that the dispatcher replaces. Events that were polled here, for example, would
/// not reach the machines.
#[derive(Debug)]
pub struct SharedSession<T>(pub(crate) Session<Token<T>>);

impl<T> Deref for SharedSession<T> {
    type Target = Session<Token<T>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

macro_rules! forward {
    ($($(#[$cfg:meta])* $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        impl<T> SharedSession<T> {
            $(
                #[doc = concat!("See [`Session::", stringify!($name), "`].")]
                $(#[$cfg])*
                pub fn $name(&mut self, $($argument: $type),*) $(-> $result)? {
                    self.0.$name($($argument),*)
                }
            )*
        }
    };
}

// Commands.
forward! {
    /// # Errors
    ///
    /// If the session refuses the request.
    submit(request: &Request<'_>, token: Token<T>) -> Result<RequestId, Error>;
    /// # Errors
    ///
    /// If the session refuses the request.
    #[cfg(feature = "full")]
    submit_until(request: &Request<'_>, token: Token<T>, deadline: Instant) -> Result<RequestId, Error>;
    /// # Errors
    ///
    /// If the session refuses the credential.
    add_auth(scheme: &str, auth: &[u8], token: Token<T>) -> Result<(), Error>;
    unwatch(request: RequestId);
    detach() -> Option<SessionTicket>;
    update_servers(now: Instant, kept: &[Option<usize>], count: usize);
    set_addresses(counts: &[usize]);
}

// Inputs and outputs, for a driver.
forward! {
    handle_connected(now: Instant);
    handle_disconnected(now: Instant);
    handle_received(now: Instant, count: usize);
    handle_frame(now: Instant, payload: Bytes);
    handle_oversized(now: Instant, start: &[u8], length: usize);
    handle_rest(now: Instant, body: Bytes);
    handle_bad_frame(now: Instant, error: FrameError);
    handle_sent(now: Instant, count: usize);
    handle_probed(now: Instant, server: usize, read_write: bool);
    poll_action() -> Option<Action>;
    /// # Errors
    ///
    /// If the session refuses the request.
    authenticate(request: &Request<'_>) -> Result<(), Error>;
    authenticated(now: Instant);
    authentication_failed();
}
