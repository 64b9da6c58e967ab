//! Commands of the caller.

use zk_proto::{GetEphemeralsRequest, RemoveWatchesRequest, WatcherType};

use super::credentials::{self, Added};
use super::*;

/// Operations that only the session itself sends.
///
/// Their replies have fixed xids or change the session's state, or the requests would make its
/// table of watches differ from the server's.
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
    /// Submits a request, behind all earlier ones. Its reply comes as an [`Event::Reply`] with
    /// `token`.
    ///
    /// Without a connection the request waits for one. The returned id identifies the watch that
    /// the request sets, if any. The watch stays until it fires or is [dropped](Self::unwatch).
    ///
    /// # Errors
    ///
    /// The session drops `token` and sends nothing:
    ///
    /// * [`Error::Ended`] if the session has ended or was closed.
    /// * [`Error::NoConnection`] after the [disconnect timeout](field@Config::disconnect_timeout).
    /// * [`Error::QueueFull`] and [`Error::BufferFull`] if there is no room.
    /// * [`Error::Undeliverable`] if the last connections ended with requests of this operation and
    ///   length.
    /// * [`Error::EphemeralsFull`] if the paths of its ephemeral nodes would be too long together.
    /// * [`Error::Invalid`] if the request is too long, [reserved](Invalid::Reserved) for the
    ///   session, or [harms servers](Invalid::HarmsServer). Without the feature
    ///   `full`, `addWatch` is reserved.
    ///
    /// ```
    /// use zk_session::proto::{GetDataRequest, Request};
    /// use zk_session::session::{Config, Event, Session};
    /// use zk_session::time::Instant;
    /// use zk_session::{Error, Outcome};
    ///
    /// let mut session = Session::new(Instant::START, Config::new(1, 42));
    /// let request = Request::GetData(GetDataRequest { path: "/a", watch: false });
    /// session.submit(&request, "my token")?;
    /// session.close();
    /// let Some(Event::Reply { token, result: Err(error) }) = session.poll_event() else { panic!() };
    /// assert_eq!((token, error.outcome()), ("my token", Outcome::NotApplied));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn submit(&mut self, request: &Request<'_>, token: T) -> Result<RequestId, Error> {
        self.enqueue(request, token, None, None, false)
    }

    /// Submits a request whose reply may be longer than [`Config::max_reply`]. If it is, the body
    /// comes in pieces, as it arrives, and with each piece a clone of `token`.
    ///
    /// Each piece is an [`Event::Reply`], and all but the last [have more](Reply::has_more). The
    /// pieces are cut anywhere; [`ListReader`](zk_proto::ListReader) reads a list from them. If the
    /// connection is lost in between, the last reply is the same error as without pieces.
    ///
    /// # Errors
    ///
    /// The same as those of [`submit`](Self::submit).
    pub fn submit_in_pieces(&mut self, request: &Request<'_>, token: T) -> Result<RequestId, Error>
    where
        T: Clone,
    {
        self.enqueue(request, token, None, Some(|token| Some(token.clone())), false)
    }

    /// Submits a request whose caller waits until `deadline`.
    ///
    /// If the deadline passes first, the request fails with [`Error::DeadlinePassed`]:
    ///
    /// * Not sent yet: the session never sends it, and the outcome is [`Outcome::NotApplied`].
    /// * Sent at least in part: the outcome is [`Outcome::Unknown`]. The session drops the watch
    ///   that the request sets.
    ///
    /// With thousands of pending requests, it may fail up to 0.1 µs late for each of them.
    ///
    /// # Errors
    ///
    /// The same as those of [`submit`](Self::submit).
    #[cfg(feature = "full")]
    pub fn submit_until(
        &mut self,
        request: &Request<'_>,
        token: T,
        deadline: Instant,
    ) -> Result<RequestId, Error> {
        self.enqueue(request, token, Some(deadline), None, false)
    }

    /// Submits a request. `belongs` skips the check for room: the request belongs to one that was
    /// just accepted. If only some of a machine's step had room, the machine would repeat the step
    /// for ever.
    pub(crate) fn enqueue(
        &mut self,
        request: &Request<'_>,
        token: T,
        deadline: Option<Instant>,
        again: Option<Again<T>>,
        belongs: bool,
    ) -> Result<RequestId, Error> {
        let in_pieces = again.is_some();
        let accepted = self.accept(request, token, deadline, again, belongs);
        let xid = accepted.is_ok().then_some(self.outbox.last_xid());
        self.recorder.submitted(request, deadline, in_pieces, xid);
        accepted
    }

    fn accept(
        &mut self,
        request: &Request<'_>,
        token: T,
        deadline: Option<Instant>,
        again: Option<Again<T>>,
        belongs: bool,
    ) -> Result<RequestId, Error> {
        let opcode = request.opcode();
        if RESERVED.contains(&opcode) || !PERSISTENT_WATCHES && opcode == OpCode::ADD_WATCH {
            return Err(Invalid::Reserved(opcode).into());
        }
        if request.harms_servers() {
            return Err(Invalid::HarmsServer(opcode).into());
        }
        if DEADLINES && self.disconnect_timed_out && self.end().is_none() {
            return Err(Error::NoConnection);
        }
        let watch = WatchRequest::of(request);
        // A watch that cannot be set again would cost each later connection.
        let replay = watch.as_ref().map_or(0, WatchRequest::replay_length);
        let length = outbox::request_length(request);
        self.admit(length.max(replay), belongs)?;
        if self.suspect.is_some()
            && let Some(error) = self.refusal(opcode, length)
        {
            return Err(error);
        }
        let admitted = self.ephemerals.admit(request, self.outbox.last_xid().next());
        let changes_nodes = admitted.inspect_err(|_| self.list_ephemerals(true))?;
        self.last_request += 1;
        self.statistics.requests += 1;
        let number = self.last_request;
        let id = match watch {
            Some(watch) => self.watches.begin(number, &watch),
            None => RequestId::without_watch(number),
        };
        let pending = PendingRequest {
            xid: self.outbox.take_xid(),
            opcode,
            length,
            owner: RequestOwner::Caller(token),
            id,
            deadline,
            again,
            changes_nodes,
        };
        self.outbox.push(request, pending);
        if DEADLINES && let Some(deadline) = deadline {
            self.timers.set_earlier(SessionTimer::Deadline, deadline);
        }
        Ok(id)
    }

    /// Asks for the list of the session's ephemeral nodes, if it counts too many.
    pub(super) fn list_ephemerals(&mut self, was_refused: bool) {
        if self.is_connected() && self.end().is_none() && self.ephemerals.wants_list(was_refused) {
            let request = GetEphemeralsRequest { prefix_path: None };
            self.outbox.push_own(&Request::GetEphemerals(request), RequestOwner::Session);
        }
    }

    /// Checks that the session accepts a request of `length` bytes.
    fn admit(&mut self, length: usize, belongs: bool) -> Result<(), Error> {
        if let Some(end) = self.end() {
            return Err(Error::Ended { end, outcome: Outcome::NotApplied });
        }
        let limit = self.config.max_request;
        if length > limit {
            return Err(Invalid::TooLarge { length, limit }.into());
        }
        if !belongs && !self.has_room() {
            self.refused = true;
            let Config { max_pending, max_unsent, .. } = self.config;
            return Err(match self.pending() < max_pending {
                true => Error::BufferFull { limit: max_unsent },
                false => Error::QueueFull { limit: max_pending },
            });
        }
        Ok(())
    }

    /// Presents a credential now and on each later connection, before watches and requests.
    ///
    /// For the scheme `digest`, `auth` is `user:password` in plain text. Requests submitted earlier
    /// may already be executed with the credential.
    ///
    /// When a server has accepted the credential, possibly on a later connection, an
    /// [`Event::Reply`] with `token` and an empty body reports it. A credential that was already
    /// accepted on this connection is reported at once.
    ///
    /// If no server has ever accepted a credential, and one refuses it, the reply is
    /// [`Error::Server`] with [`ErrorCode::AUTH_FAILED`], and the credential is forgotten. The
    /// server closes the connection, so requests in flight are lost. If another server has accepted
    /// it, the session moves on, and ends with [`End::AuthFailed`] once all have refused. The scheme
    /// `digest` refuses nothing: another password is another identity.
    ///
    /// # Errors
    ///
    /// [`Invalid::Scheme`] if no server has such a scheme for credentials: it is empty, `world`,
    /// `auth` or `sasl`. Others may be plug-ins of the server.
    ///
    /// Drops `token` and fails like [`submit`](Self::submit) if the session has ended, there is no
    /// room, or the request is too long. Without the feature `full` it always fails, with
    /// [`Invalid::Reserved`].
    ///
    /// ```
    /// use zk_session::Error;
    /// use zk_session::session::{Config, Session};
    /// use zk_session::time::Instant;
    ///
    /// let mut session = Session::new(Instant::START, Config::new(3, 42));
    /// session.add_auth("digest", b"user:password", "my token")?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn add_auth(&mut self, scheme: &str, auth: &[u8], token: T) -> Result<(), Error> {
        if !AUTHENTICATION {
            return Err(Invalid::Reserved(OpCode::AUTH).into());
        }
        self.recorder.add_auth(scheme, auth);
        if let "" | "world" | "auth" | "sasl" = scheme {
            return Err(Invalid::Scheme.into());
        }
        let request = credentials::request(scheme, auth);
        self.admit(outbox::request_length(&request), false)?;
        let accepted = self.connection.as_ref().map_or(0, |open| open.accepted_credentials);
        match self.credentials.add(scheme, auth, token, accepted) {
            Added::Accepted(token) => self.events.push_back(replies::accepted(token)),
            Added::Send if self.is_connected() => {
                self.outbox.push_own(&request, RequestOwner::Session);
            }
            Added::Send | Added::Wait => {}
        }
        Ok(())
    }

    /// Drops the watch that a request sets. Does nothing if the watch has fired or was dropped.
    ///
    /// If no other request shares the watch, the session removes it from the server. Call this as
    /// early as right after the request was submitted.
    pub fn unwatch(&mut self, request: RequestId) {
        self.recorder.input(Kind::UNWATCH, None, &[request.number, request.place.into()]);
        let removal = self.watches.remove(request, self.is_connected());
        self.remove_watch(removal);
    }

    pub(super) fn remove_watch(&mut self, removal: Option<Removal>) {
        // Without a connection the server has no watches, and this one is not set again.
        if let Some(removal) = removal.filter(|_| self.is_connected()) {
            let owner = removal.persistent().map_or(RequestOwner::Session, RequestOwner::Removal);
            self.send_removal(&removal.path, removal.watcher_type, owner);
        }
    }

    /// Removes a persistent watch from a server that can only remove all watches of a path.
    ///
    /// If another watch of the path is needed, it leaves the watch there and ignores its events.
    pub(super) fn remove_all_watches(&mut self, path: &str) {
        match self.watches.is_watched(path) {
            true => self.watches.stays(path),
            false => self.send_removal(path, WatcherType::ANY, RequestOwner::Session),
        }
    }

    fn send_removal(&mut self, path: &str, watcher_type: WatcherType, owner: RequestOwner<T>) {
        if self.can_remove_watches && self.end().is_none() {
            let request = Request::RemoveWatches(RemoveWatchesRequest { path, watcher_type });
            self.outbox.push_own(&request, owner);
        }
    }

    /// Leaves the session without closing it on the servers. Returns the ticket with which another
    /// process can [resume](Config::resume) it within the session timeout.
    ///
    /// Requests without a reply fail as if the session were closed, so wait for their replies
    /// first. If there is no session to resume, this closes it and returns `None`.
    pub fn detach(&mut self) -> Option<SessionTicket> {
        self.recorder.input(Kind::DETACH, None, &[]);
        let ticket = self.ticket();
        match ticket {
            None => self.begin_close(),
            Some(_) => {
                self.actions.push_back(Action::Disconnect);
                self.finish(End::Closed);
            }
        }
        ticket
    }

    /// Closes the session, behind all requests submitted before. It accepts no more.
    ///
    /// The server then deletes the session's ephemeral nodes. Without a connection the session ends
    /// here at once, and on the servers when it expires.
    ///
    /// With attached machines, use [`Dispatcher::close`](crate::dispatch::Dispatcher::close), which
    /// notifies them.
    pub fn close(&mut self) {
        self.recorder.input(Kind::CLOSE, None, &[]);
        self.begin_close();
    }

    #[inline]
    fn begin_close(&mut self) {
        if self.is_expired() {
            return self.finish(End::Closed);
        }
        if self.end().is_some() {
            return;
        }
        self.closing = true;
        if self.is_connected() {
            self.outbox.push_own(&Request::CloseSession(()), RequestOwner::Session);
        } else {
            self.actions.push_back(Action::Disconnect);
            self.finish(End::Closed);
        }
    }
}
