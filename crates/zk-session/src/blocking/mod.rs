//! The client of threads, on sockets and threads of the standard library.
//!
//! It has the methods of the client of tokio. A request is sent at the call, and its
//! [`Answer`](crate::Answer) is waited for:
//!
//! ```no_run
//! use zk_session::blocking::Client;
//! use zk_session::proto::NodeKind;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("zk1:2181,zk2:2181,zk3:2181/app")?;
//! client.create("/config", b"v1", NodeKind::Persistent).wait()?;
//! let (data, stat, watch) = client.get_data_and_watch("/config").wait()?;
//! println!("version {} is {data:?}", stat.version);
//! println!("{:?}", watch.wait()?);
//! // Ten requests in flight.
//! let answers: Vec<_> = (0..10).map(|i| client.exists(&format!("/{i}"))).collect();
//! for answer in answers {
//!     println!("{:?}", answer.wait()?);
//! }
//! client.close();
//! # Ok(())
//! # }
//! ```
//!
//! # Any runtime
//!
//! Answers and watches are futures, too. So a program on smol, async-std, glommio, or an executor of
//! its own can `.await` them, without tokio in its tree. The session's own thread reads for them and
//! wakes their tasks, which takes a switch between threads for each read. Time limits of requests
//! ([`request_timeout`](crate::ClientBuilder::request_timeout)) need no timer of the runtime.
//!
//! `connect`, `close`, `detach`, `ended`, `block_on` and methods whose names begin with `wait` block
//! their thread, and so does `run` of a lock. Call them where that is allowed, for example by
//! `smol::unblock`. The example `any_runtime` shows this.
//!
//! # Threads
//!
//! - **Reading.** A thread that waits for an answer or an event reads from the connection itself,
//!   if no other thread does. While no thread waits, the session's own thread reads, and keeps the
//!   session alive.
//! - **Writing.** The threads that make requests write them. Requests made while others
//!   are pending are written together: by the next thread that waits, or by the session's own thread,
//!   within 5 ms.
//! - **Connecting** takes a temporary thread, because it may include the lookup of a name. A lookup
//!   that hangs cannot be stopped, so its thread remains as long. There are at most four such
//!   threads per server.

mod block_on;
mod driver;
#[cfg(test)]
mod tests;
mod wait;
#[cfg(feature = "full")]
mod watching;

use alloc::string::ToString as _;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::time::Instant;

pub use self::driver::{Connect, TcpConnect, TcpTransport, Threads, Transport};
use self::driver::{ThreadsState, Wait};
use crate::client::{self, ClientBuilder, ConnectError, Driver as _, NewClient, has_begun};
use crate::session::{End, SessionTicket, State};

/// A client in threads. See [`driver::Client`](crate::driver::Client), whose methods it has.
pub type Client = client::Client<Threads>;

/// # The session
impl Client {
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
            let changed = |inner: &ThreadsState| inner.router.session().state() != state;
            if is_over || !self.driver().wait_until(deadline, changed) {
                return state;
            }
        }
    }

    /// Returns the time until which the ensemble must keep the session, as far as the client can
    /// know; see [`Session::lease`](crate::session::Session::lease). The lease has ended when
    /// [`Instant::now`] is later.
    ///
    /// On Linux and macOS [`Instant`] stops while the machine is suspended, but the clocks of the
    /// session and of the servers do not. The result is converted at the time of the call, so call
    /// this again each time: after a suspension, an earlier result is too late.
    pub fn lease(&self) -> Option<Instant> {
        let lease = self.with_router(|router| router.session().lease())?;
        Some(self.driver().clock.local_instant(lease))
    }

    /// Detaches from the session without ending it on the servers, so its ephemeral nodes stay.
    /// Returns the ticket by which another process or a later client can resume it with
    /// [`ClientBuilder::resume`], within the session timeout. All clones of this client find it
    /// closed. Pending requests fail, so wait for their answers first.
    ///
    /// Closes the client and returns `None` if there is no session to resume.
    pub fn detach(self) -> Option<SessionTicket> {
        let mut ticket = None;
        self.driver().act(&mut |router, _| ticket = router.session_mut().detach());
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

/// # Waiting in threads
impl Client {
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
        self.driver().wait(Wait::Reading, end, |_, waker| poll(waker))
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
        #[cfg(feature = "tls")]
        if let Some(tls) = self.tls.clone() {
            return self.begin(driver::tls::TlsConnect { connect, tls });
        }
        self.begin(connect)
    }

    fn begin(self, connect: impl Connect) -> Result<Client, ConnectError> {
        let drive = |clock, router| Threads::new(connect, clock, router);
        let new = self.client(Instant::now, drive)?;
        let NewClient { connect_timeout, is_resumed, .. } = new;
        let shared = new.client.driver().clone();
        driver::start(shared.clone()).map_err(|error| ConnectError::NoThread(error.to_string()))?;

        let deadline = Instant::now().checked_add(connect_timeout);
        let begun = |inner: &ThreadsState| has_begun(inner.router.session().state(), is_resumed);
        new.begun(shared.wait_until(deadline, begun))
    }
}
