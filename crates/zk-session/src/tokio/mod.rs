//! The async client of a [`Session`](crate::session::Session), on tokio.

mod answer;
mod driver;
pub(crate) mod method;
mod watches;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::pin::Pin;
use core::time::Duration;

use tokio::runtime;
use tokio::sync::watch as watch_channel;
use tokio::task::unconstrained;
use tokio::time::Instant;
use zk_proto::{OpCode, Request};

pub use self::answer::Answer;
#[cfg(feature = "tls")]
use self::driver::TlsConnect;
pub use self::driver::{Connect, TcpConnect, Transport};
use self::driver::{Driver, Inner, RoomWaiter, Shared};
pub use self::watches::{PersistentWatch, Watch};
use crate::chroot::Chroot;
#[cfg(feature = "tls")]
use crate::client::TlsConfig;
use crate::client::{
    ClientBuilder, Clock, ConnectError, DecodeAnswer, MultiOperation, RawClient, Receiver, Router,
    Settings, has_begun, not_sent, sets_watch, slot,
};
use crate::connect_string::{ConnectString, ConnectStringError};
use crate::dispatch::{Attached, Attachment, Token};
use crate::error::{Error, RequestError};
use crate::session::{End, Reply, RequestId, Session, SessionTicket, State};
#[cfg(shuttle)]
use shuttle::future::spawn;
#[cfg(not(shuttle))]
use tokio::spawn;

/// A session with an ensemble, kept alive across its servers. Cloning it is cheap.
///
/// When the last clone is dropped, the session is closed in the background, if the runtime keeps
/// running. At the end of `main`, [`close`](Self::close) the client; otherwise the servers keep the
/// session until it times out.
///
/// # Ordering
///
/// Requests reach the server in the order in which the methods were *called*, not in which their
/// futures are awaited. Many can be in flight at once. Answers and watch events become ready in the
/// order in which the server sent them.
///
/// # Processes
///
/// After a `fork`, the session stays with the parent. In the child, every call on this client fails
/// with [`End::Forked`], writes nothing, and a drop does nothing. Connect a client of its own there.
/// Futures that were pending at the fork stay pending in the child: tokio's runtime does not
/// survive it. A command that is executed at once, as by `std::process::Command`, is no matter.
///
/// # Cancellation
///
/// Dropping a future drops the answer. The request may still be applied. Methods that send several
/// requests document what remains when they are cancelled.
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
    runtime: runtime::Handle,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.keep_if_forked() {
            return;
        }
        let mut inner = self.shared.lock();
        inner.router.dispatcher.close_when_done();
        inner.wake_driver();
    }
}

fn close(shared: &Shared) {
    let mut inner = shared.lock();
    let now = inner.clock.now();
    inner.router.dispatcher.close(now);
    inner.wake_driver();
}

fn detach(shared: &Shared) -> Option<SessionTicket> {
    let mut inner = shared.lock();
    let ticket = inner.router.session_mut().detach();
    inner.wake_driver();
    ticket
}

/// Waits for a state, or returns `None` if the driver was dropped with its runtime. Compiled here, and
/// once: the channel takes 2 kB in each function that waits for it.
#[inline(never)]
fn wait_for(
    shared: &Shared,
    is_wanted: Box<dyn Fn(State) -> bool + Send + Sync>,
) -> Pin<Box<dyn Future<Output = Option<State>> + Send>> {
    if shared.is_forked() {
        return Box::pin(core::future::ready(Some(State::Ended(End::Forked))));
    }
    let mut states = shared.states.subscribe();
    Box::pin(async move {
        // One task may await the end of any number of sessions.
        let state = unconstrained(states.wait_for(|state| is_wanted(*state))).await;
        state.ok().map(|state| *state)
    })
}

/// The result of `connect`, once it is known.
type Connecting = Pin<Box<dyn Future<Output = Result<Client, ConnectError>> + Send>>;

/// # The session
impl Client {
    /// Connects with default settings to an ensemble: `host:port,host:port/chroot`.
    ///
    /// # Errors
    ///
    /// If the address is invalid or no server can be reached in time.
    ///
    /// # Panics
    ///
    /// If called outside a tokio runtime, or in one without its timer or its sockets
    /// (`enable_all`).
    pub async fn connect(at: &str) -> Result<Self, ConnectError> {
        Self::builder(at).connect().await
    }

    /// Returns a channel with the state of the session. A receiver may miss states of short
    /// duration, but not the last one.
    ///
    /// The state is published again when the [lease](Self::lease) ends. So a task that checks the
    /// lease on every change needs no timer.
    pub fn states(&self) -> watch_channel::Receiver<State> {
        if self.shared().is_forked() {
            return watch_channel::channel(State::Ended(End::Forked)).1;
        }
        self.shared().states.subscribe()
    }

    /// Returns the time until which the ensemble must keep the session, as far as the client can
    /// know; see [`Session::lease`](crate::session::Session::lease). The lease has ended when
    /// [`Instant::now`] is later.
    ///
    /// On Linux and macOS [`Instant`] stops while the machine is suspended, but the clocks of the
    /// session and of the servers do not. The result is converted at the time of the call, so call
    /// this again each time: after a suspension, an earlier result is too late.
    pub fn lease(&self) -> Option<Instant> {
        let inner = self.shared().lock();
        let lease = inner.router.session().lease()?;
        Some(inner.clock.local_instant(lease).into())
    }

    /// Returns the runtime that keeps the session alive, which is that of
    /// [`connect`](Self::connect). Spawn tasks there that must last as long as the session.
    pub fn runtime(&self) -> &runtime::Handle {
        &self.handle.runtime
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
        let mut inner = self.shared().lock();
        let now = inner.clock.now();
        inner.router.set_servers(now, at.servers);
        inner.wake_driver();
        Ok(())
    }

    /// Closes the session behind all earlier requests, and waits for its end. The server deletes
    /// its ephemeral nodes. All clones of this client find it closed.
    ///
    /// Without a connection it returns at once; the servers then expire the session after its
    /// timeout. It waits for a server that stops answering for at most two thirds of the session
    /// timeout after its last reply.
    ///
    /// # Cancellation
    ///
    /// The session is still closed.
    pub async fn close(self) {
        close(self.shared());
        self.ended().await;
    }

    /// Detaches from the session without ending it on the servers, so its ephemeral nodes stay.
    /// Returns the ticket by which another process or a later client can resume it with
    /// [`ClientBuilder::resume`], within the session timeout. All clones of this client find it
    /// closed. Pending requests fail, so await their answers first.
    ///
    /// Closes the client and returns `None` if there is no session to resume.
    ///
    /// # Cancellation
    ///
    /// The client is still detached, and the ticket is lost.
    pub async fn detach(self) -> Option<SessionTicket> {
        let ticket = detach(self.shared());
        self.ended().await;
        ticket
    }

    /// Waits for the end of the session.
    pub async fn ended(&self) -> End {
        match wait_for(self.shared(), Box::new(|state| matches!(state, State::Ended(_)))).await {
            Some(State::Ended(end)) => end,
            // The driver was dropped with its runtime.
            _ => End::Closed,
        }
    }
}

/// # Any operation
impl Client {
    /// Sends any request unchanged: paths are not checked, and the [`chroot`](Self::chroot) is not
    /// added to them. A watch that the request sets is removed at once. Requests that only the
    /// session sends are [refused](crate::Invalid::Reserved), and so are those that [crash
    /// servers](crate::Invalid::HarmsServer).
    pub fn submit(&self, request: &Request<'_>) -> Answer {
        let unwatch = |inner: &mut Inner, id| inner.router.session_mut().unwatch(id);
        let sent = self.submit_with(request, Box::new(|answer, _: &_| answer), unwatch);
        Answer::of(sent.map(|(_, answer)| answer))
    }

    /// Sends any request like [`submit`](Self::submit). Also returns the one-shot watch that the
    /// request sets, if any. Drop the watch if the request fails without setting it.
    pub fn submit_and_watch(&self, request: &Request<'_>) -> (Answer, Option<Watch>) {
        if !sets_watch(request) {
            return (self.submit(request), None);
        }
        match self.send_and_watch(request, |answer, _| answer) {
            Ok((answer, watch)) => (answer, Some(watch)),
            Err(error) => (Answer::of(Err(error)), None),
        }
    }

    /// Writes all requests of `make` together when it returns: by one system call, and mostly in
    /// one packet.
    ///
    /// `make` must not wait for an answer, since nothing may be sent before it returns. Requests of
    /// other threads are not held back, and may take some of these with them. If several threads
    /// batch at the same time, only the requests of one are held back.
    ///
    /// ```no_run
    /// # fn both(client: &zk_session::Client) {
    /// let (read, listed) = client.batch(|| (client.get_data("/a"), client.get_children("/a")));
    /// # }
    /// ```
    pub fn batch<R>(&self, make: impl FnOnce() -> R) -> R {
        let _cork = self.shared().cork();
        make()
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

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    fn submit_with<T>(
        &self,
        request: &Request<'_>,
        decode: Box<dyn DecodeAnswer<T>>,
        keep: impl FnOnce(&mut Inner, RequestId),
    ) -> Result<(RequestId, Answer<T>), RequestError> {
        let mut keep = Some(keep);
        let (id, receiver) = self.submit_request(request, &mut |inner, id| {
            keep.take().into_iter().for_each(|keep| keep(inner, id));
        })?;
        Ok((id, Answer::new(receiver, decode, self.chroot.clone(), request.opcode())))
    }

    /// Compiled here, with the session, and not once for each type of answer.
    #[inline(never)]
    fn submit_request(
        &self,
        request: &Request<'_>,
        keep: &mut dyn FnMut(&mut Inner, RequestId),
    ) -> Result<(RequestId, Receiver<Result<Reply, Error>>), RequestError> {
        let (sender, receiver) = slot();
        let token = Token::Caller(sender);
        let mut inner = self.shared().lock();
        let alone = inner.router.session().pending() == 0;
        let sent = match self.request_timeout {
            #[cfg(feature = "deadlines")]
            Some(timeout) => {
                let deadline = inner.clock.now() + timeout;
                inner.router.session_mut().submit_until(request, token, deadline)
            }
            _ => inner.router.session_mut().submit(request, token),
        };
        let id = sent.map_err(|reason| not_sent(request, &self.chroot, reason))?;
        keep(&mut inner, id);
        inner.send(alone, None);
        drop(inner);
        Ok((id, receiver))
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
        self.shared().lock().clock.now()
    }

    fn send<T>(
        &self,
        request: &Request<'_>,
        decode: impl DecodeAnswer<T>,
    ) -> Result<Answer<T>, RequestError> {
        self.submit_with(request, Box::new(decode), |_, _| {}).map(|(_, answer)| answer)
    }

    fn send_and_watch<T>(
        &self,
        request: &Request<'_>,
        decode: impl DecodeAnswer<T>,
    ) -> Result<(Answer<T>, Watch), RequestError> {
        let (fire, event) = slot();
        let (id, answer) = self.submit_with(request, Box::new(decode), |inner, id| {
            inner.router.watch_once(id, fire);
        })?;
        Ok((answer, Watch::new(id, event, self.shared().clone(), self.chroot.clone())))
    }

    fn send_and_keep_watching(
        &self,
        request: &Request<'_>,
        decode: impl DecodeAnswer<()>,
    ) -> Result<(Answer<()>, PersistentWatch), RequestError> {
        let (id, answer) = self.submit_with(request, Box::new(decode), |inner, id| {
            inner.router.keep_watching(id, PersistentWatch::BUFFER);
        })?;
        Ok((answer, PersistentWatch::new(id, self.shared().clone(), self.chroot.clone())))
    }

    fn send_credential(&self, scheme: &str, auth: &[u8]) -> Result<Answer<()>, RequestError> {
        let (sender, receiver) = slot();
        let token = Token::Caller(sender);
        let mut inner = self.shared().lock();
        let added = inner.router.session_mut().add_auth(scheme, auth, token);
        inner.wake_driver();
        drop(inner);
        added.map_err(|reason| RequestError::new(OpCode::AUTH, None, reason))?;
        let decode = Box::new(|answer: Result<_, Error>, _: &_| answer.map(drop));
        Ok(Answer::new(receiver, decode, self.chroot.clone(), OpCode::AUTH))
    }

    fn with_operations<T>(answer: Answer<T>, operations: Vec<MultiOperation>) -> Answer<T> {
        answer.with_operations(operations)
    }

    fn room_waiter(&self) -> RoomWaiter {
        RoomWaiter::new(self.shared().clone())
    }

    async fn wait_for_room(&self, waiter: &mut RoomWaiter) -> Result<(), Error> {
        poll_fn(|cx| waiter.poll(cx.waker())).await
    }
}

impl ClientBuilder<Client> {
    /// Connects over TCP. Must be called in a tokio runtime, on which a task is spawned.
    ///
    /// # Errors
    ///
    /// If the address is invalid or no server can be reached in time.
    ///
    /// # Panics
    ///
    /// As [`Client::connect`].
    ///
    /// # Cancellation
    ///
    /// The attempt is abandoned. A session that it has created is closed.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        self.connect_by_tcp().await
    }

    /// Compiled here, with the driver and the session. The body of an async function is compiled in
    /// each crate that awaits it.
    #[inline(never)]
    fn connect_by_tcp(self) -> Connecting {
        Box::pin(self.connect_with(TcpConnect::default()))
    }

    /// Connects by the transports of `connect`.
    ///
    /// # Errors
    ///
    /// Those of [`connect`](Self::connect).
    ///
    /// # Panics
    ///
    /// If called outside a tokio runtime, or in one without its timer.
    pub async fn connect_with(self, connect: impl Connect) -> Result<Client, ConnectError> {
        #[cfg(feature = "tls")]
        if let Some(tls) = self.tls.clone() {
            return self.begin(TlsConnect { connect, tls }).await;
        }
        self.begin(connect).await
    }

    /// Encrypts the connections; without it, they are plain. Also encrypts those of
    /// [`connect_with`](Self::connect_with).
    ///
    /// The servers have another port for it, their `secureClientPort`.
    ///
    /// ```no_run
    /// use zk_session::{Client, TlsConfig};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let tls = TlsConfig::from_ca_pem(&std::fs::read("ca.pem")?)?
    ///     .client_certificate(&std::fs::read("client.pem")?, &std::fs::read("client.key")?)?;
    /// let client = Client::builder("zk1:2281,zk2:2281,zk3:2281").tls(tls).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: TlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    async fn begin(self, connect: impl Connect) -> Result<Client, ConnectError> {
        let Settings {
            at,
            connect_timeout,
            request_timeout,
            clock,
            authenticator,
            follow_config,
            config,
        } = self.settings()?;
        let (max_reply, resumed) = (config.max_reply, config.resume.is_some());
        let clock = Clock::new(|| Instant::now().into_std(), clock);
        let make = |now| {
            let session = Session::new(now, config);
            Router::new(session, at.servers, authenticator).follow_config(follow_config)
        };
        let shared = Arc::new(Shared::new(clock, make));
        let runtime = runtime::Handle::current();
        let handle = Arc::new(Handle { shared: shared.clone(), runtime });
        let client = Client { handle, chroot: at.chroot, request_timeout };
        spawn(Driver::new(shared.clone(), connect, max_reply));

        let begun = wait_for(&shared, Box::new(move |state| has_begun(state, resumed)));
        match unconstrained(tokio::time::timeout(connect_timeout, begun)).await {
            Ok(Some(State::Ended(end))) => Err(shared.lock().router.not_begun(end)),
            Ok(Some(_)) => Ok(client),
            Ok(None) => Err(ConnectError::Ended(End::Closed)),
            Err(_) => {
                Err(ConnectError::Unreachable { connect_timeout, last: shared.last_failure() })
            }
        }
    }
}
