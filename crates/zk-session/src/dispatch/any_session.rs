//! A session as attached machines use it.

use core::time::Duration;

use zk_proto::{Request, SessionId};

use super::port::{RECORDS, Submission};
use super::token::{Key, Token};
use crate::error::Error;
use crate::recorder::Recorder;
use crate::session::{Again, RequestId, ServerKind, Session};
use crate::time::Instant;

/// A session with callers of any type.
pub(super) trait AnySession {
    fn recorder(&mut self) -> &mut Recorder;
    fn submit(
        &mut self,
        request: &Request<'_>,
        token: (Key, u64),
        kind: Submission,
        belongs: bool,
    ) -> Result<RequestId, Error>;
    fn unwatch(&mut self, request: RequestId);
    fn id(&self) -> SessionId;
    fn server_kind(&self) -> ServerKind;
    fn timeout(&self) -> Duration;
    fn lease_has_ended(&self, now: Instant) -> bool;
    fn renews(&self) -> bool;
    fn close(&mut self);
}

impl dyn AnySession + '_ {
    #[inline]
    pub(super) fn is_recorded(&mut self) -> bool {
        RECORDS && self.recorder().is_on()
    }

    /// Records what a machine does, if sessions may be recorded.
    #[inline]
    pub(super) fn record(&mut self, record: impl FnOnce(&mut Recorder)) {
        if RECORDS {
            record(self.recorder());
        }
    }
}

impl<T> AnySession for Session<Token<T>> {
    fn recorder(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    fn submit(
        &mut self,
        request: &Request<'_>,
        (key, tag): (Key, u64),
        kind: Submission,
        belongs: bool,
    ) -> Result<RequestId, Error> {
        let again: Again<Token<T>> = Token::again;
        let again = (kind == Submission::InPieces).then_some(again);
        let id = self.enqueue(request, Token::Machine(key, tag), None, again, belongs)?;
        Ok(match kind {
            Submission::Watch => self.assign_watch(id, key.place),
            Submission::Plain | Submission::InPieces => id,
        })
    }

    fn unwatch(&mut self, request: RequestId) {
        Self::unwatch(self, request);
    }

    fn id(&self) -> SessionId {
        Self::id(self)
    }

    fn server_kind(&self) -> ServerKind {
        Self::server_kind(self)
    }

    fn timeout(&self) -> Duration {
        Self::timeout(self)
    }

    fn lease_has_ended(&self, now: Instant) -> bool {
        self.is_past_lease(now)
    }

    fn renews(&self) -> bool {
        Self::renews(self)
    }

    fn close(&mut self) {
        Self::close(self);
    }
}
