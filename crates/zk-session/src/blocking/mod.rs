//! The client for threads: a thin face on [`Session`], on nothing but the standard library.
//!
//! It has the operations of the async client, by the same names. A thread that waits for an answer
//! or an event reads from the connection by itself, if no other thread does; while nobody waits,
//! the session's own thread reads, and keeps the session alive. Requests are written by the threads
//! that make them. Those made by [`Client::submit`] while others are under way are written
//! together: at once by the next thread that waits, or soon by the session's own. While a member is
//! being reached, its name looked up first, another thread waits for that. A lookup that hangs
//! cannot be ended, only given up, and keeps its thread as long; there are at most four of them per
//! member.
//!
//! ```no_run
//! use zk_session::blocking::Client;
//! use zk_session::proto::NodeKind;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("zk1:2181,zk2:2181,zk3:2181/app")?;
//! client.create("/config", b"v1", NodeKind::Persistent)?;
//! let (data, stat, watch) = client.get_data_and_watch("/config")?;
//! println!("version {} is {data:?}", stat.version);
//! println!("{:?}", watch.wait()?);
//! client.close();
//! # Ok(())
//! # }
//! ```

mod answer;
mod connect;
mod driver;
mod line;
mod operations;
mod probe;
mod reading;
mod shared;
mod subtree;
#[cfg(test)]
mod tests;
mod watches;

use alloc::boxed::Box;
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::time::Instant;

use zk_proto::{Request, SessionId};

pub use self::answer::Answer;
pub use self::connect::{Connect, TcpConnect, TcpTransport, Transport};
use self::line::Line;
use self::reading::Wait;
use self::shared::{Inner, Shared};
pub use self::watches::{PersistentWatch, Watch};
use crate::chroot::Chroot;
use crate::connect_string::{ConnectString, ConnectStringError, Member};
use crate::dispatch::{Attached, Attachment, Token};
use crate::error::{Error, RequestError};
use crate::face::{
    ClientBuilder, Clock, ConnectError, Face, Part, Read, Settings, has_begun, not_sent,
    sets_watch, slot,
};
use crate::session::{End, RequestId, Resume, Session, State, Statistics};

/// A session with an ensemble, kept alive across its members. Cloning it is cheap; when the last
/// clone is dropped, the session is closed in the background.
///
/// # Ordering
///
/// Requests of one thread reach the server one after the other, as each call waits for its answer.
/// Requests of several threads, and those made by [`submit`](Self::submit), are under way at once,
/// in the order of the calls. Answers, and events of watches, become ready in the order in which
/// the server sent them.
///
/// # Waiting
///
/// A call waits for its answer as long as it takes, across connections, unless there is a
/// [`request_timeout`](ClientBuilder::request_timeout). It ends at the latest with the session.
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
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        inner.hub.dispatcher.close_when_done();
        inner.settle(&self.shared);
    }
}

/// # The session
impl Client {
    /// Connects with default settings to an ensemble: `host:port,host:port/chroot`.
    ///
    /// # Errors
    ///
    /// When the address is invalid or no member can be reached in time.
    pub fn connect(at: &str) -> Result<Self, ConnectError> {
        Self::builder(at).connect()
    }

    /// Settings for a connection to an ensemble: `host:port,host:port/chroot`.
    pub fn builder(at: &str) -> ClientBuilder<Self> {
        ClientBuilder::new(at)
    }

    /// How things stand now.
    pub fn state(&self) -> State {
        self.shared().lock().hub.session().state()
    }

    /// Waits until things stand as `condition` asks for, or the session has ended, or so much time
    /// has passed, and says how they stood then, as `condition` saw it. That may use the client.
    pub fn wait_for_state(
        &self,
        condition: impl Fn(State) -> bool,
        timeout: Option<Duration>,
    ) -> State {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let state = self.state();
            let is_over = condition(state) || matches!(state, State::Ended(_));
            let changed = |inner: &Inner| inner.hub.session().state() != state;
            if is_over || !self.shared().wait_until(deadline, changed) {
                return state;
            }
        }
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
    /// [`Session::lease`]. It has passed when [`Instant::now`] is later.
    ///
    /// On Linux this clock stops while the machine is suspended, but the servers' clocks do not:
    /// after a suspension the lease seems to last longer than it does. Where that can happen, give
    /// the client a [clock](ClientBuilder::clock) that does not stop. The result is then converted
    /// from that clock at the time of the call, so call this again each time.
    pub fn lease(&self) -> Option<Instant> {
        let lease = self.shared().lock().hub.session().lease()?;
        Some(self.shared().clock.local_instant(lease))
    }

    /// Whether the [lease](Self::lease) has ended by the session's clock, so that the ensemble need
    /// not keep the session any longer.
    ///
    /// It looks at the clock, so it is right also when the process was stopped, and the client has
    /// not noticed yet that time has passed.
    pub fn lease_has_ended(&self) -> bool {
        let shared = self.shared();
        shared.lock().hub.session().lease_has_ended(shared.now())
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
        self.shared().set_members(at.members);
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
    /// allow. Those who wait go in the order in which they came, as many as there is room for.
    ///
    /// No room is reserved: a request of a caller that did not wait may use it first. A caller that
    /// is still waiting then keeps its place. One that has returned is refused with
    /// [`Error::QueueFull`] or [`Error::BufferFull`], and can wait again.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] when the session has ended, as then nothing is ever taken again.
    pub fn ready(&self) -> Result<(), Error> {
        Line::new(self.shared().clone()).enter()
    }

    /// Ends the session, behind all requests made before, and waits for its end. The server
    /// deletes its ephemeral nodes. All clones of this client find it closed.
    ///
    /// Without a connection it does not wait for one; the server then finds out by itself, after
    /// the session timeout. A member that does not answer, whatever else it says, is waited for no
    /// longer than two thirds of that timeout after its last answer to a request.
    pub fn close(self) {
        self.shared().command(|session, _| session.close());
        self.ended();
    }

    /// Gives the session up here without ending it on the servers, for another process, or this one
    /// later, to take up by [`ClientBuilder::resume`] within the session timeout; what that takes.
    /// Its ephemeral nodes stay. All clones of this client find it closed; requests that are not
    /// answered yet fail, so wait for their answers first.
    ///
    /// Where there is nothing that could be taken up, that is `None`, and the session is closed.
    pub fn detach(self) -> Option<Resume> {
        let mut resume = None;
        self.shared().command(|session, _| resume = session.detach());
        self.ended();
        resume
    }

    /// Waits for the end of the session.
    pub fn ended(&self) -> End {
        match self.wait_for_state(|_| false, None) {
            State::Ended(end) => end,
            _ => End::Closed,
        }
    }
}

/// # Any operation
impl Client {
    /// Sends any request as it is, without waiting: paths are not checked, and are the server's,
    /// whatever the [`chroot`](Self::chroot). So one thread can have many requests under way. A
    /// watch that one asks for is removed at once. What the session sends for itself is
    /// [refused](crate::Invalid::Reserved), and so is what [servers do not
    /// survive](crate::Invalid::HarmsServer).
    pub fn submit(&self, request: &Request<'_>) -> Answer {
        let unwatch = |inner: &mut Inner, id| inner.hub.session_mut().unwatch(id);
        let sent = self.submit_with(request, Box::new(|answer, _: &_| answer), false, unwatch);
        Answer::of(sent.map(|(_, answer)| answer))
    }

    /// As [`submit`](Self::submit), with the watch that fires once, if the request asks for one. If
    /// it fails in a way that sets none, the watch is to be dropped.
    pub fn submit_and_watch(&self, request: &Request<'_>) -> (Answer, Option<Watch>) {
        if !sets_watch(request) {
            return (self.submit(request), None);
        }
        match self.send_and_watch(request, |answer, _| answer) {
            Ok((answer, watch)) => {
                // Nobody waits yet.
                self.shared().lock().write_soon(self.shared());
                (answer, Some(watch))
            }
            Err(error) => (Answer::of(Err(error)), None),
        }
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

    /// Waits until `poll` is ready, for no longer than until `end`; `None` if it is not by then. The
    /// thread may read from the connection meanwhile, so it gets what the session delivers without
    /// another thread. While it reads it cannot be woken: what other threads change by themselves is
    /// noticed when something arrives, or at the session's next deadline, such as a ping.
    ///
    /// `poll` is called with the session locked: it must not use the client. If it is not ready it must
    /// see to it that the waker is run, as an attached machine does by
    /// [`Port::wake`](crate::dispatch::Port::wake).
    pub fn wait_for<R>(
        &self,
        end: Option<Instant>,
        mut poll: impl FnMut(&Waker) -> Poll<R>,
    ) -> Option<R> {
        self.shared().wait(Wait::Reading, end, |_, waker| poll(waker))
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    fn submit_with<T>(
        &self,
        request: &Request<'_>,
        read: Box<dyn Read<T>>,
        waits: bool,
        keep: impl FnOnce(&mut Inner, RequestId),
    ) -> Result<(RequestId, Answer<T>), RequestError> {
        let (sender, receiver) = slot();
        let shared = self.shared();
        let mut inner = shared.lock();
        let alone = inner.hub.session().pending() == 0;
        let deadline = self.request_timeout.map(|timeout| shared.now() + timeout);
        let token = Token::Caller(sender);
        let sent = match deadline {
            None => inner.hub.session_mut().submit(request, token),
            Some(deadline) => inner.hub.session_mut().submit_until(request, token, deadline),
        };
        let id = sent.map_err(|reason| not_sent(request, &self.chroot, reason))?;
        keep(&mut inner, id);
        inner.send(shared, alone, waits);
        drop(inner);
        let (chroot, shared) = (self.chroot.clone(), shared.clone());
        Ok((id, Answer::new(receiver, read, chroot, shared, request.opcode())))
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
        self.submit_with(request, Box::new(read), true, |_, _| {}).map(|(_, answer)| answer)
    }

    fn send_and_watch<T>(
        &self,
        request: &Request<'_>,
        read: impl Read<T>,
    ) -> Result<(Answer<T>, Watch), RequestError> {
        let (fire, event) = slot();
        let (id, answer) = self.submit_with(request, Box::new(read), true, |inner, id| {
            inner.hub.watch_once(id, fire);
        })?;
        Ok((answer, Watch::new(id, event, self.shared().clone(), self.chroot.clone())))
    }

    fn send_and_keep_watching(
        &self,
        request: &Request<'_>,
        read: impl Read<()>,
    ) -> Result<(Answer<()>, PersistentWatch), RequestError> {
        let (id, answer) = self.submit_with(request, Box::new(read), true, |inner, id| {
            inner.hub.keep_watching(id, PersistentWatch::BUFFER);
        })?;
        Ok((answer, PersistentWatch::new(id, self.shared().clone(), self.chroot.clone())))
    }

    fn with_parts<T>(answer: Answer<T>, parts: Vec<Part>) -> Answer<T> {
        answer.with_parts(parts)
    }

    async fn wait<T>(answer: Answer<T>) -> Result<T, RequestError> {
        answer.wait()
    }

    fn line(&self) -> Line {
        Line::new(self.shared().clone())
    }

    async fn enter(&self, line: &mut Line) -> Result<(), Error> {
        line.enter()
    }
}

impl ClientBuilder<Client> {
    /// Connects over TCP, and starts the thread that reads what members send.
    ///
    /// # Errors
    ///
    /// When the address is invalid or no member can be reached in time, or no thread be started.
    pub fn connect(self) -> Result<Client, ConnectError> {
        self.connect_with(TcpConnect)
    }

    /// As [`connect`](Self::connect), over connections that `connect` makes.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn connect_with(self, connect: impl Connect) -> Result<Client, ConnectError> {
        let Settings { at, patience, request_timeout, clock, config } = self.settings()?;
        let resumed = config.resume.is_some();
        let max_reply = config.max_reply;
        let clock = Clock::new(Instant::now, clock);
        let make = |now| Session::new(now, config);
        let shared = Arc::new(Shared::new(at.members, connect, clock, max_reply, make));
        let handle = Arc::new(Handle { shared: shared.clone() });
        let client = Client { handle, chroot: at.chroot, request_timeout };
        driver::start(shared.clone()).map_err(|error| ConnectError::NoThread(error.to_string()))?;

        let deadline = Instant::now().checked_add(patience);
        let begun = |inner: &Inner| has_begun(inner.hub.session().state(), resumed);
        if !shared.wait_until(deadline, begun) {
            return Err(ConnectError::Unreachable { patience, last: shared.last_failure() });
        }
        match client.state() {
            State::Ended(end) => Err(ConnectError::Ended(end)),
            _ => Ok(client),
        }
    }
}
