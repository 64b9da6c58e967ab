//! What callers want.

use zk_proto::{RemoveWatchesRequest, WatcherType};

use super::credentials::{self, Added};
use super::*;

/// What the session sends for itself. Their answers are told apart by xids of their own, or change
/// the session's state; or they would make its table of watches differ from the server's.
const RESERVED: [OpCode; 6] = [
    OpCode::PING,
    OpCode::AUTH,
    OpCode::CLOSE_SESSION,
    OpCode::SET_WATCHES,
    OpCode::SET_WATCHES2,
    OpCode::REMOVE_WATCHES,
];

/// # Commands
impl<T> Session<T> {
    /// Sends a request, behind all that were submitted before. Its answer comes back with `token`.
    ///
    /// While there is no connection it waits for one. If it asks for a watch, that watch is known
    /// by the id returned, and stays until it is over or is [dropped](Self::unwatch).
    ///
    /// # Errors
    ///
    /// When the session has ended, or the request is impossible or [reserved](Invalid::Reserved)
    /// for the session, or [harms servers](Invalid::HarmsServer), or there is no room; `token` is
    /// dropped then.
    pub fn submit(&mut self, request: &Request<'_>, token: T) -> Result<RequestId, Error> {
        self.enqueue(request, token, None)
    }

    /// As [`submit`](Self::submit), for a caller who waits until `deadline` and no longer.
    ///
    /// If it comes before the request was sent, the request never will be, and fails with an
    /// [`Error::DeadlinePassed`] that says so. If it comes later, the request fails with one that
    /// says that it may have been applied, and a watch that it asked for is dropped.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    pub fn submit_until(
        &mut self,
        request: &Request<'_>,
        token: T,
        deadline: Instant,
    ) -> Result<RequestId, Error> {
        let id = self.enqueue(request, token, Some(deadline))?;
        self.timers.set_earlier(Timer::Deadline, deadline);
        Ok(id)
    }

    fn enqueue(
        &mut self,
        request: &Request<'_>,
        token: T,
        deadline: Option<Instant>,
    ) -> Result<RequestId, Error> {
        let opcode = request.opcode();
        if RESERVED.contains(&opcode) {
            return Err(Invalid::Reserved(opcode).into());
        }
        if request.harms_servers() {
            return Err(Invalid::HarmsServer(opcode).into());
        }
        if self.impatient {
            return Err(Error::NoConnection);
        }
        let id = RequestId(self.last_request.0 + 1);
        let registration = Registration::of(request, id);
        // A watch that cannot be set again would cost every connection to come.
        let again = registration.as_ref().map_or(0, Registration::replay_length);
        self.admit(outbox::request_length(request).max(again))?;
        self.last_request = id;
        self.statistics.requests += 1;
        if let Some(registration) = &registration {
            self.watches.begin(registration);
        }
        self.outbox.push(request, Owner::Caller(token), registration, deadline);
        Ok(id)
    }

    /// Whether a request of so many bytes can be taken.
    fn admit(&mut self, length: usize) -> Result<(), Error> {
        if let Some(end) = self.end() {
            return Err(Error::Ended { end, outcome: Outcome::NotApplied });
        }
        let limit = self.config.max_request;
        if length > limit {
            return Err(Invalid::TooLarge { length, limit }.into());
        }
        if !self.has_room() {
            self.refused = true;
            let Config { max_pending, max_unsent, .. } = self.config;
            return Err(match self.pending() < max_pending {
                true => Error::BufferFull { limit: max_unsent },
                false => Error::QueueFull { limit: max_pending },
            });
        }
        Ok(())
    }

    /// Presents a credential now, and on every connection to come, before watches and requests.
    /// With the scheme `digest`, `auth` is `user:password` as it is.
    ///
    /// Requests submitted before may be executed with it already. The answer that comes back with
    /// `token` has an empty body; it comes when the member has accepted the credential, be it on a
    /// later connection. A credential that was accepted on this connection before is accepted at
    /// once.
    ///
    /// A member that refuses it ends the session, by [`End::AuthFailed`]. The scheme `digest`
    /// refuses nothing: a wrong password makes another identity.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    pub fn add_auth(&mut self, scheme: &str, auth: &[u8], token: T) -> Result<(), Error> {
        let request = credentials::request(scheme, auth);
        self.admit(outbox::request_length(&request))?;
        match self.credentials.add(scheme, auth, token) {
            Added::Accepted(token) => self.events.push_back(replies::accepted(token)),
            Added::Send if matches!(self.phase, Phase::Connected(_)) => {
                self.outbox.push(&request, Owner::Session, None, None);
            }
            Added::Send | Added::Wait => {}
        }
        Ok(())
    }

    /// The watch that a request asked for is not wanted any more. When nobody else waits for the
    /// same one, the server is told. Does nothing if the watch is over. May be
    /// called as soon as the request is submitted, by who does not want the watch that it sets.
    pub fn unwatch(&mut self, request: RequestId) {
        let is_connected = matches!(self.phase, Phase::Connected(_));
        let removal = self.watches.remove(request, is_connected);
        self.remove_watch(removal);
    }

    pub(super) fn remove_watch(&mut self, removal: Option<Removal>) {
        let Some(Removal { path, watcher_type }) = removal else {
            return;
        };
        // Without a connection the server has none, and what is not wanted is not set again.
        if matches!(self.phase, Phase::Connected(_)) {
            let persistent =
                matches!(watcher_type, WatcherType::PERSISTENT | WatcherType::PERSISTENT_RECURSIVE);
            let owner = if persistent { Owner::Removal(path.clone()) } else { Owner::Session };
            self.send_removal(&path, watcher_type, owner);
        }
    }

    /// Removes a persistent watch from a server that can only remove all from a path; so if one of
    /// them is wanted, it is left. What it tells is ignored.
    pub(super) fn remove_all_watches(&mut self, path: &str) {
        if !self.watches.is_watched(path) {
            self.send_removal(path, WatcherType::ANY, Owner::Session);
        }
    }

    fn send_removal(&mut self, path: &str, watcher_type: WatcherType, owner: Owner<T>) {
        if self.can_remove_watches && self.end().is_none() {
            let request = Request::RemoveWatches(RemoveWatchesRequest { path, watcher_type });
            self.outbox.push(&request, owner, None, None);
        }
    }

    /// Gives the session up here without ending it on the servers, for somebody else to
    /// [take up](Config::resume) within the session timeout; what that takes. Requests that are
    /// not answered yet fail as if it were closed, so wait for their answers first.
    ///
    /// Where there is nothing that could be taken up, that is `None`, and the session is closed.
    pub fn detach(&mut self) -> Option<Resume> {
        let resume = self.resume();
        match resume {
            None => self.close(),
            Some(_) => {
                self.actions.push_back(Action::Disconnect);
                self.finish(End::Closed);
            }
        }
        resume
    }

    /// Ends the session, behind all requests submitted before. No more are accepted.
    ///
    /// The server then deletes the session's ephemeral nodes. Without a connection the session
    /// ends at once, and the server finds out when it expires.
    pub fn close(&mut self) {
        if self.end().is_some() {
            return;
        }
        self.closing = true;
        match self.phase {
            Phase::Connected(_) => {
                self.outbox.push(&Request::CloseSession(()), Owner::Session, None, None);
            }
            _ => {
                self.actions.push_back(Action::Disconnect);
                self.finish(End::Closed);
            }
        }
    }
}
