//! The routing of replies and events to waiting callers.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Waker;
use std::io;

use zk_proto::{Request, SessionId};

use super::answer::GONE;
use super::config_follower::{ConfigFollower, places};
use super::following::Following;
use super::reports::Reports;
use super::room::RoomQueue;
use super::{ConnectError, Receiver, RoomTicket, Sender, ValueSlot};
use crate::connect_string::ServerAddress;
use crate::dispatch::watchers::Watcher;
use crate::dispatch::{Dispatcher, SharedSession, Token};
use crate::end::End;
use crate::error::{Error, Outcome};
use crate::sasl::{Authenticator, BegunExchange, Mechanism, SaslError};
use crate::session::{AUTHENTICATION, Cause, Event, Reply, RequestId, Session, State};
use crate::time::Instant;

/// Sends a reply to the caller that waits for it.
pub(crate) type ReplySender = Sender<Result<Reply, Error>>;

/// A server that failed, and the reason.
pub(crate) type Failure = (String, String);

/// A session and the callers that wait for it.
pub struct Router {
    pub(crate) dispatcher: Dispatcher<ReplySender>,
    pub(crate) servers: Arc<[ServerAddress]>,
    /// The last error of the transport.
    pub(crate) error: Option<io::Error>,
    pub(crate) last_failure: Option<Failure>,
    /// The server that has answered the latest handshake, until the next attempt to connect.
    pub(crate) served: Option<ServerAddress>,
    /// The servers at which the last attempt failed so that no retry helps, before the session has
    /// begun.
    lasting_failures: Vec<usize>,
    /// Why the session was given up before it has begun.
    given_up: Option<ConnectError>,
    authenticator: Option<Authenticator>,
    /// Follows the configuration of the ensemble, if the program wants that.
    following: Option<Following>,
    /// Not 0 if the session was resumed: then no other client of this process has this number.
    pub(crate) resumption: usize,
    /// The state that was delivered last.
    delivered_state: State,
    /// Events polled from the session but not delivered yet.
    undelivered: VecDeque<Event<ReplySender>>,
    room: RoomQueue,
    reports: Reports,
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").finish_non_exhaustive()
    }
}

impl Dispatcher<ReplySender> {
    /// Delivers the events of the watch that a request sets to `watcher`: one event, or with a
    /// persistent watch all. Returns the id that names it.
    pub(crate) fn watch(&mut self, request: RequestId, watcher: Arc<dyn Watcher>) -> RequestId {
        let receiver = self.machines.watchers.insert(request, watcher);
        self.session.0.assign_watch(request, receiver)
    }

    /// Drops a watch. Returns what waits for it, to be dropped without the session's lock. Fails if
    /// the watch is over.
    pub(crate) fn unwatch(&mut self, request: RequestId) -> Result<Arc<dyn Watcher>, Error> {
        let watcher = self.machines.watchers.remove(request).ok_or(GONE)?;
        self.session.0.unwatch(request);
        Ok(watcher)
    }
}

impl Router {
    pub(crate) fn new(
        session: Session<Token<ReplySender>>,
        servers: Vec<ServerAddress>,
        authenticator: Option<Authenticator>,
    ) -> Self {
        static RESUMPTIONS: AtomicUsize = AtomicUsize::new(1);
        let delivered_state = session.state();
        let resumption = match session.id() {
            SessionId::NONE => 0,
            _ => RESUMPTIONS.fetch_add(1, Ordering::Relaxed),
        };
        let mut dispatcher = Dispatcher::new(session);
        Self {
            resumption,
            reports: Reports::new(&mut dispatcher, &servers),
            delivered_state,
            dispatcher,
            servers: servers.into(),
            error: None,
            last_failure: None,
            served: None,
            lasting_failures: Vec::new(),
            given_up: None,
            authenticator,
            following: None,
            undelivered: VecDeque::new(),
            room: RoomQueue::default(),
        }
    }

    /// Sets whether to follow the configuration of the ensemble.
    #[must_use]
    pub(crate) fn follow_config(mut self, follow: bool) -> Self {
        let follower = || Following::new(ConfigFollower::new(self.servers.to_vec()));
        self.following = follow.then(follower);
        self
    }

    /// Returns the session, without the events for attached machines.
    pub(crate) fn session(&self) -> &Session<Token<ReplySender>> {
        &self.dispatcher.session.0
    }

    pub(crate) fn session_mut(&mut self) -> &mut Session<Token<ReplySender>> {
        &mut self.dispatcher.session.0
    }

    // A generic caller of the dispatcher would compile the session again in its own crate.

    /// Closes the session behind all earlier requests.
    pub(crate) fn close(&mut self, now: Instant) {
        self.dispatcher.close(now);
    }

    /// Closes the session when no machine is attached.
    pub(crate) fn close_when_done(&mut self) {
        self.dispatcher.close_when_done();
    }

    /// Submits a request with the time limit `end`. `watcher` receives the events of the watch that
    /// the request sets. Without a `watcher`, that watch is dropped.
    // Inlined, since each driver would pass all arguments twice.
    #[inline(always)]
    pub(crate) fn submit(
        &mut self,
        request: &Request<'_>,
        reply: &Receiver<Result<Reply, Error>>,
        end: Option<Instant>,
        watcher: Option<Arc<dyn Watcher>>,
    ) -> Result<RequestId, Error> {
        let token = Token::Caller(reply.sender());
        let id = self.session_mut().enqueue(request, token, end, None, false)?;
        Ok(if id.has_watch() { self.watch(id, watcher) } else { id })
    }

    /// Sets what waits for the watch of a request.
    // Not inlined: most requests set no watch.
    #[inline(never)]
    fn watch(&mut self, request: RequestId, watcher: Option<Arc<dyn Watcher>>) -> RequestId {
        if let Some(watcher) = watcher {
            return self.dispatcher.watch(request, watcher);
        }
        self.session_mut().unwatch(request);
        request
    }

    /// Returns the last server that failed and the reason, or else the one that has not answered
    /// yet.
    pub(crate) fn last_failure(&self) -> Option<Failure> {
        let waiting_for = || self.servers.get(self.session().server()?);
        let silent =
            |server: &ServerAddress| (server.to_string(), Cause::ConnectTimeout.to_string());
        self.last_failure.clone().or_else(|| waiting_for().map(silent))
    }

    /// Returns why the session ended before it began.
    pub(crate) fn not_begun(&self, end: End) -> ConnectError {
        self.given_up.clone().unwrap_or(ConnectError::Ended(end))
    }

    /// Returns the error of requests from now on, if the session has ended.
    pub(crate) fn ended(&self) -> Option<Error> {
        match self.session().state() {
            State::Ended(end) => Some(Error::Ended { end, outcome: Outcome::NotApplied }),
            _ => None,
        }
    }

    /// Delivers the events of the session, up to the next state, which the client has to publish
    /// before the others. Returns whether there was anything to deliver or to send, and the state.
    pub(crate) fn deliver(&mut self, now: impl FnOnce() -> Instant) -> (bool, Option<State>) {
        // A machine that receives an event may submit requests.
        let unsent = self.session().output().len();
        let mut news = None;
        let has_events = !self.undelivered.is_empty() || self.dispatcher.has_events();
        if has_events {
            let now = now();
            while news.is_none()
                && let next = self.undelivered.pop_front()
                && let Some(event) =
                    next.or_else(|| self.dispatcher.deliver(now, Some(ValueSlot::send)))
            {
                match event {
                    Event::State(state) => {
                        self.note_state(state);
                        news = Some(state);
                    }
                    // The state is the same, but it is worth less.
                    Event::LeaseEnded => news = Some(self.delivered_state),
                    event => self.handle_event(now, event),
                }
            }
            self.follow(now);
        }
        self.admit_waiters();
        self.emit_reports();
        (has_events || self.session().output().len() > unsent, news)
    }

    fn note_state(&mut self, state: State) {
        if let Some(following) = &mut self.following {
            following.follower.handle_state(state);
        }
        if let State::Connected { server, .. } | State::ReadOnly { server, .. } = state {
            self.served = self.servers.get(server).cloned();
        }
        let before = core::mem::replace(&mut self.delivered_state, state);
        if state != before && !state.is_renumbered(before) {
            self.reports.state(state, &self.servers);
        }
    }

    /// Follows the configuration of the ensemble, after each delivery.
    fn follow(&mut self, now: Instant) {
        let Some(mut following) = self.following.take() else { return };
        if let Some(request) = following.receive() {
            let _ = self.dispatcher.unwatch(request);
        }
        following.read(&mut self.dispatcher);
        let session = self.dispatcher.session_mut();
        let replaced = following.follower.replace_servers(session, now, &self.servers);
        self.following = Some(following);
        if let Some(servers) = replaced {
            self.note_servers(now, servers);
        }
    }

    /// Emits the reports to observers once the session is unlocked.
    fn emit_reports(&mut self) {
        self.reports.emit(&mut self.dispatcher);
    }

    /// Replaces the list of servers. Servers in both lists keep their identity.
    pub(crate) fn set_servers(&mut self, now: Instant, servers: Vec<ServerAddress>) {
        if let Some(following) = &mut self.following {
            following.follower.set_servers(servers.clone());
        }
        let kept = places(&self.servers, &servers);
        self.session_mut().update_servers(now, &kept, servers.len());
        self.note_servers(now, servers);
    }

    /// Notes that the session's list is replaced.
    fn note_servers(&mut self, now: Instant, servers: Vec<ServerAddress>) {
        // Recorded events have the old indices. Only states wait until the client can publish them:
        // replies stay in order with the events of watches, which the dispatcher delivers at once.
        while let Some(event) = self.dispatcher.deliver(now, Some(ValueSlot::send)) {
            match event {
                Event::State(_) | Event::LeaseEnded => self.undelivered.push_back(event),
                event => self.handle_event(now, event),
            }
        }
        self.servers = servers.into();
        self.reports.servers(&self.servers);
        self.dispatcher.record_servers(&self.servers);
        self.lasting_failures.clear();
    }

    /// Handles an event that is no state.
    fn handle_event(&mut self, now: Instant, event: Event<ReplySender>) {
        match event {
            Event::Disconnected { server, cause } => {
                if AUTHENTICATION && let Some(authenticator) = &mut self.authenticator {
                    authenticator.handle_disconnected(cause);
                }
                self.server_failed(server, cause);
            }
            Event::Authenticate { server } => self.authenticate(server, Authenticator::begin),
            Event::AuthenticationReply { server, result } => {
                self.authenticate(server, |authenticator, session, _| {
                    authenticator.handle_reply(session, now, result)
                });
            }
            // The dispatcher delivers replies and what is about watches, and `admit_waiters` serves
            // the queue for room.
            _ => {}
        }
    }

    fn server_failed(&mut self, server: usize, cause: Cause) {
        let error = self.error.take().filter(|_| cause == Cause::Transport);
        let reason = error.as_ref().map_or_else(|| cause.to_string(), ToString::to_string);
        if let Some(address) = self.servers.get(server) {
            let failure = (address.to_string(), reason);
            self.reports.failed(&failure);
            self.last_failure = Some(failure);
            if let Some(following) = &mut self.following
                && cause != Cause::Rebalanced
            {
                following.follower.handle_failed(address);
            }
        }
        if self.session().statistics().connections == 0 {
            self.note_failure(server, error);
        }
    }

    /// Gives up a session that has not begun if TLS or SASL fails at every server.
    fn note_failure(&mut self, server: usize, error: Option<io::Error>) {
        let Some(address) = self.servers.get(server).map(ToString::to_string) else { return };
        self.lasting_failures.retain(|failed| *failed != server);
        let Some(lasting) = error.and_then(|error| self.lasting_failure(address, error)) else {
            return;
        };
        self.lasting_failures.push(server);
        if self.lasting_failures.len() == self.servers.len() {
            self.given_up = Some(lasting);
            self.session_mut().close();
        }
    }

    fn lasting_failure(&self, server: String, error: io::Error) -> Option<ConnectError> {
        let error = match error.downcast() {
            Ok(error) => return Some(ConnectError::Tls { server, error }),
            Err(error) => error.downcast().ok()?,
        };
        let mechanism = self.mechanism()?.name();
        Some(ConnectError::AuthenticationFailed { mechanism, server, error })
    }

    /// Returns the SASL mechanism, if there is one.
    pub(crate) fn mechanism(&self) -> Option<&Arc<dyn Mechanism>> {
        self.authenticator.as_ref().filter(|_| AUTHENTICATION).map(Authenticator::mechanism)
    }

    /// Tells the session that a connection is made, and an exchange begun for it.
    pub(crate) fn handle_connected(&mut self, now: Instant, begun: Option<BegunExchange>) {
        if AUTHENTICATION
            && let (Some(authenticator), Some(begun)) = (&mut self.authenticator, begun)
        {
            authenticator.set_begun(begun);
        }
        self.session_mut().handle_connected(now);
    }

    /// Takes a step of the exchange with a server.
    fn authenticate(
        &mut self,
        server: usize,
        step: impl FnOnce(
            &mut Authenticator,
            &mut SharedSession<ReplySender>,
            &ServerAddress,
        ) -> Result<(), SaslError>,
    ) {
        if !AUTHENTICATION {
            return;
        }
        let Some(authenticator) = &mut self.authenticator else { return };
        let session = self.dispatcher.session_mut();
        let Some(server) = self.servers.get(server) else { return };
        if let Err(error) = step(authenticator, session, server) {
            let (mechanism, server) = (authenticator.mechanism().name(), server.to_string());
            self.reports.failed(&(server.clone(), error.to_string()));
            self.given_up = Some(ConnectError::AuthenticationFailed { mechanism, server, error });
        }
    }

    /// Returns the error of a one-shot watch that has ended without an event.
    pub(crate) fn end_of_watch(&self) -> Error {
        // A session that goes on has succeeded the one of the watch.
        let expired = Error::Ended { end: End::Expired, outcome: Outcome::NotApplied };
        self.ended().unwrap_or(expired)
    }
}

/// # Room
impl Router {
    /// Returns whether a waiter for room can stop waiting: there is room, or there will never be.
    pub(crate) fn try_enter(&mut self, ticket: &mut RoomTicket) -> Option<Result<(), Error>> {
        if let Some(ended) = self.ended() {
            return Some(Err(ended));
        }
        let room = self.session().room();
        if !self.room.try_enter(ticket, room) {
            return None;
        }
        // The next waiter may enter without waiting for this request, unless this one takes the
        // last room. If this request is never made, the reply to another one serves the queue.
        let used = usize::from(self.session().pending() > 0);
        self.room.admit(room - used, &mut self.dispatcher.effects().wakers);
        Some(Ok(()))
    }

    /// Queues `ticket`, to be woken when it is its turn. Returns the waker it had, to be dropped
    /// without the session's lock.
    pub(crate) fn wait_for_room(&mut self, ticket: &mut RoomTicket, waker: Waker) -> Option<Waker> {
        self.room.wait(ticket, waker)
    }

    /// Takes `ticket` out of the queue, and passes its turn on. Returns its waker, to be dropped
    /// without the session's lock.
    pub(crate) fn stop_waiting_for_room(&mut self, ticket: &mut RoomTicket) -> Option<Waker> {
        let waker = self.room.leave(ticket);
        self.admit_waiters();
        waker
    }

    /// Wakes the callers that wait for room, in their order, if there is room or never will be.
    fn admit_waiters(&mut self) {
        if self.room.is_empty() {
            return;
        }
        match self.ended() {
            None => {
                let room = self.session().room();
                self.room.admit(room, &mut self.dispatcher.effects().wakers);
            }
            Some(_) => self.room.dismiss(&mut self.dispatcher.effects().wakers),
        }
    }
}

#[cfg(test)]
mod tests;
