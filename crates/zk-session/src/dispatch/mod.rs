//! Attaches state machines to a session.
//!
//! A [`Dispatcher`] owns a [`Session`] and the machines that are [attached](Attached) to it. Each
//! machine receives its replies, watch events, timers and the states of the session, in the order
//! of the session's events. The dispatcher has no socket, clock, task or source of randomness. Both
//! clients of this crate are built on it, and a loop of your own can be.
//!
//! Two examples in the repository:
//!
//! * `crates/zk-recipes/examples/no_runtime.rs` is a complete loop on a plain socket.
//! * `crates/zk-session/examples/counter.rs` is a machine, attached to the tokio client.
//!
//! # The loop
//!
//! ```text
//!   drain:   events -> effects -> actions -> output <--+
//!     |                                                |
//!   wait:    for bytes, until poll_timeout             |
//!     |                                                |
//!   input:   bytes; settle; handle_timeout ------------+
//! ```
//!
//! 1. **Drain.** Start with this step, because a new session already has an action. Repeat the
//!    following until nothing is left:
//!    * Call [`poll_event`](Dispatcher::poll_event) until it returns `None`. It delivers to the
//!      machines, and returns what is the owner's.
//!    * [Run the effects](Dispatcher::take_effects), without a lock on the dispatcher.
//!    * Take one action from [`Session::poll_action`] and carry it out.
//!    * Without an action, write [`Session::output`] and report to [`Session::handle_sent`] what
//!      the transport took.
//! 2. **Wait** for bytes until [`poll_timeout`](Dispatcher::poll_timeout). Look at the timeout
//!    after the drain, because deliveries change it. If the dispatcher
//!    [is unsettled](Dispatcher::is_unsettled), do not wait: read only what has arrived. Whatever
//!    else blocks, such as connecting, must not take longer than until that time either: the end of
//!    the lease may be due then.
//! 3. **Input.** Give [`session_mut`](Dispatcher::session_mut) what the transport did
//!    (`handle_connected`, `handle_frame`, `handle_disconnected`, ...). If the dispatcher was
//!    unsettled and nothing had arrived, call [`settle`](Dispatcher::settle). Call
//!    [`handle_timeout`](Dispatcher::handle_timeout); before the deadline it does nothing. Drain
//!    again.
//!
//! [`attach`](Dispatcher::attach), [`command`](Dispatcher::command) and the commands of the session
//! (`submit`, `close`, ...) are input too: drain after them.
//!
//! The loop ends when the session is in [`State::Ended`] and drained.
//!
//! In builds with debug assertions, [`poll_timeout`](Dispatcher::poll_timeout) and
//! [`settle`](Dispatcher::settle) panic while events or due timers are undrained. They are the two
//! methods that are wrong then: the loop would sleep too long, or a machine would take old news for
//! all news. Every other method may be called at any time.
//!
//! # Time
//!
//! Every `now` must be the current time of one clock (see [`Instant`]). A `now` that is too early
//! delays the end of a lease. [`Port::now`] is the `now` of the call that the machine is in.
//!
//! # What a machine receives
//!
//! * **States.** The first input is the state that was delivered last, so a machine attached
//!   between two events misses none. Each later state goes to all machines.
//! * **Replies.** Each request of a machine is answered once, under its tag. If the session refuses
//!   a request (no room, too long, no connection for too long), the answer is an error as well. It
//!   comes from the next [`settle`](Dispatcher::settle), never within the call that made the
//!   request.
//! * **Watch events**, for requests made by [`Port::submit_and_watch`]. The machine owns the watch
//!   until it fires, or the machine [drops](Port::unwatch) it or is detached. Machines and callers
//!   that watch the same node all receive the event. The session sets watches again on a new
//!   connection.
//! * **Timers.** Each machine has one. It fires in the drain after
//!   [`handle_timeout`](Dispatcher::handle_timeout), behind the events of the session.
//! * **The end of the lease**, from the session's own deadline, which is part of
//!   [`poll_timeout`](Dispatcher::poll_timeout). If something else is delivered late, after the
//!   process was stopped, the machine learns of the end in the same call: see
//!   [`Input::LeaseEnded`].
//! * **`Settled`**, if it has asked for that by [`Port::settle`].
//!
//! [`State::Ended`] is the last input. All requests that were sent or queued are answered before
//! it; a refusal that is not delivered by then is dropped, and so are watches and timers. The
//! machine is detached when the drain ends.
//!
//! # What the owner receives
//!
//! [`poll_event`](Dispatcher::poll_event) returns every event that is not a machine's alone. States
//! and the end of the lease go to both. The owner submits requests by
//! `session_mut().submit(&request, Token::Caller(token))`. The reply is an [`Event::Reply`] with
//! that `token`; a refusal is the `Err` of `submit`. Watches of the owner are named by the
//! [`RequestId`](crate::session::RequestId) that `submit` returns. Persistent watches are always
//! the owner's.
//!
//! # Memory
//!
//! Beside the session's own: one slot for each machine that is attached at a time (slots are used
//! again), one entry for each of their watches and timers, and one for each refusal until it is
//! delivered. Effects are kept until they are taken, and among them are the machines that are done.

#[cfg(any(feature = "tokio", feature = "blocking"))]
mod attachment;
mod effects;
mod machines;
mod port;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use core::any::Any;

#[cfg(any(feature = "tokio", feature = "blocking"))]
pub use self::attachment::Attachment;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) use self::attachment::Commands;
#[cfg(all(test, any(feature = "tokio", feature = "blocking")))]
pub(crate) use self::effects::Deferred;
pub use self::effects::Effects;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) use self::effects::Wakers;
pub use self::machines::Key;
use self::machines::Machines;
pub use self::port::Port;
use crate::error::Error;
use crate::session::{Event, Reply, Session, State, WatchedEvent};
use crate::time::Instant;

/// A state machine that can be attached to a session.
///
/// The dispatcher calls its methods synchronously, in a client with the session locked. They must
/// not block. They act on the session through the [`Port`], and leave wakers and code of the user
/// to [`Port::wake`] and [`Port::defer`].
pub trait Attached: Send {
    /// Handles the next input.
    fn handle(&mut self, input: Input, port: &mut Port<'_>);

    /// Handles a message from the machine's owner, which may leave its answer in the message. The
    /// default ignores it.
    fn command(&mut self, _message: &mut dyn Any, _port: &mut Port<'_>) {}

    /// Returns whether the machine is finished. The dispatcher asks after each call of the other
    /// methods.
    ///
    /// A finished machine is detached: its watches and its timer are dropped, its requests are sent
    /// but their answers are discarded, and the machine is dropped as one of the
    /// [effects](Effects).
    fn is_done(&self) -> bool;
}

/// What an attached machine receives, in the order of the session's events.
#[derive(Debug)]
#[non_exhaustive]
pub enum Input {
    /// The state of the session: first the one that was delivered last, then each new one.
    /// [`State::Ended`] is the last input.
    State(State),
    /// The answer to a request, or why there is none. A request that the session refuses is
    /// answered like any other, by the next [`settle`](Dispatcher::settle).
    Reply {
        /// The tag of the request.
        tag: u64,
        /// The server's answer, or the error that replaces it.
        result: Result<Reply, Error>,
    },
    /// A watch has fired. It is no longer set.
    Watch {
        /// The tag of the request that set it.
        tag: u64,
        /// What happened to the node.
        event: WatchedEvent,
    },
    /// The lease of the session [has ended](crate::session::Event::LeaseEnded), with or without a
    /// connection.
    ///
    /// If the lease has already ended when a machine is attached, or receives a state or a command,
    /// this follows at once. If it has ended when the machine is to receive
    /// [`Settled`](Self::Settled), this comes first. So one end may be delivered several times.
    LeaseEnded,
    /// The time that was last [set](Port::set_timer) has come. No timer is set now.
    Timer,
    /// Everything that had arrived when the machine [asked](Port::settle) for this is delivered.
    Settled,
}

/// Identifies a request, and so decides where its answer goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token<T> {
    /// The answer goes to the dispatcher's owner, as an [`Event::Reply`] of
    /// [`poll_event`](Dispatcher::poll_event) with this token.
    Caller(T),
    /// The answer goes to an attached machine, with this tag. [`Port::submit`] makes these.
    Machine(Key, u64),
}

/// A session and the machines that are attached to it. See the [module](self) for how to drive it.
///
/// `T` identifies the requests of its owner.
#[derive(Debug)]
pub struct Dispatcher<T> {
    session: Session<Token<T>>,
    machines: Machines,
}

impl<T> Dispatcher<T> {
    /// Makes a dispatcher for a new session. Drain it before the first wait: the session already
    /// has an action, to connect.
    ///
    /// # Panics
    ///
    /// With debug assertions, if the session has events that were not polled.
    pub fn new(session: Session<Token<T>>) -> Self {
        debug_assert!(!session.has_events(), "new: the session has events");
        Self { machines: Machines::new(session.state()), session }
    }

    /// Returns the session.
    pub fn session(&self) -> &Session<Token<T>> {
        &self.session
    }

    /// Returns the session, for its inputs, commands, actions and output.
    ///
    /// Do not call the methods that the dispatcher replaces: `poll_event`, `poll_timeout` and
    /// `handle_timeout`. Events polled from the session do not reach the machines.
    pub fn session_mut(&mut self) -> &mut Session<Token<T>> {
        &mut self.session
    }

    /// Attaches a machine. It receives the state of the session before this returns, and can be
    /// done and detached by then. If the session has ended, it always is.
    pub fn attach(&mut self, now: Instant, machine: Box<dyn Attached>) -> Key {
        self.machines.attach(&mut self.session, now, machine)
    }

    /// Gives a machine a message from its owner. Returns whether the machine was there to handle
    /// it.
    ///
    /// If the [lease](Session::lease) has ended, the machine then receives
    /// [`LeaseEnded`](Input::LeaseEnded), because the message may have been sent before that.
    pub fn command(&mut self, now: Instant, key: Key, message: &mut dyn Any) -> bool {
        self.machines.command(&mut self.session, now, key, message)
    }

    /// Returns the number of attached machines.
    pub fn attached(&self) -> usize {
        self.machines.count()
    }

    /// Closes the session when no machine is attached any more: now, or when the last one is
    /// detached.
    pub fn close_when_done(&mut self) {
        self.machines.close_when_done(&mut self.session);
    }

    /// Delivers events to the machines until one is the owner's, and returns that. Returns `None`
    /// when everything is delivered.
    ///
    /// Timers that are due come behind the session's events. When the session has ended and nothing
    /// is left, all machines are detached.
    pub fn poll_event(&mut self, now: Instant) -> Option<Event<T>> {
        let Self { session, machines } = self;
        loop {
            let Some(event) = session.poll_event() else {
                if machines.deliver_timer(session, now) {
                    continue;
                }
                return None;
            };
            return Some(match event {
                Event::Reply { token: Token::Machine(key, tag), result } => {
                    machines.deliver(session, now, key, Input::Reply { tag, result });
                    continue;
                }
                Event::Reply { token: Token::Caller(token), result } => {
                    Event::Reply { token, result }
                }
                Event::Watch { mut requests, persistent, event } => {
                    machines.deliver_watch(session, now, &mut requests, &event);
                    if requests.is_empty() && persistent.is_empty() {
                        continue;
                    }
                    Event::Watch { requests, persistent, event }
                }
                Event::State(state) => {
                    machines.deliver_state(session, now, state);
                    Event::State(state)
                }
                Event::LeaseEnded => {
                    machines.deliver_end_of_lease(session, now);
                    Event::LeaseEnded
                }
                Event::Disconnected { member, cause } => Event::Disconnected { member, cause },
                Event::Authenticate { member } => Event::Authenticate { member },
                Event::Gap { requests } => Event::Gap { requests },
                Event::WatchLost { requests, code } => Event::WatchLost { requests, code },
                Event::Room => Event::Room,
            });
        }
    }

    /// Returns whether [`settle`](Self::settle) has something to deliver. Do not sleep then: read
    /// what has arrived, and settle once there is nothing more to read.
    pub fn is_unsettled(&self) -> bool {
        self.machines.is_unsettled()
    }

    /// Delivers refusals, and [`Settled`](Input::Settled) to machines that [asked](Port::settle)
    /// for it. Call it when the transport has nothing more to read and the events are drained;
    /// drain them again afterwards.
    ///
    /// Requests that are refused meanwhile wait for the next call. So a machine that repeats a
    /// refused request at once does not keep the loop here, but it does keep the loop awake.
    ///
    /// # Panics
    ///
    /// With debug assertions, if events or due timers are undrained.
    pub fn settle(&mut self, now: Instant) {
        debug_assert!(self.is_drained(), "settle: drain the events first");
        self.machines.settle(&mut self.session, now);
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called, if ever. The earliest
    /// of the session's deadlines (connecting, pings, the end of the lease, ...) and the machines'
    /// timers.
    ///
    /// # Panics
    ///
    /// With debug assertions, if events or due timers are undrained: their delivery can change it.
    pub fn poll_timeout(&self) -> Option<Instant> {
        debug_assert!(self.is_drained(), "poll_timeout: drain the events first");
        self.next_deadline()
    }

    /// Returns the same at any time, for a thread that wakes the loop but does not sleep.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let both = [self.session.poll_timeout(), self.machines.poll_timeout()];
        both.into_iter().flatten().min()
    }

    /// Returns when the next timer of a machine is due.
    #[cfg(feature = "blocking")]
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.machines.poll_timeout()
    }

    fn is_drained(&self) -> bool {
        !self.session.has_events() && !self.machines.has_due_timer()
    }

    /// Handles the deadlines that have come by `now`. Does nothing if there is none. Timers of
    /// machines are delivered by the next drain.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.session.handle_timeout(now);
        self.machines.handle_timeout(now);
    }

    /// Takes what is to run without a lock. Call it after each drain.
    #[must_use = "effects do nothing until they are run"]
    pub fn take_effects(&mut self) -> Effects {
        core::mem::take(&mut self.machines.effects)
    }

    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn effects(&mut self) -> &mut Effects {
        &mut self.machines.effects
    }
}
