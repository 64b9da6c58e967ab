//! State machines on a session: each receives what concerns it in the order of the session's events,
//! and answers at once.
//!
//! A [`Dispatcher`] owns a [`Session`] and the machines that are [attached](Attached) to it. It is
//! driven as the session is, and as purely: without sockets, clocks, tasks or randomness. Every client
//! of this crate is built on it, and so is any other loop that runs locks:
//!
//! * Give [`session_mut`](Dispatcher::session_mut) what the transport did (`handle_connected`,
//!   `handle_frame`, ...), carry out its actions, and send its output, as its own documentation says.
//! * Drain the events by [`poll_event`](Dispatcher::poll_event) instead of the session's method. What
//!   concerns a machine is delivered to it on the way; everything else is returned.
//! * Sleep until [`poll_timeout`](Dispatcher::poll_timeout), and then call
//!   [`handle_timeout`](Dispatcher::handle_timeout), instead of the session's methods.
//! * Before sleeping, while [`is_unsettled`](Dispatcher::is_unsettled): read what the transport has
//!   received; once there is nothing more to read, call [`settle`](Dispatcher::settle) and drain again.
//! * After each drain, [run the effects](Dispatcher::take_effects).
//!
//! Delivering can make requests and change deadlines, so look at the output and at the timeout after
//! the drain, not before.

mod effects;
mod machines;
mod port;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use core::any::Any;

pub use self::effects::Effects;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) use self::effects::Wakers;
pub use self::machines::Key;
use self::machines::Machines;
pub use self::port::Port;
use crate::error::Error;
use crate::session::{Event, Reply, Session, State, WatchedEvent};
use crate::time::Instant;

/// A state machine that is attached to a session.
///
/// Its methods are called while the session is locked. They must not block, and cannot reach the
/// session but by the [`Port`]. User code that they cause goes to [`Port::wake`] or [`Port::defer`].
pub trait Attached: Send {
    /// Takes the next thing that concerns the machine.
    fn handle(&mut self, input: Input, port: &mut Port<'_>);

    /// Takes a message of the machine's owner. An answer can be left in it.
    fn command(&mut self, _message: &mut dyn Any, _port: &mut Port<'_>) {}

    /// Whether the machine wants nothing any more. It is then detached: its watches and its timer are
    /// dropped, answers that are still due are not delivered, and it is itself dropped as one of the
    /// [effects](Effects).
    fn is_done(&self) -> bool;
}

/// What an attached machine receives, in the order of the session's events.
#[derive(Debug)]
#[non_exhaustive]
pub enum Input {
    /// The state of the session. The first input is the state that was reported last. After
    /// [`State::Ended`] come only the answers that are still due; then the machine is detached.
    State(State),
    /// The answer to a request, or why there is none. A request that the session refuses is answered
    /// like any other, but never before the call that made it has returned.
    Reply {
        /// What the machine has called the request.
        tag: u64,
        /// The answer.
        result: Result<Reply, Error>,
    },
    /// A watch has fired, and is over.
    Watch {
        /// What the machine has called the request that set it.
        tag: u64,
        /// What happened to the node.
        event: WatchedEvent,
    },
    /// The lease of the session [has ended](crate::session::Event::LeaseEnded), with or without a
    /// connection. A machine that is attached, or hears of a new state, when that has already happened
    /// receives this right behind the state. It may come more than once.
    LeaseEnded,
    /// The time that was [set](Port::set_timer) last has come.
    Timer,
    /// Everything that had arrived when the machine [asked for it](Port::settle) was delivered.
    Settled,
}

/// What a request was submitted with, and so where its answer goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token<T> {
    /// To the owner of the dispatcher, by [`Dispatcher::poll_event`].
    Caller(T),
    /// To an attached machine, which calls the request by this number.
    Machine(Key, u64),
}

/// A session with the machines that are attached to it. See the [module](self) for how to drive it.
#[derive(Debug)]
pub struct Dispatcher<T> {
    session: Session<Token<T>>,
    machines: Machines,
}

impl<T> Dispatcher<T> {
    /// A dispatcher of a session. Nothing must have been drained from the session yet.
    pub fn new(session: Session<Token<T>>) -> Self {
        Self { machines: Machines::new(session.state()), session }
    }

    /// The session.
    pub fn session(&self) -> &Session<Token<T>> {
        &self.session
    }

    /// The session, for everything but the methods that the dispatcher has itself.
    pub fn session_mut(&mut self) -> &mut Session<Token<T>> {
        &mut self.session
    }

    /// Attaches a machine, which receives the state of the session before this returns.
    pub fn attach(&mut self, now: Instant, machine: Box<dyn Attached>) -> Key {
        self.machines.attach(&mut self.session, now, machine)
    }

    /// Gives a message of its owner to a machine. Returns whether it is still attached.
    ///
    /// If the [lease](Session::lease) has ended by then, the machine receives
    /// [`LeaseEnded`](Input::LeaseEnded) behind the message: the message may have been on its way when
    /// that was reported.
    pub fn command(&mut self, now: Instant, key: Key, message: &mut dyn Any) -> bool {
        self.machines.command(&mut self.session, now, key, message)
    }

    /// How many machines are attached.
    pub fn attached(&self) -> usize {
        self.machines.count()
    }

    /// Closes the session, once no machine is attached any more.
    pub fn close_when_done(&mut self) {
        self.machines.close_when_done(&mut self.session);
    }

    /// Delivers to the machines what concerns them, and returns the next event that concerns somebody
    /// else. `None` when everything was delivered.
    ///
    /// A machine's timer is delivered behind all events that the session has to report. Once the session
    /// has ended and nothing is left to deliver, all machines are detached.
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

    /// Whether [`settle`](Self::settle) is to be called before sleeping.
    pub fn is_unsettled(&self) -> bool {
        self.machines.is_unsettled()
    }

    /// Everything that the transport has received was given to the session, and the events are
    /// drained. Machines that [wait for that](Port::settle), or whose requests were refused, receive
    /// it; drain the events again.
    ///
    /// Refusals that this causes wait for the next call, so that a machine which repeats a request at
    /// once cannot keep the owner here.
    pub fn settle(&mut self, now: Instant) {
        self.machines.settle(&mut self.session, now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let both = [self.session.poll_timeout(), self.machines.poll_timeout()];
        both.into_iter().flatten().min()
    }

    /// Time has passed. Does nothing while no deadline has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.session.handle_timeout(now);
        self.machines.handle_timeout(now);
    }

    /// Takes what is to be run without a lock.
    #[must_use = "effects do nothing until they are run"]
    pub fn take_effects(&mut self) -> Effects {
        core::mem::take(&mut self.machines.effects)
    }

    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn effects(&mut self) -> &mut Effects {
        &mut self.machines.effects
    }
}
