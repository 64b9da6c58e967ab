//! The blocking client, on sockets and threads of the standard library.
//!
//! It has the operations of the async client, under the same names.
//!
//! - **Reading.** A thread that waits for an answer or an event reads from the connection itself,
//!   if no other thread does. While no thread waits, the session's own thread reads, and keeps the
//!   session alive.
//! - **Writing.** The threads that make requests write them. Requests made by [`Client::submit`]
//!   while others are pending are written together, by the next thread that waits or by the
//!   session's own thread.
//! - **Connecting** takes a temporary thread, because it may include the lookup of a name. A lookup
//!   that hangs cannot be stopped, so its thread remains as long. There are at most four such
//!   threads per server.
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
mod block_on;
mod driver;
pub(crate) mod method;
mod room_waiter;
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

use zk_proto::{OpCode, Request};

pub use self::answer::Answer;
#[cfg(feature = "blocking-tls")]
use self::driver::TlsConnect;
pub use self::driver::{Connect, TcpConnect, TcpTransport, Transport};
use self::driver::{Inner, Shared, Wait};
use self::room_waiter::RoomWaiter;
pub use self::watches::{PersistentWatch, Watch};
use crate::chroot::Chroot;
#[cfg(feature = "blocking-tls")]
use crate::client::TlsConfig;
use crate::client::{
    ClientBuilder, Clock, ConnectError, DecodeAnswer, MultiOperation, RawClient, Router, Settings,
    has_begun, not_sent, sets_watch, slot,
};
use crate::connect_string::{ConnectString, ConnectStringError};
use crate::dispatch::{Attached, Attachment, Token};
use crate::error::{Error, RequestError};
use crate::session::{End, RequestId, Session, SessionTicket, State};

/// A session with an ensemble, kept alive across its servers. Cloning it is cheap. When the last
/// clone is dropped, the session is closed in the background.
///
/// # Ordering
///
/// Requests of one thread reach the server one after the other, since each call waits for its
/// answer. Requests of several threads, and those of [`submit`](Self::submit), can be in flight at
/// once, in the order of the calls. Answers and watch events become ready in the order in which the
/// server sent them.
///
/// # Processes
///
/// After a `fork`, the session stays with the parent. In the child, every call on this client fails
/// with [`End::Forked`], writes nothing, and a drop does nothing. Connect a client of its own there.
/// A command that is executed at once, as by `std::process::Command`, is no matter.
///
/// # Waiting
///
/// A call waits for its answer without a limit, across connections, unless there is a
/// [`request_timeout`](ClientBuilder::request_timeout). It returns at the latest when the session
/// ends.
///
/// # Errors
///
#[doc = include_str!("../client/errors.md")]
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) handle: Arc<Handle>,
    pub(crate) chroot: Chroot,
    pub(crate) request_timeout: Option<Duration>,
}

/// The part shared by all clones of a client. Dropping it closes the session.
#[derive(Debug)]
pub(crate) struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.keep_if_forked() {
            return;
        }
        let mut inner = self.shared.lock();
        inner.router.dispatcher.close_when_done();
        inner.settle(&self.shared);
    }
}

/// # The session
impl Client {
    /// Connects with default settings to an ensemble: `host:port,host:port/chroot`.
    ///
    /// # Errors
    ///
    /// If the address is invalid or no server can be reached in time.
    pub fn connect(at: &str) -> Result<Self, ConnectError> {
        Self::builder(at).connect()
    }

    /// Waits until `condition` holds for the state of the session, the session has ended, or
    /// `timeout` has passed. Returns the state that `condition` saw last. `condition` may use the
    /// client.
    pub fn wait_for_state(
        &self,
        condition: impl Fn(State) -> bool,
        timeout: Option<Duration>,
    ) -> State {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let state = self.state();
            let is_over = condition(state) || matches!(state, State::Ended(_));
            let changed = |inner: &Inner| inner.router.session().state() != state;
            if is_over || !self.shared().wait_until(deadline, changed) {
                return state;
            }
        }
    }

    /// Returns the time until which the ensemble must keep the session, as far as the client can
    /// know; see [`Session::lease`]. The lease has ended when [`Instant::now`] is later.
    ///
    /// On Linux and macOS [`Instant`] stops while the machine is suspended, but the clocks of the
    /// session and of the servers do not. The result is converted at the time of the call, so call
    /// this again each time: after a suspension, an earlier result is too late.
    pub fn lease(&self) -> Option<Instant> {
        let lease = self.shared().lock().router.session().lease()?;
        Some(self.shared().clock.local_instant(lease))
    }

    /// Replaces the list of servers by that of a connection string, whose chroot is ignored. The
    /// session stays on its server or moves to another one. If all clients do this, they are spread
    /// evenly over the servers.
    ///
    /// # Errors
    ///
    /// If the string is invalid.
    pub fn set_servers(&self, at: &str) -> Result<(), ConnectStringError> {
        let at: ConnectString = at.parse()?;
        self.shared().set_servers(at.servers);
        Ok(())
    }

    /// Closes the session behind all earlier requests, and waits for its end. The server deletes
    /// its ephemeral nodes. All clones of this client find it closed.
    ///
    /// Without a connection it returns at once; the servers then expire the session after its
    /// timeout. It waits for a server that stops answering for at most two thirds of the session
    /// timeout after its last reply.
    pub fn close(self) {
        self.shared().with_machines(|inner, now| inner.router.dispatcher.close(now));
        self.ended();
    }

    /// Detaches from the session without ending it on the servers, so its ephemeral nodes stay.
    /// Returns the ticket by which another process or a later client can resume it with
    /// [`ClientBuilder::resume`], within the session timeout. All clones of this client find it
    /// closed. Pending requests fail, so wait for their answers first.
    ///
    /// Closes the client and returns `None` if there is no session to resume.
    pub fn detach(self) -> Option<SessionTicket> {
        let mut ticket = None;
        self.shared().command(|session, _| ticket = session.detach());
        self.ended();
        ticket
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
    /// Sends any request unchanged, without waiting, so one thread can have many requests in
    /// flight. Paths are not checked, and the [`chroot`](Self::chroot) is not added to them. A
    /// watch that the request sets is removed at once. Requests that only the session sends are
    /// [refused](crate::Invalid::Reserved), and so are those that [crash
    /// servers](crate::Invalid::HarmsServer).
    pub fn submit(&self, request: &Request<'_>) -> Answer {
        let unwatch = |inner: &mut Inner, id| inner.router.session_mut().unwatch(id);
        let sent = self.submit_with(request, Box::new(|answer, _: &_| answer), false, unwatch);
        Answer::of(sent.map(|(_, answer)| answer))
    }

    /// Sends any request like [`submit`](Self::submit). Also returns the one-shot watch that the
    /// request sets, if any. Drop the watch if the request fails without setting it.
    pub fn submit_and_watch(&self, request: &Request<'_>) -> (Answer, Option<Watch>) {
        if !sets_watch(request) {
            return (self.submit(request), None);
        }
        match self.send_and_watch(request, |answer, _| answer) {
            Ok((answer, watch)) => {
                // No thread waits yet.
                self.shared().lock().write_soon(self.shared());
                (answer, Some(watch))
            }
            Err(error) => (Answer::of(Err(error)), None),
        }
    }

    /// Attaches a state machine to the session; see [`dispatch`](crate::dispatch). The machine
    /// receives the state of the session before this returns, and its first requests are sent at
    /// once.
    ///
    /// The machine stays attached until it [is done](Attached::is_done). Until then the session
    /// stays alive, even without any clone of the client.
    pub fn attach(&self, machine: Box<dyn Attached>) -> Attachment {
        let shared = self.shared().clone();
        let key = shared.with_machines(|inner, now| inner.router.dispatcher.attach(now, machine));
        Attachment::new(shared, key)
    }

    /// Waits until `poll` is ready. Returns `None` if it is not ready by `end`.
    ///
    /// The thread may read from the connection meanwhile, and so receives what the session delivers
    /// without another thread. While it reads it cannot be woken. It notices changes by other
    /// threads when bytes arrive, or at the session's next deadline, such as a ping.
    ///
    /// `poll` is called under the session's lock, so it must not use the client. If it is not
    /// ready, it must arrange for the waker to run, as an attached machine does by
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
        decode: Box<dyn DecodeAnswer<T>>,
        waits: bool,
        keep: impl FnOnce(&mut Inner, RequestId),
    ) -> Result<(RequestId, Answer<T>), RequestError> {
        let (sender, receiver) = slot();
        let shared = self.shared();
        let mut inner = shared.lock();
        let alone = inner.router.session().pending() == 0;
        let token = Token::Caller(sender);
        let sent = match self.request_timeout {
            #[cfg(feature = "deadlines")]
            Some(timeout) => {
                let deadline = shared.now() + timeout;
                inner.router.session_mut().submit_until(request, token, deadline)
            }
            _ => inner.router.session_mut().submit(request, token),
        };
        let id = sent.map_err(|reason| not_sent(request, &self.chroot, reason))?;
        keep(&mut inner, id);
        inner.send(shared, alone, waits);
        drop(inner);
        let (chroot, shared) = (self.chroot.clone(), shared.clone());
        Ok((id, Answer::new(receiver, decode, chroot, shared, request.opcode())))
    }
}

impl RawClient for Client {
    type Answer<T> = Answer<T>;
    type Watch = Watch;
    type PersistentWatch = PersistentWatch;
    type RoomWaiter = RoomWaiter;

    fn chroot(&self) -> &Chroot {
        &self.chroot
    }

    fn with_router<R>(&self, look: impl FnOnce(&Router) -> R) -> R {
        look(&self.shared().lock().router)
    }

    fn now(&self) -> crate::time::Instant {
        self.shared().now()
    }

    fn send<T>(
        &self,
        request: &Request<'_>,
        decode: impl DecodeAnswer<T>,
    ) -> Result<Answer<T>, RequestError> {
        self.submit_with(request, Box::new(decode), true, |_, _| {}).map(|(_, answer)| answer)
    }

    fn send_and_watch<T>(
        &self,
        request: &Request<'_>,
        decode: impl DecodeAnswer<T>,
    ) -> Result<(Answer<T>, Watch), RequestError> {
        let (fire, event) = slot();
        let (id, answer) = self.submit_with(request, Box::new(decode), true, |inner, id| {
            inner.router.watch_once(id, fire);
        })?;
        Ok((answer, Watch::new(id, event, self.shared().clone(), self.chroot.clone())))
    }

    fn send_and_keep_watching(
        &self,
        request: &Request<'_>,
        decode: impl DecodeAnswer<()>,
    ) -> Result<(Answer<()>, PersistentWatch), RequestError> {
        let (id, answer) = self.submit_with(request, Box::new(decode), true, |inner, id| {
            inner.router.keep_watching(id, PersistentWatch::BUFFER);
        })?;
        Ok((answer, PersistentWatch::new(id, self.shared().clone(), self.chroot.clone())))
    }

    fn send_credential(&self, scheme: &str, auth: &[u8]) -> Result<Answer<()>, RequestError> {
        let (sender, receiver) = slot();
        let shared = self.shared();
        let end = self.request_timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut inner = shared.lock();
        let added = inner.router.session_mut().add_auth(scheme, auth, Token::Caller(sender));
        added.map_err(|reason| RequestError::new(OpCode::AUTH, None, reason))?;
        inner.settle(shared);
        drop(inner);
        let decode = Box::new(|answer: Result<_, Error>, _: &_| answer.map(drop));
        let chroot = self.chroot.clone();
        Ok(Answer::new(receiver, decode, chroot, shared.clone(), OpCode::AUTH).until(end))
    }

    fn with_operations<T>(answer: Answer<T>, operations: Vec<MultiOperation>) -> Answer<T> {
        answer.with_operations(operations)
    }

    fn room_waiter(&self) -> RoomWaiter {
        RoomWaiter::new(self.shared().clone())
    }

    async fn wait_for_room(&self, waiter: &mut RoomWaiter) -> Result<(), Error> {
        waiter.wait()
    }
}

impl ClientBuilder<Client> {
    /// Connects over TCP, and starts the session's thread.
    ///
    /// # Errors
    ///
    /// If the address is invalid, no server can be reached in time, or no thread can be started.
    pub fn connect(self) -> Result<Client, ConnectError> {
        self.connect_with(TcpConnect::default())
    }

    /// Connects through a transport of your own, such as a proxy or a Unix socket.
    ///
    /// `connect` opens a new connection to each server that the client tries.
    ///
    /// # Errors
    ///
    /// Those of [`connect`](Self::connect).
    pub fn connect_with(self, connect: impl Connect) -> Result<Client, ConnectError> {
        #[cfg(feature = "blocking-tls")]
        if let Some(tls) = self.tls.clone() {
            return self.begin(TlsConnect { connect, tls });
        }
        self.begin(connect)
    }

    /// Encrypts the connections; without it, they are plain. Also encrypts those of
    /// [`connect_with`](Self::connect_with).
    ///
    /// The servers have another port for it, their `secureClientPort`.
    ///
    /// ```no_run
    /// use zk_session::TlsConfig;
    /// use zk_session::blocking::Client;
    ///
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let tls = TlsConfig::from_ca_pem(&std::fs::read("ca.pem")?)?
    ///     .client_certificate(&std::fs::read("client.pem")?, &std::fs::read("client.key")?)?;
    /// let client = Client::builder("zk1:2281,zk2:2281,zk3:2281").tls(tls).connect()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "blocking-tls")]
    #[must_use]
    pub fn tls(mut self, tls: TlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    fn begin(self, connect: impl Connect) -> Result<Client, ConnectError> {
        let Settings {
            at,
            connect_timeout,
            request_timeout,
            clock,
            authenticator,
            follow_config,
            config,
        } = self.settings()?;
        let resumed = config.resume.is_some();
        let max_reply = config.max_reply;
        let clock = Clock::new(Instant::now, clock);
        let make = |now| {
            let session = Session::new(now, config);
            Router::new(session, at.servers, authenticator).follow_config(follow_config)
        };
        let shared = Arc::new(Shared::new(connect, clock, max_reply, make));
        let handle = Arc::new(Handle { shared: shared.clone() });
        let client = Client { handle, chroot: at.chroot, request_timeout };
        driver::start(shared.clone()).map_err(|error| ConnectError::NoThread(error.to_string()))?;

        let deadline = Instant::now().checked_add(connect_timeout);
        let begun = |inner: &Inner| has_begun(inner.router.session().state(), resumed);
        if !shared.wait_until(deadline, begun) {
            return Err(ConnectError::Unreachable { connect_timeout, last: shared.last_failure() });
        }
        match client.state() {
            State::Ended(end) => Err(shared.lock().router.not_begun(end)),
            _ => Ok(client),
        }
    }
}
