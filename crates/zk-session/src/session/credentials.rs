//! What a session has shown, and must show again, to say who it is.
//!
//! Servers keep identities with the connection. So all credentials are sent on each, in the order
//! in which they were added, before watches and requests. Their answers come in that order too,
//! but not in line with other answers, and bear one and the same xid: the n-th answer of a
//! connection belongs to the n-th credential.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use zk_proto::{AuthPacket, Request};

use super::config::Secret;

#[derive(Clone, Debug)]
struct Credential<T> {
    scheme: String,
    auth: Secret,
    /// Callers who have not heard yet whether it is accepted.
    waiting: Vec<T>,
}

/// All credentials that were ever added, each once.
#[derive(Clone, Debug)]
pub(super) struct Credentials<T> {
    list: Vec<Credential<T>>,
    /// How many of them the member has accepted on this connection.
    accepted: usize,
    /// How many callers wait.
    waiting: usize,
}

/// What is to be done about a credential that was added.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added<T> {
    /// It is new, and must be sent.
    Send,
    /// It is on its way already.
    Wait,
    /// The member has accepted it already.
    Accepted(T),
}

impl<T> Credentials<T> {
    pub(super) fn new() -> Self {
        Self { list: Vec::new(), accepted: 0, waiting: 0 }
    }

    /// How many callers have not heard yet whether theirs is accepted.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Remembers a credential. What was added before is not remembered, nor sent, twice.
    pub(super) fn add(&mut self, scheme: &str, auth: &[u8], token: T) -> Added<T> {
        let same = |known: &Credential<T>| known.scheme == scheme && known.auth.0 == auth;
        let place = self.list.iter().position(same);
        if place.is_some_and(|place| place < self.accepted) {
            return Added::Accepted(token);
        }
        self.waiting += 1;
        if let Some(known) = place.and_then(|place| self.list.get_mut(place)) {
            known.waiting.push(token);
            return Added::Wait;
        }
        self.list.push(Credential {
            scheme: scheme.into(),
            auth: Secret(Bytes::copy_from_slice(auth)),
            waiting: Vec::from([token]),
        });
        Added::Send
    }

    /// The connection is gone, and with it what the member knew.
    pub(super) fn disconnected(&mut self) {
        self.accepted = 0;
    }

    /// All of them, for a new connection.
    pub(super) fn replay(&self) -> impl Iterator<Item = Request<'_>> {
        self.list.iter().map(|credential| request(&credential.scheme, &credential.auth.0))
    }

    /// The next one was accepted: yields who waits for that.
    pub(super) fn accept(&mut self) -> Vec<T> {
        let Some(credential) = self.list.get_mut(self.accepted) else {
            return Vec::new();
        };
        self.accepted += 1;
        self.waiting -= credential.waiting.len();
        core::mem::take(&mut credential.waiting)
    }

    /// The session is gone: yields all who wait.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = T> + use<T> {
        (self.accepted, self.waiting) = (0, 0);
        core::mem::take(&mut self.list).into_iter().flat_map(|credential| credential.waiting)
    }
}

pub(super) fn request<'a>(scheme: &'a str, auth: &'a [u8]) -> Request<'a> {
    Request::Auth(AuthPacket { auth_type: 0, scheme, auth: Some(auth) })
}
