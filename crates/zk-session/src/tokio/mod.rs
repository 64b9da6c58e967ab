//! The async client of a [`Session`](crate::session::Session), on tokio.

mod driver;
#[cfg(shuttle)]
mod sleeping;
#[cfg(feature = "full")]
mod watching;

use alloc::boxed::Box;
use core::pin::Pin;

use tokio::runtime;
use tokio::sync::watch as watch_channel;
use tokio::task::unconstrained;
use tokio::time::Instant;

use self::driver::{Connect, DriverTask, TcpConnect, Tokio};
#[cfg(shuttle)]
use self::sleeping::{Sleep, sleep};
use crate::client::{self, ClientBuilder, ConnectError, Driver as _, NewClient, has_begun};
use crate::dispatch::attachment::Commands as _;
use crate::session::{End, SessionTicket, State};
#[cfg(shuttle)]
use shuttle::future::spawn;
#[cfg(not(shuttle))]
use tokio::{
    spawn,
    time::{Sleep, sleep},
};

/// What this crate exports with this client.
pub(crate) mod exports {
    pub use super::Client;
    pub use super::driver::{Connect, TcpConnect, Tokio, Transport};
    pub use futures_core;
    // Not by its name, which is that of a module.
    pub use ::tokio as runtime;
}

/// A client in tasks of tokio. See [`driver::Client`](crate::driver::Client), whose methods it has.
pub type Client = client::Client<Tokio>;

/// Waits for a state, or returns `None` if the driver was dropped with its runtime. Compiled here, and
/// once: the channel takes 2 kB in each function that waits for it.
#[inline(never)]
fn wait_for(
    shared: &Tokio,
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
type ConnectingClient = Pin<Box<dyn Future<Output = Result<Client, ConnectError>> + Send>>;

/// # The session
impl Client {
    /// Returns a channel with the state of the session. A receiver may miss states of short
    /// duration, but not the last one.
    ///
    /// The state is published again when the [lease](Self::lease) ends. So a task that checks the
    /// lease on every change needs no timer.
    pub fn states(&self) -> watch_channel::Receiver<State> {
        if self.driver().is_forked() {
            return watch_channel::channel(State::Ended(End::Forked)).1;
        }
        self.driver().states.subscribe()
    }

    /// Returns the time until which the ensemble must keep the session, as far as the client can
    /// know; see [`Session::lease`](crate::session::Session::lease). The lease has ended when
    /// [`Instant::now`] is later.
    ///
    /// On Linux and macOS [`Instant`] stops while the machine is suspended, but the clocks of the
    /// session and of the servers do not. The result is converted at the time of the call, so call
    /// this again each time: after a suspension, an earlier result is too late.
    pub fn lease(&self) -> Option<Instant> {
        let lease = self.driver().locked(|router| router.session().lease())?;
        Some(self.driver().clock.local_instant(lease).into())
    }

    /// Returns the runtime that keeps the session alive, which is that of
    /// [`connect`](Self::connect). Spawn tasks there that must last as long as the session.
    pub fn runtime(&self) -> &runtime::Handle {
        &self.driver().runtime
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
        let mut ticket = None;
        self.driver().act(&mut |router, _| ticket = router.session_mut().detach());
        self.ended().await;
        ticket
    }

    /// Waits for the end of the session.
    pub async fn ended(&self) -> End {
        match wait_for(self.driver(), Box::new(|state| matches!(state, State::Ended(_)))).await {
            Some(State::Ended(end)) => end,
            // The driver was dropped with its runtime.
            _ => End::Closed,
        }
    }
}

/// # Batches
impl Client {
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
        let _cork = self.driver().cork();
        make()
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
    fn connect_by_tcp(self) -> ConnectingClient {
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
            return self.begin(driver::tls::TokioTlsConnect { connect, tls }).await;
        }
        self.begin(connect).await
    }

    async fn begin(self, connect: impl Connect) -> Result<Client, ConnectError> {
        let drive = |clock, router| Tokio::new(clock, runtime::Handle::current(), router);
        let new = self.client(|| Instant::now().into_std(), drive)?;
        let NewClient { connect_timeout, is_resumed, .. } = new;
        let shared = new.client.driver().clone();
        spawn(DriverTask::new(shared.clone(), connect));

        let begun = wait_for(&shared, Box::new(move |state| has_begun(state, is_resumed)));
        match unconstrained(tokio::time::timeout(connect_timeout, begun)).await {
            Ok(None) => Err(ConnectError::Ended(End::Closed)),
            begun => new.begun(begun.is_ok()),
        }
    }
}
