//! The async client: a thin face on [`Session`](crate::session::Session).

mod acl;
mod admin;
mod answer;
mod children;
mod data;
mod nodes;
mod subtree;
mod transaction;
mod watches;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::time::Duration;

use tokio::runtime;
use tokio::sync::watch as watch_channel;
use tokio::task::unconstrained;
use tokio::time::Instant;
use zk_proto::{Request, SessionId};

pub use self::answer::Answer;
pub use self::watches::{PersistentWatch, Watch};
use crate::chroot::Chroot;
use crate::connect_string::{ConnectString, ConnectStringError, Member};
use crate::dispatch::{Attached, Attachment, Token};
use crate::driver::{Answers, Connect, Driver, Inner, Line, Shared, TcpConnect};
use crate::error::{Error, RequestError};
use crate::face::{
    ClientBuilder, Clock, ConnectError, Face, Part, Read, Settings, has_begun, not_sent,
    sets_watch, slot,
};
use crate::session::{End, RequestId, Resume, Session, State, Statistics};

/// A session with an ensemble, kept alive across its members. Cloning it is cheap; when the last
/// clone is dropped, the session is closed in the background. That takes a runtime that goes on: at
/// the end of `main`, [`close`](Self::close) it, or the servers wait for the session timeout.
///
/// # Ordering
///
/// Requests reach the server in the order in which the methods were *called*, not in which their
/// futures are awaited; many can be under way at once. Answers, and events of watches, become
/// ready in the order in which the server sent them.
///
/// # Cancellation
///
/// Dropping a future drops the answer. The request may still be applied. Methods that send more
/// than one request say so, and what is left when they are cancelled.
///
/// # Errors
///
/// Besides what the methods name, any request can fail for these reasons:
///
/// - Requests that no server can have seen wait for the next connection. Those that one may have
///   seen fail with [`Error::ConnectionLost`].
/// - [`Error::Ended`], once the session has.
/// - [`Error::Invalid`] for an impossible request, [`Error::QueueFull`] and [`Error::BufferFull`]
///   at the limits of the queue: nothing is sent then. [`ready`](Self::ready) waits for room.
/// - [`Error::Unsupported`] from a server that is too old, which also closes the connection.
/// - [`Error::ReplyTooLarge`], if the reply is longer than
///   [`max_reply`](ClientBuilder::max_reply).
/// - [`Error::Reply`] and [`Error::Results`], should a server answer something else.
/// - [`ErrorCode::NO_AUTH`](zk_proto::ErrorCode::NO_AUTH), if the node's access control list, or
///   that of its parent, says so.
/// - [`Error::DeadlinePassed`] and [`Error::NoConnection`], if such limits were set.
///
/// [`Error::outcome`] tells for every error whether the request may have been applied.
#[derive(Clone, Debug)]
pub struct Client {
    handle: Arc<Handle>,
    chroot: Chroot,
    request_timeout: Option<Duration>,
}

/// Shared by all clones of a client, and by nothing else: its end is the end of the session.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    runtime: runtime::Handle,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        inner.hub.dispatcher.close_when_done();
        inner.wake_driver();
    }
}

fn close(shared: &Shared) {
    let mut inner = shared.lock();
    inner.hub.session_mut().close();
    inner.wake_driver();
}

fn detach(shared: &Shared) -> Option<Resume> {
    let mut inner = shared.lock();
    let resume = inner.hub.session_mut().detach();
    inner.wake_driver();
    resume
}

/// # The session
impl Client {
    /// Connects with default settings to an ensemble: `host:port,host:port/chroot`.
    ///
    /// # Errors
    ///
    /// When the address is invalid or no member can be reached in time.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, or within one that lacks its timer or its sockets (`enable_all`).
    pub async fn connect(at: &str) -> Result<Self, ConnectError> {
        Self::builder(at).connect().await
    }

    /// Settings for a connection to an ensemble: `host:port,host:port/chroot`.
    pub fn builder(at: &str) -> ClientBuilder<Self> {
        ClientBuilder::new(at)
    }

    /// How things stand now.
    pub fn state(&self) -> State {
        self.shared().lock().hub.session().state()
    }

    /// How things stand, as it changes. Short-lived states can be skipped; the last is not.
    ///
    /// A state is also published again when the [lease](Self::lease) ends. So a task that looks at
    /// the lease on every change needs no timer for it.
    pub fn states(&self) -> watch_channel::Receiver<State> {
        self.shared().states.subscribe()
    }

    /// The session.
    pub fn session_id(&self) -> SessionId {
        self.shared().lock().hub.session().id()
    }

    /// What it takes to take up this session in another process, or in this one later, by
    /// [`ClientBuilder::resume`] after this process has failed; `None` if it has ended. To hand it
    /// over while this process lives, [`detach`](Self::detach) it: two clients of one session cost
    /// each other the connection, for ever, and one that is dropped closes it.
    pub fn session(&self) -> Option<Resume> {
        self.shared().lock().hub.session().resume()
    }

    /// The session timeout that the server granted.
    pub fn session_timeout(&self) -> Duration {
        self.shared().lock().hub.session().timeout()
    }

    /// Until when the ensemble is bound to keep the session, as far as can be known here; see
    /// [`Session::lease`](crate::session::Session::lease). It has passed when [`Instant::now`] is
    /// later.
    ///
    /// On Linux this clock stops while the machine is suspended, but the servers' clocks do not:
    /// after a suspension the lease seems to last longer than it does. Where that can happen, give
    /// the client a [clock](ClientBuilder::clock) that does not stop. The result is then converted
    /// from that clock at the time of the call, so call this again each time.
    pub fn lease(&self) -> Option<Instant> {
        let inner = self.shared().lock();
        let lease = inner.hub.session().lease()?;
        Some(inner.clock.local_instant(lease).into())
    }

    /// Whether the [lease](Self::lease) has ended by the session's clock, so that the ensemble need
    /// not keep the session any longer.
    ///
    /// It looks at the clock, so it is right also when the runtime was blocked, or the process was
    /// stopped, and the client has not noticed yet that time has passed.
    pub fn lease_has_ended(&self) -> bool {
        let inner = self.shared().lock();
        inner.hub.session().lease_has_ended(inner.clock.now())
    }

    /// The runtime that the session is kept alive on: the one that it was begun on. Whatever must
    /// last as long as the session is best spawned there.
    pub fn runtime(&self) -> &runtime::Handle {
        &self.handle.runtime
    }

    /// What was sent and received so far.
    pub fn statistics(&self) -> Statistics {
        self.shared().lock().hub.session().statistics()
    }

    /// The members, in the order of the connection string; [`State::Connected`] counts them so.
    pub fn members(&self) -> Arc<[Member]> {
        self.shared().lock().hub.members.clone()
    }

    /// Replaces the list of members, by a connection string. The session stays where it is or
    /// moves to another member, so that clients that all do this spread evenly over the members.
    ///
    /// # Errors
    ///
    /// When the string is invalid. A chroot in it is ignored.
    pub fn set_members(&self, at: &str) -> Result<(), ConnectStringError> {
        let at: ConnectString = at.parse()?;
        let mut inner = self.shared().lock();
        let now = inner.clock.now();
        inner.hub.set_members(now, at.members);
        inner.wake_driver();
        Ok(())
    }

    /// The directory that this client takes for the root.
    pub fn chroot(&self) -> &Chroot {
        &self.chroot
    }

    /// A clone that takes `path`, as this client sees it, for the root. The node need not exist;
    /// `ensure_path("/")` of the clone creates it.
    ///
    /// # Errors
    ///
    /// When `path` is no valid path.
    pub fn with_chroot(&self, path: &str) -> Result<Self, Error> {
        Ok(Self { chroot: self.chroot.below(path)?, ..self.clone() })
    }

    /// A clone whose requests may take so long and no longer, or as long as they like.
    #[must_use]
    pub fn with_request_timeout(&self, timeout: Option<Duration>) -> Self {
        Self { request_timeout: timeout, ..self.clone() }
    }

    /// Waits until requests are taken: until fewer wait, in number and in bytes, than
    /// [`max_pending`](ClientBuilder::max_pending) and [`max_unsent`](ClientBuilder::max_unsent)
    /// allow. Those who wait are woken in the order in which they came, as many as there is room
    /// for.
    ///
    /// No room is reserved: a request of a caller that did not wait may use it first. A caller that
    /// is still waiting then keeps its place. One that has returned is refused with
    /// [`Error::QueueFull`] or [`Error::BufferFull`], and can wait again.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] when the session has ended, as then nothing is ever taken again.
    ///
    /// # Cancellation
    ///
    /// The place in the queue is given up, and a turn that has come is passed on.
    pub async fn ready(&self) -> Result<(), Error> {
        self.enter(&mut self.line()).await
    }

    /// Ends the session, behind all requests made before, and waits for its end. The server
    /// deletes its ephemeral nodes. All clones of this client find it closed.
    ///
    /// Without a connection it does not wait for one; the server then finds out by itself, after
    /// the session timeout. A member that does not answer, whatever else it says, is waited for no
    /// longer than two thirds of that timeout after its last answer to a request.
    ///
    /// # Cancellation
    ///
    /// The session is closed all the same.
    pub async fn close(self) {
        close(self.shared());
        self.ended().await;
    }

    /// Gives the session up here without ending it on the servers, for another process, or this one
    /// later, to take up by [`ClientBuilder::resume`] within the session timeout; what that takes.
    /// Its ephemeral nodes stay. All clones of this client find it closed; requests that are not
    /// answered yet fail, so wait for their answers first.
    ///
    /// Where there is nothing that could be taken up, that is `None`, and the session is closed.
    ///
    /// # Cancellation
    ///
    /// The session is given up all the same, and what it takes to take it up is lost.
    pub async fn detach(self) -> Option<Resume> {
        let resume = detach(self.shared());
        self.ended().await;
        resume
    }

    /// Waits for the end of the session.
    pub async fn ended(&self) -> End {
        let mut states = self.states();
        let ended = states.wait_for(|state| matches!(state, State::Ended(_)));
        // One task may await the end of any number of sessions.
        let ended = unconstrained(ended).await;
        match ended.as_deref() {
            Ok(State::Ended(end)) => *end,
            // The driver is gone, and the runtime with it.
            _ => End::Closed,
        }
    }
}

/// # Any operation
impl Client {
    /// Sends any request as it is: paths are not checked, and are the server's, whatever the
    /// [`chroot`](Self::chroot). A watch that it asks for is removed at once. What the session
    /// sends for itself is [refused](crate::Invalid::Reserved), and so is what [servers do not
    /// survive](crate::Invalid::HarmsServer).
    pub fn submit(&self, request: &Request<'_>) -> Answer {
        let unwatch = |inner: &mut Inner, id| inner.hub.session_mut().unwatch(id);
        let sent = self.submit_with(request, Box::new(|answer, _: &_| answer), unwatch);
        Answer::of(sent.map(|(_, answer)| answer))
    }

    /// As [`submit`](Self::submit), with the watch that fires once, if the request asks for one. If
    /// it fails in a way that sets none, the watch is to be dropped.
    pub fn submit_and_watch(&self, request: &Request<'_>) -> (Answer, Option<Watch>) {
        if !sets_watch(request) {
            return (self.submit(request), None);
        }
        match self.send_and_watch(request, |answer, _| answer) {
            Ok((answer, watch)) => (answer, Some(watch)),
            Err(error) => (Answer::of(Err(error)), None),
        }
    }

    /// Has all requests that `make` makes written together when it returns: one system call, and
    /// mostly one packet. Whoever knows that several come in one go saves the others.
    ///
    /// `make` must not wait for an answer, since it may be that nothing is sent before it returns.
    /// What other threads ask for meanwhile is not held back, and may take some of these along.
    /// Where several threads do this at a time, one of them has it.
    ///
    /// ```no_run
    /// # fn both(client: &zk_session::Client) {
    /// let (read, listed) = client.together(|| (client.get_data("/a"), client.get_children("/a")));
    /// # }
    /// ```
    pub fn together<R>(&self, make: impl FnOnce() -> R) -> R {
        let _cork = self.shared().cork();
        make()
    }

    /// Attaches a state machine to the session; see [`dispatch`](crate::dispatch). It receives the state
    /// of the session before this returns, and what it submits then is sent at once.
    ///
    /// It stays until it [is done](Attached::is_done), and the session with it, also when all clones of
    /// the client are gone.
    pub fn attach(&self, machine: Box<dyn Attached>) -> Attachment {
        let shared = self.shared().clone();
        let key = shared.with_machines(|inner, now| inner.hub.dispatcher.attach(now, machine));
        Attachment::new(shared, key)
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    fn submit_with<T>(
        &self,
        request: &Request<'_>,
        read: Box<dyn Read<T>>,
        keep: impl FnOnce(&mut Inner, RequestId),
    ) -> Result<(RequestId, Answer<T>), RequestError> {
        let (sender, receiver) = slot();
        let token = Token::Caller(Answers::new(sender));
        let mut inner = self.shared().lock();
        let alone = inner.hub.session().pending() == 0;
        let sent = match self.request_timeout {
            None => inner.hub.session_mut().submit(request, token),
            Some(timeout) => {
                let deadline = inner.clock.now() + timeout;
                inner.hub.session_mut().submit_until(request, token, deadline)
            }
        };
        let id = sent.map_err(|reason| not_sent(request, &self.chroot, reason))?;
        keep(&mut inner, id);
        inner.send(alone);
        drop(inner);
        Ok((id, Answer::new(receiver, read, self.chroot.clone(), request.opcode())))
    }
}

impl Face for Client {
    type Answer<T> = Answer<T>;
    type Watch = Watch;
    type PersistentWatch = PersistentWatch;
    type Line = Line;

    fn chroot(&self) -> &Chroot {
        &self.chroot
    }

    fn send<T>(
        &self,
        request: &Request<'_>,
        read: impl Read<T>,
    ) -> Result<Answer<T>, RequestError> {
        self.submit_with(request, Box::new(read), |_, _| {}).map(|(_, answer)| answer)
    }

    fn send_and_watch<T>(
        &self,
        request: &Request<'_>,
        read: impl Read<T>,
    ) -> Result<(Answer<T>, Watch), RequestError> {
        let (fire, event) = slot();
        let (id, answer) = self.submit_with(request, Box::new(read), |inner, id| {
            inner.hub.watch_once(id, fire);
        })?;
        Ok((answer, Watch::new(id, event, self.shared().clone(), self.chroot.clone())))
    }

    fn send_and_keep_watching(
        &self,
        request: &Request<'_>,
        read: impl Read<()>,
    ) -> Result<(Answer<()>, PersistentWatch), RequestError> {
        let (id, answer) = self.submit_with(request, Box::new(read), |inner, id| {
            inner.hub.keep_watching(id, PersistentWatch::BUFFER);
        })?;
        Ok((answer, PersistentWatch::new(id, self.shared().clone(), self.chroot.clone())))
    }

    fn with_parts<T>(answer: Answer<T>, parts: Vec<Part>) -> Answer<T> {
        answer.with_parts(parts)
    }

    fn wait<T>(answer: Answer<T>) -> impl Future<Output = Result<T, RequestError>> {
        answer
    }

    fn line(&self) -> Line {
        Line::new(self.shared().clone())
    }

    async fn enter(&self, line: &mut Line) -> Result<(), Error> {
        poll_fn(|cx| line.poll(cx.waker())).await
    }
}

impl ClientBuilder<Client> {
    /// Connects over TCP. To be called within a tokio runtime, on which a task is spawned.
    ///
    /// # Errors
    ///
    /// When the address is invalid or no member can be reached in time.
    ///
    /// # Panics
    ///
    /// As [`Client::connect`].
    ///
    /// # Cancellation
    ///
    /// The attempt is given up; a session that was begun meanwhile is closed.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        self.connect_with(TcpConnect).await
    }

    /// As [`connect`](Self::connect), over connections that `connect` makes.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, or within one that lacks its timer.
    pub async fn connect_with(self, connect: impl Connect) -> Result<Client, ConnectError> {
        let Settings { at, patience, request_timeout, clock, config } = self.settings()?;
        let (max_reply, resumed) = (config.max_reply, config.resume.is_some());
        let clock = Clock::new(|| Instant::now().into_std(), clock);
        let shared = Arc::new(Shared::new(at.members, clock, |now| Session::new(now, config)));
        let runtime = runtime::Handle::current();
        let handle = Arc::new(Handle { shared: shared.clone(), runtime });
        let client = Client { handle, chroot: at.chroot, request_timeout };
        tokio::spawn(Driver::new(shared.clone(), connect, max_reply));

        let mut states = shared.states.subscribe();
        let begun = states.wait_for(|state| has_begun(*state, resumed));
        match unconstrained(tokio::time::timeout(patience, begun)).await {
            Ok(Ok(state)) => match *state {
                State::Ended(end) => Err(ConnectError::Ended(end)),
                _ => {
                    drop(state);
                    Ok(client)
                }
            },
            Ok(Err(_)) => Err(ConnectError::Ended(End::Closed)),
            Err(_) => Err(ConnectError::Unreachable { patience, last: shared.last_failure() }),
        }
    }
}
