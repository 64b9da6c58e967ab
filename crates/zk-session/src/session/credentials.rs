//! The credentials of a session.
//!
//! Servers keep identities per connection. So the session sends all credentials on each connection,
//! in the order in which they were added, before watches and requests. Their replies have the same
//! order among themselves, but not among other replies, and all have the same xid. The n-th of
//! these replies on a connection answers the n-th credential.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use zk_proto::{AuthPacket, Request};

use super::config::HiddenBytes;

#[derive(Clone, Debug)]
struct Credential<T> {
    scheme: String,
    auth: HiddenBytes,
    /// Whether a server has accepted the credential, on any connection.
    is_accepted: bool,
    /// Tokens of the callers that wait until the credential is accepted.
    waiting: Vec<T>,
}

/// All credentials of a session, each once.
#[derive(Clone, Debug)]
pub(super) struct Credentials<T> {
    list: Vec<Credential<T>>,
    /// How many callers wait for a reply.
    waiting: usize,
}

/// What to do with a credential that was added.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added<T> {
    /// The credential is new and must be sent.
    Send,
    /// The credential was added before and is not accepted yet.
    Wait,
    /// The server has already accepted the credential.
    Accepted(T),
}

impl<T> Credentials<T> {
    pub(super) fn new() -> Self {
        Self { list: Vec::new(), waiting: 0 }
    }

    /// Returns how many callers wait for their credential to be accepted.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds a credential, unless it is known already. The server has `accepted` this many
    /// credentials on this connection.
    pub(super) fn add(&mut self, scheme: &str, auth: &[u8], token: T, accepted: usize) -> Added<T> {
        let same = |known: &Credential<T>| known.scheme == scheme && known.auth.0 == auth;
        let place = self.list.iter().position(same);
        if place.is_some_and(|place| place < accepted) {
            return Added::Accepted(token);
        }
        self.waiting += 1;
        if let Some(known) = place.and_then(|place| self.list.get_mut(place)) {
            known.waiting.push(token);
            return Added::Wait;
        }
        self.list.push(Credential {
            scheme: scheme.into(),
            auth: HiddenBytes(Bytes::copy_from_slice(auth)),
            is_accepted: false,
            waiting: Vec::from([token]),
        });
        Added::Send
    }

    /// Returns the requests that present all credentials on a new connection.
    pub(super) fn replay(&self) -> impl Iterator<Item = Request<'_>> {
        self.list.iter().map(|credential| request(&credential.scheme, &credential.auth.0))
    }

    /// Records that the server accepted the next credential, and returns the callers that wait for
    /// it. The server had `accepted` this many credentials on this connection.
    pub(super) fn accept(&mut self, accepted: &mut usize) -> Vec<T> {
        let Some(credential) = self.list.get_mut(*accepted) else {
            return Vec::new();
        };
        *accepted += 1;
        credential.is_accepted = true;
        self.waiting -= credential.waiting.len();
        core::mem::take(&mut credential.waiting)
    }

    /// Records that the server refused the next credential. If no server has accepted it so far, it
    /// is removed: returns the callers that wait for it.
    pub(super) fn refuse(&mut self, accepted: usize) -> Option<Vec<T>> {
        self.list.get(accepted).filter(|credential| !credential.is_accepted)?;
        let credential = self.list.remove(accepted);
        self.waiting -= credential.waiting.len();
        Some(credential.waiting)
    }

    /// Removes all credentials when the session has ended. Returns the callers that wait.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.waiting = 0;
        core::mem::take(&mut self.list).into_iter().flat_map(|credential| credential.waiting)
    }
}

pub(super) fn request<'a>(scheme: &'a str, auth: &'a [u8]) -> Request<'a> {
    Request::Auth(AuthPacket { auth_type: 0, scheme, auth: Some(auth) })
}
