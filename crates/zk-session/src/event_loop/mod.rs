//! The loop around a session, over any transport that does not block: a board without an operating
//! system, an RTOS, or one thread of a host.
//!
//! A program brings a [`Link`], a clock and a way to sleep. [`Loop::turn`] does the rest:
//!
//! ```no_run
//! use std::{thread, time::Duration};
//! use zk_session::dispatch::Dispatcher;
//! use zk_session::event_loop::{Link, Loop};
//! use zk_session::session::{Event, State};
//! use zk_session::time::Instant;
//!
//! fn run(mut session: Loop<(), impl Link>, work: fn(&mut Dispatcher<()>), now: impl Fn() -> Instant) {
//!     while !matches!(session.dispatcher.session().state(), State::Ended(_)) {
//!         // Submits requests, attaches machines, gives commands.
//!         work(&mut session.dispatcher);
//!         let due = session.turn(now(), |_, event: Event<()>| println!("{event:?}"));
//!         // A board waits for an interrupt here, and a host for its sockets.
//!         let wait = due.unwrap_or(Instant::END) - now();
//!         thread::sleep(wait.min(Duration::from_millis(1)));
//!     }
//! }
//! ```
//!
//! # A link
//!
//! This one has the sockets of the standard library. In the repository, the folder
//! `crates/zk-session/examples/links` has it, and those for mio and smoltcp.
//!
//! ```
#![doc = include_str!("../../examples/links/tcp.rs")]
//! ```
//!
//! # What cannot go wrong
//!
//! * **Sleeping while bytes wait in the transport.** A turn that did anything returns its own `now`.
//!   So a program sleeps only after a turn that found nothing to read and had nothing to send.
//! * **Connecting before the old connection is ended.** `connect` comes in a later turn than
//!   `hang_up`, when the link is [down](LinkState::Down), and after [`Link::poll`]. Stacks such as
//!   smoltcp send the reset only then; otherwise it would never leave.
//! * **Sleeping beyond a deadline** of the session, of a machine, or [of the
//!   transport](Link::poll_timeout).
//!
//! # The clients
//!
//! Those of this crate run the same session, dispatcher and splitter of frames, but not
//! [`turn`](Loop::turn). A turn owns session and transport from the first byte read to the last one
//! written. A client has many threads or tasks: one of them reads without the lock, while the
//! calling method writes its request, which saves a wake-up and a context switch. Effects run user
//! code, so they run after the session is unlocked. Names, TLS and probes need a future or a thread
//! for each attempt to connect, and a read registers the waker of a task. Only a `match` of three
//! actions is left in common. The loop does not probe servers, which `Config::read_only` requests.

#[cfg(test)]
mod tests;

use core::fmt;

use crate::dispatch::Dispatcher;
use crate::session::inbox::Arrivals;
use crate::session::{Action, Config, Event, Session};
use crate::time::{Instant, earlier};

/// The state of a [`Link`].
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// There is no connection. It was lost, could not be made, or is ended.
    #[default]
    Down,
    /// The link connects.
    Connecting,
    /// Bytes can be sent and received.
    Up,
    /// The link still ends the connection, and cannot begin another one.
    Closing,
}

/// A transport with one connection at a time. None of its methods may block.
pub trait Link {
    /// Begins to connect to a server, by its index in the list of the program.
    ///
    /// The loop calls it when the link is [down](LinkState::Down), and in a later turn than
    /// [`hang_up`](Self::hang_up). If the link stays down, the session tries another server.
    fn connect(&mut self, server: usize);

    /// Ends the connection, or the attempt to connect; also one that was lost. Tell the server, by a
    /// reset: otherwise it keeps the old connection until the session times out.
    fn hang_up(&mut self);

    /// Returns the state.
    fn state(&self) -> LinkState;

    /// Sends as many bytes as the transport takes at once. Returns how many, or 0 if the connection is
    /// lost. There is at least one byte.
    fn send(&mut self, bytes: &[u8]) -> usize;

    /// Writes what has arrived to the front of the buffer, as far as there is room. Returns how many
    /// bytes, or 0 if nothing has arrived or the connection is lost.
    fn receive(&mut self, buffer: &mut [u8]) -> usize;

    /// Lets the transport work: each turn begins with it. The default does nothing, for a transport
    /// that works by itself.
    fn poll(&mut self, _now: Instant) {}

    /// Returns when the transport must be polled without anything that arrives, such as to send
    /// again what was not acknowledged. The default is never.
    fn poll_timeout(&mut self, _now: Instant) -> Option<Instant> {
        None
    }
}

zk_proto::named! {
    /// The reason why no session could work with its settings.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum ConfigError {
        /// There are no servers.
        NoServers,
        /// [`max_reply`](field@Config::max_reply) is below [`Config::LEAST_REPLY`]: no handshake could
        /// be received.
        MaxReply,
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServers => f.write_str("there are no servers"),
            Self::MaxReply => write!(f, "`max_reply` is below {} bytes", Config::LEAST_REPLY),
        }
    }
}

impl core::error::Error for ConfigError {}

/// What the loop has done with the link.
#[derive(Clone, Copy, Debug)]
enum LinkStage {
    Down,
    /// The session wants this server.
    Chosen(usize),
    Connecting,
    Up,
}

/// A session with its machines, over a [`Link`]. See the [module](self).
///
/// Besides the session's own memory, it holds one frame that arrives.
#[derive(Debug)]
pub struct Loop<T, L> {
    /// The session and its machines. Give it commands before a turn, or from within.
    pub dispatcher: Dispatcher<T>,
    /// The transport.
    pub link: L,
    stage: LinkStage,
    arrivals: Arrivals,
}

impl<T, L: Link> Loop<T, L> {
    /// Makes a loop for a new session. Its first turn makes the link connect.
    ///
    /// # Errors
    ///
    /// If no session could work with these settings.
    pub fn new(now: Instant, config: Config, link: L) -> Result<Self, ConfigError> {
        if config.servers == 0 {
            return Err(ConfigError::NoServers);
        }
        if config.max_reply < Config::LEAST_REPLY {
            return Err(ConfigError::MaxReply);
        }
        let arrivals = Arrivals::new(config.max_reply);
        let dispatcher = Dispatcher::new(Session::new(now, config));
        Ok(Self { dispatcher, link, stage: LinkStage::Down, arrivals })
    }

    /// Takes what has arrived, handles what is due, and sends. `handle` receives the events of the
    /// program; those of machines go to the machines. What it gives to the dispatcher is sent in the
    /// same turn.
    ///
    /// Returns when to call it again at the latest: at once, if that is not after `now`. Call it
    /// earlier when the transport has something new, and after commands.
    #[must_use = "the time of the next turn"]
    pub fn turn(
        &mut self,
        now: Instant,
        mut handle: impl FnMut(&mut Dispatcher<T>, Event<T>),
    ) -> Option<Instant> {
        let mut is_busy = self.receive(now);
        // Commands may have left events, which come first.
        if !is_busy && self.dispatcher.is_unsettled() && !self.dispatcher.has_events() {
            self.dispatcher.settle(now);
        }
        self.dispatcher.handle_timeout(now);
        loop {
            while let Some(event) = self.dispatcher.poll_event(now) {
                handle(&mut self.dispatcher, event);
            }
            self.dispatcher.take_effects().run();
            let session = &mut self.dispatcher.session.0;
            match session.poll_action() {
                // The session has ended the connection before, or was told that it is lost.
                Some(Action::Connect(server)) => self.stage = LinkStage::Chosen(server),
                Some(Action::Disconnect) => {
                    self.stage = LinkStage::Down;
                    self.link.hang_up();
                }
                Some(Action::Probe(_)) => {}
                None => {
                    let output = session.output();
                    if !matches!(self.stage, LinkStage::Up) || output.is_empty() {
                        break;
                    }
                    match self.link.send(output) {
                        0 => break,
                        // The lease counts from before the bytes are handed over.
                        count => session.handle_sent(now, count),
                    }
                }
            }
            is_busy = true;
        }
        if is_busy || self.dispatcher.is_unsettled() || self.has_changed() {
            return Some(now);
        }
        earlier(self.dispatcher.poll_timeout(), self.link.poll_timeout(now))
    }

    /// Takes what has arrived, or else follows the state of the link. Returns whether there was
    /// anything.
    fn receive(&mut self, now: Instant) -> bool {
        self.link.poll(now);
        let session = &mut self.dispatcher.session.0;
        if matches!(self.stage, LinkStage::Up) {
            let link = &mut self.link;
            if self.arrivals.receive(session.max_kept(), |buffer| link.receive(buffer)) > 0 {
                // Frames before the end of a connection still count.
                self.arrivals.hand_on(session, now);
                return true;
            }
        }
        if !self.has_changed() {
            return false;
        }
        let session = &mut self.dispatcher.session.0;
        match (self.stage, self.link.state()) {
            (LinkStage::Chosen(server), _) => {
                self.arrivals = Arrivals::new(session.max_reply());
                self.stage = LinkStage::Connecting;
                self.link.connect(server);
            }
            (_, LinkState::Up) => {
                self.stage = LinkStage::Up;
                session.handle_connected(now);
            }
            _ => {
                self.stage = LinkStage::Down;
                self.link.hang_up();
                session.handle_disconnected(now);
            }
        }
        true
    }

    /// Returns whether the state of the link is another one than that of the last turn.
    fn has_changed(&self) -> bool {
        let state = self.link.state();
        match self.stage {
            LinkStage::Down => false,
            LinkStage::Chosen(_) => state == LinkState::Down,
            LinkStage::Connecting => state != LinkState::Connecting,
            LinkStage::Up => state != LinkState::Up,
        }
    }
}
